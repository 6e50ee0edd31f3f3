// SPDX-License-Identifier: Apache-2.0
// measure_link: what copies of some sizes take on the copy engine.
#pragma once

#include "sluice/core/units.hpp"

#include <cstdint>
#include <vector>

namespace profiled {

struct CopyTime {
  std::int64_t bytes = 0;
  double seconds = 0; ///< of one, others before and behind it
  double spread = 0;  ///< of what was repeated
};

struct LinkTimes {
  std::vector<CopyTime> copies; ///< ascending
  sluice::BytesPerSecond rate{0};
  sluice::Seconds per_copy{0}; ///< of a block of KV, beyond its bytes
  double spread = 0;           ///< the largest of the sizes'
};

/// One lane, from memory that no cache holds, told `rate` bytes a second (0: none). `block`: bytes of a block of KV.
/// `seconds`: to repeat for what spreads; without that it takes a tenth of a second each size.
LinkTimes measure_link(double rate, std::int64_t block, double seconds);

} // namespace profiled
