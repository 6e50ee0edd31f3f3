// SPDX-License-Identifier: Apache-2.0
// Projections compared with sums in double, and rows with the same rows alone.
#include "sluice/core/random.hpp"
#include "sluice/model/decoder/eigen/lanes.hpp"
#include "sluice/model/decoder/eigen/parts.hpp"
#include "sluice/model/decoder/eigen/projection.hpp"

#include "model/decoder/made_model.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::testing;

struct Sizes {
  int rows;
  int outputs;
  int columns;
};

/// In its own allocation, so that a sanitizer detects a read beyond the end.
std::vector<std::byte> stored(std::uint64_t tensor, std::int64_t count, ElementType type) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * bytes_of(type)));
  write_tensor(tensor, count, {1, 0}, type, bytes.data());
  return bytes;
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

} // namespace

TEST_CASE("a projection equals the sum in double up to rounding, and each row equals its result alone, for whole and "
          "split matrices") {
  const Sizes cases[] = {{1, 1, 1},   {2, 5, 15},   {3, 4, 16},    {5, 7, 33},
                         {13, 9, 40}, {131, 7, 17}, {14, 8, 2100}, {3, 5, 1030}};
  for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
    for (const Sizes& sizes : cases) {
      CAPTURE(sizes.rows);
      CAPTURE(sizes.columns);
      const auto weights = stored(1, std::int64_t{sizes.outputs} * sizes.columns, type);
      const auto x = stored(2, std::int64_t{sizes.rows} * sizes.columns, ElementType::f32);
      const auto* numbers = reinterpret_cast<const float*>(x.data());
      const Matrix whole = Matrix::whole(weights.data(), sizes.outputs, sizes.columns, type);
      const std::int64_t stride = sizes.outputs + 3;
      std::vector<float> y(static_cast<std::size_t>(sizes.rows * stride));
      project({numbers, sizes.columns, sizes.rows}, whole, 0, sizes.outputs, y.data(), stride);
      const std::int64_t cut = sizes.outputs / 2;
      const std::vector<std::byte> head(weights.begin(), weights.begin() + cut * whole.row_bytes());
      const std::vector<std::byte> tail(weights.begin() + cut * whole.row_bytes(), weights.end());
      const Matrix split{head.data(), tail.data(), cut, sizes.outputs, sizes.columns, type};
      double worst = 0;
      int unlike = 0;
      for (int r = 0; r < sizes.rows; ++r) {
        std::vector<float> one(static_cast<std::size_t>(sizes.outputs));
        const int index[] = {r};
        project({numbers, sizes.columns, 1, index}, split, 0, sizes.outputs, one.data(), sizes.outputs);
        std::vector<float> row(static_cast<std::size_t>(sizes.columns));
        for (int o = 0; o < sizes.outputs; ++o) {
          const float got = y[static_cast<std::size_t>(r * stride + o)];
          unlike += bits(got) == bits(one[static_cast<std::size_t>(o)]) ? 0 : 1;
          widen(whole.row(o), type, sizes.columns, row.data());
          double sum = 0;
          double size = 0;
          for (int k = 0; k < sizes.columns; ++k) {
            const double product = static_cast<double>(row[static_cast<std::size_t>(k)]) *
                                   static_cast<double>(numbers[static_cast<std::ptrdiff_t>(r) * sizes.columns + k]);
            sum += product;
            size += std::abs(product);
          }
          worst = std::max(worst, std::abs(static_cast<double>(got) - sum) / size);
        }
      }
      CHECK(unlike == 0);
      CHECK(worst < 1e-6); // of the sum of magnitudes: with one lane it would grow with the columns
    }
  }
}

TEST_CASE("stored numbers are read back, up to the last one") {
  for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
    for (const int count : {1, 15, 16, 17, 50}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(count * bytes_of(type)));
      for (int i = 0; i < count; ++i)
        write_number(static_cast<float>(i) * 0.5F - 3, type, bytes.data() + i * bytes_of(type));
      std::vector<float> floats(static_cast<std::size_t>(count));
      widen(bytes.data(), type, count, floats.data());
      for (int i = 0; i < count; ++i) CHECK(floats[static_cast<std::size_t>(i)] == static_cast<float>(i) * 0.5F - 3);
    }
  }
}

TEST_CASE("the exponential is within two units of the last place, the same in every lane, and one at zero") {
  Random random{5};
  double worst = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(random.uniform() * 174 - 87);
    const double right = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exponential(x)) - right) / right);
  }
  CHECK(worst < 2 * 0x1p-23);
  CHECK(exponential(0.0F) == 1.0F);
  for (int lane = 0; lane < Lanes16::count; ++lane) {
    float at[Lanes16::count] = {};
    at[lane] = -1.7F;
    exponential(Lanes16::load(at)).store(at);
    CHECK(bits(at[lane]) == bits(exponential(-1.7F)));
  }
}

TEST_CASE("normalised rows have the documented mean and size") {
  for (const std::int64_t count : {7, 16, 100}) {
    const auto bytes = stored(9, count, ElementType::f32);
    const auto* x = reinterpret_cast<const float*>(bytes.data());
    const std::vector<float> scale(static_cast<std::size_t>(count), 2.0F);
    const std::vector<float> bias(static_cast<std::size_t>(count), 0.5F);
    std::vector<float> y(static_cast<std::size_t>(count));
    double squares = 0;
    RmsNorm::apply(x, count, scale.data(), nullptr, 0, y.data());
    for (const float value : y) squares += static_cast<double>(value) * static_cast<double>(value);
    CHECK(squares / static_cast<double>(count) == doctest::Approx(4).epsilon(1e-5));
    double mean = 0;
    squares = 0;
    LayerNorm::apply(x, count, scale.data(), bias.data(), 0, y.data());
    for (const float value : y) mean += static_cast<double>(value) / static_cast<double>(count);
    for (const float value : y) squares += (static_cast<double>(value) - 0.5) * (static_cast<double>(value) - 0.5);
    CHECK(mean == doctest::Approx(0.5).epsilon(1e-5));
    CHECK(squares / static_cast<double>(count) == doctest::Approx(4).epsilon(1e-5));
  }
}
