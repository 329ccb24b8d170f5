// The code generator: turns the AST of a scheduled kernel into linearized kernel IR with launch metadata.
//
//   Kernel k = codegen::compile(ast, target, {.threads = 2});
//   verify(k.ir);                      // the input of renderers and of the interpreter
//   std::string name = k.info.name;    // launch metadata: name, parameters, grid
//
// The kernel AST: SINK over END(STORE(PARAM, index, value [, gate]), RANGE...), with REDUCE(value, RANGE...)
// inside values; END is absent where there are no loops. Indices and gates are Index and bool expressions
// with floor semantics. Axis ids are unique in the kernel.
#pragma once

#include <string>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/codegen/opt/opt.h"
#include "tolk/codegen/target.h"
#include "tolk/kernel/kernel_ir.h"
#include "tolk/kernel/program_info.h"
#include "tolk/uop/uop.h"

namespace tolk::codegen {

struct Options {
  bool no_opt = false; // skip every optimisation: the simple, slow form
  int threads = 1;     // threads that a launch may use
};

struct Kernel {
  KernelIR ir;
  ProgramInfo info;
};

// Compiles one kernel. A pure function of its arguments: the same AST gives the same kernel in every process.
// Thread-safe; each call allocates its nodes in a private arena.
// Throws InternalError, with the node printed, for an AST that breaks the form above and for what the target
// cannot do.
TOLK_API Kernel compile(const UOp& ast, const Target& target, const Options& options = {});

// The same with the optimisations given instead of chosen. Throws InvalidArgument when one of them does not
// fit.
TOLK_API Kernel compile_with(const UOp& ast, const Target& target, const std::vector<Opt>& opts,
                             const Options& options = {});

} // namespace tolk::codegen
