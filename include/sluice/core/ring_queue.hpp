// SPDX-License-Identifier: Apache-2.0
// RingQueue: a first-in, first-out queue that keeps its memory.
#pragma once

#include "sluice/core/assert.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace sluice {

/// A queue that allocates only when it grows beyond its longest length so far. (std::deque allocates and frees chunks
/// all the time.)
template <class T>
class RingQueue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The `i`th from the front.
  [[nodiscard]] T& operator[](std::size_t i) { return all_[(first_ + i) % all_.size()]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return all_[(first_ + i) % all_.size()]; }
  [[nodiscard]] T& front() {
    SLUICE_ASSERT(!empty(), "a queue with something in it");
    return all_[first_];
  }
  [[nodiscard]] T& back() {
    SLUICE_ASSERT(!empty(), "a queue with something in it");
    return (*this)[size_ - 1];
  }
  void push_back(T one) {
    if (size_ == all_.size()) grow();
    all_[(first_ + size_++) % all_.size()] = std::move(one);
  }
  /// Adds one at the back, in the state that an earlier one has left: for large ones, which would be copied.
  [[nodiscard]] T& add() {
    if (size_ == all_.size()) grow();
    return (*this)[size_++];
  }
  void pop_front() {
    SLUICE_ASSERT(!empty(), "a queue with something in it");
    first_ = (first_ + 1) % all_.size();
    --size_;
  }
  void clear() { first_ = size_ = 0; }

 private:
  void grow() {
    std::vector<T> larger(all_.empty() ? 8 : 2 * all_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    all_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> all_;
  std::size_t first_ = 0, size_ = 0;
};

} // namespace sluice
