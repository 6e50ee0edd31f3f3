// SPDX-License-Identifier: Apache-2.0
// Paced: a simulated backend whose iterations take their simulated time on the wall clock.
#pragma once

#include "sluice/world/backend.hpp"
#include "sluice/world/real/async_thread.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace sluice {

/// Serves like a device that does not exist. `Base` is a backend in virtual time that keeps nothing about requests.
template <class Base>
class Paced : public Base {
 public:
  static constexpr bool real_time = true;

  explicit Paced(Base base) : Base(std::move(base)), began_(Clock::now()) {}

  [[nodiscard]] Seconds now() const { return Seconds{std::chrono::duration<double>(Clock::now() - began_).count()}; }
  void idle_until(Seconds when) {
    const Seconds left = when - now();
    if (left > Seconds{0}) std::this_thread::sleep_for(std::chrono::duration<double>(left.count()));
  }
  void idle_until(Seconds when, Doorbell& bell) {
    (void)bell.wait_for(std::chrono::duration<double>((when - now()).count()));
  }
  /// A simulation computes nothing.
  [[nodiscard]] static bool attends_on_host() { return true; }
  /// There are no weights.
  [[nodiscard]] Status load() { return {}; }

  template <class Transfer>
  void launch(const Iteration& iteration) {
    launched_ = now();
    Base::template launch<Transfer>(iteration);
  }
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = Base::template wait<Transfer>(iteration, state);
    idle_until(launched_ + cost.duration);
    return cost;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point began_;
  Seconds launched_{0};
};

} // namespace sluice
