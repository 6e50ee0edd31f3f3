// SPDX-License-Identifier: Apache-2.0
// PauseResume: pause the request with the largest footprint, keep its KV until the room is needed.
#pragma once

#include "sluice/relief/pause.hpp"
#include "sluice/retention/keep_until_needed.hpp"

namespace sluice {

/// A bundle of two roles, as OrbitFlow, section 3.4, describes them together: which request gives way, and what remains
/// of its KV.
struct PauseResume {
  using parts = Parts<PauseLargest, KeepUntilNeeded>;
};

} // namespace sluice
