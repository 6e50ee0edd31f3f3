// SPDX-License-Identifier: Apache-2.0
// Recorder: the observers of a comparison as one, compiled once for all engine types.
#pragma once

#include "sluice/observer/chosen_iteration.hpp"
#include "sluice/observer/series.hpp"
#include "sluice/observer/summary.hpp"
#include "sluice/observer/timeline.hpp"

#include <functional>
#include <string_view>

namespace compared {

/// Summary, Series, ChosenIteration and Timeline behind calls that no engine type inlines: four observers in each of
/// forty engine types were a third of what this program took to compile, and a call a token is nothing to a simulation.
struct Recorder {
  using role = sluice::roles::Observer;
  static constexpr bool wants_timeline = true;

  struct State {
    sluice::Summary::State summary;
    sluice::Series::State series;
    sluice::ChosenIteration::State chosen;
    sluice::Timeline::State timeline;
  };

  void submitted(State& state, const sluice::RequestRow& row) const;
  void refused(State& state, sluice::RequestId id, const sluice::RequestSpec& spec, sluice::Seconds now,
               std::string_view reason) const;
  void preempted(State& state, const sluice::RequestRow& row, sluice::Kept kept, sluice::Seconds now) const;
  void resumed(State& state, const sluice::RequestRow& row, sluice::Seconds now) const;
  void ended(State& state, const sluice::RequestRow& row, sluice::Seconds now) const;
  void cancelled(State& state, const sluice::RequestRow& row, sluice::Seconds now) const;
  void delivered(State& state, const sluice::RequestRow& row, sluice::Tokens count, sluice::Seconds when) const;
  void planned(State& state, const sluice::View& view, const sluice::Plan& plan, sluice::Seconds virtual_time,
               sluice::Seconds wall_time) const;

  template <class Replay>
  void iterated(State& state, const sluice::IterationRecord& record, const Replay& replay) const {
    recorded(state, record, [&replay](sluice::detail::RecordingSink&& sink) { replay(sink); });
  }

 private:
  using Replayed = std::function<void(sluice::detail::RecordingSink&&)>;
  static void recorded(State& state, const sluice::IterationRecord& record, const Replayed& replay);
};

} // namespace compared
