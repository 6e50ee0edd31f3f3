// SPDX-License-Identifier: Apache-2.0
// Workload: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/workload.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace sluice {

SLUICE_INLINE std::string taken_for_text(const Workload& workload, std::span<const RequestSpec> requests) {
  std::string text;
  if (!workload.taken_for.empty()) {
    Seconds last{0};
    bool recorded = true;
    for (const RequestSpec& request : requests) {
      last = std::max(last, request.arrival * workload.options.rate_scale);
      recorded = recorded && !request.follows;
    }
    char number[32];
    std::snprintf(number, sizeof number, "%.6g", last.count());
    text = "read as " + workload.taken_for + ": arrivals from 0 to " + number +
           (workload.options.arrivals_in_steps ? " steps" : " s") +
           (recorded ? "" : " as recorded, later turns after the answer before");
  }
  if (!workload.remark.empty()) text += (text.empty() ? "" : ", ") + workload.remark;
  return text;
}

SLUICE_INLINE WorkloadTotals totals(std::span<const RequestSpec> requests) {
  WorkloadTotals sum;
  sum.requests = static_cast<std::int64_t>(requests.size());
  for (const RequestSpec& request : requests) {
    sum.prompt += request.prompt;
    sum.output += request.output;
    sum.longest = std::max(sum.longest, request.prompt + request.output);
  }
  std::vector<Seconds> arrivals;
  for (const RequestSpec& request : requests) {
    if (!request.follows) arrivals.push_back(request.arrival);
    sum.sessions += request.session != 0 && request.turn == 0 ? 1 : 0;
  }
  if (arrivals.size() < 2) return sum;
  sum.span = arrivals.back() - arrivals.front();
  const auto gaps = static_cast<double>(arrivals.size() - 1);
  if (sum.span.count() <= 0.0) return sum;
  sum.rate = gaps / sum.span.count();
  if (arrivals.size() < 3) return sum;
  const double mean = sum.span.count() / gaps;
  double squares = 0.0;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    const double off = (arrivals[i] - arrivals[i - 1]).count() - mean;
    squares += off * off;
  }
  sum.gap_cv = std::sqrt(squares / gaps) / mean;
  return sum;
}

} // namespace sluice
