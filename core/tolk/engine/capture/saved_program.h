// Compiled kernels in a file: what saved_capture.cpp writes of each PROGRAM.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/base/config.h"
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

// Entries have the device as saved. `place` and `node` write and read nodes by a number that means the same on both sides; null is one of them.
void write_program(PackWriter& out, const ProgramEntry& entry, SavedTargets& targets,
                   const std::function<int64_t(const UOp&)>& place);
// `with_code`: what is in the file besides the kernel's graph and launch, too.
ProgramEntry read_program(PackReader& in, const SavedTargets& targets,
                          const std::function<UOp(PackReader&)>& node, bool with_code);
void write_targets(PackWriter& out, const SavedTargets& targets);
SavedTargets read_targets(PackReader in);

// The settings `base`, with those of a Config::codegen_text where a setting that changes code has its default in
// `base`. Names that are no settings are skipped. Throws FormatError for a value that the setting cannot have.
Config with_codegen(const Config& base, std::string_view text);

// The settings to compile a saved capture's kernels with, given those of the save (Config::codegen_text; empty:
// unknown): those of the save where this process has the defaults. Warns of a setting that cannot reach a
// saved capture. Throws FormatError for text that is no settings.
Config settings_for_saved(const std::string& saved);

// The PROGRAM node with the code in the file: only for files whose code the user trusts. Null when the device has
// another target than it was compiled for, or refuses the code.
UOp trusted_program(const ProgramEntry& entry);

} // namespace tolk::engine
