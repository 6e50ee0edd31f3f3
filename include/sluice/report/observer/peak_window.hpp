// SPDX-License-Identifier: Apache-2.0
// PeakWindow: of a sequence too long to keep, the part around the item that matters most.
#pragma once

#include "sluice/core/assert.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace sluice {

/// Keeps at most `capacity` neighbouring items with the *peak* among them, of which nobody knows that it is the peak
/// until the sequence has ended: up to half of them before it, more only where there are fewer behind. A sequence that
/// fits is kept whole.
///
/// Holds at most three halves of `capacity` items: those kept, and the last half, which would come before another peak.
/// Their memory is used again. Rejected: running twice, first for the peak and then for what surrounds it, which
/// doubles the dearest thing there is here, and asks that a run can be repeated, which one on a machine cannot.
template <class T>
class PeakWindow {
 public:
  /// A place for the next item, to be overwritten: it may hold what an item before has left. `peak`: this one matters
  /// more than all before it. The first item always does.
  T& push(std::size_t capacity, bool peak) {
    SLUICE_ASSERT(capacity >= 2, "room for an item and a neighbour");
    const std::size_t before = capacity / 2;
    ++seen_;
    if (peak || kept_.empty()) {
      join();
      peak_ = kept_.size();
    } else if (closed_ || (kept_.size() >= capacity && peak_ <= before)) {
      closed_ = true;
      if (recent_.size() >= before) {
        drop_front(recent_);
        gap_ = true;
      }
      return add(recent_);
    }
    T& place = add(kept_);
    while (kept_.size() > capacity) {
      drop_front(kept_);
      --peak_;
    }
    return place;
  }

  [[nodiscard]] bool empty() const { return kept_.empty(); }
  [[nodiscard]] std::size_t size() const { return kept_.size(); }
  [[nodiscard]] std::int64_t seen() const { return seen_; } ///< all that were pushed
  [[nodiscard]] auto begin() const { return kept_.begin(); }
  [[nodiscard]] auto end() const { return kept_.end(); }
  [[nodiscard]] const T& front() const { return kept_.front(); }
  [[nodiscard]] const T& back() const { return kept_.back(); }
  [[nodiscard]] const T& operator[](std::size_t i) const { return kept_[i]; }
  [[nodiscard]] const T& peak() const { return kept_[peak_]; }
  /// The oldest item that may yet be among those kept at the end.
  [[nodiscard]] const T& oldest() const { return kept_.front(); }

 private:
  /// A new peak: what came last becomes what is kept.
  void join() {
    if (!closed_) return;
    if (gap_)
      while (!kept_.empty()) drop_front(kept_);
    for (T& item : recent_) kept_.push_back(std::move(item));
    recent_.clear();
    closed_ = gap_ = false;
  }
  void drop_front(std::deque<T>& items) {
    spare_ = std::move(items.front());
    items.pop_front();
  }
  T& add(std::deque<T>& items) {
    items.push_back(std::move(spare_));
    spare_ = T{};
    return items.back();
  }

  std::deque<T> kept_, recent_; ///< `recent_`: the last items, once `kept_` is closed
  T spare_{};                   ///< its memory is the next item's
  std::size_t peak_ = 0;        ///< in `kept_`
  std::int64_t seen_ = 0;
  bool closed_ = false; ///< `kept_` is full behind the peak
  bool gap_ = false;    ///< between `kept_` and `recent_`
};

} // namespace sluice
