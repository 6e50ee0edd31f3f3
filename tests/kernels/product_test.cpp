// SPDX-License-Identifier: Apache-2.0
// The concept Product: its models, and the omissions that make a type no model.
#include "emulated_product.hpp"
#include "kernels/products/product.hpp"
#include "product_problem.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// A minimal Product.
struct Least {
  using Stream = int;
  static constexpr bool invariant = false;
  Status operator()(Stream, const ProductCall&) { return {}; }
  [[nodiscard]] Bytes workspace() const { return Bytes{0}; }
};
struct NoStream {
  static constexpr bool invariant = false;
  Status operator()(int, const ProductCall&) { return {}; }
  [[nodiscard]] Bytes workspace() const { return Bytes{0}; }
};
struct SilentOnInvariance {
  using Stream = int;
  Status operator()(Stream, const ProductCall&) { return {}; }
  [[nodiscard]] Bytes workspace() const { return Bytes{0}; }
};
struct NoWorkspace {
  using Stream = int;
  static constexpr bool invariant = true;
  Status operator()(Stream, const ProductCall&) { return {}; }
};
struct WorkspaceIsANumber : NoWorkspace {
  [[nodiscard]] long workspace() const { return 0; }
};
struct ReturnsNothing {
  using Stream = int;
  static constexpr bool invariant = true;
  void operator()(Stream, const ProductCall&) {}
  [[nodiscard]] Bytes workspace() const { return Bytes{0}; }
};

static_assert(Product<Least> && !InvariantProduct<Least>);
static_assert(Product<EmulatedProduct> && InvariantProduct<EmulatedProduct>);
static_assert(!NamesItsStream<NoStream> && !NoStream::invariant && !Product<NoStream>);
static_assert(!SaysWhetherInvariant<SilentOnInvariance> && !Product<SilentOnInvariance>);
static_assert(!SaysItsWorkspace<NoWorkspace> && !Product<NoWorkspace>);
static_assert(!SaysItsWorkspace<WorkspaceIsANumber> && !Product<WorkspaceIsANumber>);
static_assert(!Product<ReturnsNothing> && !Product<int>);

/// A small decoder layer: the calls are the same for every product.
template <Product P>
Status two_projections(P& product, typename P::Stream stream, const ProductCall& up, const ProductCall& down) {
  if (Status done = product(stream, up); !done.ok()) return done;
  return product(stream, down);
}

} // namespace

TEST_CASE("a decoder multiplies with any model of Product, in order on its stream") {
  const ProductProblem<Bf16> up(1, 5, 48, 40);
  const ProductProblem<Bf16> down(2, 5, 40, 48);
  std::vector<Bf16> middle = up.y;
  std::vector<Bf16> residual = down.y;
  ProductCall first = up.call(middle.data());
  first.y_stride = 48;
  ProductCall second = down.call(residual.data());
  second.x = middle.data();
  second.x_stride = 48;
  second.accumulate = true;

  EmulatedProduct product;
  EmulatedStream stream;
  REQUIRE(two_projections(product, &stream, first, second).ok());
  CHECK(product.workspace() == Bytes{0});

  double wrong = 0;
  double all = 0;
  for (int row = 0; row < 5; ++row) {
    for (int output = 0; output < 40; ++output) {
      double sum = static_cast<double>(widen(down.y[static_cast<std::size_t>(row * down.y_stride + output)]));
      for (int k = 0; k < 48; ++k)
        sum += static_cast<double>(widen(middle[static_cast<std::size_t>(row * 48 + k)])) *
               static_cast<double>(widen(down.w[static_cast<std::size_t>(output * 48 + k)]));
      const double off =
          static_cast<double>(widen(residual[static_cast<std::size_t>(row * down.y_stride + output)])) - sum;
      wrong += off * off;
      all += sum * sum;
    }
  }
  CHECK(std::sqrt(wrong / all) <= product_limit<Bf16>);
}
