// SPDX-License-Identifier: Apache-2.0
// Recorded: a run's observers as one listener.
#pragma once

#include "sluice/report/observer/any_observer.hpp"
#include "sluice/report/observer/decision_log.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/report/observer/timeline.hpp"

#include <cstdint>
#include <functional>
#include <string_view>

namespace running {

/// What a run's planners have learned about the machine.
struct Learned {
  double layers = 1;           ///< layers' time relative to the first estimate
  sluice::Seconds besides{0};  ///< additional time per iteration outside its layers
  std::int64_t iterations = 0; ///< that it was learned from
};

/// The results that a run keeps, and the callbacks for requests that end.
struct Recorded final : sluice::EventListener {
  void hear(const sluice::AnyEvent& event) override;

  sluice::Summary::State summary;
  sluice::Timeline trace; ///< settings of `timeline`
  sluice::Timeline::State timeline;
  sluice::DecisionLog::State decisions;
  bool keeps_summary = true, keeps_timeline = false, keeps_decisions = false;
  sluice::EventListener* feed = nullptr; ///< of a server, or writes tables; may be null
  std::function<void()> decided = [] {}; ///< `decisions` has new lines; called before `feed` hears of them
  std::function<void(sluice::RequestId)> ended = [](sluice::RequestId) {};
  std::function<void(sluice::RequestId, sluice::Tokens first, sluice::Tokens count)> released =
      [](sluice::RequestId, sluice::Tokens, sluice::Tokens) {};
  std::function<void(sluice::RequestId)> cancelled = [](sluice::RequestId) {};
  std::function<void(sluice::RequestId, std::string_view reason)> refused = [](sluice::RequestId, std::string_view) {};
  sluice::Seconds end{0};
  Learned learned;
};

} // namespace running
