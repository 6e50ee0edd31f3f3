// SPDX-License-Identifier: Apache-2.0
// BlockPool: which blocks of one memory are free.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

/// Consecutive blocks of one memory.
struct BlockRange {
  std::size_t first = 0, count = 0;
  [[nodiscard]] std::size_t end() const { return first + count; }
};

/// Numbered blocks, free ones as bits. Blocks are handed out in runs of neighbours, so that blocks of one table lie
/// together and cross the link as one copy.
class BlockPool {
 public:
  /// Which blocks are handed out first: the lowest, or those behind the last. A device's blocks come in turn: a layer's
  /// blocks are free as soon as it is launched, and a copy into them would wait until it has been computed.
  enum class Order : std::uint8_t { lowest, in_turn };

  BlockPool(std::size_t blocks, Order order)
      : size_(blocks),
        order_(order),
        free_((blocks + bits - 1) / bits),
        withheld_(free_.size()),
        moving_(free_.size()),
        any_((free_.size() + bits - 1) / bits) {
    give_back({0, blocks});
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  /// Blocks that are neither free nor withheld.
  [[nodiscard]] std::size_t used() const { return size_ - free_count_ - withheld_count_; }
  [[nodiscard]] bool is_free(std::size_t block) const { return test(free_, block); }
  [[nodiscard]] bool is_withheld(std::size_t block) const { return test(withheld_, block); }
  /// Whether the block is in a transfer.
  [[nodiscard]] bool is_moving(std::size_t block) const { return test(moving_, block); }

  /// Takes up to `most` neighbouring blocks, from `wanted` on if that one is free. Count 0: none is free.
  [[nodiscard]] BlockRange take(std::size_t most, std::size_t wanted = ~std::size_t{0}) {
    if (free_count_ == 0) return {};
    const std::size_t first = wanted < size_ && is_free(wanted) ? wanted : first_from(next_);
    const BlockRange range{first, run_from(first, most)};
    assign(free_, range, false);
    for (std::size_t word = first / bits; word <= (range.end() - 1) / bits; ++word)
      if (free_[word] == 0) any_[word / bits] &= ~bit(word);
    free_count_ -= range.count;
    if (order_ == Order::in_turn) next_ = range.end() < size_ ? range.end() : 0;
    return range;
  }
  void give(const BlockRange& range) {
    SLUICE_ASSERT(!is_withheld(range.first) && !is_moving(range.first), "a block in use that does not move");
    give_back(range);
  }
  void set_moving(const BlockRange& range, bool moving) { assign(moving_, range, moving); }

  /// Takes free blocks out of use. False, with nothing changed, if one of them is not free.
  bool withhold(const BlockRange& range) {
    for (std::size_t block = range.first; block < range.end(); ++block)
      if (!is_free(block)) return false;
    assign(free_, range, false);
    for (std::size_t word = range.first / bits; word <= (range.end() - 1) / bits; ++word)
      if (free_[word] == 0) any_[word / bits] &= ~bit(word);
    free_count_ -= range.count;
    assign(withheld_, range, true);
    withheld_count_ += range.count;
    return true;
  }
  void put_back(const BlockRange& range) {
    if (range.count == 0) return;
    SLUICE_ASSERT(is_withheld(range.first), "blocks that were withheld");
    assign(withheld_, range, false);
    withheld_count_ -= range.count;
    give_back(range);
  }
  /// Takes a free block outside a range; nothing if there is none.
  [[nodiscard]] std::optional<std::size_t> take_outside(const BlockRange& range) {
    for (std::size_t block = 0; block < size_; ++block) {
      if (block == range.first) block = range.end();
      if (block < size_ && is_free(block)) return take(1, block).first;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t bits = 64;
  using Words = std::vector<std::uint64_t>;

  static std::uint64_t bit(std::size_t at) { return std::uint64_t{1} << (at % bits); }
  static bool test(const Words& words, std::size_t at) { return (words[at / bits] & bit(at)) != 0; }
  /// The first free block from `start` on, or from 0 on; there is one.
  [[nodiscard]] std::size_t first_from(std::size_t start) const {
    std::size_t word = start / bits;
    if (const std::uint64_t rest = free_[word] & ~(bit(start) - 1); rest != 0)
      return word * bits + static_cast<std::size_t>(std::countr_zero(rest));
    std::size_t group = ++word / bits;
    std::uint64_t words = group < any_.size() ? any_[group] & ~(bit(word) - 1) : 0;
    while (words == 0) {
      group = group + 1 < any_.size() ? group + 1 : 0;
      words = any_[group];
    }
    word = group * bits + static_cast<std::size_t>(std::countr_zero(words));
    return word * bits + static_cast<std::size_t>(std::countr_zero(free_[word]));
  }
  /// How many free blocks follow from `first` on, at most `most`.
  [[nodiscard]] std::size_t run_from(std::size_t first, std::size_t most) const {
    std::size_t count = 0;
    for (std::size_t at = first; count < most && at < size_;) {
      const std::size_t in_word = bits - at % bits;
      const auto run = static_cast<std::size_t>(std::countr_one(free_[at / bits] >> (at % bits)));
      count += std::min(run, in_word);
      if (run < in_word) break;
      at += in_word;
    }
    return std::min(count, most);
  }
  static void assign(Words& words, const BlockRange& range, bool value) {
    for (std::size_t at = range.first; at < range.end();) {
      const std::size_t in_word = std::min(bits - at % bits, range.end() - at);
      const std::uint64_t mask = (in_word == bits ? ~std::uint64_t{0} : bit(in_word) - 1) << (at % bits);
      words[at / bits] = value ? words[at / bits] | mask : words[at / bits] & ~mask;
      at += in_word;
    }
  }
  void give_back(const BlockRange& range) {
    if (range.count == 0) return;
    assign(free_, range, true);
    assign(any_, {range.first / bits, (range.end() - 1) / bits - range.first / bits + 1}, true);
    free_count_ += range.count;
  }

  std::size_t size_;
  Order order_;
  std::size_t next_ = 0;           ///< where the search begins
  Words free_, withheld_, moving_; ///< a bit per block
  Words any_;                      ///< a bit per word of `free_`: it has one
  std::size_t free_count_ = 0, withheld_count_ = 0;
};

} // namespace sluice
