// Tensor-level values on a device, calls and programs for tests of the engine. Link the engine layer.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "one_buffer.h"
#include "parse_kernel.h"
#include "thrown.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/engine/compile/program_table.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/kernel/kernel_ir.h"
#include "tolk/uop/build.h"

namespace tolk::test {

// A user BUFFER of 32-bit integers with these values.
inline UOp int_storage(const std::vector<int32_t>& values, const std::string& device) {
  UOp node = buffer_node(fresh_user_slot(), DType::I32, int64_t(values.size()), device);
  BufferRef buffer = engine::buffer_of(node);
  buffer->allocate();
  buffer->copy_in(std::as_bytes(std::span(values)));
  return node;
}
inline UOp new_ints(int64_t count, const std::string& device) {
  return buffer_node(fresh_user_slot(), DType::I32, count, device);
}
inline UOp internal_ints(int64_t count, const std::string& device) {
  return buffer_node(fresh_internal_slot(), DType::I32, count, device);
}

inline std::vector<int32_t> ints_of(const BufferRef& buffer) {
  std::vector<int32_t> values(buffer->bytes() / sizeof(int32_t));
  buffer->copy_out(std::as_writable_bytes(std::span(values)));
  return values;
}
inline std::vector<int32_t> ints_of(const UOp& storage) { return ints_of(engine::buffer_of(storage)); }

// The SINK of out[i] = in[i] + amount over `count` elements; arguments are (out, in).
inline UOp add_sink(int64_t count, int64_t amount, const std::string& name = {}) {
  UOp out = param_node(0, DType::I32, count), in = param_node(1, DType::I32, count);
  UOp i = range_node(count, 0, AxisType::Loop);
  UOp effect = store(out, i, alu(Op::ADD, load(in, i), constant(DType::I32, amount)));
  UOp ended = end(effect, std::span(&i, 1));
  return kernel_sink(std::span(&ended, 1), name);
}
// The SINK of acc[i] = acc[i] + amount; the argument is (acc).
inline UOp bump_sink(int64_t count, int64_t amount) {
  UOp acc = param_node(0, DType::I32, count), i = range_node(count, 0, AxisType::Loop);
  UOp effect = store(acc, i, alu(Op::ADD, load(acc, i), constant(DType::I32, amount)));
  UOp ended = end(effect, std::span(&i, 1));
  return kernel_sink(std::span(&ended, 1));
}
inline UOp call_of(const UOp& body, std::vector<UOp> arguments) { return call(body, arguments); }
inline UOp linear_of(std::vector<UOp> calls) { return linear(calls); }
// CALL(COPY, destination, source); the copy's body names the destination's device.
inline UOp copy_call(const UOp& to, const UOp& from) {
  std::string where = engine::argument_devices(to).empty() ? "" : engine::argument_devices(to)[0];
  UOp source = param_node(1, from.dtype(), elements_of(from));
  return call_of(copy_to(source, where), {to, from});
}
// CALL(SLICE, out, source): `out` is `count` elements from byte `offset` of the source on.
inline UOp view_call(const UOp& out, const UOp& source, int64_t offset, int64_t count) {
  UOp param = param_node(1, source.dtype(), elements_of(source));
  return call_of(slice_node(param, out.dtype(), offset, count), {out, source});
}

// A compiled kernel from the text of a flat kernel, in which the scheduler and codegen have no part. Buffer
// parameter k is argument k of the call; `grid` counts work-groups.
struct FlatKernel {
  std::string text;
  std::vector<VarInfo> vars = {}; // one for each value parameter, runtime variables beside them
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<UOp, 3> symbolic = {}; // sizes over variables
  bool local_free = false;          // `grid` counts work-items
  std::vector<int> globals = {};    // argument of each buffer parameter, when not 0, 1, 2 ...
};
inline UOp flat_program(Device& device, const FlatKernel& k) {
  auto kernel = std::make_shared<codegen::Kernel>();
  kernel->ir = parse_kernel_ir(k.text);
  verify(kernel->ir);
  engine::ProgramEntry entry;
  entry.sink = kernel_sink({}, kernel->ir.name);
  entry.device = device.name();
  ProgramInfo& info = entry.info;
  info.name = kernel->ir.name;
  for (const tolk_param& p : kernel->ir.params) {
    if (p.kind != TOLK_PARAM_BUFFER) continue;
    size_t n = info.globals.size();
    info.globals.push_back(n < k.globals.size() ? k.globals[n] : int(n));
    if (p.access & TOLK_ACCESS_WRITE) info.outs.push_back(info.globals.back());
    if (p.access & TOLK_ACCESS_READ) info.ins.push_back(info.globals.back());
  }
  info.vars = k.vars;
  for (size_t i = 0; i < 3; ++i) info.grid[i] = k.grid[i];
  entry.global = k.symbolic;
  entry.local_free = k.local_free;
  entry.target_index = device.target_index();
  entry.target_key = device.compiler_key(entry.target_index);
  entry.kernel = kernel;
  entry.params = kernel->ir.params;
  KernelSource source = engine::kernel_source(entry);
  tolk_kernel_ir view = kernel->ir.view();
  source.ir = &view;
  entry.binary = device.compile(source).bytes;
  return engine::program_node(std::move(entry));
}

// to_program that counts, and remembers what it was asked for.
struct CountingCompiler {
  int calls = 0;
  std::vector<std::string> devices = {};
  std::vector<UOp> sinks = {};
  engine::ToProgram function() {
    return [this](Device& device, const UOp& sink, bool may_alias) {
      ++calls;
      devices.push_back(device.name());
      sinks.push_back(sink);
      return engine::to_program(device, sink, may_alias);
    };
  }
};

inline UOp add_call(const UOp& out, const UOp& in, int64_t amount, const std::string& name = {}) {
  return call_of(add_sink(elements_of(out), amount, name), {out, in});
}

// out[0] = value.
inline std::string value_kernel(const std::string& name) {
  return "kernel " + name +
         "\nparam buffer i32 w 0\nparam value i32 0 100\n%0 = PARAM i32 [0]\n%1 = PARAM i32 [1]\n"
         "%2 = CONST i32 0\n%3 = STORE i32 %0 %2 %1\n";
}

inline MultiBufferRef shards_of(engine::BufferBinding& binding, const UOp& node) {
  return std::get<MultiBufferRef>(engine::resolve_buffer(binding, {}, node));
}

} // namespace tolk::test
