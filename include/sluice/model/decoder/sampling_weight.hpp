// SPDX-License-Identifier: Apache-2.0
// The whole numbers used for sampling: a token's weight, its place in the order, and the sum that a prefix must reach.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice {

/// A probability is a whole number of units of 2^-44 of the likeliest token's, so that sums are exact: a CPU that adds
/// them one by one and a GPU that adds them in any order choose the same token. For the same reason every step from
/// logit to weight is the same on all machines: a difference and a product of doubles, each rounded once with nothing
/// in between that a compiler may contract, then whole numbers. Two libraries' `exp` differ in the last bit. The
/// functions here are constexpr and take plain types, because a kernel calls them too.
inline constexpr int sampling_weight_bits = 44;

/// A vocabulary must have fewer tokens: the sum of their weights then fits into 64 bits.
inline constexpr std::int64_t sampling_most_tokens = std::int64_t{1} << 20;

namespace detail {

/// The upper half of the product.
[[nodiscard]] constexpr std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b >> 64);
}

} // namespace detail

/// 2^(-i / 256) in units of 2^-63, for i in 0 .. 255: the table that `sampling_weight` uses.
[[nodiscard]] constexpr std::uint64_t sampling_power(int i) {
  // 2^(-1/256), 2^(-1/128), ..., 2^(-1/2) in units of 2^-64.
  const std::uint64_t roots[8] = {0xff4ecb59511ec8a5U, 0xfe9e115c7b8f884cU, 0xfd3e0c0cf486c175U, 0xfa83b2db722a033aU,
                                  0xf5257d152486cc2cU, 0xeac0c6e7dd24392fU, 0xd744fccad69d6af4U, 0xb504f333f9de6484U};
  std::uint64_t power = std::uint64_t{1} << 63;
  for (int bit = 0; bit < 8; ++bit) {
    if ((i >> bit & 1) != 0) power = detail::high_product(power, roots[bit]);
  }
  return power;
}

/// The factor for differences of logits: log2(e) / temperature, in units of 2^-57.
[[nodiscard]] constexpr double sampling_scale(double temperature) {
  const double scale = 0x1.71547652b82fep0 / temperature * 0x1p57;
  return scale < 1e300 ? scale : 1e300; // 0 times infinity is not a number
}

/// exp(-(largest - logit) / temperature) in units of 2^-44, at most one off the nearest; 0 if it is below 2^-45.
/// `below`: largest - logit as a double; the weight is 0 if it is infinite or NaN. `scale`: `sampling_scale`.
/// `powers[i]`: `sampling_power(i)`.
template <class Powers>
[[nodiscard]] constexpr std::uint64_t sampling_weight(double below, double scale, const Powers& powers) {
  const double exponent = below * scale;
  if (!(exponent < 45 * 0x1p57)) return 0;
  const auto fixed = static_cast<std::uint64_t>(static_cast<std::int64_t>(exponent)); // whole part, 8 bits, 49 bits
  // exp(-u) = 1 - u + u^2/2 - u^3/6 + u^4/24, with u = ln 2 times the 49 bits: below 2^-8.5. In units of 2^-72.
  const std::uint64_t u = detail::high_product(fixed << 15, 0xb17217f7d1cf79acU);
  const std::uint64_t high = u >> 32;                                    // u in units of 2^-40
  const std::uint64_t square = high * high;                              // 2^-80
  const std::uint64_t cube = ((square >> 32) * high) >> 32;              // 2^-56
  const std::uint64_t third = cube * 715827883U >> 16;                   // / 6
  const std::uint64_t fourth = ((cube * high) >> 32) * 178956971U >> 24; // / 24
  const std::uint64_t missing = u - (square >> 9) + third - fourth;      // 1 - exp(-u)
  const std::uint64_t power = powers[static_cast<int>(fixed >> 49 & 255U)];
  const std::uint64_t whole = power - (detail::high_product(power, missing) >> 8);
  const auto shift = static_cast<int>(fixed >> 57) + 63 - sampling_weight_bits;
  return (whole + (std::uint64_t{1} << (shift - 1))) >> shift;
}

/// The order of tokens, likeliest first, as a number: it rises as the logit falls, and is equal for equal logits (also
/// for 0 and -0). A NaN comes after every number, -infinity included: a NaN is a caller's mistake, but never wins
/// against a number.
[[nodiscard]] constexpr std::uint32_t sampling_key(float logit) {
  if (logit != logit) return 0xffffffffU;
  const auto bits = std::bit_cast<std::uint32_t>(logit == 0 ? 0.0F : logit);
  return (bits & 0x80000000U) != 0 ? bits : ~(bits | 0x80000000U);
}

/// The same order with ties broken by ascending token: no two tokens are equal.
[[nodiscard]] constexpr std::uint64_t sampling_place(float logit, std::int64_t token) {
  return static_cast<std::uint64_t>(sampling_key(logit)) << 32 | static_cast<std::uint64_t>(token);
}

/// `top_p` in units of 2^-53, rounded up.
[[nodiscard]] constexpr std::uint64_t sampling_share(double top_p) {
  const double units = top_p * 0x1p53;
  const auto whole = static_cast<std::uint64_t>(units);
  return static_cast<double>(whole) < units ? whole + 1 : whole;
}

/// The sum that a prefix of tokens must reach to be the nucleus: `share` (`sampling_share`) of the total, rounded up.
[[nodiscard]] constexpr std::uint64_t sampling_nucleus(std::uint64_t share, std::uint64_t total) {
  const std::uint64_t low = share * total;
  return (detail::high_product(share, total) << 11 | low >> 53) + ((low & ((std::uint64_t{1} << 53) - 1)) != 0 ? 1 : 0);
}

/// The sum that the shortest prefix ending in the drawn token must reach: it exceeds `draw` 2^-53 of the total. `draw`:
/// below 2^53.
[[nodiscard]] constexpr std::uint64_t sampling_target(std::uint64_t draw, std::uint64_t total) {
  return (detail::high_product(draw, total) << 11 | (draw * total) >> 53) + 1;
}

} // namespace sluice
