// Files that are cut short while they are mapped.
#pragma once

#include <atomic>
#include <cstddef>

namespace tolk::io {

// Watches a read-only mapping until the object goes. Where the file no longer reaches, reads give zeros instead of ending the
// process with SIGBUS, and cut_short() is true from then on. The constructor installs a handler for SIGBUS unless it is in
// place; the handler passes on what is not about a watched mapping. At most 256 mappings are watched; later ones behave as the system has it.
class TruncationWatch {
public:
  TruncationWatch(const void* base, size_t size);
  ~TruncationWatch();
  TruncationWatch(const TruncationWatch&) = delete;
  TruncationWatch& operator=(const TruncationWatch&) = delete;
  bool cut_short() const;

private:
  int slot_ = -1;
};

} // namespace tolk::io
