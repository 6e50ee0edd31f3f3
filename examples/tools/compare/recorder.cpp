// SPDX-License-Identifier: Apache-2.0
// Defines the observers of sluice-compare.
#include "compare/recorder.hpp"

#include "compare/wanted.hpp"

#include <cmath>
#include <cstddef>
#include <optional>

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

/// What is known of the request that an event is about.
struct RequestOf {
  Seconds arrival{0};
  Slo slo{};
  std::int32_t priority = 0;
};

/// Returns nothing if the event is about the engine.
std::optional<RequestOf> request_of(const AnyEvent& event) {
  const auto of = [](const auto& spec) { return std::optional{RequestOf{spec.arrival, spec.slo, spec.priority}}; };
  if (const auto* delivered = event.get<events::Delivered>()) return of(delivered->row.spec);
  if (const auto* submitted = event.get<events::Submitted>()) return of(submitted->row.spec);
  if (const auto* ended = event.get<events::Ended>()) return of(ended->row.spec);
  if (const auto* preempted = event.get<events::Preempted>()) return of(preempted->row.spec);
  if (const auto* refused = event.get<events::Refused>()) return of(refused->spec);
  if (const auto* cancelled = event.get<events::Cancelled>()) return of(cancelled->row.spec);
  return std::nullopt;
}

/// Returns whether figures count an event: of a request by its arrival, otherwise by its time.
bool counts(const Setup& setup, const AnyEvent& event, const std::optional<RequestOf>& request) {
  Seconds at = setup.counts_from;
  if (request)
    at = request->arrival;
  else if (const auto* iterated = event.get<events::Iterated>())
    at = iterated->record.start;
  else if (const auto* planned = event.get<events::Planned>())
    at = planned->view.now;
  return setup.counts_from <= at && at < setup.counts_until;
}

/// Notes whether requests ever wait for memory: reports say so without --why, too.
void note_waits(Recorded& kept, const AnyEvent& event) {
  if (kept.waits_for_memory) return;
  if (const auto* submitted = event.get<events::Submitted>()) kept.waiting.enter(submitted->row);
  if (const auto* refused = event.get<events::Refused>()) kept.waiting.leave(refused->id);
  if (const auto* cancelled = event.get<events::Cancelled>()) kept.waiting.leave(cancelled->row.id);
  if (const auto* planned = event.get<events::Planned>()) kept.waiting.learn(planned->view);
  if (const auto* iterated = event.get<events::Iterated>())
    kept.waiting.judge(iterated->record, [&kept](RequestId, TimeCause cause) {
      if (cause == TimeCause::memory) kept.waits_for_memory = true;
    });
}

} // namespace

Recorder::Recorder(const Request& of) : request(of) {
  classes_ = of.setup.slo_classes;
  for (SloClass& one : classes_) {
    if (std::isinf(one.slo.ttft.count())) one.slo.ttft = of.slo.ttft;
    if (std::isinf(one.slo.tbt.count())) one.slo.tbt = of.slo.tbt;
  }
  kept.classes.resize(classes_.size());
  windowed_ = of.setup.counts_from.count() > 0 || !std::isinf(of.setup.counts_until.count());
  kept.summary.rates_from = of.setup.counts_from;
  for (Summary::State& part : kept.classes) part.rates_from = of.setup.counts_from;
}

/// Rates count until the horizon if requests arrive after it, and else until the last token.
void Recorder::note_horizon(Seconds arrival) {
  if (arrival < request.setup.counts_until) return;
  kept.summary.rates_until = request.setup.counts_until;
  for (Summary::State& part : kept.classes) part.rates_until = request.setup.counts_until;
}

/// Observers that evaluate iterations again receive events only if their drawings are requested.
void Recorder::hear(const AnyEvent& event) {
  // Only --slo-classes, --warmup and --horizon need to know the request, which every token would look up.
  const std::optional<RequestOf> of = windowed_ || !classes_.empty() ? request_of(event) : std::nullopt;
  const bool counted = !windowed_ || counts(request.setup, event, of);
  if (windowed_ && of) note_horizon(of->arrival);
  if (counted) tell(Summary{}, kept.summary, event);
  if (counted && of)
    for (std::size_t i = 0; i < classes_.size(); ++i)
      if (classes_[i].has(of->slo, of->priority)) {
        tell(Summary{}, kept.classes[i], event);
        break;
      }
  if (request.wanted != nullptr && request.wanted->tokens)
    if (const auto* delivered = event.get<events::Delivered>(); delivered != nullptr && delivered->count.count() > 0)
      kept.tokens.push_back({delivered->row.id, (delivered->row.delivered - delivered->count).count(),
                             delivered->count.count(), delivered->when});
  tell(Series{}, kept.series, event);
  note_waits(kept, event);
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
