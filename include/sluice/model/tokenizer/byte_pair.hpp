// SPDX-License-Identifier: Apache-2.0
// BytePairMerges: merges the adjacent pair with the lowest rank until no pair can be merged, in O(n log n).
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace sluice {

/// The result of merging a pair, and the pair's rank. The pair with the lowest rank is merged first; of pairs with
/// equal rank, the leftmost.
struct Merge {
  std::int32_t rank = 0;
  std::int32_t result = 0;

  friend bool operator==(const Merge&, const Merge&) = default;
};

/// The merges of a vocabulary (Sennrich et al., 2016, and every tokenizer.json of model type BPE).
///
/// An open hash table with 16 bytes per slot: merging consists mostly of lookups, and std::unordered_map took four
/// times the memory for 280,000 merges.
class BytePairMerges {
 public:
  explicit BytePairMerges(std::size_t count = 0) {
    std::size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    slots_.resize(slots);
  }

  /// If a pair is added twice, the last one wins, as in Hugging Face's tokenizers.
  void add(std::int32_t left, std::int32_t right, Merge merge) {
    SLUICE_ASSERT(left >= 0 && right >= 0 && merge.rank >= 0, "non-negative tokens and rank");
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[slot_of(slots_, left, right)];
    count_ += slot.left < 0 ? 1U : 0U;
    slot = {left, right, merge};
  }

  [[nodiscard]] std::optional<Merge> find(std::int32_t left, std::int32_t right) const {
    const Slot& slot = slots_[slot_of(slots_, left, right)];
    if (slot.left < 0) return std::nullopt;
    return slot.merge;
  }

  [[nodiscard]] std::size_t count() const { return count_; }

  /// Memory that calls of `join` reuse.
  struct Workspace {
    struct Symbol {
      std::int32_t token = 0;
      std::int32_t before = -1;
      std::int32_t after = -1; ///< -1: the last
      bool there = true;
    };
    struct Candidate {
      std::int32_t rank = 0;
      std::int32_t left = 0; ///< the pair of this symbol and the one after it
      friend auto operator<=>(const Candidate&, const Candidate&) = default;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  /// Merges `tokens` from index `first` on, in place. A priority queue over a linked list: an outdated candidate stays
  /// in the queue and is recognised by its rank, which is unique to its pair.
  void join(std::vector<std::int32_t>& tokens, std::size_t first, Workspace& workspace) const {
    const std::size_t count = tokens.size() - first;
    if (count < 2) return;
    SLUICE_ASSERT(count <= INT32_MAX, "at most INT32_MAX tokens");
    auto& symbols = workspace.symbols;
    auto& queue = workspace.queue;
    symbols.clear();
    queue.clear();
    const auto last = static_cast<std::int32_t>(count) - 1;
    for (std::int32_t i = 0; i <= last; ++i)
      symbols.push_back({tokens[first + static_cast<std::size_t>(i)], i - 1, i < last ? i + 1 : -1, true});
    const auto symbol = [&](std::int32_t at) -> Workspace::Symbol& { return symbols[static_cast<std::size_t>(at)]; };
    const auto merge_at = [&](std::int32_t left) -> std::optional<Merge> {
      if (left < 0 || !symbol(left).there || symbol(left).after < 0) return std::nullopt;
      return find(symbol(left).token, symbol(symbol(left).after).token);
    };
    for (std::int32_t i = 0; i < last; ++i)
      if (const auto merge = merge_at(i)) queue.push_back({merge->rank, i});
    std::make_heap(queue.begin(), queue.end(), std::greater<>{});
    const auto propose = [&](std::int32_t left) {
      const auto merge = merge_at(left);
      if (!merge) return;
      queue.push_back({merge->rank, left});
      std::push_heap(queue.begin(), queue.end(), std::greater<>{});
    };

    while (!queue.empty()) {
      std::pop_heap(queue.begin(), queue.end(), std::greater<>{});
      const Workspace::Candidate best = queue.back();
      queue.pop_back();
      const auto merge = merge_at(best.left);
      if (!merge || merge->rank != best.rank) continue;
      Workspace::Symbol& left = symbol(best.left);
      Workspace::Symbol& right = symbol(left.after);
      left.token = merge->result;
      right.there = false;
      left.after = right.after;
      if (left.after >= 0) symbol(left.after).before = best.left;
      propose(left.before);
      propose(best.left);
    }

    std::size_t out = first;
    for (std::int32_t i = 0; i >= 0; i = symbol(i).after) tokens[out++] = symbol(i).token;
    tokens.resize(out);
  }

 private:
  struct Slot {
    std::int32_t left = -1; ///< -1: empty
    std::int32_t right = -1;
    Merge merge;
  };

  /// Where the pair is, or would be inserted. The multiplier is 2^64 over the golden ratio (Fibonacci hashing).
  static std::size_t slot_of(const std::vector<Slot>& slots, std::int32_t left, std::int32_t right) {
    const std::uint64_t key =
        (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) | static_cast<std::uint32_t>(right);
    const std::uint64_t mixed = (key ^ (key >> 29U)) * 0x9E3779B97F4A7C15U;
    std::size_t at = static_cast<std::size_t>(mixed >> 20U) & (slots.size() - 1);
    while (slots[at].left >= 0 && (slots[at].left != left || slots[at].right != right))
      at = (at + 1) & (slots.size() - 1);
    return at;
  }

  void grow() {
    std::vector<Slot> larger(2 * slots_.size());
    for (const Slot& slot : slots_)
      if (slot.left >= 0) larger[slot_of(larger, slot.left, slot.right)] = slot;
    slots_.swap(larger);
  }

  std::vector<Slot> slots_; ///< a power of two, at most half full
  std::size_t count_ = 0;
};

} // namespace sluice
