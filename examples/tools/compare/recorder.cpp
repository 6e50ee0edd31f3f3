// SPDX-License-Identifier: Apache-2.0
// The observers of sluice-compare.
#include "compare/recorder.hpp"

#include "compare/recorded.hpp"
#include "compare/run.hpp"
#include "compare/wanted.hpp"

namespace compared {

using namespace sluice;

namespace {

/// Keeps of every iteration its row, of the same stretch as a trace where not all can be kept: a row is 200 bytes here
/// and as much in a file, where an iteration in full is kilobytes, so that a table may be whole and a trace may not.
Timeline rows_of(const Wanted& wanted) {
  Timeline rows;
  rows.at = wanted.trace_at;
  rows.max_iterations = wanted.iterations;
  rows.max_detailed = 2; // empty: nothing is evaluated again for them
  rows.max_plans = 0;
  return rows;
}
bool wants_rows(const Request* request) { return request != nullptr && request->wanted != nullptr; }

/// Calls `tell(observer, state)` for each that is wanted: those that evaluate iterations once more only where somebody
/// looks at what they draw.
template <class Tell>
void each(const Recorder& recorder, Recorder::State& state, Tell&& tell) {
  if (!state.kept) state.kept = std::make_shared<Recorded>();
  Recorded& kept = *state.kept;
  tell(Summary{}, kept.summary);
  tell(Series{}, kept.series);
  const Request* request = recorder.request;
  if (request == nullptr) return;
  if (request->why) {
    Why why;
    why.enabled = true;
    why.wanted = request->why_id;
    tell(why, kept.why);
  }
  if (!request->details) return;
  tell(ChosenIteration{}, kept.chosen);
  tell(Timeline::of(request->wanted != nullptr ? request->wanted->trace_at : TraceAt{}), kept.timeline);
}

} // namespace

void Recorder::submitted(State& state, const RequestRow& row) const {
  each(*this, state, [&](const auto& observer, auto& of) { observer.submitted(of, row); });
}
void Recorder::refused(State& state, RequestId id, const RequestSpec& spec, Seconds now,
                       std::string_view reason) const {
  each(*this, state, [&](const auto& observer, auto& of) { observer.refused(of, id, spec, now, reason); });
}
void Recorder::preempted(State& state, const RequestRow& row, Kept kept, Seconds now) const {
  each(*this, state, [&](const auto& observer, auto& of) { observer.preempted(of, row, kept, now); });
}
void Recorder::resumed(State& state, const RequestRow& row, Seconds now) const {
  each(*this, state, [&](const auto& observer, auto& of) { observer.resumed(of, row, now); });
}
void Recorder::ended(State& state, const RequestRow& row, Seconds now) const {
  each(*this, state, [&](const auto& observer, auto& of) { observer.ended(of, row, now); });
}
void Recorder::cancelled(State& state, const RequestRow& row, Seconds now) const {
  each(*this, state, [&](const auto& observer, auto& of) { observer.cancelled(of, row, now); });
}
void Recorder::delivered(State& state, const RequestRow& row, Tokens count, Seconds when) const {
  each(*this, state, [&](const auto& observer, auto& of) { observer.delivered(of, row, count, when); });
}
void Recorder::planned(State& state, const View& view, const Plan& plan, Seconds virtual_time,
                       Seconds wall_time) const {
  each(*this, state,
       [&](const auto& observer, auto& of) { observer.planned(of, view, plan, virtual_time, wall_time); });
  if (wants_rows(request)) rows_of(*request->wanted).planned(state.kept->rows, view, plan, virtual_time, wall_time);
}
void Recorder::recorded(State& state, const IterationRecord& record, const Replayed& replay) const {
  each(*this, state, [&](const auto& observer, auto& of) { observer.iterated(of, record, replay); });
  const auto nothing = [](auto&&) {};
  if (wants_rows(request)) rows_of(*request->wanted).iterated(state.kept->rows, record, nothing);
}

} // namespace compared
