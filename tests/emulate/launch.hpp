// SPDX-License-Identifier: Apache-2.0
// launch: a kernel over a grid, on the emulator.
#pragma once
#include "emulate/host_cta.hpp"

namespace sluice::emulate {

inline void* make_room(std::size_t bytes) {
  const Quiet quiet;
  void* const room = std::aligned_alloc(128, bytes + 127 & ~std::size_t{127});
  std::memset(room, 0xff, bytes); // no number
  return room;
}
/// A launch: blocks one after the other, in an order that is drawn.
template <class Kernel>
Report launch(kernels::Grid grid, const typename Kernel::Params& params, std::uint64_t seed) {
  const int grid_x = grid.x, grid_y = grid.y;
  using Shared = typename Kernel::Shared;
  Report report;
  std::mt19937_64 random(seed);
  std::vector<int> order(static_cast<std::size_t>(grid_x) * static_cast<std::size_t>(grid_y));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::shuffle(order.begin(), order.end(), random);
  Block block(Kernel::threads, seed);
  for (const int at : order) {
    void* const room = make_room(sizeof(Shared)); // exactly so large
    Shared& shared = *static_cast<Shared*>(room);
    HostCta<Kernel::threads> cta;
    cta.x = at % grid_x;
    cta.y = at / grid_x;
    cta.nx = grid_x;
    cta.ny = grid_y;
    auto body = [&](int) { Kernel::run(cta, shared, params); };
    const bool ended = block.run(body, report);
    {
      const Quiet quiet;
      std::free(room);
    }
    if (!ended) break;
  }
  block.finish();
  return report;
}
} // namespace sluice::emulate
