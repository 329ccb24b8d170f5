// Compiled kernels as graph nodes. A PROGRAM node has the kernel's SINK as its source and a number as its
// arg: the index of an immutable entry in the process's table, with launch information and
// loadable code. Equal entries are one entry and so one node.
//
//   UOp program = program_node({.sink = sink, .device = "CPU", .info = info, .binary = bytes});
//   const ProgramEntry& entry = program_entry(program);
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/base/hash.h"
#include "tolk/codegen/codegen.h"
#include "tolk/device/program.h"
#include "tolk/engine/run/var_vals.h"
#include "tolk/kernel/program_info.h"
#include "tolk/uop/uop.h"

namespace tolk::engine {

struct ProgramEntry {
  UOp sink;           // the kernel's graph
  std::string device; // canonical name of the device that it was compiled for
  ProgramInfo info;   // sizes are upper bounds where the expressions below are set
  // Sizes that depend on variables, as Index expressions over VARs; null: the number in `info`. `global` is
  // info.grid, `local` info.local.
  std::array<UOp, 3> global, local;
  // The code leaves the work-group size open: the global sizes count work-items, and a launch uses groups of
  // one until optimize_local_size found a better size.
  bool local_free = false;
  // What a device loads: compiled bytes, or the kernel IR for targets that take it as it is.
  std::string binary;
  std::shared_ptr<const codegen::Kernel> kernel;
  std::vector<tolk_param> params;       // of the launch: buffers first, then values
  uint32_t target_index = 0, flags = 0; // of the device's targets; TOLK_SOURCE_*
  std::string target_key;               // Device::compiler_key of devices that can load the bytes
  bool may_alias = false;               // written arguments may overlap others
  ContentKey code_key;                  // of the loadable code; filled by program_node
  bool has_binary() const { return kernel != nullptr || !binary.empty(); }
};

// The node of an entry, which keeps the entry alive. Empty `params` are derived from `info`: buffers of
// unknown size, values with their ranges.
TOLK_API UOp program_node(ProgramEntry entry);
// The entry of a PROGRAM node. Throws InvalidArgument for another op, InternalError for a number that no
// entry has.
TOLK_API const ProgramEntry& program_entry(const UOp& program);
TOLK_API std::shared_ptr<const ProgramEntry> program_entry_ref(const UOp& program);
// The same program with other launch sizes.
TOLK_API UOp with_local_size(const UOp& program, const std::array<int64_t, 3>& local);
// The number of live entries.
TOLK_API size_t program_table_size();
// Drops entries without a node; for clear_caches.
void sweep_program_table();

struct LaunchDims {
  std::array<int64_t, 3> global{1, 1, 1};      // work-groups (work-items while local is unset)
  std::optional<std::array<int64_t, 3>> local; // unset: open
  bool empty() const { return global[0] == 0 || global[1] == 0 || global[2] == 0; }
  bool operator==(const LaunchDims&) const = default;
};
// Evaluates symbolic sizes. Throws InvalidArgument for a missing variable, naming it and the kernel, and for
// a negative size. A size of zero is legal: nothing runs.
TOLK_API LaunchDims launch_dims(const ProgramEntry& entry, const VarVals& var_vals);
// One value for each info.vars, in order; 0 for runtime variables. Throws InvalidArgument `unbound variable
// "n" used by <kernel>` and for a value outside the variable's range. Other variables are ignored.
TOLK_API std::vector<int64_t> vals(const ProgramInfo& info, const VarVals& var_vals);
// Variables that the launch sets itself (core_id), with their index in info.vars.
TOLK_API std::vector<std::pair<std::string, int>> runtimevars(const ProgramInfo& info);
TOLK_API bool is_runtime_variable(const std::string& name);

} // namespace tolk::engine
