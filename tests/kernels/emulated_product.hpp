// SPDX-License-Identifier: Apache-2.0
// EmulatedProduct: a Product that runs TileProduct on the emulator, immediately at the call.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "emulate/launch.hpp"
#include "kernels/products/product.hpp"
#include "kernels/products/tile_product.hpp"

#include <cstdint>
#include <string>

namespace sluice::kernels {

/// Replaces a stream: calls run in the order in which they are made, each with another drawn order of threads and
/// blocks.
struct EmulatedStream {
  std::uint64_t seed = 1;
};

class EmulatedProduct {
 public:
  using Stream = EmulatedStream*;
  static constexpr bool invariant = true;

  /// `tile_rows`: 16, 64 or 128 for every call, or 0 for the tile that suits the call's rows.
  explicit EmulatedProduct(int tile_rows = 0) : tile_rows_(tile_rows) {}

  Status operator()(Stream stream, const ProductCall& call) const {
    Status said;
    each_launch(call, [&](const ProductCall& some) {
      if (said) said = launch(stream, some);
    });
    return said;
  }
  [[nodiscard]] Bytes workspace() const { return Bytes{0}; }

 private:
  Status launch(Stream stream, const ProductCall& call) const {
    switch (tile_rows_ != 0 ? tile_rows_ : tile_rows_for(call.rows)) {
    case 16:
      return of<16>(stream, call);
    case 64:
      return of<64>(stream, call);
    default:
      return of<128>(stream, call);
    }
  }
  template <int tile_rows>
  static Status of(Stream stream, const ProductCall& call) {
    switch (call.element) {
    case ElementType::f32:
      return launch<TileProductConfig{ElementType::f32, tile_rows}>(stream, call);
    case ElementType::f16:
      return launch<TileProductConfig{ElementType::f16, tile_rows}>(stream, call);
    default:
      return launch<TileProductConfig{ElementType::bf16, tile_rows}>(stream, call);
    }
  }
  template <TileProductConfig config>
  static Status launch(Stream stream, const ProductCall& call) {
    using Kernel = TileProduct<config>;
    const emulate::Report report = emulate::launch<Kernel>(Kernel::grid(call), call, ++stream->seed);
    if (report.ok()) return {};
    return Error{ErrorCode::unsupported, "TileProduct on the emulator", report.errors.front(), ""};
  }

  int tile_rows_;
};

} // namespace sluice::kernels
