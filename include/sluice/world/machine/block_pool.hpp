// SPDX-License-Identifier: Apache-2.0
// BlockPool: which blocks of one memory are free. BlockRange, BlockBits: ranges of blocks, and a bit for each.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <atomic>
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

/// A bit per block. Whole words are read and written at once, so a range of blocks costs little more than one.
class BlockBits {
 public:
  static constexpr std::size_t word_bits = 64;

  explicit BlockBits(std::size_t blocks) : words_((blocks + word_bits - 1) / word_bits) {}

  [[nodiscard]] std::size_t words() const { return words_.size(); }
  [[nodiscard]] std::uint64_t word(std::size_t at) const { return words_[at]; }
  [[nodiscard]] bool test(std::size_t block) const { return (words_[block / word_bits] & bit(block)) != 0; }
  void assign(const BlockRange& range, bool value) {
    for (std::size_t at = range.first; at < range.end();) {
      const std::size_t in_word = std::min(word_bits - at % word_bits, range.end() - at);
      const std::uint64_t mask = (in_word == word_bits ? ~std::uint64_t{0} : bit(in_word) - 1) << (at % word_bits);
      words_[at / word_bits] = value ? words_[at / word_bits] | mask : words_[at / word_bits] & ~mask;
      at += in_word;
    }
  }
  /// The first block from `start` on whose bit is set, or `end`.
  [[nodiscard]] std::size_t first_set(std::size_t start, std::size_t end) const {
    if (start >= end) return end;
    std::size_t word = start / word_bits;
    std::uint64_t bits = words_[word] & ~(bit(start) - 1);
    while (bits == 0) {
      if (++word * word_bits >= end) return end;
      bits = words_[word];
    }
    return std::min(end, word * word_bits + static_cast<std::size_t>(std::countr_zero(bits)));
  }
  /// The last block up to `block` whose bit is set; there is one.
  [[nodiscard]] std::size_t last_set(std::size_t block) const {
    std::size_t word = block / word_bits;
    std::uint64_t bits = words_[word] & (bit(block) | (bit(block) - 1));
    while (bits == 0) bits = words_[--word];
    return word * word_bits + word_bits - 1 - static_cast<std::size_t>(std::countl_zero(bits));
  }
  /// How many blocks follow from `first` on whose bits are set, at most `most`, of `size` blocks.
  [[nodiscard]] std::size_t run_from(std::size_t first, std::size_t most, std::size_t size) const {
    std::size_t count = 0;
    for (std::size_t at = first; count < most && at < size;) {
      const std::size_t in_word = word_bits - at % word_bits;
      const auto run = static_cast<std::size_t>(std::countr_one(words_[at / word_bits] >> (at % word_bits)));
      count += std::min(run, in_word);
      if (run < in_word) break;
      at += in_word;
    }
    return std::min(count, most);
  }

 private:
  static std::uint64_t bit(std::size_t at) { return std::uint64_t{1} << (at % word_bits); }

  std::vector<std::uint64_t> words_;
};

/// Numbered blocks, free ones as bits. Blocks are handed out in runs of neighbours, so that blocks of one table lie
/// together and cross the link as one copy.
class BlockPool {
 public:
  /// Which blocks are handed out first. A device's blocks come `in_turn`: a layer's blocks are free as soon as it is
  /// launched, and a copy into them would wait until it has been computed. A host's runs lie `apart`, with free blocks
  /// behind each: a table that grows block by block finds the next ones beside its own, and they all cross the link as
  /// one copy. (Without the gap a decode step over a link had a third more copies after 64 tokens.)
  enum class Order : std::uint8_t { in_turn, apart };
  static constexpr std::size_t gap = 16; ///< blocks behind a run that lies apart

