// SPDX-License-Identifier: Apache-2.0
// Simulated backends as a server runs them. Paced: iterations take their simulated time on the wall clock. EndsAt:
// requests end at stated lengths, before their bounds.
#pragma once

#include "sluice/world/backend.hpp"
#include "sluice/world/real/async_thread.hpp"

#include <chrono>
#include <functional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

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

/// How many tokens a request generates. A length that the request has passed already ends nothing.
using OutputLength = std::function<Tokens(const RequestRow&)>;

template <class Base>
class EndsAt : public Base {
 public:
  static constexpr bool ends_requests = true;

  EndsAt(Base base, OutputLength length) : Base(std::move(base)), length_(std::move(length)) {}

  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = Base::template wait<Transfer>(iteration, state);
    outcomes_.clear();
    for (const Claim& claim : iteration.batch) {
      const RequestRow& row = iteration.view.row(claim.slot);
      if (claim.tokens == row.pending() && row.generated + Tokens{1} == length_(row))
        outcomes_.push_back({claim.slot, false, {}});
    }
    return cost;
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const { return outcomes_; }

 private:
  OutputLength length_;
  std::vector<RequestOutcome> outcomes_; ///< of the last iteration
};

} // namespace sluice
