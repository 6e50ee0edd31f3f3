// SPDX-License-Identifier: Apache-2.0
// Product: what a decoder asks of whatever multiplies its activations by its weights.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/product_call.hpp"

#include <concepts>

namespace sluice::kernels {

/// The stream that a product is enqueued on: CUDA's, or the emulator's.
template <class P>
concept NamesItsStream = requires {
  typename P::Stream;
};

/// `invariant`: whether a row's result is its own, the same bits however many rows the call has and wherever the row
/// stands among them. Required and not defaulted: a product that forgets to say it would pass for one that is not.
template <class P>
concept SaysWhetherInvariant = requires {
  { P::invariant } -> std::same_as<const bool&>;
};

/// `workspace()`: device memory in use while a call runs, which a memory plan has to count.
template <class P>
concept SaysItsWorkspace = requires(const P& product) {
  { product.workspace() } -> std::same_as<Bytes>;
};

/// Multiplies activations by weights, asynchronously, on a stream.
///
///  1. `product(stream, call)` enqueues y = x W^T + bias (+ y) and returns; an error says that nothing was enqueued, or
///     that y holds anything. Zero rows are no error and no work.
///  2. `P::invariant` promises, or does not, that rows do not depend on how many there are. A decoder whose rebuilt or
///     chunked prefixes must have the bits of the first time needs one that does.
///  3. `workspace()` is constant.
///
/// Not checked, and the caller's: the pointers of a call stay valid until the stream has done it; calls of one product
/// are made by one thread at a time, and on streams that are ordered among each other where there is a workspace.
///
/// Models: `CublasLt` (fast), `Invariant` (own tiles, or a pinned algorithm where a card shows that it is invariant),
/// and in tests `EmulatedProduct`.
template <class P>
concept Product = NamesItsStream<P> && SaysWhetherInvariant<P> && SaysItsWorkspace<P> &&
    requires(P& product, typename P::Stream stream, const ProductCall& call) {
  { product(stream, call) } -> std::same_as<Status>;
};

/// A product that may stand where rows have to keep their bits.
template <class P>
concept InvariantProduct = Product<P> && P::invariant;

} // namespace sluice::kernels
