// SPDX-License-Identifier: Apache-2.0
// PauseResume: pauses the request with the largest footprint, and keeps its KV until its room is needed.
#pragma once

#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"

namespace sluice {

/// A bundle of two roles that OrbitFlow describes together (section 3.4): which request is preempted, and what remains
/// of its KV.
struct PauseResume {
  using parts = Parts<PauseLargest, KeepUntilNeeded>;
};

} // namespace sluice
