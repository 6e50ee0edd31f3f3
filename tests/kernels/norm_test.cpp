// SPDX-License-Identifier: Apache-2.0
#include "kernels/rows/norm.hpp"
#include "row_data.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

template <NormConfig config>
struct NormCase {
  using K = Norm<config>;
  using T = typename K::T;
  int rows, features;
  bool adds, x_biased;
  std::vector<T> x, x_bias, residual, weight, bias;

  NormCase(Random& random, int rows_, int features_, bool adds_, bool x_biased_, double mean)
      : rows(rows_), features(features_), adds(adds_), x_biased(x_biased_) {
    const auto width = static_cast<std::size_t>(features);
    const std::size_t all = static_cast<std::size_t>(rows) * width;
    x = normal_numbers<T>(random, all);
    x_bias = normal_numbers<T>(random, width);
    residual = normal_numbers<T>(random, all, 2, mean);
    weight = normal_numbers<T>(random, width, 0.3, 1);
    bias = normal_numbers<T>(random, width);
  }
  NormParams params(std::vector<T>& stream, std::vector<T>& out) const {
    NormParams params;
    if (adds) params.x = x.data();
    if (x_biased) params.x_bias = x_bias.data();
    params.residual = stream.data();
    params.weight = weight.data();
    if constexpr (config.kind == NormKind::layer) params.bias = bias.data();
    params.out = out.data();
    params.rows = rows;
    params.features = features;
    params.epsilon = 1e-5F;
    return params;
  }
  /// The stream after the addition, rounded once, and its norms.
  void expect(std::vector<double>& stream, std::vector<double>& out) const {
    const auto width = static_cast<std::size_t>(features);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      double mean = 0, squares = 0;
      std::vector<double> numbers(width);
      for (std::size_t i = 0; i < width; ++i) {
        double sum = exact(residual[row * width + i]);
        if (adds) {
          sum += exact(x[row * width + i]) + (x_biased ? exact(x_bias[i]) : 0);
          sum = exact(narrow<T>(static_cast<float>(sum)));
        }
        stream.push_back(sum);
        numbers[i] = sum;
        mean += sum / features;
      }
      if (config.kind == NormKind::rms) mean = 0;
      for (const double number : numbers) squares += (number - mean) * (number - mean);
      const double root = std::sqrt(squares / features + 1e-5F);
      for (std::size_t i = 0; i < width; ++i)
        out.push_back((numbers[i] - mean) / root * exact(weight[i]) +
                      (config.kind == NormKind::layer ? exact(bias[i]) : 0));
    }
  }
};

template <NormConfig config>
void agrees() {
  using K = Norm<config>;
  using T = typename K::T;
  Random random(3);
  const int shapes[][2] = {{0, 64}, {1, 1}, {3, 7}, {2, 64}, {5, 1000}, {2, 1001}, {1, 5120}, {1, 8192}, {1, 9001}};
  std::uint64_t seed = 1;
  for (const auto& shape : shapes) {
    const int rows = shape[0], features = shape[1];
    CAPTURE(rows);
    CAPTURE(features);
    for (const bool adds : {false, true}) {
      // A mean of 100 deviations: computing the squares in one pass would lose the row, in two passes two of its
      // digits.
      NormCase<config> one(random, rows, features, adds, adds && rows % 2 == 1, rows == 2 ? 200 : 0);
      std::vector<T> stream = one.residual, out = no_numbers<T>(one.residual.size());
      run_emulated<K>(one.params(stream, out), seed++);
      std::vector<double> expected_stream, expected;
      one.expect(expected_stream, expected);
      CHECK(relative_error(stream, expected_stream) <= error_limit<T>);
      if (!adds) CHECK(same_bits(stream, one.residual));
      if (features > 1) CHECK(relative_error(out, expected) <= error_limit<T>);
    }
  }
}

/// Alone, chosen or among others.
template <NormConfig config>
void keeps_bits(int features) {
  using K = Norm<config>;
  using T = typename K::T;
  CAPTURE(features);
  const auto width = static_cast<std::size_t>(features);
  Random random(4);
  NormCase<config> all(random, 6, features, true, true, 0);
  std::vector<T> stream = all.residual, out = no_numbers<T>(all.residual.size());
  run_emulated<K>(all.params(stream, out), 1);

  const std::vector<int> which{4, 1};
  std::vector<T> some_stream = all.residual, some = no_numbers<T>(2 * width);
  NormParams params = all.params(some_stream, some);
  params.which = which.data();
  params.rows = 2;
  run_emulated<K>(params, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto at = static_cast<std::size_t>(which[i]) * width;
    CHECK(same_bits(std::span<const T>{some}.subspan(i * width, width), std::span<const T>{out}.subspan(at, width)));
    CHECK(same_bits(std::span<const T>{some_stream}.subspan(at, width), std::span<const T>{stream}.subspan(at, width)));
  }
  CHECK(same_bits(std::span<const T>{some_stream}.first(width), std::span<const T>{all.residual}.first(width)));

  // A later norm of the stored sum equals the norm made along with it.
  std::vector<T> again = no_numbers<T>(all.residual.size());
  params = all.params(stream, again);
  params.x = params.x_bias = nullptr;
  run_emulated<K>(params, 3);
  CHECK(same_bits(again, out));
}

} // namespace

TEST_CASE("kernels.norm agrees with double precision") {
  SUBCASE("rms f32") { agrees<NormConfig{ElementType::f32, NormKind::rms}>(); }
  SUBCASE("rms f16") { agrees<NormConfig{ElementType::f16, NormKind::rms}>(); }
  SUBCASE("rms bf16") { agrees<NormConfig{ElementType::bf16, NormKind::rms}>(); }
  SUBCASE("layer f32") { agrees<NormConfig{ElementType::f32, NormKind::layer}>(); }
  SUBCASE("layer f16") { agrees<NormConfig{ElementType::f16, NormKind::layer}>(); }
  SUBCASE("layer bf16") { agrees<NormConfig{ElementType::bf16, NormKind::layer}>(); }
}

TEST_CASE_TEMPLATE("kernels.norm: a row's bits do not depend on other rows, whether alone, chosen or among others", T,
                   float, F16, Bf16) {
  constexpr ElementType element = std::is_same_v<T, float> ? ElementType::f32
                                  : std::is_same_v<T, F16> ? ElementType::f16
                                                           : ElementType::bf16;
  for (const int features : {1000, 77}) {
    keeps_bits<NormConfig{element, NormKind::rms}>(features);
    keeps_bits<NormConfig{element, NormKind::layer}>(features);
  }
}
