// SPDX-License-Identifier: Apache-2.0
// ForecastSlo: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/forecast_slo.hpp"

#include <cmath>
#include <cstdio>

namespace sluice::detail {

SLUICE_INLINE bool Finding::covers(const Generation& newcomer, std::int64_t have_left_now) const {
  return have_left == have_left_now && least_computed(newcomer) >= prompt_tokens &&
         newcomer.max_tokens >= most_tokens && newcomer.slo.ttft <= slo.ttft && newcomer.slo.tbt <= slo.tbt &&
         newcomer.priority == priority;
}

SLUICE_INLINE std::int64_t Finding::least_computed(const Generation& newcomer) {
  return static_cast<std::int64_t>(newcomer.prompt.size()) - newcomer.on_host.count();
}

SLUICE_INLINE std::string seconds_text(Seconds seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", seconds.count());
  return text;
}

SLUICE_INLINE std::string forecast_text(const Foreseen& seen, const Slo& slo) {
  std::string text;
  if (seen.ttft.count() >= 0)
    text = "TTFT " + seconds_text(seen.ttft) + " s predicted";
  else
    text = "TTFT above " + seconds_text(seen.looked) + " s predicted";
  const auto asked = [](Seconds limit, Seconds kept) {
    const Seconds margin = limit - kept;
    return ", " + seconds_text(limit) + " asked" +
           (margin.count() > 1e-3 ? " with a margin of " + seconds_text(margin) : std::string{});
  };
  if (!std::isinf(slo.ttft.count())) text += asked(slo.ttft, seen.kept.ttft);
  if (seen.longest.count() > 0 && !std::isinf(slo.tbt.count()))
    text += "; longest gap " + seconds_text(seen.longest) + " s predicted" + asked(slo.tbt, seen.kept.tbt);
  if (seen.harms) text += "; another request would miss its SLO";
  if (seen.good() && !seen.all) text += "; looked " + seconds_text(seen.looked) + " s ahead";
  return text;
}

} // namespace sluice::detail
