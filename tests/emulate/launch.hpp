// SPDX-License-Identifier: Apache-2.0
// launch: runs a kernel over a grid on the emulator.
#pragma once

#include "emulate/host_cta.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::emulate {

/// Called between two blocks of any launch: a device with streams lets another stream run (streams.hpp).
inline void (*between_blocks)() = nullptr;

/// Runs the kernel's blocks one after the other. `seed` determines their order and everything else that a GPU leaves
/// open: the same seed gives the same run. Stops at the first block with an error. The sequence orders no blocks: under
/// ThreadSanitizer two blocks that touch one word race, as they would on a GPU.
template <kernels::BlockProgram K>
Report launch(kernels::Grid grid, const typename K::Params& params, std::uint64_t seed, const Limits& limits = {}) {
  const Quiet quiet; // the threads of a block read these locals while the next block's are written
  Report report;
  Random random(seed);
  std::vector<int> order(static_cast<std::size_t>(grid.x) * static_cast<std::size_t>(grid.y));
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int>(i);
    std::swap(order[i], order[random.below(i + 1)]);
  }
  Block block(K::threads, seed, report);
  for (const int at : order) {
    const SharedMemory memory(sizeof(typename K::Shared), random.one_in(2) ? 0xff : 0x7b);
    auto& shared = *static_cast<typename K::Shared*>(memory.at());
    const HostCta<K::threads> cta{at % grid.x, at / grid.x, grid.x, grid.y};
    auto body = [&] { K::run(cta, shared, params); };
    if (!block.run(cta.x, cta.y, memory, body)) break;
    if (between_blocks != nullptr) between_blocks();
  }
  block.finish();
  if (report.conflicts > limits.conflicts) {
    report.errors.push_back(report.most_conflicts_at.text() + ": " + std::to_string(report.conflicts) +
                            " bank conflicts in " + std::to_string(report.matrices) + " matrices, " +
                            std::to_string(limits.conflicts) + " stated");
  }
  return report;
}

} // namespace sluice::emulate
