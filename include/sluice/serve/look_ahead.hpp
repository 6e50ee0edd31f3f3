// SPDX-License-Identifier: Apache-2.0
// LookAhead: a copy of an engine that continues in simulation and counts its requests' SLO attainment.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/serve/forecast_errors.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/waiting_room.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace sluice {

// SloReading: SLO attainment of requests in an engine's copy.

/// Follows some of a copy's requests. Each has two limits: `keep`, which the engine got and which includes a margin for
/// the forecast's errors, and `firm`, beyond which the client's SLO is missed.
class SloReading final : public EventListener {
 public:
  struct Limits {
    Slo keep, firm;
  };
  enum class Limit : std::uint8_t { keep, firm };
  struct Miss {
    RequestId id{};
    Limit limit = Limit::keep;

    friend bool operator==(const Miss&, const Miss&) = default;
  };
  struct Followed {
    SloAttainment attainment;
    Limits limits;
    Seconds longest{0}; ///< longest gap between two tokens since the copy was made
    bool started_before = false;
    bool promised = false; ///< its client has not come yet
    bool over = false;     ///< the request has ended or was refused

    /// Returns whether the request has missed the limit. Later deadlines do not count once it is over.
    [[nodiscard]] bool missed(Limit limit, Seconds now) const;
  };

  SloReading() = default;
  /// Continues from the state of another reading.
  void take_over(const SloReading& other);

  void follow(RequestId id, const SloAttainment& attainment, const Limits& limits, bool promised = false);
  [[nodiscard]] const Followed& of(RequestId id) const;
  /// Returns the number of followed requests that have come and not ended.
  [[nodiscard]] std::int64_t left() const { return left_; }
  /// Returns the limits that requests have missed since then, in order of time.
  [[nodiscard]] const std::vector<Miss>& missed() const { return missed_; }
  [[nodiscard]] bool misses(const Miss& one) const;
  /// Returns the copy's times for the requests that have kept their firm limit so far. The other requests have missed
  /// their SLO, so the errors of their forecasts are not measured.
  [[nodiscard]] std::vector<Foretold> foretold(Seconds now) const;
  /// Stores the first iteration that ran.
  [[nodiscard]] const std::optional<ForeseenStep>& first_step() const { return first_; }
  /// Records requests whose deadline has passed without a token.
  void look_at(Seconds now);

  using hears = Events<events::Delivered, events::Ended, events::Refused, events::Cancelled, events::Iterated>;
  void hear(const AnyEvent& event) override;

 private:
  void on(const events::Delivered& event);
  void on(const events::Ended& event) { over(event.row.id); }
  void on(const events::Refused& event);
  void on(const events::Cancelled& event) { over(event.row.id); }
  void on(const events::Iterated& event);
  bool over(RequestId id);
  void look_at(RequestId id, const Followed& one, Seconds now);
  void add_missed(const Miss& one);

  std::unordered_map<std::uint32_t, Followed> of_;
  std::vector<Miss> missed_;
  std::int64_t left_ = 0;
  std::optional<ForeseenStep> first_;
};

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
  /// Copies the engine in its current state; the copy continues after `pause`. `promised`: requests that arrive later,
  /// in the order of their arrival. `outlook` and `promised` must outlive this object.
  LookAhead(const Outlook<E>& outlook, Seconds pause, std::span<const Promised> promised = {})
      : outlook_(&outlook), engine_(outlook.fork(outlook.engine())), promised_(promised) {
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
  LookAhead(const LookAhead& from)
      : outlook_(from.outlook_),
        engine_(from.outlook_->fork(from.engine_)),
        promised_(from.promised_),
        entered_(from.entered_) {
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
    if (id) reading_.follow(*id, {.slo = slo_left(newcomer), .arrival = spec.arrival}, limits);
    return id;
  }
  /// Returns the place of a request among the promised ones; none: it is not one that has arrived.
  [[nodiscard]] std::optional<std::size_t> place_of(RequestId id) const {
    for (std::size_t at = 0; at < entered_.size(); ++at)
      if (entered_[at] == id) return at;
    return std::nullopt;
  }
  /// Returns the request at this place among the promised ones; none: it has not arrived, or the engine refused it.
  [[nodiscard]] std::optional<RequestId> promised_at(std::size_t place) const {
    return place < entered_.size() ? entered_[place] : std::nullopt;
  }
  /// Runs one iteration. Returns false if there is nothing to run, or if `bound` allows no step.
  [[nodiscard]] bool step(LookBound& bound) {
    if (!bound.allows()) return false;
    outlook_->hear(&reading_);
    enter_promised();
    const Begun begun = engine_.begin();
    const bool ran = begun == Begun::under_way || begun == Begun::again;
    if (begun == Begun::under_way) engine_.finish({.bus = {}, .slowdown = outlook_->correction().slowdown});
    engine_.release_due(engine_.now());
    outlook_->hear(nullptr);
    return ran;
  }

 private:
  /// Submits the promised requests that arrive by now; if nothing else is left, waits for the next one.
  void enter_promised() {
    if (entered_.size() < promised_.size() && engine_.alive() == 0)
      engine_.idle_until(std::max(engine_.now(), promised_[entered_.size()].spec.arrival));
    while (entered_.size() < promised_.size() && promised_[entered_.size()].spec.arrival <= engine_.now()) {
      const Promised& one = promised_[entered_.size()];
      RequestSpec spec = one.spec;
      const SloReading::Limits limits{ahead_of(spec.slo, one.lead + one.margin), ahead_of(spec.slo, one.lead)};
      const SloAttainment attainment{.slo = spec.slo, .arrival = spec.arrival};
      spec.slo = limits.keep;
      const Expected<RequestId> id = engine_.submit(spec);
      entered_.push_back(id ? std::optional{*id} : std::nullopt);
      if (id) reading_.follow(*id, attainment, limits, true);
    }
  }

  const Outlook<E>* outlook_;
  E engine_;
  SloReading reading_;
  std::span<const Promised> promised_;
  std::vector<std::optional<RequestId>> entered_; ///< of `promised_`, those that have arrived
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/look_ahead.inl.hpp"
#endif
