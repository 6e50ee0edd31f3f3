// SPDX-License-Identifier: Apache-2.0
// Outlook: a gate's view of a server: its engine, its SLO attainment so far, and copies that look ahead.
#pragma once

#include "sluice/engine/fork.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/serve/engine_figures.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/slo_class_table.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

namespace sluice {

// LookBudget: limits the share of an engine's time that forecasts take.

/// Measures how long an engine's steps take, for gates that look ahead between them.
class StepPace {
 public:
  /// Records that a step took `seconds` of the wall clock.
  void ran(double seconds) {
    ++steps_;
    mean_s_ += (seconds - mean_s_) / static_cast<double>(std::min(steps_, window));
    longest_s_ = std::max(seconds, longest_s_ * 0.99);
    recent_.add(seconds);
  }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Returns the mean length of about the last fifty steps, in seconds.
  [[nodiscard]] double mean_s() const { return mean_s_; }
  /// Returns the longest recent step, in seconds. A maximum decays by a hundredth per step.
  [[nodiscard]] double longest_s() const { return longest_s_; }
  /// Returns the P99 of about the last five hundred steps, including those with prompts, in seconds.
  [[nodiscard]] double slow_s() const { return recent_.quantile(0.99); }

 private:
  static constexpr std::int64_t window = 50;
  std::int64_t steps_ = 0;
  double mean_s_ = 0;
  double longest_s_ = 0;
  RecentQuantile recent_{512};
};

/// Seconds that forecasts may take. Each step earns a share of the mean step. Unused time is carried over, up to a
/// limit, because a forecast takes longer than one step earns. A forecast that took too long leaves a debt that later
/// steps pay off, so the share holds over a long time, whatever a single forecast takes.
class LookBudget {
 public:
  /// Adds the time that the steps since the last call have earned. `most_s`: the limit of the budget.
  void earn(const StepPace& pace, double share, double most_s) {
    const auto steps = static_cast<double>(pace.steps() - seen_);
    seen_ = pace.steps();
    if (steps > 0) left_s_ = std::min(most_s, left_s_ + share * pace.mean_s() * steps);
  }
  /// Returns whether a forecast of the usual length fits; a shorter one would be useless. At most all of `most_s` is
  /// required.
  [[nodiscard]] bool allows(double most_s) const { return left_s_ > 0 && left_s_ >= std::min(usual_s_, most_s); }
  /// Records that a forecast took `decision_s` for its decision, and `rest_s` to find a time to retry. `free`: the
  /// engine was empty, so that only the newcomer waited.
  void spend(double decision_s, double rest_s, bool free) {
    if (!free) left_s_ -= decision_s + rest_s;
    usual_s_ += (decision_s - usual_s_) / static_cast<double>(samples_ = std::min<std::int64_t>(samples_ + 1, 20));
  }
  [[nodiscard]] double left_s() const { return left_s_; }
  /// Returns the mean time of about the last twenty decisions, in seconds.
  [[nodiscard]] double usual_s() const { return usual_s_; }

 private:
  double left_s_ = 0;
  double usual_s_ = 0;
  std::int64_t seen_ = 0, samples_ = 0;
};

// GenerationFeed: the observer that passes an engine's events to a server; FeedRelay: a listener that passes events on.

/// Passes every event on to `listener`. A server draws no timelines.
using GenerationFeed = AnyObserver<false>;

/// Passes events to a listener that can change. An engine is copied often. Instead of creating observers for each copy,
/// all copies share one relay; its listener is set while one of them is stepped.
class FeedRelay final : public EventListener {
 public:
  /// Null: events are dropped.
  void pass_to(EventListener* listener) { to_ = listener; }

  void hear(const AnyEvent& event) override {
    if (to_ != nullptr) to_->hear(event);
  }

 private:
  EventListener* to_ = nullptr;
};

/// Measured corrections of a forecast's cost model and answer lengths.
struct Correction {
  double slowdown = 1;     ///< ratio of measured to predicted iteration time
  double length_share = 1; ///< mean ratio of an answer's length to its limit
};

/// Makes the world for a copy of engine `E`, which starts at the engine's current time. The world may end answers as
/// early as the correction says; the slowdown is applied when the copy is stepped. If null, copies cannot run.
template <class E>
using WorldAhead = std::function<typename E::backend_type(const E&, const Correction&)>;

/// A newcomer that a gate neither admits nor refuses yet.
struct Hold {
  /// Of those that are held, the lowest is asked for first: by priority, then those that have returned when they were
  /// told, then by rank.
  struct Order {
    int priority = 0;
    bool newcomer = true; ///< it has not returned when it was told
    double rank = 0;

