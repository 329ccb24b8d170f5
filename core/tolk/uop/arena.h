// Private homes of nodes: bump-allocated, uncounted, freed together.
#pragma once

#include <cstddef>
#include <memory>

#include "tolk/uop/uop.h"

namespace tolk {

class TOLK_API Arena {
public:
  Arena();
  ~Arena(); // no handle into the arena may be used afterwards
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Ids of the arena's nodes are 0 .. size()-1: a pass's memo is a vector.
  size_t size() const;

  struct Impl;
  Impl& impl() { return *impl_; }

private:
  std::unique_ptr<Impl> impl_;
};

// Makes `arena` the place where this thread creates nodes until the end of the scope; scopes nest.
// GlobalScope does the same for the global table, to export a result.
class TOLK_API ArenaScope {
public:
  explicit ArenaScope(Arena* arena); // null: the global table
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

private:
  Arena* previous_;
};

// The thread's present arena, null for the global table.
TOLK_API Arena* current_arena();

// Rebuilds a graph, whole, in the thread's present home. Attachments stay behind. Equal graphs give the same
// node.
TOLK_API UOp import_graph(const UOp& root);

} // namespace tolk
