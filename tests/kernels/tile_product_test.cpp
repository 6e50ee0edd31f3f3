// SPDX-License-Identifier: Apache-2.0
// TileProduct: agrees with double precision on random shapes, with the same bits for any tile, rows and order of rows.
#include "emulated_product.hpp"
#include "kernels/products/tile_product.hpp"
#include "product_problem.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <type_traits>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

template <class T, class Y = T>
std::vector<Y> multiply(const ProductCall& call, std::vector<Y> y, int tile_rows, std::uint64_t seed = 1) {
  EmulatedStream stream{seed};
  ProductCall there = call;
  there.y = y.data();
  const Status status = EmulatedProduct{tile_rows}(&stream, there);
  if (!status.ok()) FAIL(status.error().line());
  return y;
}

/// The bits of rows `first` .. `first + rows - 1`.
template <class T>
std::vector<std::uint32_t> rows_of(const std::vector<T>& y, std::int64_t stride, int outputs, int first, int rows) {
  std::vector<std::uint32_t> bits;
  for (int row = first; row < first + rows; ++row)
    for (int output = 0; output < outputs; ++output)
      bits.push_back(bits_of(y[static_cast<std::size_t>(row * stride + output)]));
  return bits;
}

struct Shape {
  int rows, outputs, inputs;
};

} // namespace

TEST_CASE_TEMPLATE("a product is near the exact one at any size, for every tile", T, float, F16, Bf16) {
  const std::vector<Shape> shapes{{1, 1, 8},    {1, 33, 264},   {5, 40, 72},  {17, 130, 136},
                                  {70, 7, 200}, {130, 131, 40}, {2, 17, 4096}};
  double worst = 0;
  std::uint64_t seed = 1;
  for (const Shape& shape : shapes) {
    for (const int tile : {16, 64, 128}) {
      if (tile == 16 && shape.rows * shape.outputs > 3000) continue;
      if (tile != 16 && shape.rows < 16 && seed % 2 == 0) continue;
      ++seed;
      CAPTURE(shape.rows);
      CAPTURE(shape.outputs);
      CAPTURE(shape.inputs);
      CAPTURE(tile);
      const ProductProblem<T> problem(seed, shape.rows, shape.outputs, shape.inputs, shape.outputs / 3);
      const bool biased = seed % 2 == 0;
      const bool accumulated = seed % 3 == 0;
      ProductCall call = problem.call(nullptr);
      if (seed % 4 < 2) call.w = problem.split_weights();
      call.bias = biased ? problem.bias.data() : nullptr;
      call.accumulate = accumulated;
      const std::vector<T> y = multiply<T>(call, problem.y, tile, seed);
      const double error = problem.error(y, biased, accumulated);
      worst = std::max(worst, error);
      CHECK(error <= product_limit<T>);
      for (int row = 0; row < shape.rows; ++row) // memory between rows is not the product's
        for (auto i = row * problem.y_stride + shape.outputs; i < (row + 1) * problem.y_stride; ++i)
          CHECK(bits_of(y[static_cast<std::size_t>(i)]) == bits_of(problem.y[static_cast<std::size_t>(i)]));
    }
  }
  std::printf("TileProduct %d: relative L2 at most %.2e\n", static_cast<int>(element_of<T>), worst);
}

TEST_CASE_TEMPLATE("a row's bits are the same for any tile, number of rows, place among them, split and order", T,
                   float, F16, Bf16) {
  const ProductProblem<T> problem(7, 66, 45, 152, 19);
  const ProductCall call = problem.call(nullptr);
  const int outputs = problem.outputs;
  const auto all = [&](int tile, std::uint64_t seed) {
    return rows_of(multiply<T>(call, problem.y, tile, seed), problem.y_stride, outputs, 0, problem.rows);
  };
  const std::vector<std::uint32_t> right = all(64, 1);
  CHECK(all(64, 2) == right);
  CHECK(all(16, 3) == right);
  CHECK(all(128, 4) == right);

  ProductCall split = call;
  split.w = problem.split_weights();
  CHECK(rows_of(multiply<T>(split, problem.y, 64), problem.y_stride, outputs, 0, problem.rows) == right);

  const auto part = [&](int first, int rows, int tile) { // rows alone, as in a chunk
    ProductCall some = call;
    some.x = problem.x.data() + first * problem.x_stride;
    some.rows = rows;
    return rows_of(multiply<T>(some, problem.y, tile), problem.y_stride, outputs, 0, rows);
  };
  struct Chunk {
    int first, rows, tile;
  };
  for (const Chunk& chunk : std::vector<Chunk>{{0, 1, 16}, {0, 2, 16}, {3, 17, 16}, {65, 1, 64}, {1, 65, 128}}) {
    CAPTURE(chunk.first);
    const std::vector<std::uint32_t> wanted(right.begin() + chunk.first * outputs,
                                            right.begin() + (chunk.first + chunk.rows) * outputs);
    CHECK(part(chunk.first, chunk.rows, chunk.tile) == wanted);
  }
}

