// SPDX-License-Identifier: Apache-2.0
// ForecastSlo: a gate that predicts by simulation whether a newcomer's SLO can be met.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/look_ahead.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/serve/waiting_room.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// The treatment of newcomers whose SLO cannot be met.
enum class ForecastMode : std::uint8_t {
  none, ///< no forecast is made
  soft, ///< they are served, and a response header contains the forecast
  hard ///< they are held while their first token can wait, and then refused with a time to retry; so are newcomers that
       ///< would make other requests miss their SLO, and newcomers for which there was no time to look ahead
};

namespace detail {

struct Foreseen;
template <class E>
class Forecasting;

/// A forecast's reason to refuse a newcomer. It also covers later newcomers that ask for at least as much, until a
/// request leaves the engine.
struct Finding {
  Slo slo{}; ///< of the refused newcomer, like the next three members
  /// Its whole prompt. What the host has of it may not have been loaded, and then all of it had to be computed.
  std::int64_t prompt_tokens = 0;
  std::int64_t most_tokens = 0;
  int priority = 0;
  std::int64_t have_left = 0; ///< number of requests that had left the engine when the forecast was made
  Seconds at{0};              ///< time of the forecast, on the engine's clock
  ApiError error{};
  double retry_after_s = 0;

  [[nodiscard]] bool covers(const Generation& newcomer, std::int64_t have_left_now) const;
  /// The prompt tokens that the newcomer computes if all is loaded that the host has.
  [[nodiscard]] static std::int64_t least_computed(const Generation& newcomer);
};

} // namespace detail

