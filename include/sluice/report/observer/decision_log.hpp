// SPDX-License-Identifier: Apache-2.0
// DecisionLog: the observer that logs every plan, preemption and resumption for people.
#pragma once

#include "sluice/report/observer/observer.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One line per decision, oldest first; lines beyond `max_lines` are only counted.
///
///     12.345678 s  step 211  plan: 3 requests, 2 offload (r7: 1 layer, r9: 4 layers), 40 blocks in flight, ...
///     12.345678 s  preempt r7: 31 tokens made, 12 not delivered; its KV stays until the room is needed
struct DecisionLog {
  using role = roles::Observer;
  using hears =
      Events<events::Refused, events::Preempted, events::Resumed, events::Ended, events::Cancelled, events::Planned>;
  static constexpr bool wants_timeline = false;

  std::size_t max_lines = 10'000;

  struct State {
    std::vector<std::string> lines;
    std::int64_t dropped = 0; ///< lines beyond `max_lines`

    /// Returns all lines with their line ends, then a line with the number of missing ones.
    [[nodiscard]] std::string text() const {
      std::string all;
      for (const std::string& line : lines) all += line + '\n';
      if (dropped > 0) all += "... and " + std::to_string(dropped) + " more\n";
      return all;
    }
  };

  void on(State& state, const events::Refused& event) const {
    add(state, event.now, [&] {
      return "refuse " + name(event.id) + " (" + std::to_string(event.spec.prompt.count()) + " + " +
             std::to_string(event.spec.output.count()) + " tokens): " + std::string{event.reason};
    });
  }
  void on(State& state, const events::Preempted& event) const {
    const RequestRow& row = event.row;
    add(state, event.now, [&] {
      return "preempt " + name(row.id) + ": " + std::to_string(row.generated.count()) + " tokens made, " +
             std::to_string(row.deposit().count()) + " not delivered; " + std::string{what_remains(event.kept)};
    });
  }
  void on(State& state, const events::Resumed& event) const {
    const RequestRow& row = event.row;
    add(state, event.now, [&] {
      return "resume " + name(row.id) + ": preempted for " + seconds(event.now - row.preempted_since) + ", " +
             std::to_string(row.pending().count()) + " tokens to compute";
    });
  }
  void on(State& state, const events::Ended& event) const {
    add(state, event.now,
        [&] { return "end " + name(event.row.id) + ": " + std::to_string(event.row.generated.count()) + " tokens"; });
  }
  void on(State& state, const events::Cancelled& event) const {
    const RequestRow& row = event.row;
    add(state, event.now, [&] {
      return "cancel " + name(row.id) + ": " + std::to_string(row.generated.count()) + " tokens made, " +
             std::to_string(row.deposit().count()) + " not delivered";
    });
  }
  /// Logs the planner's time on the engine's clock, if it is computed from the search effort. A measured time differs
  /// in every run, so logs could not be compared.
  void on(State& state, const events::Planned& event) const {
    const View& view = event.view;
    add(state, view.now, [&] {
      return "step " + std::to_string(view.step) + "  " + describe(view, event.plan) +
             (event.virtual_time == event.wall_time ? "" : " in " + seconds(event.virtual_time));
    });
  }

 private:
  template <class Text>
  void add(State& state, Seconds now, const Text& text) const {
    if (state.lines.size() >= max_lines)
      ++state.dropped;
    else
      state.lines.push_back(seconds(now) + "  " + text());
  }
  static std::string name(RequestId id) { return "r" + std::to_string(index(id)); }
  static std::string seconds(Seconds time) {
    char text[40];
    std::snprintf(text, sizeof text, "%.6f s", time.count());
    return text;
  }
  static constexpr std::string_view what_remains(Kept kept) {
    switch (kept) {
    case Kept::nothing:
      return "its KV is dropped";
    case Kept::host:
      return "its KV moves to the host";
    case Kept::device:
      return "its KV stays until the room is needed";
    case Kept::hidden:
      return "its KV moves to the host, except layers whose hidden states were saved there";
    }
    return "";
  }
  static std::string describe(const View& view, const Plan& plan) {
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
};

static_assert(explain<DecisionLog>());

} // namespace sluice
