// Which work-items accessed each element of a storage, to report races: two work-items access one element, one of them
// writes it, and no barrier stands between. Writing the value that is there already is no race: tiles may overlap.
#pragma once

#include <cstdint>
#include <vector>

namespace tolk_interp {

class Accesses {
public:
  static constexpr uint64_t kMaxElements = uint64_t{1} << 24; // larger storage is not watched
  static constexpr uint32_t kNobody = 0, kSeveral = UINT32_MAX;

  // `count` elements, not accessed yet; 0: nothing is watched.
  explicit Accesses(uint64_t count) : marks_(count <= kMaxElements ? count : 0) {}

  bool watched() const { return !marks_.empty(); }
  // Accesses so far happen before those that follow.
  void barrier() { ++epoch_; }

  // Enters an access by a work-item (1 and up). Gives the work-item that it races with, kNobody when it does not.
  uint32_t read(uint64_t element, uint32_t item) {
    Mark& mark = current(element);
    mark.reader = mark.reader == kNobody || mark.reader == item ? item : kSeveral;
    return mark.writer == item ? kNobody : mark.writer;
  }
  uint32_t write(uint64_t element, uint32_t item) {
    Mark& mark = current(element);
    uint32_t other = mark.writer != kNobody && mark.writer != item ? mark.writer
                     : mark.reader != item                         ? mark.reader
                                                                   : kNobody;
    mark.writer = item;
    return other;
  }

private:
  struct Mark {
    uint32_t writer = kNobody, reader = kNobody, epoch = 0;
  };
  Mark& current(uint64_t element) {
    Mark& mark = marks_[element];
    if (mark.epoch != epoch_) mark = {kNobody, kNobody, epoch_};
    return mark;
  }

  std::vector<Mark> marks_;
  uint32_t epoch_ = 0;
};

} // namespace tolk_interp
