// Items of a schedule that wait for each other because stores overwrite what others still have to read, and
// the copies that end that.
//
// Two things end a circle. An item that stores in place can put its value in a temporary first: its own reads
// are over then, and only the copy into place has to wait. Or old contents are copied, and their readers no
// longer wait with the store that ends them. With all stores and all old contents so treated no circle is
// left, since values alone depend on each other in one direction.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace tolk::schedule {

struct Wait {
  enum Why {
    Value,     // `then` computes from what `first` made
    Overwrite, // `then` overwrites what `first` made
    Old,       // `then` overwrites what `first` reads
  };
  int first, then; // two items
  Why why;
  // The number of the contents, when something overwrites them. Old: that `first` reads. Value: that `first`
  // made and `then` reads, -1 for temporaries.
  int state = -1;
};

constexpr double kNoStore = -1;

struct BrokenCircles {
  std::vector<int> through; // items that store through a temporary
  // Contents to read from a copy, and the readers that must. When there are some, `through` is left empty: to
  // be asked for again once these are gone.
  struct Copy {
    int state;
    std::vector<int> readers;
  };
  std::vector<Copy> copies;
};

// Bytes that a copy of the contents takes, of what the readers read of them.
using CopyBytes = std::function<double(int state, std::span<const int> readers)>;

// `stores`: by item, the bytes that it stores in place, or kNoStore. Chosen in rounds, for each circle, are
// those with the fewest bytes for each wait that they take out of it; the first of equals, stores before
// copies. Stores that turn out to be unnecessary are left out again. Both empty when there is no circle.
// No item may wait for itself.
BrokenCircles break_circles(std::vector<Wait> waits, std::span<const double> stores,
                            const CopyBytes& copy_bytes);

} // namespace tolk::schedule
