// SPDX-License-Identifier: Apache-2.0
// class_report: the part of a report about the requests of one SLO class.
#pragma once

#include "sluice/report/order.hpp"
#include "sluice/report/report.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace sluice {

/// Returns every system's row of the requests of class `number`, as a separate report, so that all code that orders,
/// judges and draws rows works on it. Its workload has that class's mean number of requests.
[[nodiscard]] inline ComparisonReport class_report(const ComparisonReport& report, std::size_t number) {
  ComparisonReport part{report.workload, {}, report.baseline, report.made_by};
  part.workload.slo_classes.clear();
  for (const SystemReport& row : report.systems) {
    if (number >= row.classes.size()) continue;
    SystemReport own = row.classes[number];
    own.name = row.name;
    own.control = row.control;
    own.slo_scale = row.slo_scale;
    own.livelock = row.livelock;
    own.livelocks = row.livelocks;
    if (part.systems.empty()) part.workload.requests = own.metrics.requests;
    part.systems.push_back(std::move(own));
  }
  return part;
}

/// "class chat: first token 2 s, then every 50 ms, 31 requests".
[[nodiscard]] inline std::string class_title(const WorkloadReport& whole, std::size_t number,
                                             const ComparisonReport& part) {
  const SystemReport& row = part.systems.front();
  return "class " + whole.slo_classes[number].name + ": first token " + time_text(row.slo_ttft_s) + ", then every " +
         time_text(row.slo_tbt_s) + ", " + (whole.seeds.size() > 1 ? "about " : "") +
         std::to_string(part.workload.requests) + (part.workload.requests == 1 ? " request" : " requests");
}

} // namespace sluice