/// Runs a copy of the engine in simulation, with the newcomer in it, until all requests with an SLO have ended. Counts
/// the newcomer's first token and every gap as `SloAttainment` does during serving: when they reach the user, after
/// Delivery.
///
/// Future arrivals and answer lengths are unknown. Later arrivals also pass this gate, which keeps them from breaking
/// an SLO that was accepted. A forecast keeps a margin from the SLO: the time that delivery needs (`Generation::lead`),
/// and with `hard` the errors of earlier forecasts (`ForecastErrors`). The engine gets that tighter SLO, so a policy
/// that paces by the SLO is ahead by the margin. Answers are assumed to reach the measured share of `max_tokens`, if
/// the copies' world can end them early (`Correction`).
///
/// The engine's thread and all its streams wait for the forecast. Forecasts therefore get a share of the time of the
/// engine's steps (`LookBudget`), but never so much that a running stream would miss its TBT. `most_s` limits all
/// forecasts between two steps, `most_steps` limits each copy. If no copy ran to the end, `soft` admits the newcomer,
/// and `hard` does not unless the engine is empty: an SLO that was not checked cannot be guaranteed. The share of
/// `soft` is small because its forecasts only inform: under overload, a queue turns each percent of lost throughput
/// into four percent of TTFT. Rejected: a separate thread for forecasts. It would need copies of the engine, and its
/// answers would describe an engine that has since run on.
///
/// `hard` promises late. A promise made to a large request whose prompt begins only after a second makes it refuse, for
/// that second, small ones that the engine would serve first: it then keeps fewer SLOs than no gate does. So it holds a
/// newcomer outside the engine until its prompt can begin `soon`, or until its first token could no longer be in time.
/// Of those that are held, clients that returned when told come first, and then the least work, which serves the most.
/// Rejected: an answer at once, with a limit for large newcomers. It refused one in four wrongly.
struct ForecastSlo {
  ForecastMode mode = ForecastMode::soft;
  std::int64_t most_steps = 8192; ///< per copy
  double most_s = 0.02;           ///< seconds of `clock` for all forecasts between two steps, or the mean step's length
                                  ///< if longer
  double hard_share = 0.05;       ///< of the time of steps, for forecasts with `hard`
  double soft_share = 0.005;      ///< the same for `soft`
  double least_wait_s = 0.05;     ///< before a refused client may return
  double most_wait_s = 600;       ///< the longest time that a refused client is told: queues last more than a minute
  double soon = 0.1; ///< of its TTFT SLO: later than that a newcomer's prompt must not begin, or it is held
  int probes = 6;    ///< number of times tried to find when the newcomer should retry
  std::function<double()> clock = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };

  LookBudget budget{};                      ///< the unused part of the share
  std::optional<detail::Finding> finding{}; ///< about the last newcomer that a forecast refused
  WaitingRoom room{};                       ///< of those that `hard` refused
  std::int64_t room_steps = -1;             ///< steps when the room was looked through last

  template <class E>
  [[nodiscard]] GateAnswer answer(const Generation& newcomer, const Outlook<E>& outlook);
  /// The client of a newcomer that is held has left: its place is kept for as long as if it had not come.
  void left(const Hold& hold) { room.leaves(hold.ticket); }

 private:
  [[nodiscard]] double share() const { return mode == ForecastMode::hard ? hard_share : soft_share; }
  /// Why no copy ran, or none to the end, and in how many seconds the next one may.
  struct Unlooked {
    std::string why;
    double again_s = 0;
  };
  /// `most_s`: the limit of the budget.
  [[nodiscard]] Unlooked share_is_used(double most) const;
  [[nodiscard]] Unlooked streams_cannot_wait(double spare_s) const;
  /// Replaces the reason and wait of a refusal without a forecast by those of the last finding, if it covers the
  /// newcomer.
  void refuse_by_finding(GateAnswer& answer, const Generation& newcomer, std::int64_t have_left, Seconds now) const;
  /// Decides about a newcomer for which no copy ran to the end.
  void without_look(GateAnswer& answer, const char* looked, const Unlooked& unlooked) const;
  /// Refuses a newcomer because of a forecast.
  static void refuse(GateAnswer& answer);
  /// Tells it when all SLOs could be kept, as far as there is time to find out.
  template <class E>
  void name_time(GateAnswer& answer, const Generation& newcomer, const detail::Foreseen& seen,
                 detail::Forecasting<E>& forecasting) const;
  /// A newcomer's place in the waiting room.
  struct Place {
    std::uint64_t asks = 0;
    std::uint64_t before = WaitingRoom::after_all; ///< its ticket's number
    double work = 0;
    Seconds prompt_s{0}; ///< that its prompt takes, one chunk in each step
    Seconds until{0};    ///< it may be held until then, so that its prompt can be computed before its first token is
                         ///< due; not after the present: it may not be held

    /// Its client has returned, not earlier than it was told.
    [[nodiscard]] bool returned() const { return before != WaitingRoom::after_all; }
  };
  template <class E>
  [[nodiscard]] Place place_of(const Generation& newcomer, const Outlook<E>& outlook);
  /// Looks ahead, if there is time, and decides.
  template <class E>
  [[nodiscard]] GateAnswer look(const Generation& newcomer, const Outlook<E>& outlook, const Place& place);
  /// Tells a refused newcomer when to return, and keeps a place for it.
  template <class E>
  void keep_place(GateAnswer& answer, const Generation& newcomer, const Outlook<E>& outlook, const Place& place);

  /// A finding tells so long that a newcomer which is held need not be looked at again: promises grow less strict with
  /// each first token.
  static constexpr Seconds finding_lasts{0.25};
};

namespace detail {

/// The outcome of a simulation with the newcomer.
struct Foreseen {
  bool possible = true; ///< the engine would accept the newcomer
  bool keeps = true;    ///< it meets its own SLO, as far as the copy ran
  bool harms = false;   ///< another request misses its SLO because of the newcomer
  bool all = false;     ///< all requests with an SLO have ended
  Seconds ttft{-1};     ///< below 0: the copy ended before the first token
  Seconds longest{0};   ///< longest gap between two tokens
  Seconds looked{0};    ///< simulated time that the copy ran
  Slo kept;             ///< the SLO that the newcomer was judged by, including the margin
  std::optional<ForeseenStep> next;
  std::vector<Foretold> foretold; ///< forecast times of the newcomer; with `hard`, of the other requests too

