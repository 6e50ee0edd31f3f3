// SPDX-License-Identifier: Apache-2.0
#include "kernels/rows/activation.hpp"
#include "row_data.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

double by_definition(ActivationKind kind, double x) {
  switch (kind) {
  case ActivationKind::silu:
    return x / (1 + std::exp(-x));
  case ActivationKind::relu:
    return x > 0 ? x : 0;
  case ActivationKind::gelu:
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  case ActivationKind::gelu_tanh:
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

template <ActivationConfig config>
void agrees() {
  using K = Activation<config>;
  using T = typename K::T;
  Random random(5);
  const int shapes[][2] = {{0, 64}, {1, 1}, {3, 7}, {2, 64}, {3, 1000}, {1, 1001}, {2, 2816}};
  std::uint64_t seed = 1;
  for (const auto& shape : shapes) {
    const int rows = shape[0], features = shape[1];
    CAPTURE(rows);
    CAPTURE(features);
    for (const bool biased : {false, true}) {
      // Gate and up are the halves of one product's rows.
      const auto width = static_cast<std::size_t>(features), count = static_cast<std::size_t>(rows);
      const std::size_t stride = config.gated ? 2 * width : width;
      const std::vector<T> product = normal_numbers<T>(random, count * stride, 3);
      const std::vector<T> gate_bias = normal_numbers<T>(random, width), up_bias = normal_numbers<T>(random, width);
      std::vector<T> out = no_numbers<T>(count * width);
      ActivationParams params;
      params.gate = product.data();
      if (config.gated && rows > 0) params.up = product.data() + width;
      if (biased) params.gate_bias = gate_bias.data();
      if (biased && config.gated) params.up_bias = up_bias.data();
      params.out = out.data();
      params.gate_stride = params.up_stride = static_cast<std::int64_t>(stride);
      params.rows = rows;
      params.features = features;
      run_emulated<K>(params, seed++);
      std::vector<double> expected;
      for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t i = 0; i < width; ++i) {
          double value =
              by_definition(config.kind, exact(product[row * stride + i]) + (biased ? exact(gate_bias[i]) : 0));
          if (config.gated) value *= exact(product[row * stride + width + i]) + (biased ? exact(up_bias[i]) : 0);
          expected.push_back(value);
        }
      }
      if (features > 1) CHECK(relative_error(out, expected) <= error_limit<T>);
      if (count == 0) continue;

      std::vector<T> last = no_numbers<T>(width); // only the last row
      params.gate = product.data() + (count - 1) * stride;
      if (config.gated) params.up = product.data() + (count - 1) * stride + width;
      if (stride % RowFloats<T>::size != 0) continue; // rows begin with a packet or are read number by number
      params.out = last.data();
      params.rows = 1;
      run_emulated<K>(params, seed++);
      CHECK(same_bits(std::span<const T>{last}, std::span<const T>{out}.last(width)));
    }
  }
}

template <ElementType element>
void agrees_all() {
  agrees<ActivationConfig{element, ActivationKind::silu, true}>();
  agrees<ActivationConfig{element, ActivationKind::gelu_tanh, true}>();
  agrees<ActivationConfig{element, ActivationKind::gelu, false}>();
  agrees<ActivationConfig{element, ActivationKind::gelu_tanh, false}>();
  agrees<ActivationConfig{element, ActivationKind::relu, false}>();
}

} // namespace

TEST_CASE("kernels.activation agrees with double precision, and a row's bits do not depend on other rows") {
  SUBCASE("f32") { agrees_all<ElementType::f32>(); }
  SUBCASE("f16") { agrees_all<ElementType::f16>(); }
  SUBCASE("bf16") { agrees_all<ElementType::bf16>(); }
}

TEST_CASE("kernels.activation at the ends of the floats") {
  using K = Activation<ActivationConfig{ElementType::f32, ActivationKind::silu, false}>;
  const std::vector<float> x{-1e30F, -100, -0.0F, 0, 100, 1e30F};
  std::vector<float> out(x.size());
  ActivationParams params;
  params.gate = x.data();
  params.out = out.data();
  params.rows = 1;
  params.features = static_cast<int>(x.size());
  params.gate_stride = params.features;
  run_emulated<K>(params, 1);
  CHECK(out[0] == 0);
  CHECK(std::fabs(out[1]) < 1e-40F);
  CHECK(out[3] == 0);
  CHECK(out[4] == 100);
  CHECK(out[5] == 1e30F);
}
