// Compiled kernels in a file: what saved_capture.cpp writes of each PROGRAM.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tolk/base/packed.h"
#include "tolk/engine/compile/program_table.h"

namespace tolk::engine {

// What kernels were compiled for, each once: a program is only usable where the key is the same.
struct SavedTarget {
  std::string device;
  uint32_t index = 0;
  std::string key; // Device::compiler_key
  bool operator==(const SavedTarget&) const = default;
};
using SavedTargets = std::vector<SavedTarget>;

struct SavedProgram {
  ProgramEntry entry; // its device as saved
};

// `place` and `node` write and read nodes by a number that means the same on both sides; null is one of them.
void write_program(PackWriter& out, const ProgramEntry& entry, SavedTargets& targets,
                   const std::function<int64_t(const UOp&)>& place);
SavedProgram read_program(PackReader& in, const SavedTargets& targets,
                          const std::function<UOp(PackReader&)>& node);
void write_targets(PackWriter& out, const SavedTargets& targets);
SavedTargets read_targets(PackReader in);

// Whether kernels must be compiled anew for the settings in force, given those of the save
// (Config::codegen_text; empty: unknown). Warns of a setting that cannot reach a saved capture.
bool other_code_wanted(const std::string& saved);

// The PROGRAM node, when its device here has the target that it was compiled for and takes the code. Null
// otherwise: compile it from its graph.
UOp reusable(const SavedProgram& program);

} // namespace tolk::engine
