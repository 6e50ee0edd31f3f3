// SPDX-License-Identifier: Apache-2.0
// Recorded: the stored results of a run.
#pragma once

#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/findable.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/report/observer/timeline.hpp"
#include "sluice/report/observer/why.hpp"

#include "compare/range_count.hpp"
#include "compare/unpaid_count.hpp"

#include <cstdint>
#include <vector>

namespace compared {

/// Tokens that reached a user together.
struct DeliveredTokens {
  sluice::RequestId request;
  std::int64_t first, count; ///< of the request's tokens, from 0
  sluice::Seconds when;
};

struct Recorded {
  sluice::Summary::State summary;
  std::vector<sluice::Summary::State> classes; ///< for the requests of each SLO class
  std::vector<DeliveredTokens> tokens;
  sluice::Series::State series;
  sluice::ChosenIteration::State chosen;
  sluice::Timeline::State timeline;
  sluice::Timeline::State rows; ///< rows of its iterations, up to the limit of a table
  sluice::Why::State why;
  sluice::Findable::State findable;
  RangeCount range;              ///< if the times are from a measured grid
  UnpaidCount unpaid;            ///< of an engine that runs alone
  sluice::Waiting waiting;       ///< until a request waits for memory
  bool waits_for_memory = false; ///< a request did, before it ever ran
};

} // namespace compared
