// SPDX-License-Identifier: Apache-2.0
// Recorder: the observers of a comparison as one, compiled once for all engine types.
#pragma once

#include "sluice/observer/chosen_iteration.hpp"

#include <functional>
#include <memory>
#include <string_view>

namespace compared {

struct Recorded; ///< compare/recorded.hpp
struct Request;  ///< compare/run.hpp

/// The observers behind calls that no engine type inlines, and what they keep behind a pointer: four observers in each
/// of forty engine types were a third of what this program took to compile, and a call a token is nothing to a
/// simulation.
struct Recorder {
  using role = sluice::roles::Observer;
  static constexpr bool wants_timeline = true;

  const Request* request = nullptr; ///< says what is wanted

  struct State {
    std::shared_ptr<Recorded> kept; ///< null until there is something
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
  void recorded(State& state, const sluice::IterationRecord& record, const Replayed& replay) const;
};

} // namespace compared
