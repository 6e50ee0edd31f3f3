// SPDX-License-Identifier: Apache-2.0
// LeafHeap: the leaves of a prefix tree, the least worthy first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// A binary heap whose owner knows where each block's leaf is: `place(block)` is a reference to it, which the heap
/// writes when a leaf moves. A leaf has what orders it, so that no other memory is read.
class LeafHeap {
 public:
  struct Leaf {
    double worth = 0;
    std::uint32_t time = 0; ///< of equals the oldest is the least
    std::uint32_t block = 0;
  };

  void reserve(std::size_t leaves) { leaves_.reserve(leaves); }
  [[nodiscard]] bool empty() const { return leaves_.empty(); }
  [[nodiscard]] const Leaf& least() const { return leaves_.front(); }
  /// The least of all leaves but that of `block`; null: there is none.
  [[nodiscard]] const Leaf* least_but(std::uint32_t block) const {
    if (leaves_.empty()) return nullptr;
    if (leaves_.front().block != block) return &leaves_.front();
    if (leaves_.size() == 1) return nullptr;
    return &leaves_[leaves_.size() > 2 && before(leaves_[2], leaves_[1]) ? 2 : 1];
  }
  template <class Place>
  void add(const Leaf& leaf, const Place& place) {
    leaves_.emplace_back();
    move(leaves_.size() - 1, leaf, place);
  }
  template <class Place>
  void remove(std::size_t at, const Place& place) {
    const Leaf last = leaves_.back();
    leaves_.pop_back();
    if (at < leaves_.size()) move(at, last, place);
  }
  /// `leaf` takes the place `at` of another one, or of itself, and goes from there to where it belongs.
  template <class Place>
  void move(std::size_t at, const Leaf leaf, const Place& place) {
    const auto set = [&](std::size_t to, const Leaf& one) {
      leaves_[to] = one;
      place(one.block) = static_cast<std::uint32_t>(to);
    };
    for (; at > 0 && before(leaf, leaves_[(at - 1) / 2]); at = (at - 1) / 2) set(at, leaves_[(at - 1) / 2]);
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= leaves_.size()) break;
      if (child + 1 < leaves_.size() && before(leaves_[child + 1], leaves_[child])) ++child;
      if (!before(leaves_[child], leaf)) break;
      set(at, leaves_[child]);
      at = child;
    }
    set(at, leaf);
  }
  [[nodiscard]] std::size_t bytes() const { return leaves_.capacity() * sizeof(Leaf); }

 private:
  [[nodiscard]] static bool before(const Leaf& a, const Leaf& b) {
    return a.worth != b.worth ? a.worth < b.worth : a.time < b.time;
  }

  std::vector<Leaf> leaves_;
};

} // namespace sluice
