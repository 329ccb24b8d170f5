#include "tolk/uop/rewrite.h"

#include <string>

#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk {
namespace {

bool match_node(const Pattern& p, const UOp& u, Match& m);

bool match_sources(const Pattern& p, const UOp& u, Match& m) {
  if (p.form == Sources::Any) return true;
  if (p.form == Sources::Exact ? u.nsrc() != p.src.size() : u.nsrc() < p.src.size()) return false;
  if (p.src.size() == 2 && u.is(ops::Commutative)) {
    Match saved = m;
    if (match_node(p.src[0], u.src(0), m) && match_node(p.src[1], u.src(1), m)) return true;
    m = saved;
    return match_node(p.src[0], u.src(1), m) && match_node(p.src[1], u.src(0), m);
  }
  for (size_t i = 0; i < p.src.size(); ++i)
    if (!match_node(p.src[i], u.src(i), m)) return false;
  return true;
}

bool match_node(const Pattern& p, const UOp& u, Match& m) {
  if (!p.ops.empty() && !p.ops.has(u.op())) return false;
  if (p.integer && !u.is_const_int(*p.integer)) return false;
  if (p.test && !p.test(u)) return false;
  if (p.slot >= 0) {
    if (m.slots[p.slot] && *m.slots[p.slot] != u) return false;
    m.slots[p.slot] = &u;
  }
  return match_sources(p, u, m);
}

// Ops that must occur among the direct sources: those of sub-patterns that name exactly one op.
OpSet needed_sources(const Pattern& p) {
  OpSet needed;
  if (p.form == Sources::Any) return needed;
  for (const Pattern& s : p.src) {
    int count = 0, last = 0;
    for (int i = 0; i < kOpCount; ++i)
      if (s.ops.has(Op(i))) ++count, last = i;
    if (count == 1) needed.add(Op(last));
  }
  return needed;
}

constexpr int kHistory = 20;
constexpr int64_t kBudget = 4'000'000;

// Counts what fired, so that a rule set that never ends becomes an error instead of a hang.
struct Trace {
  int64_t fired = 0;
  const char* recent[kHistory] = {};
  bool verbose = log::enabled(7);
  void note(const char* rule, const UOp& before, const UOp& after) {
    recent[fired++ % kHistory] = rule;
    if (verbose) log::debug(7, std::string(rule) + ": " + print_line(before) + " -> " + print_line(after));
    if (fired < kBudget) return;
    std::string text = "rewriting does not end; the last rules were";
    for (int i = 0; i < kHistory; ++i) text += std::string(i ? ", " : " ") + recent[(fired + i) % kHistory];
    throw InternalError(text + "; at " + print_line(before));
  }
};

// Sources replaced by their final forms; the node itself when nothing changed.
UOp rebuilt(const UOp& u, const Memo<UOp>& done, std::vector<UOp>& scratch) {
  bool changed = false;
  scratch.clear();
  for (const UOp& s : u.src()) {
    scratch.push_back(*done.find(s));
    changed |= scratch.back() != s;
  }
  return changed ? with_sources(u, scratch) : u;
}

} // namespace

RuleSet::RuleSet(std::initializer_list<std::vector<Rule>> parts) {
  for (const std::vector<Rule>& part : parts) rules_.insert(rules_.end(), part.begin(), part.end());
  compile();
}
RuleSet::RuleSet(std::vector<Rule> rules) : rules_(std::move(rules)) { compile(); }

void RuleSet::compile() {
  for (uint32_t i = 0; i < rules_.size(); ++i)
    for (int op = 0; op < kOpCount; ++op)
      if (rules_[i].pattern.ops.empty() || rules_[i].pattern.ops.has(Op(op)))
        by_op_[op].push_back({i, needed_sources(rules_[i].pattern)});
}

UOp RuleSet::apply(const UOp& root, void* context, const char** applied) const {
  const OpSet& have = root.node()->src_ops;
  for (const Entry& entry : by_op_[int(root.op())]) {
    if (!have.contains(entry.needed)) continue;
    const Rule& rule = rules_[entry.rule];
    Match m;
    m.root = &root, m.context = context;
    const Pattern& p = rule.pattern;
    // Both orders of a commutative root are tried, since the function may decline the first.
    bool commutes = p.form == Sources::Exact && p.src.size() == 2 && root.is(ops::Commutative);
    if (!commutes) {
      if (!match_node(p, root, m)) continue;
      if (UOp r = rule.function(m); r && r != root) {
        if (applied) *applied = rule.name;
        return r;
      }
      continue;
    }
    if (p.test && !p.test(root)) continue;
    for (int order = 0; order < 2; ++order) {
      Match tried = m;
      if (p.slot >= 0) tried.slots[p.slot] = &root;
      if (!match_node(p.src[0], root.src(order), tried) || !match_node(p.src[1], root.src(1 - order), tried))
        continue;
      if (UOp r = rule.function(tried); r && r != root) {
        if (applied) *applied = rule.name;
        return r;
      }
    }
  }
  return {};
}

UOp rewrite(const UOp& root, const RuleSet& rules, void* context) {
  struct Frame {
    UOp node;
    UOp next; // the node whose final form is this node's, once known
    bool expanded = false;
  };
  Memo<UOp> done;
  Trace trace;
  std::vector<UOp> scratch;
  std::vector<Frame> stack{{root, {}, false}};
  while (!stack.empty()) {
    Frame& f = stack.back();
    if (done.find(f.node)) {
      stack.pop_back();
      continue;
    }
    if (f.next) {
      const UOp* final = done.find(f.next);
      TOLK_CHECK(final, "rewriting returned to a node that is still open");
      UOp node = f.node, result = *final;
      done.set(node, result);
      stack.pop_back();
      continue;
    }
    if (!f.expanded) {
      f.expanded = true;
      UOp node = f.node;
      for (size_t i = node.nsrc(); i-- > 0;)
        if (!done.find(node.src(i))) stack.push_back({node.src(i), {}, false});
      if (stack.size() > 4'000'000)
        throw InternalError("rewriting grows a graph without end at " + print_line(node));
      continue;
    }
    UOp next = rebuilt(f.node, done, scratch);
    if (next == f.node) {
      const char* rule = nullptr;
      next = rules.apply(f.node, context, &rule);
      if (!next) {
        done.set(f.node, f.node);
        stack.pop_back();
        continue;
      }
      trace.note(rule, f.node, next);
    }
    f.next = next;
    if (!done.find(next)) stack.push_back({next, {}, false});
  }
  return *done.find(root);
}

} // namespace tolk
