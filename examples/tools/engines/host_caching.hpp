// SPDX-License-Identifier: Apache-2.0
// HostCaching: what --host-reuse, --host-write and --host-pin say.
#pragma once

#include "sluice/core/units.hpp"

#include <cstdint>

namespace engines {

/// What a request loads of a prefix that the host has.
enum class HostReuse : std::uint8_t {
  all,
  if_faster,  ///< all of it, if the planner predicts that computing it would take longer
  within_slos ///< what misses SLOs the least
};

/// Which KV goes to the host, and when.
enum class HostWrite : std::uint8_t {
  computed, ///< all, as it is computed, while the link is idle
  prompts,  ///< the same without answers
  ended,    ///< all, when its request ends
  never     ///< none: the host has what the disk had
};

struct HostCaching {
  HostReuse reuse = HostReuse::if_faster;
  HostWrite write = HostWrite::ended;
  sluice::Seconds pinned{0}; ///< so long KV of a session stays after each answer
};

} // namespace engines
