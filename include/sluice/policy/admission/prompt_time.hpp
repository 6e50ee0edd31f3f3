// SPDX-License-Identifier: Apache-2.0
// prompt_time: how long an iteration takes that computes one request's prompt.
#pragma once

#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/view/request_row.hpp"

namespace sluice {

/// How long an iteration computes that has only the remainder of the request's prompt.
[[nodiscard]] inline Seconds prompt_time(const Estimate& estimate, const RequestRow& row) {
  const ChunkWork prompt{row.pending(), row.computed};
  Work work;
  work.chunks = {&prompt, 1};
  work.samples = 1;
  return estimate.step(work);
}

} // namespace sluice
