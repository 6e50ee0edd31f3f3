// SPDX-License-Identifier: Apache-2.0
// The observers of sluice-run.
#include "run/watch.hpp"

namespace running {

using namespace sluice;

namespace {

/// Calls `tell(observer, state)` for each that is wanted.
template <class Tell>
void each(Recorded& into, Tell&& tell) {
  if (into.keeps_summary) tell(Summary{}, into.summary);
  if (into.keeps_timeline) tell(into.trace, into.timeline);
  if (into.keeps_decisions) tell(DecisionLog{}, into.decisions);
}

} // namespace

void Watch::submitted(State&, const RequestRow& row) const {
  each(*into, [&](const auto& observer, auto& of) { observer.submitted(of, row); });
}
void Watch::refused(State&, RequestId id, const RequestSpec& spec, Seconds now, std::string_view reason) const {
  each(*into, [&](const auto& observer, auto& of) { observer.refused(of, id, spec, now, reason); });
  into->refused(id, reason);
  if (into->feed != nullptr) into->feed->refused(id, reason);
}
void Watch::preempted(State&, const RequestRow& row, Kept kept, Seconds now) const {
  each(*into, [&](const auto& observer, auto& of) { observer.preempted(of, row, kept, now); });
  if (into->feed != nullptr) into->feed->preempted(row, kept, now);
}
void Watch::resumed(State&, const RequestRow& row, Seconds now) const {
  each(*into, [&](const auto& observer, auto& of) { observer.resumed(of, row, now); });
  if (into->feed != nullptr) into->feed->resumed(row, now);
}
void Watch::ended(State&, const RequestRow& row, Seconds now) const {
  each(*into, [&](const auto& observer, auto& of) { observer.ended(of, row, now); });
  into->ended(row.id);
  if (into->feed != nullptr) into->feed->ended(row, now);
}
void Watch::cancelled(State&, const RequestRow& row, Seconds now) const {
  each(*into, [&](const auto& observer, auto& of) { observer.cancelled(of, row, now); });
  into->cancelled(row.id);
  if (into->feed != nullptr) into->feed->cancelled(row, now);
}
void Watch::delivered(State&, const RequestRow& row, Tokens count, Seconds when) const {
  each(*into, [&](const auto& observer, auto& of) { observer.delivered(of, row, count, when); });
  into->released(row.id, row.delivered - count, count);
  if (into->feed != nullptr) into->feed->released(row, count, when);
}
void Watch::planned(State&, const View& view, const Plan& plan, Seconds virtual_time, Seconds wall_time) const {
  each(*into, [&](const auto& observer, auto& of) { observer.planned(of, view, plan, virtual_time, wall_time); });
  if (into->feed != nullptr) into->feed->planned(view, plan, wall_time);
}
void Watch::recorded(const IterationRecord& record, const Replayed& replay) const {
  each(*into, [&](const auto& observer, auto& of) { observer.iterated(of, record, replay); });
  if (into->feed != nullptr) into->feed->iterated(record);
}

} // namespace running