  [[nodiscard]] bool good() const { return keeps && !harms; }
};

/// Formats seconds with three digits.
[[nodiscard]] std::string seconds_text(Seconds seconds);

/// "TTFT 2.3 s predicted, 0.5 asked; longest gap 0.04 s predicted, 0.05 asked".
[[nodiscard]] std::string forecast_text(const Foreseen& seen, const Slo& slo);

/// The simulations for one newcomer.
template <class E>
class Forecasting {
 public:
  /// `promised`: requests that will arrive later.
  Forecasting(const ForecastSlo& gate, const Generation& newcomer, const Outlook<E>& outlook, double until,
              std::span<const Promised> promised)
      : gate_(&gate),
        newcomer_(&newcomer),
        outlook_(&outlook),
        until_(until),
        promised_(promised),
        start_(outlook.engine().now()) {}

  /// Returns the outcome if the newcomer enters now.
  [[nodiscard]] Foreseen now() { return meets(LookAhead<E>(*outlook_, pause(), promised_), outlook_->arrival()); }

  /// Returns the delay after which the newcomer could enter without any SLO violation. Infinite: never, because its SLO
  /// cannot be met even in an empty engine. No value: not found, as when others will arrive earlier.
  [[nodiscard]] std::optional<Seconds> keepable_in() {
    if (!promised_.empty()) return std::nullopt;
    const LookAhead<E>& end = without(Until::all_have_ended);
    if (cut_) return std::nullopt;
    const Foreseen last = meets(end, end.now());
    if (late()) return std::nullopt;
    if (!last.good() && end.alive() > 0) return std::nullopt; // the copy did not run until the engine was empty
    if (!last.good()) return Seconds{std::numeric_limits<double>::infinity()};
    auto bad = std::make_unique<LookAhead<E>>(*outlook_, pause());
    Seconds good = end.now();
    for (int probe = 0; probe < gate_->probes; ++probe) {
      const Seconds middle = (bad->now() + good) * 0.5;
      auto at = std::make_unique<LookAhead<E>>(*bad);
      LookBound bound = bounded();
      while (at->now() < middle && at->step(bound)) {
      }
      if (late() || at->now() >= good) break;
      const Foreseen seen = meets(*at, at->now());
      if (late()) break;
      if (seen.good())
        good = at->now();
      else
        bad = std::move(at);
    }
    return good - start_;
  }

  /// Sets the deadline of later simulations, in seconds of the gate's clock.
  void have_until(double until) { until_ = until; }
  /// Returns the engine's next iteration without the newcomer, if it was simulated.
  [[nodiscard]] std::optional<ForeseenStep> next_without() const {
    return without_ ? without_->first_step() : std::nullopt;
  }

 private:
  /// Returns how long the engine waits for this forecast, judging by earlier ones.
  [[nodiscard]] Seconds pause() const { return Seconds{outlook_->engine().alive() > 0 ? gate_->budget.usual_s() : 0}; }
  [[nodiscard]] LookBound bounded() const { return {gate_->most_steps, until_, gate_->clock}; }
  [[nodiscard]] bool late() const { return gate_->clock() > until_; }

