// SPDX-License-Identifier: Apache-2.0
// SteppedClock: a real machine with a deterministic clock.
#pragma once

#include "sluice/world/real/real_backend.hpp"
#include "sluice/world/real/world_of.hpp"

#include <algorithm>

namespace sluice::testing {

/// Runs iterations for real, on a clock that each of them advances by the same time. An engine that decides between two
/// iterations then lets the same requests run on any machine. (How much is copied ahead still depends on the blocks
/// that are leaving, and a thread that plans beside the iteration on when it ends.)
class SteppedClock final : public WorldOf<RealBackend> {
 public:
  SteppedClock(const RealBackend& machine, Seconds step) : WorldOf(machine), step_(step) {}

  [[nodiscard]] Seconds now() const override { return now_; }
  void idle_until(Seconds when) override { now_ = std::max(now_, when); }
  void idle_until(Seconds when, Doorbell& /*bell*/) override { idle_until(when); }
  IterationCost wait(const Iteration& iteration) override {
    (void)WorldOf::wait(iteration);
    now_ += step_;
    return {step_, Seconds{0}};
  }

 private:
  Seconds step_;
  Seconds now_{0};
};

} // namespace sluice::testing