  BlockPool(std::size_t blocks, Order order)
      : size_(blocks), order_(order), free_(blocks), withheld_(blocks), moving_(blocks), any_(free_.words()) {
    give_back({0, blocks});
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  /// Blocks that are neither free nor withheld.
  [[nodiscard]] std::size_t used() const { return size_ - free_count_ - withheld_count_; }
  [[nodiscard]] bool is_free(std::size_t block) const { return free_.test(block); }
  [[nodiscard]] bool is_withheld(std::size_t block) const { return withheld_.test(block); }
  /// Whether the block is in a transfer.
  [[nodiscard]] bool is_moving(std::size_t block) const { return moving_.test(block); }

  /// Takes up to `most` neighbouring blocks, from `wanted` on if that one is free. Count 0: none is free.
  [[nodiscard]] BlockRange take(std::size_t most, std::size_t wanted = ~std::size_t{0}) {
    if (free_count_ == 0) return {};
    const bool goes_on = wanted < size_ && is_free(wanted);
    const std::size_t first = goes_on ? wanted : first_from(next_);
    const BlockRange range{first, free_.run_from(first, most, size_)};
    take_out(range);
    const std::size_t end = range.end() + (order_ == Order::apart ? gap : 0);
    if (order_ == Order::in_turn || !goes_on || (next_ >= first && next_ < end)) next_ = end < size_ ? end : 0;
    return range;
  }
  void give(const BlockRange& range) {
    SLUICE_ASSERT(!is_withheld(range.first) && !is_moving(range.first), "a block in use that does not move");
    give_back(range);
  }
  void set_moving(const BlockRange& range, bool moving) { moving_.assign(range, moving); }

  /// Takes free blocks out of use. False, with nothing changed, if one of them is not free.
  bool withhold(const BlockRange& range) {
    if (free_.run_from(range.first, range.count, size_) < range.count) return false;
    take_out(range);
    withheld_.assign(range, true);
    withheld_count_ += range.count;
    return true;
  }
  void put_back(const BlockRange& range) {
    if (range.count == 0) return;
    SLUICE_ASSERT(is_withheld(range.first), "blocks that were withheld");
    withheld_.assign(range, false);
    withheld_count_ -= range.count;
    give_back(range);
  }
  /// Takes a free block outside a range; nothing if there is none.
  [[nodiscard]] std::optional<std::size_t> take_outside(const BlockRange& range) {
    std::size_t block = free_.first_set(0, range.first);
    if (block == range.first) block = free_.first_set(range.end(), size_);
    if (block >= size_) return std::nullopt;
    return take(1, block).first;
  }

 private:
  /// The first free block from `start` on, or from 0 on; there is one.
  [[nodiscard]] std::size_t first_from(std::size_t start) const {
    const std::size_t in_word = free_.first_set(start, std::min(size_, (start / bits + 1) * bits));
    if (in_word < size_ && is_free(in_word)) return in_word;
    std::size_t word = any_.first_set(start / bits + 1, free_.words());
    if (word == free_.words() || !any_.test(word)) word = any_.first_set(0, free_.words());
    return free_.first_set(word * bits, size_);
  }
  void take_out(const BlockRange& range) {
    free_.assign(range, false);
    for (std::size_t word = range.first / bits; range.count > 0 && word <= (range.end() - 1) / bits; ++word)
      if (free_.word(word) == 0) any_.assign({word, 1}, false);
    free_count_ -= range.count;
  }
  void give_back(const BlockRange& range) {
    if (range.count == 0) return;
    free_.assign(range, true);
    any_.assign({range.first / bits, (range.end() - 1) / bits - range.first / bits + 1}, true);
    free_count_ += range.count;
  }

  static constexpr std::size_t bits = BlockBits::word_bits;

  std::size_t size_;
  Order order_;
  std::size_t next_ = 0;               ///< where the search begins
  BlockBits free_, withheld_, moving_; ///< a bit per block
  BlockBits any_;                      ///< a bit per word of `free_`: it has one
  std::size_t free_count_ = 0, withheld_count_ = 0;
};

// DeviceMemory: how much of the device's memory is in use, to the byte.

/// The budget of the device's memory, from which weights, slots, KV blocks and buffers are taken. It only counts: the
/// device decides where the bytes lie. Any thread may call any member; it never gives out more than exists.
class DeviceMemory {
 public:
  explicit DeviceMemory(Bytes size) : size_(size.count()) { SLUICE_ASSERT(size.count() >= 0, "a size"); }

  /// Takes `bytes`; returns false, and takes nothing, if that much is not free.
  [[nodiscard]] bool take(Bytes bytes) {
    SLUICE_ASSERT(bytes.count() >= 0, "an amount");
    std::int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes.count() > size_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes.count(), std::memory_order_relaxed));
    const std::int64_t now = used + bytes.count();
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
    return true;
  }
  /// Returns all or part of the taken memory.
  void give(Bytes bytes) {
    [[maybe_unused]] const std::int64_t before = used_.fetch_sub(bytes.count(), std::memory_order_relaxed);
    SLUICE_ASSERT(bytes.count() >= 0 && bytes.count() <= before, "no more is given back than was taken");
  }

  [[nodiscard]] Bytes used() const { return Bytes{used_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Bytes peak() const { return Bytes{peak_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Bytes size() const { return Bytes{size_}; }
  [[nodiscard]] Bytes free() const { return size() - used(); }

 private:
  std::int64_t size_;
  std::atomic<std::int64_t> used_{0};
  std::atomic<std::int64_t> peak_{0};
};

} // namespace sluice
