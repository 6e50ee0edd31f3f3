// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of row kernels: numbers of an element type, and the error of a result.
#pragma once

#include "sluice/core/random.hpp"

#include "emulate/launch.hpp"
#include "kernels/element.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif

namespace sluice::kernels {

/// There every CUDA thread is a thread, which takes longer, so tests do less.
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

/// Normally distributed (Box and Muller).
inline double normal(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(2 * std::numbers::pi * random.uniform());
}

template <Element T>
std::vector<T> normal_numbers(Random& random, std::size_t count, double scale = 1, double mean = 0) {
  std::vector<T> numbers(count);
  for (T& number : numbers) number = narrow<T>(static_cast<float>(mean + scale * normal(random)));
  return numbers;
}

/// Numbers that no kernel may read before it has written them.
template <Element T>
std::vector<T> no_numbers(std::size_t count) {
  std::vector<T> numbers(count);
  if (count > 0) std::memset(numbers.data(), 0xff, count * sizeof(T));
  return numbers;
}

template <Element T>
double exact(T number) {
  return static_cast<double>(widen(number));
}

/// |result - exact| / |exact|, in the Euclidean norm.
template <Element T>
double relative_error(std::span<const T> result, std::span<const double> expected) {
  REQUIRE(result.size() == expected.size());
  double off = 0, all = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double difference = exact(result[i]) - expected[i];
    off += difference * difference;
    all += expected[i] * expected[i];
  }
  return off == 0 ? 0 : std::sqrt(off / all);
}
template <Element T>
double relative_error(const std::vector<T>& result, const std::vector<double>& expected) {
  return relative_error(std::span<const T>{result}, std::span<const double>{expected});
}

/// The limits of relative L2 errors for all kernels.
template <Element T>
inline constexpr double error_limit = std::is_same_v<T, float> ? 1e-6
                                      : std::is_same_v<T, F16> ? 1e-3
                                                               : 4e-3;

template <Element T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}
template <Element T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return same_bits(std::span<const T>{a}, std::span<const T>{b});
}

/// Runs the kernel on all blocks that its parameters need.
template <Kernel K>
void run_emulated(const typename K::Params& params, std::uint64_t seed) {
  const Grid grid = K::grid(params);
  if (grid.x == 0 || grid.y == 0) return;
  const emulate::Report report = emulate::launch<K>(grid, params, seed);
  for (const std::string& error : report.errors) FAIL_CHECK(error);
}

} // namespace sluice::kernels
