// SPDX-License-Identifier: Apache-2.0
// ServedRequest: a request of a server that is over, and how the promises to it were kept.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/serve/kept_promises.hpp"
#include "sluice/workload/request.hpp"

namespace sluice {

/// Times are on the engine's clock. There is no text in it, nor a token.
struct ServedRequest {
  RequestId id{};
  RequestSpec spec;     ///< as submitted: `output` is the bound
  Tokens generated{0};  ///< what became of it
  KeptPromises kept;    ///< as its user saw them
  Seconds scheduled{0}; ///< when the first iteration that took it in began; below 0: not known
  Seconds ended{0};
  bool cancelled = false; ///< its client left, or a stop string ended it
};

/// Hears of requests that are over, on the engine's thread.
class ServedListener {
 public:
  ServedListener() = default;
  ServedListener(const ServedListener&) = delete;
  ServedListener& operator=(const ServedListener&) = delete;
  virtual ~ServedListener() = default;

  virtual void over(const ServedRequest& request) = 0;
};

} // namespace sluice
