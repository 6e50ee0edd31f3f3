// SPDX-License-Identifier: Apache-2.0
// measure_link: measures the times of copies of several sizes, on the copy engine or a GPU.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/world/stream/measure_runner.hpp"

#include <cstdint>
#include <vector>

namespace profiled {

struct CopyTime {
  std::int64_t bytes = 0;
  double seconds = 0; ///< per copy, in a sequence of copies
  double spread = 0;  ///< of the repeated measurements
};

struct LinkTimes {
  std::vector<CopyTime> copies; ///< ascending; to the device
  sluice::BytesPerSecond rate{0};
  sluice::BytesPerSecond out_rate{0}; ///< rate to the host
  sluice::Seconds per_copy{0};        ///< time of a KV block's copy beyond its bytes
  double spread = 0;                  ///< the largest spread of all sizes
  bool each_way = false;              ///< whether each direction has its own lane
  bool batched = false; ///< whether the blocks of a transfer share calls, in which neighbours are one copy
  double mix_loss = 0;  ///< share of each direction's rate that is lost while both are active
};

/// Measures one lane, with memory that no cache holds, limited to `rate` bytes per second (0: no limit). `block`: bytes
/// of a KV block. `seconds`: most time to repeat measurements that spread; without spread each size takes a tenth of a
/// second.
LinkTimes measure_link(double rate, std::int64_t block, double seconds);

/// Measures a GPU's link: each direction, and the largest copies in both directions at once.
LinkTimes measure_link(sluice::CopyTimer& copies, std::int64_t block, double seconds);

} // namespace profiled
