// Kernels and storage for tests of graphs of kernels and of memory plans.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tolk/uop/build.h"

namespace support {

inline tolk::UOp user(int64_t elements, const std::string& device = "CPU",
                      tolk::DType dtype = tolk::DType::F32) {
  return tolk::buffer_node(tolk::fresh_user_slot(), dtype, elements, device);
}
inline tolk::UOp internal(int64_t elements, const std::string& device = "CPU",
                          tolk::DType dtype = tolk::DType::F32) {
  return tolk::buffer_node(tolk::fresh_internal_slot(), dtype, elements, device);
}

// The storage of an argument, below its states.
inline tolk::UOp bare(const tolk::UOp& argument) {
  const tolk::UOp* at = &argument;
  while (at->is(tolk::Op::AFTER)) at = &at->src(0);
  return *at;
}

// A kernel on the bare storage that stores to every element of its first argument the sum of one and the
// first elements of the others.
inline tolk::UOp add_kernel(const std::vector<tolk::UOp>& arguments) {
  using namespace tolk;
  auto parameter = [&](size_t i) {
    return param_node(int64_t(i), arguments[i].dtype(), elements_of(bare(arguments[i])));
  };
  DType dtype = arguments[0].dtype();
  UOp value = constant(dtype, 1.0);
  for (size_t i = 1; i < arguments.size(); ++i)
    value = alu(Op::ADD, value, load(parameter(i), index_const(0)));
  int64_t count = elements_of(bare(arguments[0]));
  UOp loop = range_node(count, 0, AxisType::Loop);
  UOp effect = count == 1 ? store(parameter(0), index_const(0), value)
                          : end(store(parameter(0), loop, value), std::span(&loop, 1));
  return call(kernel_sink(std::span(&effect, 1)), arguments);
}

// A kernel that does not show what it reads and writes.
inline tolk::UOp opaque_kernel(const std::vector<tolk::UOp>& arguments, const std::string& name) {
  return tolk::call(tolk::kernel_sink({}, name), arguments);
}

// A whole buffer to another device.
inline tolk::UOp copy_call(const tolk::UOp& to, const tolk::UOp& from) {
  using namespace tolk;
  return call(copy_to(param_node(1, from.dtype(), elements_of(from)), device_of(to)),
              std::vector<UOp>{to, from});
}

// `out` as a name for `elements` of `from`, from a byte on.
inline tolk::UOp view_call(const tolk::UOp& out, const tolk::UOp& from, int64_t offset) {
  using namespace tolk;
  return call(
      slice_node(param_node(1, from.dtype(), elements_of(from)), out.dtype(), offset, elements_of(out)),
      std::vector<UOp>{out, from});
}

// A LINEAR of kernels on whole buffers as a graph of states: every call reads the states that the ones before
// it left.
inline tolk::UOp states_of(const tolk::UOp& linear) {
  using namespace tolk;
  std::map<int64_t, UOp> now;
  std::vector<int64_t> written;
  for (const UOp& c : linear.src()) {
    std::vector<UOp> src(c.src().begin(), c.src().end());
    for (size_t i = 1; i < src.size(); ++i)
      if (auto it = now.find(slot_of(src[i])); it != now.end()) src[i] = it->second;
    UOp effect = with_sources(c, src);
    int64_t slot = slot_of(c.src(1));
    now[slot] = after(src[1], std::span(&effect, 1));
    written.push_back(slot);
  }
  std::vector<UOp> states;
  for (size_t i = written.size(); i-- > 0;) // the last first: order is for the scheduler to find
    if (UOp s = now[written[i]]; std::find(states.begin(), states.end(), s) == states.end())
      states.push_back(s);
  return sink(states);
}

} // namespace support
