// SPDX-License-Identifier: Apache-2.0
// Watch: the observers of a run as one, compiled once for all engine types.
#pragma once

#include "sluice/observer/chosen_iteration.hpp"
#include "sluice/observer/decision_log.hpp"
#include "sluice/observer/summary.hpp"
#include "sluice/observer/timeline.hpp"
#include "sluice/serve/generation_feed.hpp"

#include <cstdint>
#include <functional>
#include <string_view>

namespace running {

/// What the planners of a run have learned of the machine.
struct Learned {
  double layers = 1;           ///< times as long as was believed at first
  sluice::Seconds besides{0};  ///< more for an iteration, apart from its layers
  std::int64_t iterations = 0; ///< that taught it
};

/// What is kept of a run, and who is told of requests that end.
struct Recorded {
  sluice::Summary::State summary;
  sluice::Timeline trace; ///< what `timeline` is drawn around
  sluice::Timeline::State timeline;
  sluice::DecisionLog::State decisions;
  bool keeps_summary = true, keeps_timeline = false, keeps_decisions = false;
  sluice::FeedListener* feed = nullptr; ///< of a server: hears of every token
  std::function<void(sluice::RequestId)> ended = [](sluice::RequestId) {};
  std::function<void(sluice::RequestId, sluice::Tokens first, sluice::Tokens count)> released =
      [](sluice::RequestId, sluice::Tokens, sluice::Tokens) {};
  std::function<void(sluice::RequestId)> cancelled = [](sluice::RequestId) {};
  std::function<void(sluice::RequestId, std::string_view reason)> refused = [](sluice::RequestId, std::string_view) {};
  sluice::Seconds end{0};
  Learned learned;
};

/// Calls that no engine type inlines, for the sake of compiling thirty of them: a call a token is nothing beside one.
struct Watch {
  using role = sluice::roles::Observer;
  static constexpr bool wants_timeline = true;
  struct State {};

  Recorded* into = nullptr;

  void submitted(State&, const sluice::RequestRow& row) const;
  void refused(State&, sluice::RequestId id, const sluice::RequestSpec& spec, sluice::Seconds now,
               std::string_view reason) const;
  void preempted(State&, const sluice::RequestRow& row, sluice::Kept kept, sluice::Seconds now) const;
  void resumed(State&, const sluice::RequestRow& row, sluice::Seconds now) const;
  void ended(State&, const sluice::RequestRow& row, sluice::Seconds now) const;
  void cancelled(State&, const sluice::RequestRow& row, sluice::Seconds now) const;
  void delivered(State&, const sluice::RequestRow& row, sluice::Tokens count, sluice::Seconds when) const;
  void planned(State&, const sluice::View& view, const sluice::Plan& plan, sluice::Seconds virtual_time,
               sluice::Seconds wall_time) const;

  template <class Replay>
  void iterated(State&, const sluice::IterationRecord& record, const Replay& replay) const {
    recorded(record, [&replay](sluice::detail::RecordingSink&& sink) { replay(sink); });
  }

 private:
  using Replayed = std::function<void(sluice::detail::RecordingSink&&)>;
  void recorded(const sluice::IterationRecord& record, const Replayed& replay) const;
};

} // namespace running
