// SPDX-License-Identifier: Apache-2.0
// Product: the concept of an implementation that multiplies a decoder's activations by its weights.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/product_call.hpp"

#include <concepts>

namespace sluice::kernels {

/// The stream on which a product is enqueued: CUDA's, or the emulator's.
template <class P>
concept NamesItsStream = requires {
  typename P::Stream;
};

/// `invariant`: whether a row's bits are independent of the call's number of rows and of the row's position among them.
/// Required without a default, so that no product can forget to state it.
template <class P>
concept SaysWhetherInvariant = requires {
  { P::invariant } -> std::same_as<const bool&>;
};

/// `workspace()`: device memory in use while a call runs, which a memory plan must count.
template <class P>
concept SaysItsWorkspace = requires(const P& product) {
  { product.workspace() } -> std::same_as<Bytes>;
};

/// Multiplies activations by weights, asynchronously, on a stream.
///
///  1. `product(stream, call)` enqueues y = x W^T + bias (+ y) and returns; after an error, nothing was enqueued, or
///     y's contents are undefined. Zero rows are no error and no work.
///  2. `P::invariant` states whether rows are independent of the number of rows. A decoder whose rebuilt or chunked
///     prefixes must have the bits of the first time needs an invariant product.
///  3. `workspace()` is constant.
///
/// Not checked: the caller keeps a call's pointers valid until the stream has done it; calls one product from one
/// thread at a time; and, if the product has a workspace, uses streams that are ordered among each other.
///
/// Models: `CublasLt` (fast), and in tests `EmulatedProduct` (our own tiles, invariant).
template <class P>
concept Product = NamesItsStream<P> && SaysWhetherInvariant<P> && SaysItsWorkspace<P> &&
    requires(P& product, typename P::Stream stream, const ProductCall& call) {
  { product(stream, call) } -> std::same_as<Status>;
};

/// A product for uses in which rows must keep their bits.
template <class P>
concept InvariantProduct = Product<P> && P::invariant;

} // namespace sluice::kernels
