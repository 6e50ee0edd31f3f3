// SPDX-License-Identifier: Apache-2.0
// HostReuse: what --host-reuse says.
#pragma once

#include <cstdint>

namespace engines {

/// What a request loads of a prefix that the host has.
enum class HostReuse : std::uint8_t {
  all,
  if_faster,  ///< all of it, if the planner predicts that computing it would take longer
  within_slos ///< what misses SLOs the least
};

} // namespace engines
