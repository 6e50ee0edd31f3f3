// SPDX-License-Identifier: Apache-2.0
// Defines the observers of sluice-compare.
#include "compare/recorder.hpp"

#include "compare/wanted.hpp"

#include <cmath>
#include <cstddef>

namespace compared {

using namespace sluice;

namespace {

/// Keeps the row of every iteration, or, if they do not all fit, the rows around the trace's point. A row takes 200
/// bytes in memory and in a file, a detailed iteration takes kilobytes: a table may therefore have every iteration
/// where a trace cannot.
Timeline rows_of(const Wanted& wanted) {
  Timeline rows;
  rows.at = wanted.trace_at;
  rows.max_iterations = wanted.iterations;
  rows.max_detailed = 2; // empty: no iteration is evaluated again for rows
  rows.max_plans = 0;
  return rows;
}

/// Returns the request that an event is about; null if it is about the engine.
const RequestSpec* request_of(const AnyEvent& event) {
  if (const auto* of = event.get<events::Delivered>()) return &of->row.spec;
  if (const auto* of = event.get<events::Submitted>()) return &of->row.spec;
  if (const auto* of = event.get<events::Ended>()) return &of->row.spec;
  if (const auto* of = event.get<events::Preempted>()) return &of->row.spec;
  if (const auto* of = event.get<events::Refused>()) return &of->spec;
  if (const auto* of = event.get<events::Cancelled>()) return &of->row.spec;
  return nullptr;
}

} // namespace

Recorder::Recorder(const Request& of) : request(of) {
  for (const SloClass& one : of.setup.slo_classes)
    classes_.push_back({std::isinf(one.slo.ttft.count()) ? of.slo.ttft : one.slo.ttft,
                        std::isinf(one.slo.tbt.count()) ? of.slo.tbt : one.slo.tbt});
  kept.classes.resize(classes_.size());
}

/// Observers that evaluate iterations again receive events only if their drawings are requested.
void Recorder::hear(const AnyEvent& event) {
  tell(Summary{}, kept.summary, event);
  if (const RequestSpec* of = classes_.empty() ? nullptr : request_of(event))
    for (std::size_t i = 0; i < classes_.size(); ++i)
      if (classes_[i] == of->slo) {
        tell(Summary{}, kept.classes[i], event);
        break;
      }
  if (request.wanted != nullptr && request.wanted->tokens)
    if (const auto* delivered = event.get<events::Delivered>(); delivered != nullptr && delivered->count.count() > 0)
      kept.tokens.push_back({delivered->row.id, (delivered->row.delivered - delivered->count).count(),
                             delivered->count.count(), delivered->when});
  tell(Series{}, kept.series, event);
  if (request.why) {
    Why why;
    why.enabled = true;
    why.wanted = request.why_id;
    tell(why, kept.why, event);
  }
  if (request.findable) tell(Findable{}, kept.findable, event);
  if (!request.setup.tenants) kept.unpaid.hear(event);
  if (request.setup.cost.has_grid())
    if (const auto* iterated = event.get<events::Iterated>()) kept.range.hear(iterated->record, request.setup.cost);
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
