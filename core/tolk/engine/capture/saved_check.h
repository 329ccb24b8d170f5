// The decoded contents of a saved capture, and their validation before a device is opened. A file with valid
// checksums may still be wrong: written by a faulty program, or edited.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tolk/engine/capture/capture.h"
#include "tolk/engine/capture/saved_program.h"

namespace tolk::engine {

struct StoredBuffer {
  SavedStorage facts;
  std::vector<std::string> contents; // of the shards; empty: none
};

struct SavedContents {
  UOp root;               // a SINK over the nodes
  std::vector<UOp> nodes; // the first is the LINEAR; the others are named by their position
  std::string device, settings;
  std::vector<JitName> names;
  std::vector<InputInfo> expected;
  std::vector<JitVariable> variables;
  bool with_code = true;              // `programs` have the code in the file, not their graphs alone
  std::vector<ProgramEntry> programs; // devices as remapped
  std::vector<StoredBuffer> buffers;
  std::vector<UOp> results;
  std::string note;
};

// Validates every number, size and dtype, and every graph by the rules of its stage. `remapped` gives the device that
// replaces one in the file. Throws FormatError that names the section. What kernels compute is not checked;
// bounded_kernel.h restricts where they read and write.
void check_saved(const SavedContents& contents,
                 const std::function<std::string(const std::string&)>& remapped);

} // namespace tolk::engine
