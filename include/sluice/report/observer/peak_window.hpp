// SPDX-License-Identifier: Apache-2.0
// PeakWindow: keeps the part of a long sequence around its most important item.
#pragma once

#include "sluice/core/assert.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace sluice {

/// Keeps at most `capacity` neighbouring items around the *peak*, which is known only when the sequence has ended. Up
/// to half of the items precede the peak, or more if fewer follow it. A sequence that fits is kept whole.
///
/// Holds at most 1.5 `capacity` items: the kept ones, and the latest half, which would precede another peak. Their
/// memory is reused. Rejected: two runs, one to find the peak and one to record its surroundings. They would double the
/// most expensive work and require a repeatable run, but a run on a real machine is not repeatable.
template <class T>
class PeakWindow {
 public:
  /// Returns a place for the next item. The caller must overwrite it, because it may hold an earlier item's data.
  /// `peak`: this item is more important than all earlier ones, as the first item always is.
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
  [[nodiscard]] std::int64_t seen() const { return seen_; } ///< number of all pushed items
  [[nodiscard]] auto begin() const { return kept_.begin(); }
  [[nodiscard]] auto end() const { return kept_.end(); }
  [[nodiscard]] const T& front() const { return kept_.front(); }
  [[nodiscard]] const T& back() const { return kept_.back(); }
  [[nodiscard]] const T& operator[](std::size_t i) const { return kept_[i]; }
  [[nodiscard]] const T& peak() const { return kept_[peak_]; }
  /// Returns the oldest item that may still be kept at the end.
  [[nodiscard]] const T& oldest() const { return kept_.front(); }

 private:
  /// Handles a new peak: the latest items replace the kept ones.
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
  T spare_{};                   ///< the next item reuses its memory
  std::size_t peak_ = 0;        ///< index in `kept_`
  std::int64_t seen_ = 0;
  bool closed_ = false; ///< `kept_` is full after the peak
  bool gap_ = false;    ///< items were dropped between `kept_` and `recent_`
};

} // namespace sluice
