// SPDX-License-Identifier: Apache-2.0
// LinkRates, CopyTotals: how fast a link is made to be, and what it has moved.
#pragma once

#include "sluice/core/units.hpp"

#include <cstdint>

namespace sluice {

/// How fast the link is. A rate of 0 or infinity is that of `move_bytes`, or of the device's own link.
struct LinkRates {
  double to_device_bytes_per_s = 0;
  double to_host_bytes_per_s = 0;
  bool each_way = false; ///< one lane each way; else one lane serves both
  double per_copy_s = 0; ///< before each copy, on the link
};

/// What a link has done since it was made.
struct CopyTotals {
  struct OneWay {
    Bytes bytes{0};          ///< of copies that are done
    Seconds busy{0};         ///< from when a copy was begun until it was over
    std::int64_t copies = 0; ///< done
    std::int64_t retries = 0;
    std::int64_t failed = 0; ///< for good
  };
  OneWay to_device, to_host;
};

} // namespace sluice
