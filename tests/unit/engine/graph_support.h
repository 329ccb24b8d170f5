// Small LINEARs for the tests of batching and replay, and plain arithmetic to compare with: kernels of 32-bit
// integers over one-dimensional storage.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "one_buffer.h"
#include "parse_kernel.h"
#include "test_backend.h"
#include "thrown.h"
#include "tolk/base/config.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/engine/compile/program_table.h"
#include "tolk/engine/graph/batch_graphs.h"
#include "tolk/engine/graph/graph_call.h"
#include "tolk/engine/graph/graph_runner.h"
#include "tolk/engine/run/binding.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/kernel/kernel_ir.h"
#include "tolk/uop/build.h"

namespace tolk::test {

using engine::BufferBinding;
using engine::RunOptions;
using Ints = std::vector<int32_t>;

constexpr int64_t kCount = 16;

// ---- kernels: argument 0 is written
inline UOp body_of(int64_t count, int sources, const std::function<UOp(const std::vector<UOp>&)>& value) {
  UOp i = range_node(count, 0, AxisType::Loop);
  std::vector<UOp> loaded;
  for (int s = 1; s <= sources; ++s) loaded.push_back(load(param_node(s, DType::I32, count), i));
  UOp effect = end(store(param_node(0, DType::I32, count), i, value(loaded)), std::vector<UOp>{i});
  return kernel_sink(std::vector<UOp>{effect});
}
inline UOp xor_body(int64_t count = kCount) {
  return body_of(count, 2, [](const std::vector<UOp>& v) { return alu(Op::XOR, v[0], v[1]); });
}
// out = a + amount
inline UOp add_body(int64_t amount, int64_t count = kCount) {
  return body_of(count, 1,
                 [&](const std::vector<UOp>& v) { return alu(Op::ADD, v[0], constant(DType::I32, amount)); });
}
// a = a + b
inline UOp accumulate_body(int64_t count = kCount) {
  UOp i = range_node(count, 0, AxisType::Loop);
  UOp a = param_node(0, DType::I32, count), b = param_node(1, DType::I32, count);
  UOp effect = end(store(a, i, alu(Op::ADD, load(a, i), load(b, i))), std::vector<UOp>{i});
  return kernel_sink(std::vector<UOp>{effect});
}
inline UOp copy_body(int64_t count, const std::string& device) {
  return copy_to(param_node(1, DType::I32, count), device);
}
inline UOp call_of(const UOp& body, std::vector<UOp> arguments) { return call(body, arguments); }
inline UOp copy_call(const UOp& to, const UOp& from) {
  return call_of(copy_body(elements_of(to), device_of(to)), {to, from});
}

// A kernel in the flat form as a PROGRAM: parameters are buffers, then values, as the text lists them. Sizes
// may be symbolic.
inline UOp program_of(Device& device, const std::string& text, std::vector<int> outs,
                      std::vector<VarInfo> vars = {}, UOp global = {},
                      std::optional<std::array<int64_t, 3>> local = {}) {
  auto kernel = std::make_shared<codegen::Kernel>();
  kernel->ir = parse_kernel_ir(text);
  verify(kernel->ir);
  engine::ProgramEntry entry;
  entry.info.name = kernel->ir.name;
  int buffers = 0;
  for (const tolk_param& p : kernel->ir.params)
    if (p.kind == TOLK_PARAM_BUFFER) entry.info.globals.push_back(buffers++);
  for (int i : entry.info.globals)
    if (std::find(outs.begin(), outs.end(), i) == outs.end()) entry.info.ins.push_back(i);
  entry.info.outs = std::move(outs);
  entry.info.vars = std::move(vars);
  entry.info.grid[0] = global && !global.is_const() ? global.vmax() : kCount;
  if (local)
    for (size_t i = 0; i < 3; ++i) entry.info.local[i] = (*local)[i];
  entry.global[0] = global;
  entry.sink = kernel_sink({}, kernel->ir.name);
  entry.device = device.name();
  entry.params = kernel->ir.params;
  entry.target_key = device.compiler_key(0);
  kernel->info = entry.info;
  entry.kernel = kernel;
  tolk_kernel_ir view = kernel->ir.view();
  KernelSource source = engine::kernel_source(entry);
  source.ir = &view;
  entry.binary = device.compile(source).bytes;
  return engine::program_node(std::move(entry));
}

// out[g] = in[g] + value, value being the variable; one work-group an element.
inline std::string add_value_text(const std::string& name, int64_t most) {
  return "kernel " + name + "\nparam buffer i32 w 0\nparam buffer i32 r 0\nparam value i32 0 " +
         std::to_string(most) +
         "\n%0 = PARAM i32 [0]\n%1 = PARAM i32 [1]\n%2 = PARAM i32 [2]\n%3 = SPECIAL i32 [0, 0]\n"
         "%4 = LOAD i32 %1 %3\n%5 = ADD i32 %4 %2\n%6 = STORE i32 %0 %3 %5\n";
}

// out[4 * g + l] = in[4 * g + l] + n for the first n elements: groups of four work-items, (n + 3) / 4 of
// them. The last group may be partly idle. With another size of a group, elements are left out.
inline std::string add_items_text(const std::string& name, int64_t most) {
  return "kernel " + name + "\nparam buffer i32 w 0\nparam buffer i32 r 0\nparam value i32 0 " +
         std::to_string(most) +
         "\n%0 = PARAM i32 [0]\n%1 = PARAM i32 [1]\n%2 = PARAM i32 [2]\n%3 = SPECIAL i32 [0, 0]\n"
         "%4 = SPECIAL i32 [256, 0]\n%5 = CONST i32 4\n%6 = MUL i32 %3 %5\n%7 = ADD i32 %6 %4\n"
         "%8 = CMPLT bool %7 %2\n%9 = IF %8\n%10 = LOAD i32 %1 %7\n%11 = ADD i32 %10 %2\n"
         "%12 = STORE i32 %0 %7 %11\n%13 = ENDIF %9\n";
}
inline UOp groups_of_four(const UOp& n) {
  return floordiv(alu(Op::ADD, n, constant(DType::Index, 3)), constant(DType::Index, 4));
}

// ---- storage
inline UOp storage(const std::string& device, int64_t count = kCount, DType dtype = DType::I32) {
  return buffer_node(fresh_user_slot(), dtype, count, device);
}
inline UOp temporary(const std::string& device, int64_t count = kCount, DType dtype = DType::I32) {
  return buffer_node(fresh_internal_slot(), dtype, count, device);
}
inline void write(Buffer& buffer, const Ints& values) {
  buffer.allocate();
  buffer.copy_in(std::as_bytes(std::span(values)));
}
inline void write(const UOp& node, const Ints& values) { write(*engine::buffer_of(node), values); }
inline UOp stored(const std::string& device, const Ints& values) {
  UOp node = storage(device, int64_t(values.size()));
  write(node, values);
  return node;
}
inline Ints read(Buffer& buffer) {
  Ints out(buffer.bytes() / sizeof(int32_t));
  buffer.copy_out(std::as_writable_bytes(std::span(out)));
  return out;
}
inline Ints read(const UOp& node) { return read(*engine::buffer_of(node)); }
inline BufferRef int_buffer(Device& device, const Ints& values) {
  BufferRef buffer = make_buffer(device, DType::I32, values.size());
  write(*buffer, values);
  return buffer;
}
inline Ints ramp(int32_t first, int64_t count = kCount, int32_t step = 1) {
  Ints out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + int32_t(i) * step);
  return out;
}
inline Ints plus(Ints a, int32_t by) {
  for (int32_t& v : a) v += by;
  return a;
}
inline Ints exclusive_or(Ints a, const Ints& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] ^= b[i];
  return a;
}

