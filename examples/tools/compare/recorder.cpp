// SPDX-License-Identifier: Apache-2.0
// The observers of sluice-compare.
#include "compare/recorder.hpp"

#include "compare/wanted.hpp"

namespace compared {

using namespace sluice;

namespace {

/// Keeps the row of every iteration; if they do not all fit, those around the trace's point. A row takes 200 bytes here
/// and in a file, a detailed iteration kilobytes: a table may therefore have every iteration where a trace cannot.
Timeline rows_of(const Wanted& wanted) {
  Timeline rows;
  rows.at = wanted.trace_at;
  rows.max_iterations = wanted.iterations;
  rows.max_detailed = 2; // empty: no iterations are evaluated again for rows
  rows.max_plans = 0;
  return rows;
}

} // namespace

/// Observers that evaluate iterations again receive events only if their drawings are requested.
void Recorder::hear(const AnyEvent& event) {
  tell(Summary{}, kept.summary, event);
  tell(Series{}, kept.series, event);
  if (request.why) {
    Why why;
    why.enabled = true;
    why.wanted = request.why_id;
    tell(why, kept.why, event);
  }
  if (request.details) {
    tell(ChosenIteration{}, kept.chosen, event);
    tell(Timeline::of(request.wanted != nullptr ? request.wanted->trace_at : TraceAt{}), kept.timeline, event);
  }
  if (request.wanted == nullptr) return;
  if (const auto* planned = event.get<events::Planned>()) rows_of(*request.wanted).on(kept.rows, *planned);
  if (const auto* iterated = event.get<events::Iterated>())
    rows_of(*request.wanted).on(kept.rows, events::Iterated{iterated->record});
}

} // namespace compared
