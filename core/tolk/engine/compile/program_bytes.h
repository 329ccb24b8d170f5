// A compiled kernel as bytes, without its graph: metadata, code, parameters. The compile cache and
// saved captures share this form.
#pragma once

#include "tolk/base/packed.h"
#include "tolk/engine/compile/program_table.h"

namespace tolk::engine {

void write_info(PackWriter& out, const ProgramInfo& info);
ProgramInfo read_info(PackReader& in);

// Flags, compiled bytes, kernel IR and parameters of an entry.
void write_code(PackWriter& out, const ProgramEntry& entry);
// Fills those fields of an entry whose `info` is known. Throws FormatError for bytes that no writer wrote, and
// for kernel IR that its verifier refuses.
void read_code(PackReader& in, ProgramEntry& entry);
// Reads past the same bytes.
void skip_code(PackReader& in);

} // namespace tolk::engine
