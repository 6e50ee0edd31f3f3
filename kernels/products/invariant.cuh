// SPDX-License-Identifier: Apache-2.0
// Invariant: the Product whose rows do not depend on how many there are.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include "kernels/launch.cuh"
#include "kernels/products/pinned_cublas_lt.cuh"
#include "kernels/products/product.hpp"
#include "kernels/products/shows_invariance.cuh"
#include "kernels/products/tile_product.hpp"

#include <algorithm>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::kernels {

/// Who launches TileProduct of a configuration known at run time: `LaunchedTiles`, or a build's table of kernels.
template <class L>
concept TileLauncher = requires(const L& launch, TileProductConfig config, const ProductCall& call,
                                cudaStream_t stream) {
  { launch(config, call, stream) } -> std::same_as<Status>;
};

/// Launches TileProduct in the configurations that were added, each compiled where `add` is called.
class LaunchedTiles {
 public:
  template <TileProductConfig config>
  [[nodiscard]] Status add() {
    Expected<Launcher<TileProduct<config>>> launcher = Launcher<TileProduct<config>>::make();
    if (!launcher) return launcher.error();
    kernels_.push_back({config, [launch = *launcher](const ProductCall& call, cudaStream_t stream) {
                          return launch(TileProduct<config>::grid(call), call, stream);
                        }});
    return {};
  }

  Status operator()(TileProductConfig config, const ProductCall& call, cudaStream_t stream) const {
    for (const Kernel& one : kernels_)
      if (one.config == config) return one.launch(call, stream);
    return Error{ErrorCode::not_found, "TileProduct",
                 "no kernel for this element and tiles of " + std::to_string(config.tile_rows) + " rows",
                 "the configuration among those that are compiled"};
  }

 private:
  struct Kernel {
    TileProductConfig config;
    std::function<Status(const ProductCall&, cudaStream_t)> launch;
  };
  std::vector<Kernel> kernels_;
};

/// Products whose rows have the same bits however many there are: own tiles, or a pinned algorithm of cuBLASLt for the
/// shapes of which this card has shown that it keeps them. A shape stays with what it had first: which of the two
/// computes depends on the matrix alone, never on the call.
template <TileLauncher Tiles>
class Invariant {
 public:
  using Stream = cudaStream_t;
  static constexpr bool invariant = true;

  explicit Invariant(Tiles tiles, std::optional<PinnedCublasLt> pinned = std::nullopt)
      : tiles_(std::move(tiles)), pinned_(std::move(pinned)) {}

  /// Uses the pinned algorithm for a matrix from now on, if the card shows that rows keep their bits by it; says
  /// whether it does. Before the first call with that matrix.
  [[nodiscard]] Expected<bool> prefer_pinned(const ProductShape& shape, Stream stream) {
    if (!pinned_) return false;
    Expected<bool> shown = shows_invariance(*pinned_, shape, stream);
    if (shown && *shown) shown_.push_back(shape);
    return shown;
  }

  Status operator()(Stream stream, const ProductCall& call) {
    const ProductShape shape{call.outputs, call.inputs, call.element, call.bias != nullptr, call.accumulate, call.wide};
    if (std::find(shown_.begin(), shown_.end(), shape) != shown_.end()) return (*pinned_)(stream, call);
    return tiles_(TileProductConfig{call.element, tile_rows_for(call.rows)}, call, stream);
  }
  [[nodiscard]] Bytes workspace() const { return pinned_ ? pinned_->workspace() : Bytes{0}; }

 private:
  Tiles tiles_;
  std::optional<PinnedCublasLt> pinned_;
  std::vector<ProductShape> shown_;
};

} // namespace sluice::kernels
