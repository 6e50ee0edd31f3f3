// SPDX-License-Identifier: Apache-2.0
// DecisionLog: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/decision_log.hpp"

#include <cstdio>

namespace sluice {

SLUICE_INLINE std::string DecisionLog::State::text() const {
  std::string all;
  for (const std::string& line : lines) all += line + '\n';
  if (dropped > 0) all += "... and " + std::to_string(dropped) + " more\n";
  return all;
}

SLUICE_INLINE void DecisionLog::on(State& state, const events::Refused& event) const {
  add(state, event.now, [&] {
    return "refuse " + name(event.id) + " (" + std::to_string(event.spec.prompt.count()) + " + " +
           std::to_string(event.spec.output.count()) + " tokens): " + std::string{event.reason};
  });
}

SLUICE_INLINE void DecisionLog::on(State& state, const events::Preempted& event) const {
  const RequestRow& row = event.row;
  add(state, event.now, [&] {
    return "preempt " + name(row.id) + ": " + std::to_string(row.generated.count()) + " tokens made, " +
           std::to_string(row.deposit().count()) + " not delivered; " + std::string{what_remains(event.kept)};
  });
}

SLUICE_INLINE void DecisionLog::on(State& state, const events::Resumed& event) const {
  const RequestRow& row = event.row;
  add(state, event.now, [&] {
    return "resume " + name(row.id) + ": preempted for " + seconds(event.now - row.preempted_since) + ", " +
           std::to_string(row.pending().count()) + " tokens to compute";
  });
}

SLUICE_INLINE void DecisionLog::on(State& state, const events::Ended& event) const {
  add(state, event.now,
      [&] { return "end " + name(event.row.id) + ": " + std::to_string(event.row.generated.count()) + " tokens"; });
}

SLUICE_INLINE void DecisionLog::on(State& state, const events::Cancelled& event) const {
  const RequestRow& row = event.row;
  add(state, event.now, [&] {
    return "cancel " + name(row.id) + ": " + std::to_string(row.generated.count()) + " tokens made, " +
           std::to_string(row.deposit().count()) + " not delivered";
  });
}

SLUICE_INLINE void DecisionLog::on(State& state, const events::Planned& event) const {
  const View& view = event.view;
  add(state, view.now, [&] {
    return "step " + std::to_string(view.step) + "  " + describe(view, event.plan) +
           (event.virtual_time == event.wall_time ? "" : " in " + seconds(event.virtual_time));
  });
}

SLUICE_INLINE std::string DecisionLog::seconds(Seconds time) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6f s", time.count());
  return text;
}

SLUICE_INLINE std::string DecisionLog::describe(const View& view, const Plan& plan) {
  constexpr std::size_t most_named = 8;
  std::string away;
  std::size_t offloading = 0;
  for (const RequestPlan& part : plan.requests) {
    const int layers = part.holding.away().count();
    if (layers == 0) continue;
    if (++offloading <= most_named)
      away += (away.empty() ? "" : ", ") + name(view.row(part.slot).id) + ": " + std::to_string(layers) +
              (layers == 1 ? " layer" : " layers") + (part.holding.states_on_device ? " as hidden states" : "");
  }
  if (offloading > most_named) away += ", ...";
  std::string text = "plan: " + std::to_string(plan.requests.size()) + " requests, " + std::to_string(offloading) +
                     " offload" + (away.empty() ? "" : " (" + away + ")");
  if (plan.weights.streamed.count() > 0)
    text += ", " + std::to_string(plan.weights.streamed.count()) + " layers' weights stream";
  text +=
      ", " + std::to_string(plan.in_flight.count()) + " blocks in flight, predicted " + seconds(plan.predicted_step);
  text += ", bound by " + std::string{name_of(plan.binding)};
  if (!plan.proven_optimal) text += ", not proven best (bound " + seconds(plan.lower_bound) + ")";
  return text + ", " + std::to_string(plan.effort) + " nodes";
}

} // namespace sluice
