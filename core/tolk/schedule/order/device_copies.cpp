#include "tolk/schedule/order/device_copies.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tolk/base/error.h"
#include "tolk/schedule/fuse/access.h"
#include "tolk/uop/build.h"

namespace tolk::schedule {
namespace {

std::vector<UOp> storage_arguments(const UOp& call) {
  std::vector<UOp> out;
  for (const UOp& a : call.src().subspan(1))
    if (is_storage_argument(a)) out.push_back(a);
  return out;
}

// Whether `index`, a sum of loop variables times constants, takes every value in 0 .. elements-1 once.
bool counts_through(const UOp& index, std::span<const UOp> loops, int64_t elements) {
  std::vector<UOp> terms{index};
  std::vector<std::pair<int64_t, int64_t>> strides; // stride, extent
  std::vector<UOp> met;
  for (size_t i = 0; i < terms.size(); ++i) {
    UOp t = terms[i];
    int64_t factor = 1;
    if (t.is(Op::ADD)) {
      terms.push_back(t.src(0)), terms.push_back(t.src(1));
      continue;
    }
    if (t.is_const_int(0)) continue;
    if (t.is(Op::MUL) && t.src(1).is_const()) factor = t.src(1).const_int(), t = t.src(0);
    if (!t.is(Op::RANGE) || !t.src(0).is_const() || std::ranges::count(met, t) > 0) return false;
    met.push_back(t);
    strides.emplace_back(factor, t.src(0).const_int());
  }
  if (met.size() != loops.size()) return false;
  std::ranges::sort(strides);
  int64_t next = 1;
  for (auto [stride, extent] : strides) {
    if (stride != next || __builtin_mul_overflow(next, extent, &next)) return false;
  }
  return next == elements;
}

// A kernel that stores every element of one argument to the same place of the other, and nothing else, as a
// COPY to `device`; null for other kernels.
UOp copy_of_kernel(const UOp& kernel, const std::string& device) {
  const UOp& sink = kernel.is(Op::PROGRAM) ? kernel.src(0) : kernel;
  if (!sink.is(Op::SINK) || sink.nsrc() != 1) return {};
  std::vector<UOp> loops;
  const UOp* effect = &sink.src(0);
  for (; effect->is(Op::END); effect = &effect->src(0))
    loops.insert(loops.end(), effect->src().begin() + 1, effect->src().end());
  if (!effect->is(Op::STORE) || effect->nsrc() != 3) return {};
  const UOp &to = effect->src(0), &value = effect->src(2);
  if (!value.is(Op::LOAD) || value.nsrc() != 2) return {};
  const UOp& from = value.src(0);
  bool whole = to.is(Op::PARAM) && from.is(Op::PARAM) && slot_of(to) == 0 && slot_of(from) == 1 &&
               elements_of(to) == elements_of(from) && value.src(1) == effect->src(1);
  if (!whole || !counts_through(effect->src(1), loops, elements_of(to))) return {};
  return copy_to(from, device);
}

} // namespace

void copy_between_devices(std::vector<UOp>& calls) {
  for (UOp& call : calls) {
    if (!call.src(0).is(OpSet(Op::SINK, Op::PROGRAM))) continue;
    std::vector<UOp> arguments = storage_arguments(call);
    std::vector<std::string> devices;
    for (const UOp& a : arguments)
      if (std::string d = device_of(a); !d.empty() && std::ranges::count(devices, d) == 0)
        devices.push_back(std::move(d));
    if (devices.size() < 2) continue;
    if (arguments.size() == 2)
      if (UOp copy = copy_of_kernel(call.src(0), device_of(arguments[0]))) {
        call = tolk::call(copy, arguments);
        continue;
      }
    std::string all;
    for (const std::string& d : devices) all += (all.empty() ? "" : ", ") + d;
    throw InvalidArgument("all buffers must be on the same device: [" + all +
                          "]; only a kernel that copies one buffer to another may be on two");
  }
}

} // namespace tolk::schedule