  /// Returns the outcome if the newcomer, which arrived at `arrival`, enters `from` in its current state.
  [[nodiscard]] Foreseen meets(const LookAhead<E>& from, Seconds arrival) {
    LookAhead<E> copy(from);
    SloReading& reading = copy.reading();
    const std::size_t before = reading.missed().size();
    const SloReading::Limits limits = limits_in(copy);
    const Expected<RequestId> id = copy.enter(*newcomer_, arrival, limits);
    Foreseen seen;
    seen.kept = limits.keep;
    if (!id) {
      seen.possible = false; // the engine reports why when the newcomer is submitted
      return seen;
    }
    LookBound bound = bounded();
    for (std::size_t looked_at = before;;) {
      const bool ran = copy.step(bound);
      seen.all = reading.left() == 0;
      if (!ran || seen.all) reading.look_at(copy.now());
      const SloReading::Followed& own = reading.of(*id);
      const bool served = own.attainment.started();
      seen.keeps = !own.missed(SloReading::Limit::keep, copy.now()) && (served || !own.over);
      if (gate_->mode == ForecastMode::hard)
        for (; looked_at < reading.missed().size() && !seen.harms; ++looked_at)
          seen.harms = reading.missed()[looked_at].id != *id && kept_without(copy, reading.missed()[looked_at]);
      // After a late first token the copy runs on until the token comes, because the forecast states the TTFT.
      const bool decided = seen.harms || (!seen.keeps && (served || own.over));
      const bool done = !ran || seen.all || (gate_->mode == ForecastMode::soft && own.over);
      if (decided || done) break;
    }
    const SloReading::Followed& own = reading.of(*id);
    if (own.attainment.started()) seen.ttft = own.attainment.first - arrival;
    seen.longest = own.longest;
    seen.next = copy.first_step();
    seen.looked = copy.now() - arrival;
    seen.all = seen.all || own.over;
    if (!seen.good() || !seen.all) return seen;
    seen.foretold = reading.foretold(copy.now());
    if (gate_->mode == ForecastMode::soft)
      std::erase_if(seen.foretold, [&](const Foretold& one) { return one.id != *id; });
    return seen;
  }
  /// Returns the limits that the newcomer must keep in this copy. An empty engine offers the best service possible, so
  /// there the errors of forecasts cause no refusal.
  [[nodiscard]] SloReading::Limits limits_in(const LookAhead<E>& copy) const {
    const SloLead& lead = newcomer_->lead;
    const bool with_margin = gate_->mode == ForecastMode::hard && copy.alive() > 0;
    const Slo slo = slo_left(*newcomer_);
    return {ahead_of(slo, with_margin ? lead + outlook_->margin() : lead), ahead_of(slo, lead)};
  }

  enum class Until : std::uint8_t { slos_are_decided, all_have_ended };
  /// Returns the copy without the newcomer, after it has run until all requests with an SLO, or all requests, have
  /// ended.
  const LookAhead<E>& without(Until until, Seconds at_least = Seconds{0}) {
    if (!without_) without_ = std::make_unique<LookAhead<E>>(*outlook_, pause(), promised_);
    LookAhead<E>& copy = *without_;
    LookBound bound = bounded();
    while (((until == Until::all_have_ended ? copy.alive() : copy.reading().left()) > 0 || copy.now() < at_least) &&
           copy.step(bound)) {
    }
    copy.reading().look_at(copy.now());
    cut_ = copy.reading().left() > 0;
    return copy;
  }
  /// Returns whether the limit is kept without the newcomer. Returns false if unknown, because a refusal must be
  /// justified.
  [[nodiscard]] bool kept_without(const LookAhead<E>& with, SloReading::Miss one) {
    const std::optional<std::size_t> place = with.place_of(one.id);
    const LookAhead<E>& end = without(Until::slos_are_decided, place ? with.now() : Seconds{0});
    if (cut_) return false;
    // Those who are promised are not among the requests that `cut_` counts.
    if (place && end.now() < with.now() && end.alive() > 0) return false;
    if (!place) return !end.reading().misses(one);
    const std::optional<RequestId> id = end.promised_at(*place); // it has another id there
    return id && !end.reading().misses({*id, one.limit});
  }

  const ForecastSlo* gate_;
  const Generation* newcomer_;
  const Outlook<E>* outlook_;
  double until_;
  std::span<const Promised> promised_;
  Seconds start_;
  std::unique_ptr<LookAhead<E>> without_;
  bool cut_ = false; ///< time or steps ran out before all requests with an SLO had ended
};

} // namespace detail

