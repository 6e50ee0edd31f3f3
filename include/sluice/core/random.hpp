// SPDX-License-Identifier: Apache-2.0
// Random: a seeded generator whose numbers are the same on every platform.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"

#include <bit>
#include <cstdint>

namespace sluice {

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), seeded by splitmix64.
///
/// Not std::mt19937_64 with the standard distributions: those are not specified to the bit, and the same seed must
/// give the same report everywhere. Satisfies std::uniform_random_bit_generator.
class Random {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15u;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }

  constexpr result_type operator()() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1), 53 bits.
  constexpr double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

  /// Uniform in 0 .. bound-1, without modulo bias (the rejection of arc4random_uniform).
  constexpr std::uint64_t below(std::uint64_t bound) {
    SLUICE_ASSERT(bound > 0, "a positive bound");
    const std::uint64_t threshold = (0 - bound) % bound;
    for (;;) {
      const std::uint64_t draw = (*this)();
      if (draw >= threshold) return draw % bound;
    }
  }

 private:
  std::uint64_t state_[4]{};
};

/// Random numbers that a request keeps for life: they depend on its id and `seed` alone.
[[nodiscard]] constexpr Random random_of(RequestId id, std::uint64_t seed) {
  return Random(seed + 0x9e3779b97f4a7c15u * (index(id) + 1));
}

} // namespace sluice
