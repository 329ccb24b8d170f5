// One table of rules per subject; `check` is false where a node of the set breaks the rule.
#pragma once

#include <vector>

#include "tolk/uop/ops.h"
#include "tolk/uop/spec.h"

namespace tolk::spec {

struct Rule {
  const char* name;
  OpSet ops;
  bool (*check)(const UOp&);
  const char* message; // what must hold
};

// Ops that a stage admits.
OpSet admitted(Stage stage);
// Forms of leaves and elementwise ops, at every stage.
const std::vector<Rule>& shared_rules();
const std::vector<Rule>& tensor_rules();
const std::vector<Rule>& kernel_graph_rules();
const std::vector<Rule>& kernel_rules();
const std::vector<Rule>& lowered_rules();

[[noreturn]] void broken(Stage stage, const char* rule, const char* message, const UOp& node);
// Rules about a kernel as a whole: loops are closed once, parameters and axes are unique.
void verify_loops(const std::vector<UOp>& order, Stage stage);

} // namespace tolk::spec
