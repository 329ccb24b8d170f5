#include "tolk/schedule/tensor/placement.h"

#include "tolk/base/error.h"
#include "tolk/uop/shape.h"

namespace tolk::schedule {
namespace {

// An operand as its user knows it: below the views that brought it to the operation's shape.
std::string operand(const UOp& u, const std::string& device) {
  UOp at = u;
  while (at.is(ops::Movement) && !at.src(0).is(ops::Storage | OpSet(Op::MSTACK))) at = UOp(at.src(0));
  return to_string(shape_of(at)) + " on " + device;
}

} // namespace

void refuse_devices(const UOp& u, const UOp& a, const std::string& on_a, const UOp& b,
                    const std::string& on_b) {
  if (u.is(Op::STORE))
    throw InvalidArgument("a write to " + operand(a, on_a) + " of a value " + operand(b, on_b) +
                          "; write value.to(\"" + on_a + "\")");
  const std::string& target = on_a == "HOST" ? on_b : on_a;
  throw InvalidArgument(std::string(name(u.op())) + " of operands on different devices: " + operand(a, on_a) +
                        " and " + operand(b, on_b) + "; bring them together, for example with .to(\"" +
                        target + "\") on the one that is not there");
}

void refuse_host(const UOp& u) {
  UOp result = u.is(Op::STORE) ? UOp(u.src(0)) : u;
  throw InvalidArgument(
      std::string(name(u.op())) + " of shape " + to_string(shape_of(result)) +
      " would be computed on HOST, which holds data and computes nothing; bring the operands "
      "to a device first, for example with .to(default_device())");
}

} // namespace tolk::schedule
