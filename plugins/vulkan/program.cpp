// SPIR-V modules, their pipelines, launches.
#include <cstring>

#include <tolk/plugin/helpers.h>

#include "state.h"

using namespace tolk_vulkan;

tolk_program::~tolk_program() {
  for (const auto& [local, pipeline] : pipelines)
    device->vk.vkDestroyPipeline(device->handle, pipeline, nullptr);
  if (module) device->vk.vkDestroyShaderModule(device->handle, module, nullptr);
}

// The work-group size is specialization constants 0 to 2, so another size is another pipeline.
VkPipeline tolk_program::pipeline(const uint32_t local[3]) {
  const std::array<uint32_t, 3> size = {local[0], local[1], local[2]};
  std::lock_guard lock(mutex);
  auto known = pipelines.find(size);
  if (known != pipelines.end()) return known->second;
  const VkSpecializationMapEntry entries[3] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}};
  const VkSpecializationInfo specialization = {3, entries, sizeof size, size.data()};
  VkComputePipelineCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  create.stage.module = module;
  create.stage.pName = kernel.name.c_str();
  create.stage.pSpecializationInfo = &specialization;
  create.layout = device->layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result = device->vk.vkCreateComputePipelines(device->handle, device->pipeline_cache, 1,
                                                              &create, nullptr, &pipeline);
  // What a driver answers to a module that it cannot take: the fault is in the bytes.
  if (result == VK_ERROR_UNKNOWN)
    throw Failure{TOLK_E_BAD_BINARY, "the driver refuses the module of " + kernel.name};
  device->check(result, "making the pipeline of " + kernel.name);
  pipelines.emplace(size, pipeline);
  return pipeline;
}

void tolk_program::write_arguments(const tolk_launch& launch, uint64_t* to) const {
  for (uint32_t i = 0; i < launch.buffer_count; ++i)
    to[i] = launch.buffers[i].buffer->address() + launch.buffers[i].offset;
  std::memcpy(to + launch.buffer_count, launch.values, launch.value_count * sizeof(uint64_t));
}

