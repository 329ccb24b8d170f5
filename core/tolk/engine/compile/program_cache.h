// Compiled kernels on disk, keyed by what they are compiled from: the kernel's graph, the settings that change code,
// the device's target, and this build of Tolk. Metadata that a file has of a kernel is no part of the key, so a hit is
// what this user's own Tolk compiled from the graph.
//
// A kernel has two entries: metadata and code by the graph, so that a hit is one file, and the code by the source text, which
// is still valid when another build of Tolk renders the same text. Keys are hashes, and an entry stores the hashed
// bytes: a graph or text built to collide with another one is a miss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tolk/device/device.h"
#include "tolk/engine/compile/program_table.h"

namespace tolk::engine {

// Whether kernels for the device's target are text. For others a hit saves only code generation, so only saved
// captures use this cache for them.
bool has_text(const Device& on);

// An entry for the device's target, without code.
ProgramEntry entry_for(Device& on, const UOp& sink, bool may_alias);

// The kernel's PROGRAM node, loaded on the device; null where the cache has none or the device refuses its
// bytes. Null always with CCACHE=0. `codegen_digest`: codegen::Target::digest of the target.
UOp cached_program(Device& on, const UOp& sink, bool may_alias, uint64_t codegen_digest);
// Stores a result of to_program, and nothing else: later processes run it without a further check.
void cache_program(Device& on, const UOp& program, uint64_t codegen_digest);

// The compiled bytes of a source text for the entry's target and flags.
std::optional<std::string> cached_code(const ProgramEntry& entry, const std::string& text);
void cache_code(const ProgramEntry& entry, const std::string& text, const std::string& code);

} // namespace tolk::engine
