// SPDX-License-Identifier: Apache-2.0
// GraphCounts: whether a runner replayed the launches of layers that it had launched before.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

/// What came of layers that could be replayed as graphs: those of small iterations, all of whose rows pass them. Other
/// layers are not counted.
struct GraphCounts {
  std::int64_t made = 0;     ///< graphs
  std::int64_t replayed = 0; ///< layers that were launched as a graph, the one that it was made for among them
  std::int64_t launched = 0; ///< layers that were launched kernel by kernel
  std::string refused;       ///< why the driver made no graph, after which none was asked for; empty: it never refused
};

} // namespace sluice