inline ForecastSlo::Unlooked ForecastSlo::share_is_used(double most) const {
  const double missing_s = std::min(budget.usual_s(), most) - budget.left_s();
  return {"forecasts have had their share of the engine's time", missing_s / share()};
}

inline ForecastSlo::Unlooked ForecastSlo::streams_cannot_wait(double spare_s) const {
  return {"running streams cannot wait for a forecast and a slow step", budget.usual_s() - spare_s};
}

inline void ForecastSlo::without_look(GateAnswer& answer, const char* looked, const Unlooked& unlooked) const {
  answer.unlooked = true;
  answer.forecast = std::string{looked} + ": " + unlooked.why;
  if (mode != ForecastMode::hard) return;
  answer.admit = false;
  answer.error.status = 429;
  answer.error.type = "rate_limit_error";
  answer.error.code = "not_forecast";
  answer.retry_after_s = std::max(least_wait_s, unlooked.again_s);
  answer.forecast += "; looking ahead may be possible in " + detail::seconds_text(Seconds{answer.retry_after_s}) + " s";
  answer.error.message = answer.forecast;
}

inline void ForecastSlo::refuse_by_finding(GateAnswer& answer, const Generation& newcomer, std::int64_t have_left,
                                           Seconds now) const {
  if (answer.admit || !finding || !finding->covers(newcomer, have_left)) return;
  const Seconds age = now - finding->at;
  answer.forecast =
      "a request for no more was refused " + detail::seconds_text(age) + " s ago: " + finding->error.message;
  answer.error = finding->error;
  answer.error.message = answer.forecast;
  if (finding->error.status == 429)
    answer.retry_after_s = std::max(answer.retry_after_s, finding->retry_after_s - age.count());
  else
    answer.retry_after_s = 0;
}

inline void ForecastSlo::refuse(GateAnswer& answer) {
  answer.admit = false;
  answer.error.status = 429;
  answer.error.type = "rate_limit_error";
  answer.error.code = "slo_not_keepable";
  answer.error.message = answer.forecast;
}

template <class E>
void ForecastSlo::name_time(GateAnswer& answer, const Generation& newcomer, const detail::Foreseen& seen,
                            detail::Forecasting<E>& forecasting) const {
  const std::optional<Seconds> wait = forecasting.keepable_in();
  const bool never = wait && std::isinf(wait->count());
  if (never && newcomer.waited > Seconds{0}) {
    answer.forecast += "; it was held back too long"; // the next one may not be
    answer.retry_after_s = 1;
  } else if (never) {
    answer.forecast += "; not keepable even with nobody else here";
    answer.error.status = 422; // clients retry a 429
    answer.error.type = "invalid_request_error";
    answer.error.code = "slo_never_keepable";
  } else if (wait) {
    answer.forecast += "; keepable in " + detail::seconds_text(*wait) + " s";
    answer.retry_after_s = wait->count();
  } else if (const Seconds late = seen.ttft - newcomer.slo.ttft; late.count() > 0) {
    answer.retry_after_s = late.count(); // not earlier: there was no time left to find out more
  }
  answer.error.message = answer.forecast;
}

