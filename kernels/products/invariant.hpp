// SPDX-License-Identifier: Apache-2.0
// Invariant: the Product whose rows do not depend on the number of rows.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/products/product.hpp"
#include "kernels/products/shows_invariance.hpp"
#include "kernels/products/tile_product.hpp"

#include <algorithm>
#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::kernels {

/// Launches TileProduct of a configuration known at run time: `LaunchedTiles`, or a build's table of kernels.
template <class L, class Stream>
concept TileLauncher = requires(const L& launch, TileProductConfig config, const ProductCall& call, Stream stream) {
  { launch(config, call, stream) } -> std::same_as<Status>;
};

/// Products whose rows have the same bits for any number of rows: by our own tiles, or by a pinned algorithm for
/// matrices for which this device has shown that it keeps the bits. A matrix keeps its first implementation: which one
/// computes depends only on the matrix, never on the call. A call of a pinned matrix with other strides than the tested
/// ones, or with more rows, is an error, since our own tiles would give other bits.
template <class Tiles, Product Pinned>
  requires TileLauncher<Tiles, typename Pinned::Stream>
class Invariant {
 public:
  using Stream = typename Pinned::Stream;
  static constexpr bool invariant = true;

  explicit Invariant(Tiles tiles, std::optional<Pinned> pinned = std::nullopt)
      : tiles_(std::move(tiles)), pinned_(std::move(pinned)) {}

  /// Declares that K and V are rebuilt from this matrix (RebuildTile, RebuildAndDecode), with our own tiles. Its
  /// product then always uses them too, and `prefer_pinned` refuses the matrix; otherwise rebuilt K and V would not
  /// have the bits of the first time. The matrix is multiplied without a bias: RopeAndStore and RebuildTile add it
  /// after the product is rounded.
  [[nodiscard]] Status keep_tiles(const ProductShape& shape) {
    if (shape.biased || shape.accumulate || shape.wide) {
      return Error{ErrorCode::bad_input, "a matrix that is rebuilt", "a product that adds to what it rounds",
                   "the product alone, and RopeAndStore's `qkv_bias`"};
    }
    for (const ProductShape& one : shown_)
      if (one.same_matrix(shape)) return clash(shape, "pinned already", "`keep_tiles` before `prefer_pinned`");
    kept_.push_back(shape);
    return {};
  }

  /// Uses the pinned algorithm for a matrix from now on, if the device shows that rows keep their bits with it; returns
  /// whether it does. Call it before the first call with that matrix.
  template <CheckMemory<Stream> M>
  [[nodiscard]] Expected<bool> prefer_pinned(M& memory, const ProductShape& shape, Stream stream) {
    for (const ProductShape& one : kept_)
      if (one.same_matrix(shape)) return clash(shape, "rebuilt by own tiles", "another matrix");
    if (!pinned_) return false;
    Expected<bool> shown = shows_invariance(*pinned_, memory, shape, stream);
    if (shown && *shown) shown_.push_back(shape.whole());
    return shown;
  }

  Status operator()(Stream stream, const ProductCall& call) {
    const ProductShape asked = ProductShape::of(call);
    bool other_strides = false;
    for (const ProductShape& one : shown_) {
      if (!one.same_product(asked)) continue;
      if (one.x_stride == asked.x_stride && one.y_stride == asked.y_stride) {
        if (call.rows <= one.most_rows) return (*pinned_)(stream, call);
        return clash(asked, "called with " + std::to_string(call.rows) + " rows",
                     "at most " + std::to_string(one.most_rows) + ", of which the device has shown its bits");
      }
      other_strides = true;
    }
    if (other_strides) return clash(asked, "called with other strides", "those that `prefer_pinned` was given");
    return tiles_(TileProductConfig{call.element, tile_rows_for(call.rows)}, call, stream);
  }
  [[nodiscard]] Bytes workspace() const { return pinned_ ? pinned_->workspace() : Bytes{0}; }

 private:
  static Error clash(const ProductShape& shape, std::string found, std::string expected) {
    return Error{ErrorCode::bad_input,
                 "a matrix of " + std::to_string(shape.outputs) + " x " + std::to_string(shape.inputs),
                 std::move(found), std::move(expected)};
  }

  Tiles tiles_;
  std::optional<Pinned> pinned_;
  std::vector<ProductShape> shown_; // strides written out
  std::vector<ProductShape> kept_;
};

} // namespace sluice::kernels
