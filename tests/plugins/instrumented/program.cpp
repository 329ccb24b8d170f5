// Compiling, loading and launching, done by the interpreter.
#include <cstdio>
#include <cstring>

#include <tolk/plugin/helpers.h>

#include "state.h"

namespace tb {

tolk_status guarded(const std::function<tolk_status()>& body) {
  try {
    return body();
  } catch (const tolk_interp::Error& error) {
    return fail(error.code, error.text);
  } catch (const std::bad_alloc&) {
    return fail(TOLK_E_HOST_OOM, "host memory is exhausted");
  } catch (const std::exception& error) {
    return fail(TOLK_E_INTERNAL, error.what());
  }
}

tb_record kernel_record(const tolk_device* device, const tolk_kernel* kernel, const KernelWork& work) {
  tb_record r{};
  r.kind = TB_KERNEL;
  r.device = device->ordinal;
  std::snprintf(r.kernel, sizeof r.kernel, "%s", tolk_interp::name(*kernel->program).c_str());
  std::memcpy(r.grid, work.grid, sizeof r.grid);
  std::memcpy(r.local, work.local, sizeof r.local);
  r.buffer_count = static_cast<uint32_t>(work.buffers.size());
  r.value_count = static_cast<uint32_t>(work.values.size());
  for (size_t i = 0; i < work.buffers.size() && i < TB_MAX_BUFFERS; i++) {
    r.addresses[i] = reinterpret_cast<uintptr_t>(work.buffers[i].data);
    r.offsets[i] = work.buffers[i].offset;
    r.bytes[i] = work.buffers[i].size;
    r.storage[i] = work.buffers[i].storage;
  }
  for (size_t i = 0; i < work.values.size() && i < TB_MAX_VALUES; i++) r.values[i] = work.values[i];
  return r;
}

tolk_status take_launch(const tolk_kernel* kernel, const tolk_launch* launch, KernelWork& out) {
  const tb_options& options = kernel->device->options;
  if (options.buffer_args && launch->buffer_count > options.buffer_args)
    return fail(TOLK_E_LIMIT, "too many buffers for one launch");
  uint64_t product = 1;
  for (int axis = 0; axis < 3; axis++) {
    if (launch->grid[axis] == 0 || launch->grid[axis] > options.grid_max)
      return fail(TOLK_E_LIMIT, "the number of work-groups is 0 or above grid_max");
    product *= launch->local[axis];
  }
  if (product == 0 || product > options.local_max)
    return fail(TOLK_E_LIMIT, "the work-group size is 0 or above local_max");
  out.program = kernel->program;
  std::memcpy(out.grid, launch->grid, sizeof out.grid);
  std::memcpy(out.local, launch->local, sizeof out.local);
  out.buffers.resize(launch->buffer_count);
  for (uint32_t i = 0; i < launch->buffer_count; i++) {
    const tolk_ref& ref = launch->buffers[i];
    if (tolk_status s = take_range(ref, out.buffers[i])) return s;
    if (ref.offset % options.offset_align || (options.offset_max && ref.offset > options.offset_max))
      return fail(TOLK_E_LIMIT, "an offset breaks offset_align or offset_max");
  }
  out.values.assign(launch->values, launch->values + launch->value_count);
  return TOLK_OK;
}

Failure run_kernel(uint32_t ordinal, const KernelWork& work) {
  wait_for_kernel(ordinal);
  Failure f = injected_quietly(ordinal, TB_ASYNC);
  if (f.status != TOLK_OK) return f;
  std::vector<tolk_interp::BufferArg> buffers;
  buffers.reserve(work.buffers.size());
  for (const Range& r : work.buffers) buffers.push_back({r.data, r.size, r.writable});
  tolk_interp::LaunchArgs args;
  std::memcpy(args.grid, work.grid, sizeof args.grid);
  std::memcpy(args.local, work.local, sizeof args.local);
  args.buffers = buffers;
  args.values = work.values;
  try {
    tolk_interp::run(*work.program, args);
  } catch (const tolk_interp::Error& error) {
    return {error.code, error.text};
  } catch (const std::exception& error) {
    return {TOLK_E_INTERNAL, error.what()};
  }
  count(ordinal, &tb_counters::kernels_run);
  return {};
}

namespace {

tolk_status compile(void*, const tolk_target* target, const tolk_source* source, tolk_blob** binary,
                    tolk_blob** log) {
  std::string problems;
  tolk_status status = guarded([&]() -> tolk_status {
    if (tolk_status s = injected(TB_ALL, TB_COMPILE)) return s;
    count(TB_ALL, &tb_counters::compile);
    const std::string bytes = tolk_interp::compile(*target, *source, problems);
    *binary = tolk_blob_of(host, bytes.data(), bytes.size());
    return *binary ? TOLK_OK : fail(TOLK_E_HOST_OOM, "host memory is exhausted");
  });
  if (log && !problems.empty()) *log = tolk_blob_of(host, problems.data(), problems.size());
  return status;
}

tolk_status load(tolk_device* device, tolk_bytes binary, const tolk_source*, tolk_program** out) {
  return guarded([&]() -> tolk_status {
    if (tolk_status s = injected(device->ordinal, TB_LOAD)) return s;
    auto program = std::make_unique<tolk_program>();
    program->kernel.device = device;
    program->kernel.program = tolk_interp::load(binary);
    if (device->options.shared_bytes < tolk_interp::shared_bytes(*program->kernel.program))
      return fail(TOLK_E_LIMIT, "the kernel needs more work-group storage than the device has");
    count(device->ordinal, &tb_counters::load);
    count(device->ordinal, &tb_counters::live_programs);
    *out = program.release();
    return TOLK_OK;
  });
}

void unload(tolk_program* program) {
  if (!program) return;
  count(program->kernel.device->ordinal, &tb_counters::unload);
  uncount(program->kernel.device->ordinal, &tb_counters::live_programs);
  delete program;
}

tolk_status get_kernel(tolk_program* program, const char* entry, tolk_kernel** out) {
  const std::string& has = tolk_interp::name(*program->kernel.program);
  if (has != entry) return fail(TOLK_E_NOT_FOUND, "the program has the kernel " + has + ", not " + entry);
  *out = &program->kernel;
  return TOLK_OK;
}

tolk_status kernel_info(tolk_kernel* kernel, tolk_kernel_info* out) {
  tolk_kernel_info info{};
  info.struct_size = sizeof info;
  info.shared_bytes = tolk_interp::shared_bytes(*kernel->program);
  info.private_bytes = tolk_interp::private_bytes(*kernel->program);
  info.max_local = kernel->device->options.local_max;
  info.subgroup = 1;
  tolk_write_out(out, &info, sizeof info);
  return TOLK_OK;
}

tolk_status launch(tolk_stream* stream, tolk_kernel* kernel, const tolk_launch* l) {
  return guarded([&]() -> tolk_status {
    const uint32_t ordinal = kernel->device->ordinal;
    auto work = std::make_shared<KernelWork>();
    if (tolk_status s = take_launch(kernel, l, *work)) return s;
    if (tolk_status s = injected(ordinal, TB_LAUNCH)) return s;
    if (stream)
      if (tolk_status s = stream->take_failure()) return s;
    tb_record r = kernel_record(kernel->device, kernel, *work);
    r.stream = stream ? stream->number : 0;
    r.timed = l->device_ns != nullptr;
    record(r);
    count(ordinal, &tb_counters::launches);
    if (r.timed) count(ordinal, &tb_counters::timed_launches);
    auto elapsed = std::make_shared<uint64_t>(0);
    const bool late = stream && kernel->device->options.retains_args;
    const tolk_launch again = *l; // its arrays are the host's
    auto body = [=]() -> Failure {
      uint64_t begin = host->clock_ns(host->ctx);
      if (late && take_launch(kernel, &again, *work) != TOLK_OK)
        return {TOLK_E_KERNEL_FAULT, "the arguments of a launch changed before it started"};
      Failure f = run_kernel(ordinal, *work);
      *elapsed = host->clock_ns(host->ctx) - begin;
      return f;
    };
    tolk_status status = TOLK_OK;
    if (!stream) {
      Failure f = body();
      if (f.status != TOLK_OK) status = fail(f.status, f.text);
    } else if (!r.timed) {
      stream->submit(body);
    } else {
      status = stream->submit_and_wait(body);
    }
    if (r.timed && kernel->device->options.reports_time) *l->device_ns = reported_time(r, *elapsed);
    return status;
  });
}

constexpr tolk_program_vt make_table() {
  tolk_program_vt t{};
  t.struct_size = sizeof t;
  t.compile = compile;
  t.load = load;
  t.unload = unload;
  t.get_kernel = get_kernel;
  t.kernel_info = kernel_info;
  t.launch = launch;
  return t;
}

} // namespace

constinit const tolk_program_vt kProgramTable = make_table();

} // namespace tb
