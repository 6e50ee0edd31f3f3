// SPDX-License-Identifier: Apache-2.0
// The four observers of sluice-compare.
#include "compare/recorder.hpp"

namespace compared {

namespace {

/// Calls `tell(observer, state)` for each of the four.
template <class Tell>
void each(Recorder::State& state, Tell&& tell) {
  tell(sluice::Summary{}, state.summary);
  tell(sluice::Series{}, state.series);
  tell(sluice::ChosenIteration{}, state.chosen);
  tell(sluice::Timeline{}, state.timeline);
}

} // namespace

using namespace sluice;

void Recorder::submitted(State& state, const RequestRow& row) const {
  each(state, [&](const auto& observer, auto& of) { observer.submitted(of, row); });
}
void Recorder::refused(State& state, RequestId id, const RequestSpec& spec, Seconds now,
                       std::string_view reason) const {
  each(state, [&](const auto& observer, auto& of) { observer.refused(of, id, spec, now, reason); });
}
void Recorder::preempted(State& state, const RequestRow& row, Kept kept, Seconds now) const {
  each(state, [&](const auto& observer, auto& of) { observer.preempted(of, row, kept, now); });
}
void Recorder::resumed(State& state, const RequestRow& row, Seconds now) const {
  each(state, [&](const auto& observer, auto& of) { observer.resumed(of, row, now); });
}
void Recorder::ended(State& state, const RequestRow& row, Seconds now) const {
  each(state, [&](const auto& observer, auto& of) { observer.ended(of, row, now); });
}
void Recorder::cancelled(State& state, const RequestRow& row, Seconds now) const {
  each(state, [&](const auto& observer, auto& of) { observer.cancelled(of, row, now); });
}
void Recorder::delivered(State& state, const RequestRow& row, Tokens count, Seconds when) const {
  each(state, [&](const auto& observer, auto& of) { observer.delivered(of, row, count, when); });
}
void Recorder::planned(State& state, const View& view, const Plan& plan, Seconds virtual_time,
                       Seconds wall_time) const {
  each(state, [&](const auto& observer, auto& of) { observer.planned(of, view, plan, virtual_time, wall_time); });
}
void Recorder::recorded(State& state, const IterationRecord& record, const Replayed& replay) {
  each(state, [&](const auto& observer, auto& of) { observer.iterated(of, record, replay); });
}

} // namespace compared