template <class E>
ForecastSlo::Place ForecastSlo::place_of(const Generation& newcomer, const Outlook<E>& outlook) {
  const Seconds now = outlook.engine().now();
  const Limits& limits = outlook.engine().view().limits;
  const Hold* const held = outlook.held();
  Place place{.asks = held == nullptr ? WaitingRoom::digest_of(newcomer) : held->asks,
              .work = WaitingRoom::work_of(newcomer, limits, outlook.correction().length_share),
              .until = now};
  if (held == nullptr || outlook.pace().steps() != std::exchange(room_steps, outlook.pace().steps())) room.at(now);
  if (held != nullptr) {
    place.before = held->ticket;
  } else if (const WaitingRoom::Ticket* const ticket = room.find(place.asks, now)) {
    place.before = ticket->number;
    room.came(place.before);
  }
  const double chunks =
      static_cast<double>(detail::Finding::least_computed(newcomer)) / static_cast<double>(limits.batch_tokens.count());
  place.prompt_s = Seconds{std::ceil(chunks) * outlook.pace().mean_s()};
  const Slo slo = ahead_of(slo_left(newcomer), newcomer.lead + outlook.margin());
  if (outlook.engine().alive() > 0 && !std::isinf(slo.ttft.count()))
    place.until = outlook.arrival() + slo.ttft - place.prompt_s;
  return place;
}

template <class E>
GateAnswer ForecastSlo::answer(const Generation& newcomer, const Outlook<E>& outlook) {
  if (mode == ForecastMode::none || !outlook.looks_ahead() || !SloAttainment{.slo = newcomer.slo}.has_slo()) return {};
  if (mode == ForecastMode::soft) return look(newcomer, outlook, {});
  const Seconds now = outlook.engine().now();
  const Place place = place_of(newcomer, outlook);
  Hold hold{.order = {.priority = newcomer.priority,
                      .newcomer = !place.returned(),
                      .rank = place.returned() ? static_cast<double>(place.before) : place.work},
            .until = place.until,
            .asks = place.asks,
            .ticket = place.before,
            .looked = outlook.held() != nullptr && outlook.held()->looked};
  const bool found = outlook.held() != nullptr && finding && now - finding->at < finding_lasts &&
                     finding->covers(newcomer, outlook.have_left());
  GateAnswer answer;
  const bool behind = !place.returned() && outlook.returned_held() && *outlook.returned_held() <= newcomer.priority;
  if (now < place.until && (found || behind)) {
    answer.admit = false;
    answer.hold = hold;
    answer.unlooked = behind; // so are all others
    return answer;
  }
  answer = look(newcomer, outlook, place);
  if (answer.hold) {
    hold.looked = hold.looked || answer.hold->looked;
    answer.hold = hold;
    if (place.returned()) room.stays(place.before);
  } else if (answer.admit) {
    room.admitted(place.before, (now - outlook.arrival()) / newcomer.slo.ttft);
  } else if (answer.error.status == 429) {
    if (answer.error.code == "not_forecast" && hold.looked) {
      answer.forecast = "held for " + detail::seconds_text(now - outlook.arrival()) + " s, but no place came free";
      answer.error.code = "slo_not_keepable";
      answer.unlooked = false;
    }
    keep_place(answer, newcomer, outlook, place);
  } else {
    room.forget(place.before);
  }
  return answer;
}

template <class E>
void ForecastSlo::keep_place(GateAnswer& answer, const Generation& newcomer, const Outlook<E>& outlook,
                             const Place& place) {
  const Seconds now = outlook.engine().now();
  if (place.returned() && !answer.unlooked) room.was_told_wrong(place.before);
  const double other_s = std::max(answer.retry_after_s, least_wait_s);
  const double room_s = (room.place_at(place.work, place.before, now, outlook.pace().mean_s()) - now).count();
  answer.retry_after_s = std::min(std::max(other_s, room_s), most_wait_s);
  const bool kept = room.keep(newcomer, {.asks = place.asks,
                                         .number = place.before,
                                         .work = place.work,
                                         .due = now + Seconds{answer.retry_after_s},
                                         .by_pace = room_s > other_s && room_s <= most_wait_s,
                                         .margin = outlook.margin()});
  answer.forecast += "; retry in " + detail::seconds_text(Seconds{answer.retry_after_s}) + " s";
  answer.forecast += kept ? ", when a place is kept" : "; no place is free in the waiting room";
  answer.error.message = answer.forecast;
}

