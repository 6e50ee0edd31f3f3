// SPDX-License-Identifier: Apache-2.0
// BytePairMerges: merges the adjacent pair with the lowest rank until no pair can be merged, in O(n log n).
#pragma once

#include "sluice/core/compiled.hpp"

#include <cstddef>
#include <cstdint>
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
  explicit BytePairMerges(std::size_t count = 0);

  /// If a pair is added twice, the last one wins, as in Hugging Face's tokenizers.
  void add(std::int32_t left, std::int32_t right, Merge merge);

  [[nodiscard]] std::optional<Merge> find(std::int32_t left, std::int32_t right) const;

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
  void join(std::vector<std::int32_t>& tokens, std::size_t first, Workspace& workspace) const;

 private:
  struct Slot {
    std::int32_t left = -1; ///< -1: empty
    std::int32_t right = -1;
    Merge merge;
  };

  /// Where the pair is, or would be inserted. The multiplier is 2^64 over the golden ratio (Fibonacci hashing).
  static std::size_t slot_of(const std::vector<Slot>& slots, std::int32_t left, std::int32_t right);

  void grow();

  std::vector<Slot> slots_; ///< a power of two, at most half full
  std::size_t count_ = 0;
};

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/byte_pair.inl.hpp"
#endif