TEST_CASE_TEMPLATE("a row's bits do not depend on other rows with a bias, with accumulation, and in f32", T, float, F16,
                   Bf16) {
  const ProductProblem<T> problem(8, 35, 37, 136, 19);
  const int outputs = problem.outputs;
  const auto check = [&](bool biased, bool accumulates, const auto& before, bool wide) {
    CAPTURE(biased);
    CAPTURE(accumulates);
    CAPTURE(wide);
    using Y = typename std::remove_cvref_t<decltype(before)>::value_type;
    ProductCall call = problem.call(nullptr);
    call.bias = biased ? problem.bias.data() : nullptr;
    call.accumulate = accumulates;
    call.wide = wide;
    const std::vector<Y> all = multiply<T, Y>(call, before, 64);
    const auto bits = [&](const std::vector<Y>& y, int first, int rows) {
      return rows_of(y, problem.y_stride, outputs, first, rows);
    };
    CHECK(bits(multiply<T, Y>(call, before, 16, 2), 0, problem.rows) == bits(all, 0, problem.rows));
    CHECK(bits(multiply<T, Y>(call, before, 128, 3), 0, problem.rows) == bits(all, 0, problem.rows));
    struct Chunk {
      int first, rows, tile;
    };
    for (const Chunk chunk : {Chunk{0, 1, 16}, Chunk{17, 18, 128}, Chunk{34, 1, 64}}) {
      CAPTURE(chunk.first);
      ProductCall some = call;
      some.x = problem.x.data() + chunk.first * problem.x_stride;
      some.w = problem.split_weights();
      some.rows = chunk.rows;
      const std::vector<Y> own(before.begin() + chunk.first * problem.y_stride,
                               before.begin() + (chunk.first + chunk.rows) * problem.y_stride);
      CHECK(bits(multiply<T, Y>(some, own, chunk.tile, 4), 0, chunk.rows) == bits(all, chunk.first, chunk.rows));
    }
  };
  std::mt19937_64 random(9);
  const std::vector<float> wide = random_numbers<float>(random, problem.rows * problem.y_stride);
  for (const bool biased : {false, true}) {
    for (const bool accumulates : {false, true}) {
      check(biased, accumulates, problem.y, false);
      check(biased, accumulates, wide, true);
    }
  }
}

