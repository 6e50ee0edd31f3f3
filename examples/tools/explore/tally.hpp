// SPDX-License-Identifier: Apache-2.0
// Tally: what an exploration wants to know of a run, as an observer compiled once for all engine types.
#pragma once

#include "sluice/observer/summary.hpp"

#include "compare/run.hpp"

#include <string_view>

namespace compared {
struct Composed;
}

namespace explored {

/// Summary behind calls that no engine type inlines. A comparison's Recorder also keeps timelines, for which every
/// iteration is evaluated once more, by code that every transfer rule compiles once more; nobody reads a hundred of
/// them.
struct Tally {
  using role = sluice::roles::Observer;
  static constexpr bool wants_timeline = false;
  using State = sluice::Summary::State;

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
  void iterated(State& state, const sluice::IterationRecord& record, const Replay& /*replay*/) const {
    iterated(state, record);
  }

 private:
  static void iterated(State& state, const sluice::IterationRecord& record);
};

} // namespace explored

namespace compared {

/// The row of a run that was tallied: figures and refusals, no curves.
void collect(const Request& request, const Composed& engine, const explored::Tally::State& recorded,
             sluice::Seconds end, Outcome& outcome);

} // namespace compared
