// SPDX-License-Identifier: Apache-2.0
// trace_json: a Timeline in the trace event format, which ui.perfetto.dev and chrome://tracing open.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/timeline.hpp"

#include <string>
#include <string_view>

namespace sluice {
/// Returns the trace as JSON text: tracks for iterations, plans, layers, stalls and transfers, counters for memory and
/// queue, and one track per request. Deterministic. `made_by`: the program's version in a line (report/made_by.hpp).
[[nodiscard]] std::string trace_json(const Timeline::State& state, std::string_view title,
                                     std::string_view made_by = {});

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/trace_json.inl.hpp"
#endif
