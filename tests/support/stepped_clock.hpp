// SPDX-License-Identifier: Apache-2.0
// SteppedClock: a real machine with a deterministic clock.
#pragma once

#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/real/world.hpp"
#include "sluice/world/real/world_of.hpp"

#include <algorithm>
#include <memory>

namespace sluice::testing {

/// Runs iterations for real, on a clock that each of them advances by the same time. A plan made beside an iteration is
/// ready after it, but every third time an iteration later. The same requests then run on any machine. (How much is
/// copied ahead still depends on the blocks that are leaving.)
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
  [[nodiscard]] bool async_done() override {
    if (++asked_ % 3 == 0) return false;
    join_async();
    return true;
  }

 private:
  Seconds step_;
  Seconds now_{0};
  int asked_ = 0;
};

/// Lets the engine of `config` run on a SteppedClock around its backend.
void run_stepped(auto& config, Seconds step) {
  config.backend = Cpu{std::make_shared<SteppedClock>(config.backend, step)};
}

} // namespace sluice::testing
