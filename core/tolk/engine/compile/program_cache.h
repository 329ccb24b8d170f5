// Compiled kernels on disk, found by what they are compiled from: the kernel's graph, the settings that
// change code, the device's target, and this build of Tolk. Nothing that a file says about a kernel takes
// part, so what is found here is what this user's own Tolk compiles from the graph.
//
// Two entries for a kernel: facts and source text by the graph, compiled bytes by the source text. The second
// one still serves when another build of Tolk renders the same text. Keys are hashes, and an entry holds what
// its key was made of: a graph or text built to collide with another one is a miss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tolk/device/device.h"
#include "tolk/engine/compile/program_table.h"

namespace tolk::engine {

// Whether kernels for the device's target are text. For others nothing but code generation is saved, so only
// saved captures look for them here.
bool has_text(const Device& on);

// An entry for the device's target, without code.
ProgramEntry entry_for(Device& on, const UOp& sink, bool may_alias);

// The kernel's PROGRAM node, loaded on the device; null where the cache has none or the device refuses its
// bytes. Null always with CCACHE=0. `codegen_digest` is that of what code generation knows of the target.
UOp cached_program(Device& on, const UOp& sink, bool may_alias, uint64_t codegen_digest);
// Keeps what to_program made. Call it for nothing else: later processes run it without a further check.
void cache_program(Device& on, const UOp& program, uint64_t codegen_digest);

// What the plugin's compiler made of the entry's source.
std::optional<std::string> cached_code(const ProgramEntry& entry);
void cache_code(const ProgramEntry& entry, const std::string& code);

} // namespace tolk::engine