TEST_CASE_TEMPLATE("segments are added in order, with the same bits in one block or several, for any tile and rows", T,
                   float, F16, Bf16) {
  constexpr int each = 128;
  const ProductProblem<T> problem(12, 66, 141, 328); // three segments, the last one shorter
  const std::vector<float> before(static_cast<std::size_t>(problem.rows * problem.y_stride), 0.0F);
  struct Way {
    int tile, rows;
    int sms;                      // 1: no tile is split
    std::int64_t tiles_of_memory; // of 128 rows and outputs; 2 are the fewest here
    bool split;
  };
  const auto run = [&](const Way& way, std::uint64_t seed) {
    ProductCall call = problem.call(nullptr);
    call.wide = true;
    call.rows = way.rows;
    std::vector<float> partials(static_cast<std::size_t>(way.tiles_of_memory << 14), NAN);
    std::vector<int> arrivals(64, 0);
    call.segments = {.inputs = each,
                     .sms = way.sms,
                     .partials = partials.data(),
                     .numbers = static_cast<std::int64_t>(partials.size()),
                     .arrivals = arrivals.data(),
                     .most_arrivals = 64};
    std::vector<float> y = multiply<T, float>(call, before, way.tile, seed);
    CHECK(std::all_of(arrivals.begin(), arrivals.end(), [](int count) { return count == 0; }));
    if (way.rows == problem.rows) CHECK(problem.error(y, false, false) <= product_limit<float>);
    const bool written = std::any_of(partials.begin(), partials.end(), [](float one) { return one == one; });
    CHECK(written == (way.split || way.tile != 16)); // tiles of 16 rows add up in registers
    return rows_of(y, problem.y_stride, problem.outputs, 0, way.rows);
  };
  const std::vector<std::uint32_t> right = run({64, 66, 1000, 40, true}, 1);

  // The same, by a product of each segment's inputs.
  std::vector<float> sums(before.size(), 0.0F);
  for (int first = 0; first < problem.inputs; first += each) {
    const int inputs = std::min(each, problem.inputs - first);
    std::vector<T> w;
    for (int output = 0; output < problem.outputs; ++output)
      w.insert(w.end(), problem.w.begin() + output * problem.inputs + first,
               problem.w.begin() + output * problem.inputs + first + inputs);
    ProductCall call = problem.call(nullptr);
    call.x = problem.x.data() + first;
    call.w = ProductWeights::whole(w.data(), problem.outputs);
    call.inputs = inputs;
    call.wide = true;
    const std::vector<float> segment = multiply<T, float>(call, before, 64, 2);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = first == 0 ? segment[i] : sums[i] + segment[i];
  }
  CHECK(rows_of(sums, problem.y_stride, problem.outputs, 0, problem.rows) == right);

  std::uint64_t seed = 2;
  for (const Way& way : std::vector<Way>{{64, 66, 1, 40, false},
                                         {64, 66, 1, 2, false},
                                         {64, 3, 1000, 40, true},
                                         {128, 66, 1000, 40, true},
                                         {128, 66, 1, 2, false},
                                         {16, 66, 1000, 40, true},
                                         {16, 66, 1, 2, false},
                                         {16, 1, 1000, 40, true}}) {
    CAPTURE(way.tile);
    CAPTURE(way.rows);
    CAPTURE(way.split);
    const std::vector<std::uint32_t> some = run(way, ++seed);
    CHECK(some == std::vector<std::uint32_t>(right.begin(), right.begin() + way.rows * problem.outputs));
  }
}

TEST_CASE_TEMPLATE("an empty product is no error: no rows, no inputs", T, float, Bf16) {
  const ProductProblem<T> none(3, 0, 20, 16);
  CHECK(multiply<T>(none.call(nullptr), none.y, 0).empty());

  const ProductProblem<T> empty(4, 3, 20, 0);
  ProductCall call = empty.call(nullptr);
  call.bias = empty.bias.data();
  call.x_stride = 0;
  const std::vector<T> y = multiply<T>(call, empty.y, 0);
  for (int row = 0; row < 3; ++row)
    for (int output = 0; output < 20; ++output)
      CHECK(widen(y[static_cast<std::size_t>(row * empty.y_stride + output)]) ==
            widen(empty.bias[static_cast<std::size_t>(output)]));
}

TEST_CASE_TEMPLATE("logits are f32 if the other types have 16 bits", T, F16, Bf16) {
  const ProductProblem<T> problem(11, 3, 37, 256);
  ProductCall call = problem.call(nullptr);
  call.wide = true;
  const std::vector<float> zeros(static_cast<std::size_t>(problem.rows * problem.y_stride));
  for (const int tile : {16, 64})
    CHECK(problem.error(multiply<T, float>(call, zeros, tile), false, false) <= product_limit<float>);
}

TEST_CASE_TEMPLATE("eight rows that ldmatrix reads at once are in different banks", T, F16, Bf16) {
  const ProductProblem<T> problem(5, 64, 128, 128);
  const auto check = [&problem]<int tile_rows>() {
    using Kernel = TileProduct<TileProductConfig{element_of<T>, tile_rows}>;
    std::vector<T> y = problem.y;
    const ProductCall call = problem.call(y.data());
    const emulate::Report report =
        emulate::launch<Kernel>(Kernel::grid(call), call, 1, emulate::Limits{.conflicts = 0});
    CHECK_MESSAGE(report.ok(), report.text());
    CHECK(report.matrices > 0);
  };
  check.template operator()<16>();
  check.template operator()<64>();
  check.template operator()<128>();
}

TEST_CASE("the number of rows determines the tile and nothing else") {
  CHECK(tile_rows_for(1) == 16);
  CHECK(tile_rows_for(32) == 16);
  CHECK(tile_rows_for(33) == 64);
  CHECK(tile_rows_for(4096) == 128);
}
