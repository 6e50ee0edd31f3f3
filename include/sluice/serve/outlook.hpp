// SPDX-License-Identifier: Apache-2.0
// Outlook: a gate's view of a server: its engine, its SLO attainment so far, and copies that look ahead.
#pragma once

#include "sluice/engine/fork.hpp"
#include "sluice/serve/engine_figures.hpp"
#include "sluice/serve/generation_feed.hpp"
#include "sluice/serve/look_budget.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/slo_lead.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace sluice {

/// Measured corrections of a forecast's cost model and answer lengths.
struct Correction {
  double slowdown = 1;     ///< ratio of measured to predicted iteration time
  double length_share = 1; ///< mean ratio of an answer's length to its limit
};

/// Makes the world for a copy of engine `E`, which starts at the engine's current time. The world may end answers as
/// early as the correction says; the slowdown is applied when the copy is stepped. If null, copies cannot run.
template <class E>
using WorldAhead = std::function<typename E::backend_type(const E&, const Correction&)>;

/// A gate's view of the engine. Valid while a gate answers, between two steps of the engine.
template <class E>
class Outlook {
 public:
  using Observers = typename E::observer_values;

  /// `arrival`: of the newcomer. `observers`: for copies; their events go to `relay`. `margin`: of the newcomer's SLO
  /// class.
  Outlook(const E& engine, Seconds arrival, const Correction& correction, const SloLead& margin,
          const EngineFigures& figures, const WorldAhead<E>& world, const Observers& observers, FeedRelay& relay,
          const StepPace& pace)
      : engine_(&engine),
        arrival_(arrival),
        correction_(correction),
        margin_(margin),
        figures_(&figures),
        world_(&world),
        observers_(&observers),
        relay_(&relay),
        pace_(&pace) {}

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
};

} // namespace sluice
