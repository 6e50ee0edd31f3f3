// SPDX-License-Identifier: Apache-2.0
// ComparisonReport: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/measure.hpp"
#include "sluice/report/report.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice::detail {

SLUICE_REPORT_INLINE void RefusalGroups::add(const std::string& reason, std::int64_t count) {
  std::string_view text = reason;
  const bool several = text.ends_with(alike); // this text describes the group of one run, which is now one of several
  if (several) text.remove_suffix(alike.size());
  std::string shape;
  for (const char c : text)
    if (c < '0' || c > '9') shape += c;
  const auto known = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.shape == shape; });
  if (known == groups_.end()) {
    groups_.push_back({shape, std::string{text}, count, several});
  } else {
    known->count += count;
    known->differ |= several || known->first != text;
  }
}

SLUICE_REPORT_INLINE Refusals RefusalGroups::all() const {
  Refusals refusals;
  for (const Group& group : groups_)
    refusals.emplace_back(group.first + (group.differ ? std::string{alike} : std::string{}), group.count);
  return refusals;
}

[[nodiscard]] inline Refusals refusals_of(const Summary::State& summary) {
  RefusalGroups groups;
  for (const RequestRecord& request : summary.requests)
    if (request.reason >= 0) groups.add(summary.reasons[static_cast<std::size_t>(request.reason)]);
  return groups.all();
}

} // namespace sluice::detail

namespace sluice {

SLUICE_REPORT_INLINE void collect(SystemReport& report, const Summary::State& summary, Seconds end) {
  constexpr int curve_points = 120;
  const LatencyDistributions of = latencies(summary);
  report.slo_tbt_s =
      detail::common(summary, report.slo_tbt_s, [](const auto& request) { return request.slo_tbt.count(); });
  report.slo_ttft_s =
      detail::common(summary, report.slo_ttft_s, [](const auto& request) { return request.slo_ttft.count(); });
  report.metrics = measure(summary, end, of);
  report.ttft_cdf = of.ttft.cdf(curve_points);
  report.tbt_cdf = of.tbt.cdf(curve_points);
  report.e2e_cdf = of.e2e.cdf(curve_points);
  report.distributions = {distribution_report("ttft_s", of.ttft), distribution_report("tpot_s", of.tpot),
                          distribution_report("tbt_s", of.tbt), distribution_report("e2e_s", of.e2e)};
  report.refusals = detail::refusals_of(summary);
}

} // namespace sluice
