// Reads what a shared library says about itself without running it: ELF header, section and segment bounds,
// and the record that TOLK_PLUGIN_STAMP left in the section .note.tolk.
#pragma once

#include <cstdint>
#include <string>

namespace tolk {

struct LibraryFacts {
  std::string problem;        // why it cannot be loaded; empty when it looks sound
  bool wrong_machine = false; // the problem is the processor
  bool stamped = false;
  std::string name; // from the stamp
  uint32_t abi_major = 0, abi_minor = 0, default_priority = 0;
};

// `fd` is open for reading; `size` is the file's. Every offset in the file is checked against it.
LibraryFacts read_library_facts(int fd, uint64_t size);

} // namespace tolk
