// SPDX-License-Identifier: Apache-2.0
// Random and Schedule: which of a block's threads runs next.
#pragma once

#include "emulate/sanitizers.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice::emulate {

/// Numbers from a seed (SplitMix64: Steele, Lea, Flood 2014). No standard engine, because a number is drawn at every
/// switch.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 0x1234567U) {}

  EMULATE_UNSEEN std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  /// 0 .. n - 1.
  EMULATE_UNSEEN std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(((*this)() >> 32U) * static_cast<std::uint64_t>(n) >> 32U);
  }
  EMULATE_UNSEEN bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

/// The runnable threads, and the draw among them. At most 1024, CUDA's limit.
///
/// A running warp is drawn again for a while. Each block draws how long, from almost no time to until the warp must
/// wait. Rejected: drawing from all threads at each switch. Warps then keep pace with one another, which hides errors
/// that need one warp far ahead, and a block's stacks push one another out of the cache.
class Schedule {
 public:
  void start(int threads, Random& random) {
    for (std::uint32_t& lanes : ready_) lanes = 0;
    warps_ = 0;
    warp_ = 0;
    constexpr std::uint64_t patience[] = {1, 7, 63, 1023, ~std::uint64_t{0} >> 1U};
    patience_ = patience[random.below(5)];
    for (int warp = 0; warp * 32 < threads; ++warp) add(warp, 0xffffffffU);
  }
  EMULATE_UNSEEN void add(int warp, std::uint32_t lanes) {
    ready_[warp] |= lanes;
    warps_ |= 1U << warp;
  }
  [[nodiscard]] EMULATE_UNSEEN bool empty() const { return warps_ == 0; }
  /// Takes one out. At least one must be ready.
  EMULATE_UNSEEN int draw(Random& random) {
    const std::uint64_t drawn = random();
    if ((warps_ >> warp_ & 1U) == 0 || (drawn >> 16U & patience_) == 0) warp_ = one_of(warps_, drawn);
    std::uint32_t& lanes = ready_[warp_];
    const unsigned lane = one_of(lanes, drawn >> 8U);
    lanes &= ~(1U << lane);
    if (lanes == 0) warps_ &= ~(1U << warp_);
    return static_cast<int>(warp_ * 32 + lane);
  }

 private:
  /// The first set bit at or after a drawn place, wrapping around.
  EMULATE_UNSEEN static unsigned one_of(std::uint32_t bits, std::uint64_t drawn) {
    const auto from = static_cast<unsigned>(drawn & 31U);
    const std::uint32_t turned = from == 0 ? bits : bits >> from | bits << (32U - from);
    return (static_cast<unsigned>(std::countr_zero(turned)) + from) & 31U;
  }

  std::uint32_t ready_[32] = {}; // runnable lanes of each warp
  std::uint32_t warps_ = 0;      // warps that have one
  std::uint64_t patience_ = 0;
  unsigned warp_ = 0;
};

} // namespace sluice::emulate
