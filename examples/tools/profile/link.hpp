// SPDX-License-Identifier: Apache-2.0
// measure_link: what copies of some sizes take, on the copy engine or a GPU.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/world/machine/measure_copies.hpp"

#include <cstdint>
#include <vector>

namespace profiled {

struct CopyTime {
  std::int64_t bytes = 0;
  double seconds = 0; ///< of one, others before and behind it
  double spread = 0;  ///< of what was repeated
};

struct LinkTimes {
  std::vector<CopyTime> copies; ///< ascending; to the device
  sluice::BytesPerSecond rate{0};
  sluice::BytesPerSecond out_rate{0}; ///< to the host
  sluice::Seconds per_copy{0};        ///< of a block of KV, beyond its bytes
  double spread = 0;                  ///< the largest of the sizes'
  bool each_way = false;              ///< each way has a lane of its own
  double mix_loss = 0;                ///< of each way's rate, while both are active
};

/// One lane, from memory that no cache holds, told `rate` bytes a second (0: none). `block`: bytes of a block of KV.
/// `seconds`: to repeat for what spreads; without that it takes a tenth of a second each size.
LinkTimes measure_link(double rate, std::int64_t block, double seconds);

/// A GPU's link: each way, and the largest copies both ways at once.
LinkTimes measure_link(sluice::CopyTimer& copies, std::int64_t block, double seconds);

} // namespace profiled
