// SPDX-License-Identifier: Apache-2.0
// ServedRequest: a request that a server has finished, with its SLO attainment.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/workload/request.hpp"

namespace sluice {

/// Times are on the engine's clock. Contains neither text nor tokens.
struct ServedRequest {
  RequestId id{};
  RequestSpec spec;     ///< as submitted: `output` is the length limit, `slo` the SLO that the engine got
  Tokens generated{0};  ///< actual length
  SloAttainment kept;   ///< for the SLO that its user requested, on the engine's clock
  Seconds scheduled{0}; ///< when its first iteration began; below 0: unknown
  Seconds ended{0};
  bool cancelled = false; ///< because its client disconnected, or by a stop string
};

/// Receives finished requests, on the engine's thread.
class ServedListener {
 public:
  ServedListener() = default;
  ServedListener(const ServedListener&) = delete;
  ServedListener& operator=(const ServedListener&) = delete;
  virtual ~ServedListener() = default;

  virtual void over(const ServedRequest& request) = 0;
};

} // namespace sluice
