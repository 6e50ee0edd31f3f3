// SPDX-License-Identifier: Apache-2.0
// GroupedProduct: each row has the bits that TileProduct gives it with its expert's weights.
#include "emulated_product.hpp"
#include "kernels/products/grouped_product.hpp"
#include "product_problem.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// Experts with a given number of rows each, all of one shape, whose weights are in one place or two.
template <class T>
struct Experts {
  std::vector<ProductProblem<T>> problems; // each expert has its own weights; x and y are the first expert's
  std::vector<ProductWeights> weights;
  std::vector<const void*> biases;
  std::vector<int> offsets{0};
  std::vector<int> counts;
  GroupedProductParams params;

  Experts(std::uint64_t seed, const std::vector<int>& counts_, int outputs, int inputs, int spare) : counts(counts_) {
    const int rows = std::accumulate(counts.begin(), counts.end(), 0);
    problems.reserve(counts.size());
    for (std::size_t e = 0; e < counts.size(); ++e) {
      problems.emplace_back(seed + e, e == 0 ? rows + spare : 1, outputs, inputs, static_cast<int>(e) % outputs);
      const ProductProblem<T>& problem = problems.back();
      weights.push_back(e % 2 == 0 ? ProductWeights::whole(problem.w.data(), outputs) : problem.split_weights());
      biases.push_back(problem.bias.data());
      offsets.push_back(offsets.back() + counts[e]);
    }
    const ProductProblem<T>& first = problems.front();
    params.x = first.x.data();
    params.weights = weights.data();
    params.offsets = offsets.data();
    params.x_stride = first.x_stride;
    params.y_stride = first.y_stride;
    params.rows = rows + spare;
    params.experts = static_cast<int>(counts.size());
    params.outputs = outputs;
    params.inputs = inputs;
    params.element = element_of<T>;
  }
};

template <class T, int tile_rows>
void check(const Experts<T>& experts, std::uint64_t seed) {
  using Kernel = GroupedProduct<GroupedProductConfig{element_of<T>, tile_rows}>;
  CAPTURE(tile_rows);
  const ProductProblem<T>& first = experts.problems.front();
  std::vector<T> y = first.y;
  GroupedProductParams params = experts.params;
  params.y = y.data();
  const emulate::Report report = emulate::launch<Kernel>(Kernel::grid(params), params, seed);
  REQUIRE_MESSAGE(report.ok(), report.errors.front());

  std::vector<T> wanted = first.y;
  for (std::size_t e = 0; e < experts.counts.size(); ++e) {
    ProductCall call = first.call(wanted.data() + experts.offsets[e] * first.y_stride);
    call.x = first.x.data() + experts.offsets[e] * first.x_stride;
    call.rows = experts.counts[e];
    call.w = experts.weights[e];
    call.bias = params.biases != nullptr ? params.biases[e] : nullptr;
    call.accumulate = params.accumulate;
    EmulatedStream stream{seed};
    REQUIRE(EmulatedProduct{16}(&stream, call).ok());
  }
  bool same = true; // also rows after the last expert's: unchanged
  for (std::size_t i = 0; i < y.size(); ++i) same = same && bits_of(y[i]) == bits_of(wanted[i]);
  CHECK(same);
}

} // namespace

TEST_CASE_TEMPLATE("rows of experts have the bits of separate products with each expert's weights", T, float, F16,
                   Bf16) {
  Experts<T> experts(21, {3, 0, 17, 1, 0, 0, 40, 2}, 37, 72, 5);
  check<T, 16>(experts, 1);
  check<T, 64>(experts, 2);
  experts.params.biases = experts.biases.data();
  experts.params.accumulate = true;
  check<T, 16>(experts, 3);
  check<T, 128>(experts, 4);
}

TEST_CASE("more experts than a warp has lanes, most of them without a row") {
  std::vector<int> counts(75);
  counts[0] = 1;
  counts[31] = 16;
  counts[32] = 17;
  counts[74] = 2;
  check<Bf16, 16>(Experts<Bf16>(5, counts, 8, 16, 0), 1);
  std::vector<int> last(64);
  last[63] = 33;
  check<Bf16, 16>(Experts<Bf16>(6, last, 8, 16, 40), 2);
}

TEST_CASE("a call without rows, or without experts that have rows, does nothing") {
  check<Bf16, 16>(Experts<Bf16>(7, {0, 0}, 8, 16, 0), 1);
  check<Bf16, 16>(Experts<Bf16>(8, {0, 0}, 8, 16, 6), 1);
}

TEST_CASE("the grid suffices for every division of rows among experts, and is little larger") {
  using Kernel = GroupedProduct<GroupedProductConfig{ElementType::bf16, 16}>;
  GroupedProductParams params;
  params.element = ElementType::bf16;
  params.outputs = 8;
  params.inputs = 16;
  for (int rows = 0; rows < 40; ++rows) {
    for (int experts = 1; experts < 6; ++experts) {
      params.rows = rows;
      params.experts = experts;
      int most = 0; // tiles: one expert has all rows except one for each of the others
      for (int others = 0; others < experts && others < rows; ++others)
        most = std::max(most, others + pieces(rows - others, 16));
      CHECK(Kernel::grid(params).x >= most);
      CHECK(Kernel::grid(params).x <= most + 1);
    }
  }
}
