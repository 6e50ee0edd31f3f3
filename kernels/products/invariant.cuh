// SPDX-License-Identifier: Apache-2.0
// LaunchedTiles and CudaInvariant: Invariant on a card.
#pragma once

#include "sluice/core/expected.hpp"

#include "kernels/launch.cuh"
#include "kernels/products/invariant.hpp"
#include "kernels/products/pinned_cublas_lt.cuh"
#include "kernels/products/shows_invariance.cuh"

#include <functional>
#include <string>
#include <vector>

namespace sluice::kernels {

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

using CudaInvariant = Invariant<LaunchedTiles, PinnedCublasLt>;

} // namespace sluice::kernels