// ---- lists
inline UOp compiled(Device& lead, const std::vector<UOp>& calls) {
  return engine::compile_linear(lead, {}, linear(calls));
}
inline UOp batched(Device& lead, const std::vector<UOp>& calls) {
  return engine::batch_graphs(lead, compiled(lead, calls));
}
// Inner calls of each item of a LINEAR: 0 for a call that is no graph.
inline std::vector<size_t> sizes_of(const UOp& list) {
  std::vector<size_t> out;
  for (const UOp& item : list.src())
    out.push_back(engine::is_graph_call(item) ? engine::graph_linear(item).nsrc() : 0);
  return out;
}
inline std::string text_of(const std::vector<size_t>& v) {
  std::string out;
  for (size_t n : v) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return out;
}
inline RunOptions jit_run(std::vector<UOp> inputs = {}, engine::VarVals vars = {}) {
  RunOptions options;
  options.jit = true;
  options.input_uops = std::move(inputs);
  options.var_vals = std::move(vars);
  return options;
}

// For cases that need the CPU plugin: *boost::unit_test::precondition(cpu_exists) skips them in a build without it.
inline boost::test_tools::assertion_result cpu_exists(boost::unit_test::test_unit_id = 0) {
  try {
    device("CPU");
    return true;
  } catch (const DeviceError& e) {
    boost::test_tools::assertion_result result(false);
    result.message() << e.what();
    return result;
  }
}

// Graphs of the instrumented backend run any node that is ready, for the life of the object.
class AnyReadyNode {
public:
  explicit AnyReadyNode(bool on) { tb().control().shuffle(on); }
  ~AnyReadyNode() { tb().control().shuffle(0); }
  AnyReadyNode(const AnyReadyNode&) = delete;
  AnyReadyNode& operator=(const AnyReadyNode&) = delete;
};

// Settings changed for a scope.
inline Config with(const std::function<void(Config&)>& change) {
  Config config = Config::current();
  change(config);
  return config;
}

} // namespace tolk::test