namespace tolk_vulkan {

std::string broken_limit(const tolk_device& device, const uint32_t grid[3], const uint32_t local[3]) {
  const VkPhysicalDeviceLimits& limits = device.adapter.properties.limits;
  uint64_t items = 1;
  for (int i = 0; i < 3; ++i) {
    items *= local[i];
    if (grid[i] > limits.maxComputeWorkGroupCount[i] || local[i] > limits.maxComputeWorkGroupSize[i])
      return "a size of the launch is above the device's limit";
  }
  if (items == 0) return "a work-group has no items";
  return items > limits.maxComputeWorkGroupInvocations ? "a work-group has more items than the device takes"
                                                       : "";
}

namespace {

constexpr uint32_t kSpirvMagic = 0x07230203;
constexpr uint32_t kOpEntryPoint = 15, kOpFunctionEnd = 56;

// Whether the bytes are a module with this entry point, as far as the boundaries of its instructions tell. Drivers
// trust what they get.
bool is_module(tolk_bytes bytes, const char* entry) {
  if (bytes.size < 20 || bytes.size % 4 != 0) return false;
  std::vector<uint32_t> words(bytes.size / 4);
  std::memcpy(words.data(), bytes.data, bytes.size);
  if (words[0] != kSpirvMagic) return false;
  bool found = false;
  if (words.back() != (1u << 16 | kOpFunctionEnd)) return false;
  for (size_t at = 5; at < words.size();) {
    const size_t count = words[at] >> 16;
    if (count == 0 || count > words.size() - at) return false;
    if ((words[at] & 0xffff) == kOpEntryPoint && count > 3) {
      const char* name = reinterpret_cast<const char*>(&words[at + 3]);
      found |= strnlen(name, (count - 3) * 4) < (count - 3) * 4 && std::strcmp(name, entry) == 0;
    }
    at += count;
  }
  return found;
}

tolk_status load(tolk_device* device, tolk_bytes binary, const tolk_source* source, tolk_program** out) {
  return guarded([&]() -> tolk_status {
    if (!is_module(binary, source->entry))
      return fail(TOLK_E_BAD_BINARY,
                  std::string("these bytes are no SPIR-V module with the kernel ") + source->entry);
    auto program = std::make_unique<tolk_program>();
    program->device = device;
    program->kernel.program = program.get();
    program->kernel.name = source->entry;
    for (uint32_t i = 0; i < source->param_count; ++i) {
      const tolk_param& param = source->params[i];
      if (param.kind == TOLK_PARAM_BUFFER) {
        ++program->buffer_count;
      } else {
        ++program->value_count;
      }
    }
    std::vector<uint32_t> words(binary.size / 4);
    std::memcpy(words.data(), binary.data, binary.size);
    VkShaderModuleCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    create.codeSize = binary.size;
    create.pCode = words.data();
    device->check(device->vk.vkCreateShaderModule(device->handle, &create, nullptr, &program->module),
                  "loading " + program->kernel.name);
    const uint32_t* local = source->local;
    if (local[0] && local[1] && local[2]) program->pipeline(local);
    *out = program.release();
    return TOLK_OK;
  });
}

void unload(tolk_program* program) { delete program; }

tolk_status get_kernel(tolk_program* program, const char* name, tolk_kernel** out) {
  if (program->kernel.name != name) return fail(TOLK_E_NOT_FOUND, "the program has no kernel of that name");
  *out = &program->kernel;
  return TOLK_OK;
}

tolk_status get_kernel_info(tolk_kernel* kernel, tolk_kernel_info* out) {
  tolk_kernel_info info{};
  info.struct_size = sizeof info;
  info.max_local = kernel->program->device->adapter.properties.limits.maxComputeWorkGroupInvocations;
  info.subgroup = kernel->program->device->caps.subgroup_preferred;
  tolk_write_out(out, &info, sizeof info);
  return TOLK_OK;
}

// A pair of timestamps around a launch.
class Stopwatch {
public:
  explicit Stopwatch(tolk_device& device) : device_(device) {
    VkQueryPoolCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    create.queryType = VK_QUERY_TYPE_TIMESTAMP;
    create.queryCount = 2;
    device.check(device.vk.vkCreateQueryPool(device.handle, &create, nullptr, &pool_), "making timestamps");
  }
  ~Stopwatch() { device_.vk.vkDestroyQueryPool(device_.handle, pool_, nullptr); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  void begin(VkCommandBuffer commands) {
    device_.vk.vkCmdResetQueryPool(commands, pool_, 0, 2);
    device_.vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, pool_, 0);
  }
  void end(VkCommandBuffer commands) {
    device_.vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, pool_, 1);
  }
  uint64_t nanoseconds() {
    uint64_t ticks[2] = {};
    device_.check(device_.vk.vkGetQueryPoolResults(device_.handle, pool_, 0, 2, sizeof ticks, ticks, 8,
                                                   VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                  "reading timestamps");
    const uint32_t bits = device_.adapter.timestamp_bits;
    const uint64_t passed = (ticks[1] - ticks[0]) & (~uint64_t{0} >> (64 - bits));
    return static_cast<uint64_t>(static_cast<double>(passed) *
                                 double(device_.adapter.properties.limits.timestampPeriod));
  }

private:
  tolk_device& device_;
  VkQueryPool pool_ = VK_NULL_HANDLE;
};

tolk_status launch(tolk_stream* stream, tolk_kernel* kernel, const tolk_launch* launch) {
  return guarded([&]() -> tolk_status {
    tolk_program& program = *kernel->program;
    tolk_device& device = *program.device;
    if (launch->buffer_count != program.buffer_count || launch->value_count != program.value_count)
      return fail(TOLK_E_INVALID, kernel->name + ": the number of arguments is not the kernel's");
    if (std::string broken = broken_limit(device, launch->grid, launch->local); !broken.empty())
      return fail(TOLK_E_LIMIT, kernel->name + ": " + broken);
    VkPipeline pipeline = program.pipeline(launch->local);
    Ring::Piece block = stream->arguments.take(program.argument_bytes());
    program.write_arguments(*launch, reinterpret_cast<uint64_t*>(block.pointer));
    std::optional<Stopwatch> stopwatch;
    if (launch->device_ns && device.adapter.timestamp_bits) stopwatch.emplace(device);
    VkCommandBuffer commands = stream->next_command();
    if (stopwatch) stopwatch->begin(commands);
    device.vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    device.vk.vkCmdPushConstants(commands, device.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                 sizeof block.address, &block.address);
    device.vk.vkCmdDispatch(commands, launch->grid[0], launch->grid[1], launch->grid[2]);
    if (stopwatch) stopwatch->end(commands);
    if (launch->flags & TOLK_LAUNCH_BATCH_END)
      stream->flush();
    else
      stream->command_recorded();
    if (stopwatch) {
      stream->finish();
      *launch->device_ns = stopwatch->nanoseconds();
    }
    return TOLK_OK;
  });
}

} // namespace

const tolk_program_vt program_table = [] {
  tolk_program_vt table{};
  table.struct_size = sizeof table;
  table.load = load;
  table.unload = unload;
  table.get_kernel = get_kernel;
  table.kernel_info = get_kernel_info;
  table.launch = launch;
  return table;
}();

} // namespace tolk_vulkan