    [[nodiscard]] bool returned() const { return !newcomer; }
    friend auto operator<=>(const Order&, const Order&) = default;
  };
  static constexpr std::uint64_t no_ticket = std::numeric_limits<std::uint64_t>::max();

  Order order{};
  Seconds until{0};                 ///< it is asked for then at the latest, on the engine's clock
  std::uint64_t asks = 0;           ///< a digest of what its client asks for
  std::uint64_t ticket = no_ticket; ///< its number in the gate's waiting room
  bool looked = false;              ///< a forecast that reached its end has been made
};

/// A gate's view of the engine. Valid while a gate answers, between two steps of the engine.
template <class E>
class Outlook {
 public:
  using Observers = typename E::observer_values;

  /// `arrival`: of the newcomer. `observers`: for copies; their events go to `relay`. `margin`: of the newcomer's SLO
  /// class. `held`: what the gate said about it before; null: nothing.
  Outlook(const E& engine, Seconds arrival, const Correction& correction, const SloLead& margin,
          const EngineFigures& figures, const WorldAhead<E>& world, const Observers& observers, FeedRelay& relay,
          const StepPace& pace, const Hold* held = nullptr, std::int64_t others_held = 0,
          std::optional<int> returned_held = std::nullopt)
      : engine_(&engine),
        arrival_(arrival),
        correction_(correction),
        margin_(margin),
        figures_(&figures),
        world_(&world),
        observers_(&observers),
        relay_(&relay),
        pace_(&pace),
        held_(held),
        others_held_(others_held),
        returned_held_(returned_held) {}

  /// Returns the engine in its current state, without the newcomer.
  [[nodiscard]] const E& engine() const { return *engine_; }
  /// Returns when the newcomer arrived, possibly during the last step.
  [[nodiscard]] Seconds arrival() const { return arrival_; }
  /// Returns a live request's attainment so far, on the engine's clock; null: unknown.
  [[nodiscard]] const SloAttainment* attainment(RequestId id) const { return figures_->attainment(id); }
  /// Returns the SLO that such a request must get so that its client's SLO is met: less the time that delivery needs.
  [[nodiscard]] Slo firm(RequestId id) const { return figures_->firm(id); }
  /// Returns the number of requests that have left the engine since the server started.
  [[nodiscard]] std::int64_t have_left() const { return figures_->have_left(); }
  /// Returns the margin that a forecast must keep from the newcomer's SLO, derived from earlier errors.
  [[nodiscard]] const SloLead& margin() const { return margin_; }

  [[nodiscard]] const Correction& correction() const { return correction_; }

  /// Returns how long the engine's steps take. While a gate answers, no step runs and no stream gets a token.
  [[nodiscard]] const StepPace& pace() const { return *pace_; }
  /// Returns the seconds that all running streams can wait before the next step, assuming that step is slow: until the
  /// first of them would miss a deadline. Infinite if there is no such stream.
  [[nodiscard]] double spare_s() const {
    const View view = engine_->view();
    double spare = std::numeric_limits<double>::infinity();
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      const SloAttainment* const so_far = attainment(row.id);
      if (so_far == nullptr || !so_far->started()) continue;
      const Slo slo = firm(row.id);
      if (so_far->misses(slo, view.now)) continue;
      const double waits = static_cast<double>(row.deposit().count() + 1); // held tokens bridge the wait
      spare = std::min(spare, (so_far->last + slo.tbt * waits - view.now).count());
    }
    return spare - pace_->slow_s();
  }
  /// Returns what the gate said when it was last asked about this newcomer; null: it has not been asked.
  [[nodiscard]] const Hold* held() const { return held_; }
  /// Returns the number of other newcomers that gates hold.
  [[nodiscard]] std::int64_t others_held() const { return others_held_; }
  /// Returns the lowest priority of the others that are held and have returned when they were told. Of those that were
  /// held before this newcomer was asked for, only those with a lower order count.
  [[nodiscard]] std::optional<int> returned_held() const { return returned_held_; }
  [[nodiscard]] bool looks_ahead() const { return *world_ != nullptr; }
  /// Returns a copy of `from` (the engine or a copy of it) in its own world.
  [[nodiscard]] E fork(const E& from) const { return from.fork((*world_)(from, correction_), *observers_); }
  /// Sends later events of copies to `listener`; null: drops them.
  void hear(EventListener* listener) const { relay_->pass_to(listener); }

 private:
  const E* engine_;
  Seconds arrival_;
  Correction correction_;
  SloLead margin_;
  const EngineFigures* figures_;
  const WorldAhead<E>* world_;
  const Observers* observers_;
  FeedRelay* relay_;
  const StepPace* pace_;
  const Hold* held_;
  std::int64_t others_held_;
  std::optional<int> returned_held_;
};

} // namespace sluice
