// SPDX-License-Identifier: Apache-2.0
// BlocksAside: blocks that evictions have passed because they stay, out of the lists from which blocks leave.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Each is of one list, and all of a list would leave before what is still in it, in the order in which they came here:
/// evictions pass a list from its oldest block on, and a block that is used again returns to its newest end. So those
/// that may leave again are found in exactly the order that they had, by a heap for each list: O(log n) for a block
/// that is freed, whatever else is here.
class BlocksAside {
 public:
  static constexpr std::uint32_t nobody = static_cast<std::uint32_t>(-1);

  /// Adds a block, which stays. Returns its place here.
  std::uint32_t add(std::uint32_t block, std::uint32_t list) {
    std::uint32_t place = unused_;
    if (place != nobody) {
      unused_ = ones_[place].block;
    } else {
      place = static_cast<std::uint32_t>(ones_.size());
      ones_.emplace_back();
    }
    ones_[place] = {++added_, block, list, false};
    ++size_;
    return place;
  }
  /// The block may leave from now on.
  void free(std::uint32_t place) {
    One& one = ones_[place];
    if (one.freed) return;
    one.freed = true;
    if (heaps_.size() <= one.list) heaps_.resize(one.list + 1);
    heaps_[one.list].push_back({one.number, place});
    std::push_heap(heaps_[one.list].begin(), heaps_[one.list].end(), later);
  }
  /// The first block of a list that may leave; `nobody` if there is none.
  [[nodiscard]] std::uint32_t first(std::uint32_t list) {
    if (list >= heaps_.size()) return nobody;
    for (std::vector<Freed>& heap = heaps_[list]; !heap.empty(); pop(heap))
      if (ones_[heap.front().place].number == heap.front().number) return ones_[heap.front().place].block;
    return nobody;
  }
  /// The `first` of its list stays after all.
  void keep_first(std::uint32_t place) {
    ones_[place].freed = false;
    pop(heaps_[ones_[place].list]);
  }
  /// The block is not here any more.
  void remove(std::uint32_t place) {
    ones_[place] = {0, unused_, 0, false}; // its number in a heap is passed over
    unused_ = place;
    --size_;
  }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t bytes = ones_.capacity() * sizeof(One);
    for (const std::vector<Freed>& heap : heaps_) bytes += heap.capacity() * sizeof(Freed);
    return bytes;
  }

 private:
  struct One {
    std::uint64_t number = 0; ///< the order in which they came; 0: the place is unused
    std::uint32_t block = 0;  ///< of an unused place: the next one
    std::uint32_t list = 0;
    bool freed = false; ///< it is in its list's heap
  };
  struct Freed {
    std::uint64_t number = 0;
    std::uint32_t place = 0;
  };
  static bool later(const Freed& a, const Freed& b) { return a.number > b.number; }
  static void pop(std::vector<Freed>& heap) {
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
  }

  std::vector<One> ones_;
  std::vector<std::vector<Freed>> heaps_; ///< by list
  std::uint64_t added_ = 0;
  std::size_t size_ = 0;
  std::uint32_t unused_ = nobody;
};

} // namespace sluice
