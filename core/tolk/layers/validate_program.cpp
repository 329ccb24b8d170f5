// The layer `validate`: compilation, programs and launches.
#include <algorithm>
#include <cstring>

#include "tolk/dtype/dtype.h"
#include "tolk/layers/validate.h"
#include "tolk/layers/watched_host.h"

namespace tolk::validating {
namespace {

uint64_t param_bytes(const tolk_param& p) {
  return p.dtype < static_cast<uint32_t>(kDTypeCount) ? storage_bytes(static_cast<DType>(p.dtype), p.count)
                                                      : 0;
}

bool overlap(const tolk_ref& a, const tolk_ref& b) {
  return a.buffer == b.buffer && a.size != 0 && b.size != 0 && a.offset < b.offset + b.size &&
         b.offset < a.offset + a.size;
}

std::string sizes_text(const uint32_t n[3]) {
  return std::to_string(n[0]) + " x " + std::to_string(n[1]) + " x " + std::to_string(n[2]);
}

// Whether every axis is 1 .. most and the product at most `product`, 0 meaning no limit.
bool fits(const uint32_t n[3], const uint32_t most[3], uint64_t product) {
  unsigned __int128 all = 1;
  for (int i = 0; i < 3; i++) {
    if (n[i] == 0 || n[i] > std::max(1u, most[i])) return false;
    all *= n[i];
  }
  return product == 0 || all <= product;
}

} // namespace

void ValidateLayer::check_source(Call& call, const tolk_source* source) {
  if (!call.need(source, Rule::pointer_null, "the source is NULL")) return;
  call.need(source->struct_size >= sizeof *source, Rule::struct_size,
            std::to_string(source->struct_size) + " bytes");
  call.need(source->entry && source->options && (source->params || source->param_count == 0),
            Rule::pointer_null, "entry, options or params of the source");
  if (!call.ok()) return;
  bool values = false;
  for (uint32_t i = 0; i < source->param_count; i++) {
    const tolk_param& p = source->params[i];
    call.need(p.kind == TOLK_PARAM_BUFFER || p.kind == TOLK_PARAM_VALUE, Rule::program_params,
              "parameter " + std::to_string(i) + " has kind " + std::to_string(p.kind));
    call.need(p.kind != TOLK_PARAM_BUFFER || !values, Rule::program_params,
              "parameter " + std::to_string(i) + " is a buffer after a value");
    values |= p.kind == TOLK_PARAM_VALUE;
  }
}

tolk_status ValidateLayer::take_blobs(Call& call, tolk_status status,
                                      std::initializer_list<tolk_blob**> blobs) {
  for (tolk_blob** blob : blobs) {
    if (!*blob || claim_blob(*subject_.host, *blob)) continue;
    call.need(false, Rule::blob_foreign, Call::address(*blob));
    *blob = nullptr; // reading it would be the crash
  }
  return call.result(status);
}

tolk_status ValidateLayer::program_compile(void* self, const tolk_target* target, const tolk_source* source,
                                           tolk_blob** binary, tolk_blob** log) {
  Call call(*this, "program.compile");
  call.need(target && binary && log, Rule::pointer_null);
  check_source(call, source);
  if (call.ok()) {
    bool found = false;
    for (const auto& [handle, device] : devices_.live)
      for (const tolk_target& t : device->targets)
        found |= t.kind == target->kind &&
                 std::strcmp(t.dialect ? t.dialect : "", target->dialect ? target->dialect : "") == 0;
    call.need(found, Rule::program_target, "no open device has the target");
  }
  if (!call.ok()) return call.refuse();
  *binary = *log = nullptr;
  tolk_status status =
      call.forward(nullptr, 0, [&] { return next->program_compile(self, target, source, binary, log); });
  call.need((status == TOLK_OK) == (*binary != nullptr) || status == TOLK_E_UNSUPPORTED, Rule::binary_missing,
            std::string(*binary ? "it failed and gave one" : "it succeeded and gave none"));
  return take_blobs(call, status, {binary, log});
}

tolk_status ValidateLayer::program_disassemble(void* self, tolk_bytes binary, tolk_blob** text) {
  Call call(*this, "program.disassemble");
  call.need(text && (binary.data || binary.size == 0), Rule::pointer_null);
  if (!call.ok()) return call.refuse();
  *text = nullptr;
  tolk_status status =
      call.forward(nullptr, 0, [&] { return next->program_disassemble(self, binary, text); });
  call.need(status != TOLK_OK || *text, Rule::result_null, "no text");
  return take_blobs(call, status, {text});
}

tolk_status ValidateLayer::program_load(tolk_device* handle, tolk_bytes binary, const tolk_source* source,
                                        tolk_program** out) {
  Call call(*this, "program.load");
  DeviceRef device = call.find(devices_, handle, "the device");
  call.need(out && (binary.data || binary.size == 0), Rule::pointer_null);
  check_source(call, source);
  if (call.ok() && device->caps_known) {
    const auto& targets = device->targets;
    if (call.need(source->target_index < targets.size(), Rule::program_target,
                  "target_index is " + std::to_string(source->target_index) + " of " +
                      std::to_string(targets.size()))) {
      const bool direct = targets[source->target_index].flags & TOLK_TARGET_LOAD_DIRECT;
      // An empty text is a text, so only its presence elsewhere is a fault.
      call.need(direct || source->text.size == 0, Rule::program_text, "there is a text beside the binary");
    }
  }
  if (!call.ok()) return call.refuse();
  *out = nullptr;
  tolk_status status =
      call.forward(device.get(), Mandatory, [&] { return next->program_load(handle, binary, source, out); });
  if (status != TOLK_OK || !call.need(*out, Rule::result_null, "no program")) return call.result(status);
  auto program = std::make_shared<Program>();
  program->handle = *out;
  program->device = device;
  program->params.assign(source->params, source->params + source->param_count);
  for (const tolk_param& p : program->params)
    (p.kind == TOLK_PARAM_BUFFER ? program->buffers : program->values)++;
  program->flags = source->flags;
  std::copy_n(source->local, 3, program->local);
  program->entry = source->entry;
  if (call.need(programs_.add(*out, std::move(program)), Rule::handle_twice,
                "program " + Call::address(*out)))
    device->children++;
  return call.result(status);
}

void ValidateLayer::program_unload(tolk_program* handle) {
  Call call(*this, "program.unload");
  auto program = call.find(programs_, handle, "the program");
  if (!program) return;
  call.need(!program->uses.pending(), Rule::unload_pending, program->entry);
  call.need(program->graphs == 0, Rule::unload_in_graph, program->entry);
  if (!call.ok()) return;
  programs_.remove(handle);
  program->device->children--;
  for (const auto& [name, kernel] : program->kernels) kernels_.remove(kernel);
  call.forward_void([&] { next->program_unload(handle); });
}

tolk_status ValidateLayer::program_get_kernel(tolk_program* handle, const char* name, tolk_kernel** out) {
  Call call(*this, "program.get_kernel");
  auto program = call.find(programs_, handle, "the program");
  call.need(name && out, Rule::pointer_null);
  if (!call.ok()) return call.refuse();
  *out = nullptr;
  tolk_status status = call.forward(program->device.get(), Mandatory,
                                    [&] { return next->program_get_kernel(handle, name, out); });
  if (status != TOLK_OK || !call.need(*out, Rule::result_null, "no kernel")) return call.result(status);
  auto known = program->kernels.find(name);
  if (known != program->kernels.end()) {
    call.need(known->second == *out, Rule::kernel_changed, name);
    return call.result(status);
  }
  auto kernel = std::make_shared<Kernel>();
  kernel->handle = *out;
  kernel->program = program;
  auto other = kernels_.live.find(*out);
  const bool shared = other != kernels_.live.end() && other->second->program != program;
  call.need(!shared, Rule::kernel_changed, std::string(name) + " is a kernel of another program as well");
  if (call.ok()) {
    kernels_.add(*out, std::move(kernel));
    program->kernels.emplace(name, *out);
  }
  return call.result(status);
}

void ValidateLayer::check_sizes(Call& call, const Program& program, const uint32_t grid[3],
                                const uint32_t local[3]) {
  const tolk_caps& c = program.device->caps;
  if (!program.device->caps_known) return;
  call.need(fits(grid, c.grid_max, c.grid_product_max), Rule::launch_grid, sizes_text(grid));
  call.need(fits(local, c.local_max, std::max(1u, c.local_product_max)), Rule::launch_local,
            sizes_text(local));
  for (int i = 0; i < 3; i++)
    call.need(program.local[i] == 0 || program.local[i] == local[i], Rule::launch_local,
              sizes_text(local) + ", the source has " + sizes_text(program.local));
}

ValidateLayer::BufferRef ValidateLayer::check_argument(Call& call, const Program& program, uint32_t index,
                                                       tolk_ref ref) {
  const std::string what = "buffer " + std::to_string(index) + " of " + program.entry;
  BufferRef buffer = check_ref(call, ref, what.c_str());
  if (!buffer) return nullptr;
  const tolk_param& p = program.params[index];
  const tolk_caps& c = program.device->caps;
  call.need(buffer->device == program.device, Rule::launch_device, what);
  call.need(ref.size >= param_bytes(p), Rule::launch_bytes,
            what + " has " + std::to_string(ref.size) + " bytes, the kernel needs " +
                std::to_string(param_bytes(p)));
  call.need(!(p.access & TOLK_ACCESS_WRITE) || buffer->kernel_writes, Rule::write_read_only, what);
  const bool offset = ref.offset % std::max<uint64_t>(1, c.offset_align) == 0 &&
                      (c.offset_max == 0 || ref.offset <= c.offset_max) &&
                      (ref.offset == 0 || !(c.flags & TOLK_CAP_NO_OFFSET_VIEWS));
  call.need(offset, Rule::ref_offset, what + " has offset " + std::to_string(ref.offset));
  return buffer;
}

void ValidateLayer::check_value(Call& call, const Program& program, uint32_t index, uint64_t value) {
  const tolk_param& p = program.params[program.buffers + index];
  if (p.min == 0 && p.max == 0) return;
  const auto number = static_cast<int64_t>(value);
  call.need(number >= p.min && number <= p.max, Rule::launch_value,
            "value " + std::to_string(index) + " of " + program.entry + " is " + std::to_string(number) +
                ", not in " + std::to_string(p.min) + ".." + std::to_string(p.max));
}

void ValidateLayer::check_launch(Call& call, const Kernel& kernel, const tolk_launch* launch,
                                 std::vector<BufferRef>& buffers) {
  if (!call.need(launch, Rule::pointer_null, "the launch is NULL")) return;
  const tolk_launch& l = *launch;
  const Program& program = *kernel.program;
  const tolk_caps& c = program.device->caps;
  call.need(l.struct_size >= sizeof l, Rule::struct_size, std::to_string(l.struct_size) + " bytes");
  call.need(l.buffer_count == program.buffers && l.value_count == program.values, Rule::launch_counts,
            program.entry + " takes " + std::to_string(program.buffers) + " buffers and " +
                std::to_string(program.values) + " values, got " + std::to_string(l.buffer_count) + " and " +
                std::to_string(l.value_count));
  call.need((l.buffers || l.buffer_count == 0) && (l.values || l.value_count == 0), Rule::pointer_null,
            "the arguments of " + program.entry);
  call.need((c.max_buffer_args == 0 || l.buffer_count <= c.max_buffer_args) &&
                (c.max_scalar_bytes == 0 || l.value_count * uint64_t{8} <= c.max_scalar_bytes),
            Rule::launch_limits,
            std::to_string(l.buffer_count) + " buffers, " + std::to_string(l.value_count) + " values");
  check_sizes(call, program, l.grid, l.local);
  for (uint32_t i = 0; call.ok() && i < l.buffer_count; i++)
    buffers.push_back(check_argument(call, program, i, l.buffers[i]));
  for (uint32_t i = 0; call.ok() && i < l.value_count; i++) check_value(call, program, i, l.values[i]);
  if (!call.ok() || (program.flags & TOLK_SOURCE_ARGS_MAY_ALIAS)) return;
  for (uint32_t i = 0; i < l.buffer_count; i++)
    for (uint32_t j = 0; j < l.buffer_count; j++)
      if (i != j && (program.params[i].access & TOLK_ACCESS_WRITE))
        call.need(!overlap(l.buffers[i], l.buffers[j]), Rule::launch_alias,
                  "buffers " + std::to_string(std::min(i, j)) + " and " + std::to_string(std::max(i, j)) +
                      " of " + program.entry);
}

tolk_status ValidateLayer::program_launch(tolk_stream* handle, tolk_kernel* kernel_handle,
                                          const tolk_launch* launch) {
  InUse use;
  Call call(*this, "program.launch");
  auto kernel = call.find(kernels_, kernel_handle, "the kernel");
  std::vector<BufferRef> buffers;
  if (kernel) check_launch(call, *kernel, launch, buffers);
  if (!call.ok()) return call.refuse();
  const std::shared_ptr<Program> program = kernel->program;
  Device& device = *program->device;
  StreamRef stream = check_stream(call, use, handle, device, device);
  if (!call.ok()) return call.refuse();
  const uint64_t position = submit(stream, {&program->uses});
  if (stream)
    for (const BufferRef& buffer : buffers) buffer->uses.add(stream, position);
  tolk_status status = call.forward(&device, Mandatory | Submits,
                                    [&] { return next->program_launch(handle, kernel_handle, launch); });
  if (stream && launch->device_ns && status == TOLK_OK) complete(*stream, position); // it waited
  return call.result(status);
}

} // namespace tolk::validating
