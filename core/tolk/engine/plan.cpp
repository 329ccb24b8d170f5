#include "tolk/engine/plan.h"

#include <chrono>
#include <cmath>
#include <mutex>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/base/text.h"
#include "tolk/device/registry.h"
#include "tolk/engine/storage.h"
#include "tolk/engine/validate.h"
#include "tolk/uop/build.h"

namespace tolk::engine {
namespace {

std::mutex counters_mutex;
Counters total;

// The byte range of a storage node inside its BUFFER.
struct ByteRange {
  UOp base;
  int64_t begin, end;
};
ByteRange range_of(const UOp& storage) {
  UOp base = storage.is(Op::SLICE) ? storage.src(0) : storage;
  int64_t begin = storage.is(Op::SLICE) ? storage.arg().i(0) : 0;
  return {base, begin, begin + int64_t(storage_bytes(storage.dtype(), uint64_t(elements_of(storage))))};
}

// Whether a store of the kernel can reach the bytes of another argument.
bool may_alias(const UOp& ast, std::span<const UOp> arguments) {
  std::vector<bool> written(arguments.size(), false);
  for (const UOp& effect : ast.src()) {
    UOp inner = effect;
    while (inner.is(Op::END)) inner = inner.src(0);
    if (inner.is(Op::STORE) && inner.src(0).is(Op::PARAM)) written[size_t(slot_of(inner.src(0)))] = true;
  }
  for (size_t i = 0; i < arguments.size(); ++i)
    for (size_t j = i + 1; j < arguments.size(); ++j) {
      if (!written[i] && !written[j]) continue;
      ByteRange a = range_of(arguments[i]), b = range_of(arguments[j]);
      if (a.base == b.base && a.begin < b.end && b.begin < a.end) return true;
    }
  return false;
}

const std::string& device_name(const UOp& storage) {
  return device_text(storage.is(Op::SLICE) ? storage.src(0) : storage);
}

void run_copy(Plan::Step& step) {
  if (step.in_place) return;
  const UOp &to = step.arguments[0], &from = step.arguments[1];
  // Host data that the device can read in place needs no copy, as long as nothing has claimed the
  // destination.
  if (to.is(Op::BUFFER) && !has_buffer(to) && device_name(from) == "HOST" && device_name(to) != "HOST")
    if (BufferRef in_place = import_host_buffer(device(device_name(to)), buffer_of(from)))
      if (set_buffer(to, in_place)) {
        step.in_place = true;
        return;
      }
  BufferRef target = buffer_of(to), source = buffer_of(from);
  target->allocate(), source->allocate();
  copy_buffer(*target, *source);
}

} // namespace

Counters counters() {
  std::lock_guard lock(counters_mutex);
  return total;
}

Plan::Plan(const UOp& linear, VarVals vars, const Progress& progress) : linear_(linear) {
  std::vector<CompileRequest> requests;
  std::vector<size_t> owner;
  for (const UOp& item : linear.src()) {
    TOLK_CHECK(item.is(Op::CALL), "a schedule holds calls only");
    Step step;
    step.arguments.assign(item.src().begin() + 1, item.src().end());
    if (item.src(0).is(Op::SINK)) {
      if (step.arguments.empty()) throw InternalError("a kernel without arguments was scheduled");
      requests.push_back(
          {item.src(0), device_name(step.arguments[0]), may_alias(item.src(0), step.arguments)});
      owner.push_back(steps_.size());
      step.ast = item.src(0);
    } else {
      TOLK_CHECK(item.src(0).is(Op::COPY) && step.arguments.size() == 2,
                 "a call's body must be a kernel or a copy");
    }
    steps_.push_back(std::move(step));
  }
  std::vector<CompiledCall> compiled = compile_all(requests, progress);
  for (size_t i = 0; i < compiled.size(); ++i) {
    Step& step = steps_[owner[i]];
    step.call = compiled[i];
    for (const VarInfo& var : step.call.kernel->info.vars) {
      auto it = vars.find(var.name);
      if (it == vars.end())
        throw InvalidArgument("variable " + var.name + " has no value, and kernel " +
                              step.call.kernel->info.name + " needs one");
      step.values.push_back(it->second);
    }
  }
}

size_t Plan::kernel_count() const {
  size_t count = 0;
  for (const Step& step : steps_) count += step.call.program != nullptr;
  return count;
}

void Plan::run() const {
  using Clock = std::chrono::steady_clock;
  const Config& config = Config::current();
  bool timed = config.debug >= 2, validate = config.validate_with_cpu != 0;
  Counters now;
  now.runs = 1;
  for (const Step& fixed : steps_) {
    auto& step =
        const_cast<Step&>(fixed); // the resolved buffers are a cache: storage nodes never change theirs
    if (!step.call.program) {
      auto begin = Clock::now();
      run_copy(step);
      ++now.copies;
      if (timed) {
        double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
        log::debug(2, "copy " + device_name(step.arguments[1]) + " -> " + device_name(step.arguments[0]) +
                          "  " + std::to_string(us) + " us");
      }
      continue;
    }
    const ProgramInfo& info = step.call.kernel->info;
    if (step.ordered.empty()) {
      for (int argument : info.globals) {
        step.buffers.push_back(buffer_of(step.arguments[size_t(argument)]));
        step.ordered.push_back(step.buffers.back().get());
      }
    }
    if (validate) {
      run_validated(step);
    } else {
      uint64_t ns = 0;
      std::array<uint32_t, 3> grid{uint32_t(info.grid[0]), uint32_t(info.grid[1]), uint32_t(info.grid[2])};
      std::array<uint32_t, 3> local{uint32_t(info.local[0]), uint32_t(info.local[1]),
                                    uint32_t(info.local[2])};
      step.call.program->launch(step.ordered, step.values, grid, local, timed ? &ns : nullptr);
      if (timed) {
        char text[160];
        std::snprintf(text, sizeof text, "%-40s %9.1f us %8.2f GFLOP/s %8.2f GB/s", info.name.c_str(),
                      double(ns) / 1e3, info.flops / double(std::max<uint64_t>(ns, 1)),
                      info.bytes_touched / double(std::max<uint64_t>(ns, 1)));
        log::debug(2, text);
      }
    }
    ++now.kernels;
    now.flops += info.flops;
    now.bytes += info.bytes_touched;
  }
  std::lock_guard lock(counters_mutex);
  total.kernels += now.kernels, total.copies += now.copies, total.runs += now.runs;
  total.flops += now.flops, total.bytes += now.bytes;
}

} // namespace tolk::engine
