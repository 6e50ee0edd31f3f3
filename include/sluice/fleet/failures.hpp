// SPDX-License-Identifier: Apache-2.0
// Failure, Start: when engines of a fleet die, and when they begin to take requests.
#pragma once

#include "sluice/core/units.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// An engine dies at the end of the iteration that runs at `at`, and stays dead. Its requests return to the router at
/// that time, and its KV is lost.
struct Failure {
  Seconds at{0};
  std::size_t engine = 0; ///< its number in the fleet: those of the first pool come first
};

/// What clients keep when an engine dies.
enum class Interrupted : std::uint8_t {
  resumed,   ///< the tokens that they got: another engine computes the KV of prompt and tokens again, and generates the
             ///< rest
  restarted, ///< nothing: the answer begins anew
};

struct Failures {
  std::vector<Failure> at{};
  Interrupted requests = Interrupted::resumed;
};

/// Adds replicas while the fleet runs. The fleet is made with all engines that it may ever have; `first` take requests
/// from the start, the others when the scaler has started them. A replica that was started takes requests `delay`
/// later (it loads its weights), and is never stopped.
struct Scaler {
  std::size_t first = 0;    ///< engines from the start; 0: all, and nothing is scaled
  double most_waiting = 10; ///< start another when more requests wait per engine that takes requests
  Seconds delay{60};        ///< from its start to its first request
  Seconds every{15};        ///< how often the scaler looks; Kubernetes' autoscaler: 15 s
};

} // namespace sluice
