// An open device: its queue, its limits as capabilities, its pipeline cache.
#include <algorithm>
#include <cstring>

#include "state.h"

using namespace tolk_vulkan;

tolk_device::~tolk_device() {
  if (!handle) return;
  if (vk.vkDeviceWaitIdle) vk.vkDeviceWaitIdle(handle);
  for (const auto& block : blocks) {
    vk.vkDestroyBuffer(handle, block->buffer, nullptr);
    vk.vkFreeMemory(handle, block->memory, nullptr);
  }
  if (layout) vk.vkDestroyPipelineLayout(handle, layout, nullptr);
  if (pipeline_cache) vk.vkDestroyPipelineCache(handle, pipeline_cache, nullptr);
  vk.vkDestroyDevice(handle, nullptr);
}

void tolk_device::check(VkResult result, std::string_view doing) {
  std::string text(doing);
  switch (result) {
  case VK_SUCCESS:
    return;
  case VK_ERROR_OUT_OF_HOST_MEMORY:
    throw Failure{TOLK_E_HOST_OOM, text + ": the driver has no host memory"};
  case VK_ERROR_OUT_OF_DEVICE_MEMORY:
  case VK_ERROR_TOO_MANY_OBJECTS:
    throw Failure{TOLK_E_DEVICE_OOM, text + ": device memory is exhausted"};
  case VK_ERROR_DEVICE_LOST:
    if (!lost.exchange(true)) lost_reason = text + ": the driver reports the device as lost";
    throw Failure{TOLK_E_DEVICE_LOST, lost_reason};
  default:
    throw Failure{TOLK_E_INTERNAL, text + " failed with VkResult " + std::to_string(result)};
  }
}

