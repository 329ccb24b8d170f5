#include "tolk/uop/state.h"

#include <atomic>
#include <vector>

namespace tolk {
namespace {

Arg fresh_number() {
  static std::atomic<uint64_t> next{1};
  return Arg(next.fetch_add(1, std::memory_order_relaxed));
}

} // namespace

UOp after_write(const UOp& target, const UOp& store) {
  return make(Op::AFTER, target.dtype(), {target, store}, fresh_number());
}
UOp state_of(const UOp& view) { return make(Op::AFTER, view.dtype(), {view}, fresh_number()); }

UOp without_states(const UOp& view) {
  constexpr OpSet views = ops::Movement | OpSet(Op::BITCAST, Op::DETACH, Op::MULTI);
  std::vector<UOp> above;
  UOp at = view;
  for (; is_state(at) || at.is(views); at = UOp(at.src(0)))
    if (!is_state(at)) above.push_back(at);
  for (size_t i = above.size(); i-- > 0;) {
    std::vector<UOp> src(above[i].src().begin(), above[i].src().end());
    src[0] = at;
    at = with_sources(above[i], src);
  }
  return at;
}

} // namespace tolk