template <class E>
GateAnswer ForecastSlo::look(const Generation& newcomer, const Outlook<E>& outlook, const Place& place) {
  GateAnswer answer;
  const Seconds now = outlook.engine().now();
  const bool idle = outlook.engine().alive() == 0;
  const bool may_hold = mode == ForecastMode::hard && now < place.until;
  const double most = std::max(most_s, outlook.pace().mean_s());
  budget.earn(outlook.pace(), share(), most);
  const double spare_s = idle ? most : outlook.spare_s();
  // Who returns when it was told is looked at on credit: later newcomers find less of the share.
  const bool in_budget = place.returned() ? budget.left_s() > -most : budget.allows(most);
  const double share_s = place.returned() ? most : budget.left_s();
  const double left_s = idle ? most : std::min(share_s, std::max(0.0, spare_s));
  const bool streams_can_wait = std::max(0.0, spare_s) >= budget.usual_s();
  if (!idle && (!streams_can_wait || !in_budget)) {
    without_look(answer, "not looked at", streams_can_wait ? share_is_used(most) : streams_cannot_wait(spare_s));
    if (may_hold)
      answer.hold.emplace();
    else
      refuse_by_finding(answer, newcomer, outlook.have_left(), now);
    return answer;
  }
  const double budget_s = share_s; // the budget before this forecast uses it
  const double began = clock();
  const std::vector<Promised> promised =
      mode == ForecastMode::hard && !place.returned() ? room.expected(place.before, now) : std::vector<Promised>{};
  detail::Forecasting<E> forecasting(*this, newcomer, outlook, began + left_s, promised);
  detail::Foreseen seen = forecasting.now();
  const double decided = clock();
  if (!seen.possible) {
    budget.spend(decided - began, 0, idle);
    return answer;
  }
  answer.forecast = detail::forecast_text(seen, newcomer.slo);
  const bool late = (seen.ttft < Seconds{0} ? seen.looked : seen.ttft) > seen.kept.ttft; // waiting would not help
  const bool begins_soon =
      place.returned() || outlook.arrival() + seen.ttft - now <= newcomer.slo.ttft * soon + place.prompt_s;
  const bool holds = may_hold && !late && (!seen.good() || (seen.all && !begins_soon));
  if (holds || (mode == ForecastMode::hard && !seen.good())) {
    refuse(answer);
    if (holds) answer.hold = Hold{.looked = true};
    // The search for a time to retry must leave enough time for decisions about the next newcomers.
    forecasting.have_until(
        std::max(decided, began + (idle ? left_s : std::min(left_s, budget.left_s())) - 2 * budget.usual_s()));
    if (!holds) name_time(answer, newcomer, seen, forecasting);
    if (!seen.good())
      finding = detail::Finding{.slo = newcomer.slo,
                                .prompt_tokens = static_cast<std::int64_t>(newcomer.prompt.size()),
                                .most_tokens = newcomer.max_tokens,
                                .priority = newcomer.priority,
                                .have_left = outlook.have_left(),
                                .at = now,
                                .error = answer.error,
                                .retry_after_s = answer.retry_after_s};
  }
  const double ended = clock();
  budget.spend(decided - began, ended - decided, idle);
  if (mode == ForecastMode::hard && answer.admit && !seen.all && !idle) {
    without_look(answer, "not looked at to the end",
                 spare_s < budget_s ? streams_cannot_wait(spare_s - (ended - began)) : share_is_used(most));
    if (may_hold) answer.hold.emplace();
  }
  answer.foresight = Foresight{.ttft = seen.ttft,
                               .took_s = ended - began,
                               .next = answer.admit ? seen.next : forecasting.next_without(),
                               .foretold = {},
                               .keep = {}};
  if (!answer.admit) return answer;
  answer.foresight->foretold = std::move(seen.foretold);
  answer.foresight->keep = seen.kept;
  return answer;
}

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/forecast_slo.inl.hpp"
#endif
