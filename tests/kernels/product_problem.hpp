// SPDX-License-Identifier: Apache-2.0
// ProductProblem: a random matrix product, its result in double precision, and the error of another result.
#pragma once

#include "kernels/element.hpp"
#include "kernels/products/product.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::kernels {

template <class T>
inline constexpr ElementType element_of = std::is_same_v<T, float> ? ElementType::f32
                                          : std::is_same_v<T, F16> ? ElementType::f16
                                                                   : ElementType::bf16;
/// The permitted relative L2 error.
template <class T>
inline constexpr double product_limit = std::is_same_v<T, float> ? 1e-6
                                        : std::is_same_v<T, F16> ? 1e-3
                                                                 : 4e-3;

/// Numbers of a type, rounded to it before any use.
template <class T>
std::vector<T> random_numbers(std::mt19937_64& random, std::int64_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& one : numbers) one = narrow<T>(uniform(random));
  return numbers;
}

template <class T>
std::uint32_t bits_of(T number) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<std::uint32_t>(number);
  else
    return number.bits;
}

/// x, W (whole, and again in two places), bias and the earlier content of y.
template <class T>
struct ProductProblem {
  int rows, outputs, inputs, split;
  std::int64_t x_stride, y_stride;
  std::vector<T> x, w, head, tail, bias, y;

  ProductProblem(std::uint64_t seed, int rows_, int outputs_, int inputs_, int split_ = 0)
      : rows(rows_), outputs(outputs_), inputs(inputs_), split(split_) {
    std::mt19937_64 random(seed);
    x_stride = inputs + static_cast<int>(random() % 3) * Packet<T>::size;
    y_stride = outputs + static_cast<int>(random() % 3);
    // Exactly the memory that a product may read: AddressSanitizer detects a read beyond the last row.
    x = random_numbers<T>(random, rows == 0 ? 0 : (rows - 1) * x_stride + inputs);
    w = random_numbers<T>(random, std::int64_t{outputs} * inputs);
    head.assign(w.begin(), w.begin() + std::int64_t{split} * inputs);
    tail.assign(w.begin() + std::int64_t{split} * inputs, w.end());
    bias = random_numbers<T>(random, outputs);
    y = random_numbers<T>(random, rows * y_stride);
  }

  /// y = x W^T, W in one place.
  [[nodiscard]] ProductCall call(void* result) const {
    ProductCall call;
    call.x = x.data();
    call.w = ProductWeights::whole(w.data(), outputs);
    call.y = result;
    call.x_stride = x_stride;
    call.y_stride = y_stride;
    call.rows = rows;
    call.outputs = outputs;
    call.inputs = inputs;
    call.element = element_of<T>;
    return call;
  }
  [[nodiscard]] ProductWeights split_weights() const { return {head.data(), tail.data(), split}; }

  [[nodiscard]] double exact(int row, int output, bool biased, bool accumulated) const {
    double sum = 0;
    for (int k = 0; k < inputs; ++k)
      sum += static_cast<double>(widen(x[static_cast<std::size_t>(row * x_stride + k)])) *
             static_cast<double>(widen(w[static_cast<std::size_t>(std::int64_t{output} * inputs + k)]));
    if (biased) sum += static_cast<double>(widen(bias[static_cast<std::size_t>(output)]));
    if (accumulated) sum += static_cast<double>(widen(y[static_cast<std::size_t>(row * y_stride + output)]));
    return sum;
  }
  /// Relative L2 error of `result` ([rows][y_stride]).
  template <class Y>
  [[nodiscard]] double error(const std::vector<Y>& result, bool biased, bool accumulated) const {
    double wrong = 0, all = 0;
    for (int row = 0; row < rows; ++row) {
      for (int output = 0; output < outputs; ++output) {
        const double right = exact(row, output, biased, accumulated);
        const double off =
            static_cast<double>(widen(result[static_cast<std::size_t>(row * y_stride + output)])) - right;
        wrong += off * off;
        all += right * right;
      }
    }
    return all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
  }
};

} // namespace sluice::kernels
