#include "tolk/codegen/codegen.h"

#include "tolk/base/error.h"
#include "tolk/codegen/decompose/decompose.h"
#include "tolk/codegen/gates.h"
#include "tolk/codegen/loops.h"
#include "tolk/codegen/lower/expand.h"
#include "tolk/codegen/lower/linearize.h"
#include "tolk/codegen/naming.h"
#include "tolk/uop/arena.h"
#include "tolk/uop/key.h"
#include "tolk/uop/spec.h"
#include "tolk/uop/symbolic/symbolic.h"

namespace tolk::codegen {
namespace {

// Additions in flight that keep the multiply-add units of a CPU busy: latency times ports.
int independent_chains(const Target& target, const Options& options) {
  return options.no_opt ? 1 : std::max<int>(1, 4 * int(target.fma_ports));
}

UOp tidied(const UOp& ast) { return merge_loops(drop_unused_loops(drop_implied_gates(ast))); }

// The opts that were applied; each that is not null must fit.
UOp optimised(const UOp& ast, const std::vector<Opt>& opts, std::vector<std::string>& applied) {
  Schedule schedule(ast);
  for (const Opt& opt : opts) {
    if (std::optional<std::string> why = apply(schedule, opt))
      throw InvalidArgument("the optimisation " + to_string(opt) + " does not fit the kernel: " + *why);
    applied.push_back(to_string(opt));
  }
  verify_stage(schedule.ast, Stage::Kernel);
  return schedule.ast;
}

Kernel run(const UOp& root, const Target& target, const std::vector<Opt>* given, const Options& options) {
  Arena arena;
  ArenaScope scope(&arena);
  UOp ast = simplify(import_graph(root));
  std::string name = kernel_name(ast, graph_key(root));
  std::vector<std::string> applied;
  if (!options.no_opt) {
    ast = tidied(ast);
    ast = optimised(ast, given ? *given : heuristic(ast, target, options.threads), applied);
  }
  Expansion flat = expand(ast, independent_chains(target, options));
  Kernel kernel = linearize(decompose(flat.sink, target), flat.tiles, flat.items, target);
  kernel.ir.name = kernel.info.name = name;
  kernel.info.opts = std::move(applied);
#ifdef TOLK_VERIFY
  verify(kernel.ir);
#endif
  return kernel;
}

} // namespace

Kernel compile(const UOp& ast, const Target& target, const Options& options) {
  return run(ast, target, nullptr, options);
}

Kernel compile_with(const UOp& ast, const Target& target, const std::vector<Opt>& opts,
                    const Options& options) {
  return run(ast, target, &opts, options);
}

} // namespace tolk::codegen
