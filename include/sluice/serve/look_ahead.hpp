// SPDX-License-Identifier: Apache-2.0
// LookAhead: a copy of an engine that continues in simulation and counts its requests' SLO attainment.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/slo_reading.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace sluice {

/// Limits the steps of copies, because the engine's thread waits for them.
class LookBound {
 public:
  /// `until`: in seconds of `clock`, which must outlive this object.
  LookBound(std::int64_t steps, double until, const std::function<double()>& clock)
      : steps_(steps), until_(until), clock_(&clock) {}

  [[nodiscard]] bool allows() { return !late() && steps_-- > 0; }
  /// Returns whether time ran out, not steps.
  [[nodiscard]] bool late() {
    late_ = late_ || (*clock_)() > until_;
    return late_;
  }

 private:
  std::int64_t steps_;
  double until_;
  const std::function<double()>* clock_;
  bool late_ = false;
};

/// Follows the requests that meet their SLO when the copy is made.
template <class E>
class LookAhead {
 public:
  /// Copies the engine in its current state; the copy continues after `pause`. `outlook` must outlive this object.
  LookAhead(const Outlook<E>& outlook, Seconds pause) : outlook_(&outlook), engine_(outlook.fork(outlook.engine())) {
    engine_.idle_until(engine_.now() + pause);
    const View view = engine_.view();
    for (const RequestRow& row : view.rows) {
      if (row.phase == Phase::ended) continue;
      const SloAttainment* const so_far = outlook.attainment(row.id);
      if (so_far == nullptr || !so_far->has_slo()) continue;
      const SloReading::Limits limits{row.spec.slo, outlook.firm(row.id)};
      if (!so_far->misses(limits.firm, view.now)) reading_.follow(row.id, *so_far, limits);
    }
  }
  /// Copies another copy in its current state.
  LookAhead(const LookAhead& from) : outlook_(from.outlook_), engine_(from.outlook_->fork(from.engine_)) {
    reading_.take_over(from.reading_);
  }
  LookAhead& operator=(const LookAhead&) = delete;
  ~LookAhead() = default;

  [[nodiscard]] Seconds now() const { return engine_.now(); }
  [[nodiscard]] std::int64_t alive() const { return engine_.alive(); }
  /// Returns the first iteration that this copy ran, if any.
  [[nodiscard]] std::optional<ForeseenStep> first_step() const {
    std::optional<ForeseenStep> first = reading_.first_step();
    if (first) first->duration = first->duration / outlook_->correction().slowdown;
    return first;
  }
  [[nodiscard]] SloReading& reading() { return reading_; }
  [[nodiscard]] const SloReading& reading() const { return reading_; }

  /// Submits the newcomer, which arrived at `arrival`. Returns an error if the engine would refuse it.
  [[nodiscard]] Expected<RequestId> enter(const Generation& newcomer, Seconds arrival,
                                          const SloReading::Limits& limits) {
    const RequestSpec spec = spec_of(newcomer, arrival, limits.keep);
    Expected<RequestId> id = engine_.submit(spec, {}, newcomer.on_host);
    if (id) reading_.follow(*id, {.slo = newcomer.slo, .arrival = spec.arrival}, limits);
    return id;
  }
  /// Runs one iteration. Returns false if there is nothing to run, or if `bound` allows no step.
  [[nodiscard]] bool step(LookBound& bound) {
    if (!bound.allows()) return false;
    outlook_->hear(&reading_);
    const Begun begun = engine_.begin();
    const bool ran = begun == Begun::under_way || begun == Begun::again;
    if (begun == Begun::under_way) engine_.finish({.bus = {}, .slowdown = outlook_->correction().slowdown});
    engine_.release_due(engine_.now());
    outlook_->hear(nullptr);
    return ran;
  }

 private:
  const Outlook<E>* outlook_;
  E engine_;
  SloReading reading_;
};

} // namespace sluice
