// SPDX-License-Identifier: Apache-2.0
// DecisionLog: the observer that logs every plan, preemption and resumption for people.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/observer.hpp"

#include <cstddef>
#include <cstdint>
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
    [[nodiscard]] std::string text() const;
  };

  void on(State& state, const events::Refused& event) const;
  void on(State& state, const events::Preempted& event) const;
  void on(State& state, const events::Resumed& event) const;
  void on(State& state, const events::Ended& event) const;
  void on(State& state, const events::Cancelled& event) const;
  /// Logs the planner's time on the engine's clock, if it is computed from the search effort. A measured time differs
  /// in every run, so logs could not be compared.
  void on(State& state, const events::Planned& event) const;

 private:
  template <class Text>
  void add(State& state, Seconds now, const Text& text) const {
    if (state.lines.size() >= max_lines)
      ++state.dropped;
    else
      state.lines.push_back(seconds(now) + "  " + text());
  }
  static std::string name(RequestId id) { return "r" + std::to_string(index(id)); }
  static std::string seconds(Seconds time);
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
  static std::string describe(const View& view, const Plan& plan);
};

static_assert(explain<DecisionLog>());

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/decision_log.inl.hpp"
#endif