namespace tolk_vulkan {
namespace {

constexpr uint32_t kPushBytes = 8; // the address of the argument block

void make_device(tolk_device& device) {
  const Adapter& adapter = device.adapter;
  VkPhysicalDeviceVulkan12Features f12{};
  f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  f12.bufferDeviceAddress = f12.timelineSemaphore = f12.shaderInt8 = f12.storageBuffer8BitAccess = VK_TRUE;
  VkPhysicalDeviceVulkan11Features f11{};
  f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  f11.pNext = &f12;
  f11.storageBuffer16BitAccess = VK_TRUE;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &f11;
  features.features.shaderInt16 = features.features.shaderInt64 = VK_TRUE;
  features.features.shaderFloat64 = adapter.has_f64;
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = adapter.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  create.pNext = &features;
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  device.check(vkCreateDevice(adapter.handle, &create, nullptr, &device.handle), "opening " + adapter.name);
  volkLoadDeviceTable(&device.vk, device.handle);
  device.vk.vkGetDeviceQueue(device.handle, adapter.queue_family, 0, &device.queue);

  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  device.check(device.vk.vkCreatePipelineLayout(device.handle, &layout, nullptr, &device.layout),
               "making a pipeline layout");
}

// Compiled pipelines outlive the process in the host's cache, by device and driver.
void make_pipeline_cache(tolk_device& device) {
  const VkPhysicalDeviceProperties& p = device.adapter.properties;
  device.cache_key = "pipelines " + std::to_string(p.vendorID) + " " + std::to_string(p.deviceID) + " " +
                     std::to_string(p.driverVersion) + " ";
  device.cache_key.append(reinterpret_cast<const char*>(p.pipelineCacheUUID), VK_UUID_SIZE);
  VkPipelineCacheCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  tolk_blob* blob = nullptr;
  if (host->cache_get &&
      host->cache_get(host->ctx, {device.cache_key.data(), device.cache_key.size()}, &blob) == TOLK_OK &&
      blob) {
    tolk_bytes bytes = host->blob_bytes(host->ctx, blob);
    create.initialDataSize = bytes.size;
    create.pInitialData = bytes.data;
    device.cache_size = bytes.size;
  }
  VkResult result = device.vk.vkCreatePipelineCache(device.handle, &create, nullptr, &device.pipeline_cache);
  if (blob) host->blob_destroy(host->ctx, blob);
  if (result != VK_SUCCESS) device.pipeline_cache = VK_NULL_HANDLE; // it only saves time
}

void keep_pipeline_cache(tolk_device& device) {
  if (!device.pipeline_cache || !host->cache_put || device.lost) return;
  size_t size = 0;
  if (device.vk.vkGetPipelineCacheData(device.handle, device.pipeline_cache, &size, nullptr) != VK_SUCCESS ||
      size <= device.cache_size)
    return;
  std::vector<uint8_t> data(size);
  if (device.vk.vkGetPipelineCacheData(device.handle, device.pipeline_cache, &size, data.data()) ==
      VK_SUCCESS)
    host->cache_put(host->ctx, {device.cache_key.data(), device.cache_key.size()}, {data.data(), size});
}

void close(tolk_device* device) {
  guarded([&]() -> tolk_status {
    keep_pipeline_cache(*device);
    return TOLK_OK;
  });
  delete device;
}

tolk_status get_caps(tolk_device* device, const tolk_caps** out) {
  *out = &device->caps;
  return TOLK_OK;
}

tolk_status get_memory(tolk_device* device, tolk_memory* out) {
  tolk_memory memory{};
  memory.struct_size = sizeof memory;
  memory.total_bytes = device->adapter.info.memory_bytes;
  memory.used_bytes = device->used_bytes;
  memory.peak_bytes = device->peak_bytes;
  memory.buffer_count = device->buffer_count;
  tolk_write_out(out, &memory, sizeof memory);
  return TOLK_OK;
}

const char* get_lost_reason(tolk_device* device) { return device->lost ? device->lost_reason.c_str() : ""; }

uint64_t bit(uint32_t dtype) { return uint64_t{1} << dtype; }

} // namespace

void make_caps(tolk_device& device) {
  const Adapter& adapter = device.adapter;
  const VkPhysicalDeviceLimits& limits = adapter.properties.limits;
  tolk_target& target = device.target;
  target.struct_size = sizeof target;
  target.kind = TOLK_TARGET_SPIRV;
  target.flags = TOLK_TARGET_LOAD_DIRECT;
  target.version_min = target.version_max = 0x00010500;
  // Vulkan promises no accuracy that would do for SQRT; with f64 the renderer makes it exact.
  target.features = TOLK_FEATURE_TRUNC | (adapter.has_f64 ? TOLK_FEATURE_SQRT : 0);
  target.dialect = "vulkan1.2";
  target.arch = "";
  target.arch_features = adapter.features.c_str();
  target.data_layout = "";

  tolk_caps& caps = device.caps;
  caps.struct_size = sizeof caps;
  caps.target_count = 1;
  caps.targets = &target;
  for (uint32_t dtype = TOLK_DTYPE_BOOL; dtype <= TOLK_DTYPE_F8E8M0; ++dtype)
    caps.dtype_storage |= bit(dtype);
  for (uint32_t dtype = TOLK_DTYPE_BOOL; dtype <= TOLK_DTYPE_U64; ++dtype) caps.dtype_alu |= bit(dtype);
  caps.dtype_alu |= bit(TOLK_DTYPE_F32) | bit(TOLK_DTYPE_F64);
  if (!adapter.has_f64) caps.dtype_storage &= ~bit(TOLK_DTYPE_F64), caps.dtype_alu &= ~bit(TOLK_DTYPE_F64);
  caps.flags = TOLK_CAP_NO_CONTRACTION | TOLK_CAP_SCALAR_SLOTS_64;
  if (adapter.properties12.shaderDenormPreserveFloat32) caps.flags |= TOLK_CAP_DENORMALS_F32;
  caps.vector_bytes = 8;
  caps.vector_registers = 8;
  caps.grid_max[0] = limits.maxComputeWorkGroupCount[0];
  caps.grid_max[1] = caps.grid_max[2] = 1;
  for (int axis = 0; axis < 3; ++axis) caps.local_max[axis] = limits.maxComputeWorkGroupSize[axis];
  caps.local_product_max = limits.maxComputeWorkGroupInvocations;
  caps.subgroup_min = caps.subgroup_max = caps.subgroup_preferred = adapter.properties11.subgroupSize;
  caps.shared_bytes = limits.maxComputeSharedMemorySize;
  caps.buffer_align = 256;
  caps.offset_align = 1;
  caps.copy_align = 1;
  caps.map_align = 64;
  caps.max_buffer_bytes = adapter.properties11.maxMemoryAllocationSize;
  caps.max_total_bytes = adapter.info.memory_bytes;
  for (uint32_t kind : {TOLK_BUFFER_DEVICE, TOLK_BUFFER_STAGING, TOLK_BUFFER_UNIFIED})
    if (has_kind(adapter, kind)) caps.buffer_kinds |= 1u << kind;
  caps.kernel_kinds = caps.buffer_kinds;
  caps.streams_max = 1;
  caps.graph = TOLK_GRAPH_KERNELS | TOLK_GRAPH_COPIES | TOLK_GRAPH_FILLS | TOLK_GRAPH_UPDATE_BUFFERS |
               TOLK_GRAPH_UPDATE_VALUES | TOLK_GRAPH_UPDATE_SIZES;
  caps.timestamp_bits = adapter.timestamp_bits;
  if (limits.timestampPeriod > 0) caps.timer_hz = static_cast<uint64_t>(1e9 / double(limits.timestampPeriod));
}

tolk_status open_device(void*, uint32_t index, tolk_device** out) {
  return guarded([&]() -> tolk_status {
    // Each index beyond the count is one more device over a software driver.
    const bool software = adapters().back().info.kind == TOLK_KIND_CPU;
    if (index >= adapters().size() && !software)
      return fail(TOLK_E_NOT_FOUND, "there is no Vulkan device " + std::to_string(index));
    auto device = std::make_unique<tolk_device>(adapters()[std::min<size_t>(index, adapters().size() - 1)]);
    make_device(*device);
    make_pipeline_cache(*device);
    make_caps(*device);
    *out = device.release();
    return TOLK_OK;
  });
}

const tolk_device_vt device_table = [] {
  tolk_device_vt table{};
  table.struct_size = sizeof table;
  table.close = close;
  table.caps = get_caps;
  table.memory = get_memory;
  table.lost_reason = get_lost_reason;
  return table;
}();

} // namespace tolk_vulkan
