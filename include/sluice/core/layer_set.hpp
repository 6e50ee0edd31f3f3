// SPDX-License-Identifier: Apache-2.0
// LayerSet: a set of layers, as a bitset in two words.
#pragma once

#include "sluice/core/assert.hpp"

#include <bit>
#include <compare>
#include <cstdint>

namespace sluice {

/// The most layers a model may have (the largest open decoders have 126).
inline constexpr int max_layers = 128;

/// A set of layers, counted from 0, in two words. Plans have one per request and compare, merge and count them in every
/// step. Rejected: `std::bitset` (no word access, no iteration) and `std::vector<bool>`.
class LayerSet {
 public:
  constexpr LayerSet() = default;

  /// Layers 0 .. layers-1.
  static constexpr LayerSet all(int layers) {
    SLUICE_ASSERT(0 <= layers && layers <= max_layers, "a layer count between 0 and max_layers");
    LayerSet set;
    if (layers >= 64) {
      set.low_ = ~std::uint64_t{0};
      if (layers > 64) set.high_ = ~std::uint64_t{0} >> (128 - layers);
    } else {
      set.low_ = (std::uint64_t{1} << layers) - 1;
    }
    return set;
  }

  constexpr LayerSet& insert(int layer) {
    SLUICE_ASSERT(0 <= layer && layer < max_layers, "a layer between 0 and max_layers - 1");
    word(layer) |= bit(layer);
    return *this;
  }
  constexpr LayerSet& erase(int layer) {
    SLUICE_ASSERT(0 <= layer && layer < max_layers, "a layer between 0 and max_layers - 1");
    word(layer) &= ~bit(layer);
    return *this;
  }
  /// Whether `layer` is a member.
  [[nodiscard]] constexpr bool contains(int layer) const { return ((layer < 64 ? low_ : high_) & bit(layer)) != 0; }
  /// The number of members.
  [[nodiscard]] constexpr int count() const { return std::popcount(low_) + std::popcount(high_); }
  /// Whether there is no member.
  [[nodiscard]] constexpr bool empty() const { return (low_ | high_) == 0; }
  /// The members below `layer`.
  [[nodiscard]] constexpr LayerSet below(int layer) const { return *this & all(layer); }

  /// The highest member, or -1 if the set is empty. Layers are evicted from the back: the last one is needed last.
  [[nodiscard]] constexpr int highest() const {
    if (high_ != 0) return 127 - std::countl_zero(high_);
    return low_ != 0 ? 63 - std::countl_zero(low_) : -1;
  }
  /// The lowest member, or -1 if the set is empty.
  [[nodiscard]] constexpr int lowest() const {
    if (low_ != 0) return std::countr_zero(low_);
    return high_ != 0 ? 64 + std::countr_zero(high_) : -1;
  }

  /// Calls `visit(int layer)` for each member, in ascending order.
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    for (std::uint64_t rest = low_; rest != 0; rest &= rest - 1) visit(std::countr_zero(rest));
    for (std::uint64_t rest = high_; rest != 0; rest &= rest - 1) visit(64 + std::countr_zero(rest));
  }

  friend constexpr LayerSet operator|(LayerSet a, LayerSet b) { return LayerSet{a.low_ | b.low_, a.high_ | b.high_}; }
  friend constexpr LayerSet operator&(LayerSet a, LayerSet b) { return LayerSet{a.low_ & b.low_, a.high_ & b.high_}; }
  /// The members of `a` that are not in `b`.
  friend constexpr LayerSet operator-(LayerSet a, LayerSet b) { return LayerSet{a.low_ & ~b.low_, a.high_ & ~b.high_}; }
  friend constexpr auto operator<=>(const LayerSet&, const LayerSet&) = default;

  /// Layers 0 to 63, one bit each.
  [[nodiscard]] constexpr std::uint64_t low_word() const { return low_; }
  /// Layers 64 to 127.
  [[nodiscard]] constexpr std::uint64_t high_word() const { return high_; }

 private:
  constexpr LayerSet(std::uint64_t low, std::uint64_t high) : low_(low), high_(high) {}
  constexpr std::uint64_t& word(int layer) { return layer < 64 ? low_ : high_; }
  static constexpr std::uint64_t bit(int layer) { return std::uint64_t{1} << (layer & 63); }

  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};

} // namespace sluice
