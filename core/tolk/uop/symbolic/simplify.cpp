// The driver: bottom-up to a fixpoint, iterative, with memoized normal forms.
#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/uop/intern_internal.h"
#include "tolk/uop/print.h"
#include "tolk/uop/symbolic/rules.h"
#include "tolk/uop/symbolic/symbolic.h"

namespace tolk {
namespace {

constexpr int64_t kMostSteps = 10'000'000;
constexpr int kHistory = 16;

thread_local uint64_t steps_of_thread = 0;

// Another handle of a live node.
UOp handle(const UOpNode* node) { return reinterpret_cast<const UOp&>(node); }

// One outermost call of simplify and the calls that its rules make.
class Session {
public:
  explicit Session(Arena* arena) : arena_(arena), verbose_(log::enabled(7)) {}

  UOp run(const UOp& root) {
    if (const UOpNode* known = find(root)) return handle(known);
    size_t base = stack_.size();
    stack_.push_back({root, {}, 0});
    while (stack_.size() > base) step();
    return handle(find(root));
  }
  Arena* arena() const { return arena_; }

private:
  struct Frame {
    UOp node;
    UOp next;       // what the node was rewritten to, whose normal form is the node's
    uint32_t state; // 0 new, 1 sources pushed
  };

  const UOpNode* find(const UOp& u) const {
    if (u.nsrc() == 0 && !u.is(Op::VAR)) return u.node(); // no rule looks at other leaves
    if (arena_) {
      const auto& normal = arena_->impl().normal_form;
      return u.id() < normal.size() ? normal[u.id()] : nullptr;
    }
    auto it = normal_.find(u);
    return it == normal_.end() ? nullptr : it->second.node();
  }
  void set(const UOp& u, const UOp& normal) {
    if (!arena_) {
      normal_.insert_or_assign(u, normal);
      return;
    }
    auto& table = arena_->impl().normal_form;
    if (u.id() >= table.size())
      table.resize(std::max<size_t>(u.id() + 1, arena_->size() + arena_->size() / 2));
    table[u.id()] = normal.node();
  }

  void step() {
    Frame& f = stack_.back();
    if (find(f.node)) {
      stack_.pop_back();
      return;
    }
    if (f.next) {
      const UOpNode* normal = find(f.next);
      TOLK_CHECK(normal, "simplification returned to a node that is still open");
      set(f.node, handle(normal));
      stack_.pop_back();
      return;
    }
    if (f.state == 0) {
      f.state = 1;
      UOp node = f.node;
      bool ready = true;
      for (size_t i = node.nsrc(); i-- > 0;)
        if (!find(node.src(i))) stack_.push_back({node.src(i), {}, 0}), ready = false;
      if (!ready) return;
    }
    size_t at = stack_.size() - 1; // rules may simplify, which moves the stack
    UOp node = stack_[at].node, next;
    if (node.nsrc() > 0) next = rebuilt(node);
    if (!next) {
      const char* rule = nullptr;
      next = symbolic_rules().apply(node, nullptr, &rule);
      if (!next) {
        set(node, node);
        stack_.pop_back();
        return;
      }
      note(rule, node, next);
    }
    stack_[at].next = next;
    if (!find(next)) stack_.push_back({std::move(next), {}, 0});
  }

  // The node over the normal forms of its sources; null when they are its sources.
  UOp rebuilt(const UOp& u) {
    bool changed = false;
    for (const UOp& s : u.src()) changed |= find(s) != s.node();
    if (!changed) return {};
    scratch_.clear();
    for (const UOp& s : u.src()) {
      scratch_.push_back(handle(find(s)));
    }
    return with_sources(u, scratch_);
  }

  void note(const char* rule, const UOp& before, const UOp& after) {
    recent_[steps_++ % kHistory] = rule;
    ++steps_of_thread;
    if (verbose_) log::debug(7, std::string(rule) + ": " + print_line(before) + " -> " + print_line(after));
    if (steps_ < kMostSteps && stack_.size() < 4'000'000) return;
    std::string text = "simplification does not end; the last rules were";
    for (int i = 0; i < kHistory; ++i)
      if (const char* name = recent_[(steps_ + i) % kHistory]) text += std::string(" ") + name;
    throw InternalError(text + "; at " + print_line(before));
  }

  Arena* arena_;
  bool verbose_;
  std::unordered_map<UOp, UOp, UOpHash> normal_; // outside arenas
  std::vector<Frame> stack_;
  std::vector<UOp> scratch_;
  int64_t steps_ = 0;
  const char* recent_[kHistory] = {};
};

thread_local Session* session_now = nullptr;

} // namespace

UOp simplify(const UOp& u) {
  if (u.nsrc() == 0 && !u.is(Op::VAR)) return u;
  Arena* arena = current_arena();
  // A rule asks: the running session knows the normal forms of everything below.
  if (session_now && session_now->arena() == arena) return session_now->run(u);
  if (arena) {
    const auto& normal = arena->impl().normal_form;
    if (u.id() < normal.size() && normal[u.id()]) return handle(normal[u.id()]);
  }
  Session session(arena);
  struct Restore {
    Session* previous;
    ~Restore() { session_now = previous; }
  } restore{std::exchange(session_now, &session)};
  return session.run(u);
}

uint64_t simplification_steps() { return steps_of_thread; }

const RuleSet& symbolic_rules() {
  static const RuleSet rules{sym::folding_rules(), sym::logic_rules(), sym::compare_rules(),
                             sym::divmod_rules(), sym::algebra_rules()};
  return rules;
}

} // namespace tolk
