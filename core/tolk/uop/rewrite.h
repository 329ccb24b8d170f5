// Rule sets and the driver that applies them.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "tolk/uop/pattern.h"

namespace tolk {

// An ordered list of rules, compiled into one table per op with an early reject on the ops of the sources.
// The first rule that applies wins. Build once (a function-local static), use from any thread.
class TOLK_API RuleSet {
public:
  RuleSet(std::initializer_list<std::vector<Rule>> parts); // concatenated in order
  explicit RuleSet(std::vector<Rule> rules);
  // One application at the root; null when no rule applies. `applied` receives the rule's name.
  UOp apply(const UOp& root, void* context = nullptr, const char** applied = nullptr) const;
  const std::vector<Rule>& rules() const { return rules_; }

private:
  struct Entry {
    uint32_t rule;
    OpSet needed; // every source op that must be present for a match
  };
  void compile();
  std::vector<Rule> rules_;
  std::array<std::vector<Entry>, kOpCount> by_op_;
};

// Rewrites bottom-up until nothing changes: rules see nodes whose sources are in final form, and results are
// rewritten again. Throws InternalError that names the last rules when the rules do not terminate.
TOLK_API UOp rewrite(const UOp& root, const RuleSet& rules, void* context = nullptr);

} // namespace tolk
