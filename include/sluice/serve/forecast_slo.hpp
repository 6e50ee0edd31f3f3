// SPDX-License-Identifier: Apache-2.0
// ForecastSlo: a gate that knows whether a promise can be kept, because it has seen the engine try.
#pragma once

#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/look_ahead.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace sluice {

/// What becomes of newcomers whose promise cannot be kept.
enum class Promises : std::uint8_t {
  none, ///< nobody looks ahead
  soft, ///< they are served, and told what to expect
  hard  ///< they are refused, and told when to come again; and so are those who would break the promises to others
};

/// Lets a copy of the engine go on in simulation with the newcomer in it, until everybody who is promised something has
/// ended. The newcomer's first token and every gap count, as `KeptPromises` counts them while the engine serves: what
/// reaches the user, deposits included.
///
/// Nobody knows who comes next, nor how long an answer becomes. Who comes next finds this gate too, so that a promise
/// made is not broken by them. Answers are taken to come to the share of `max_tokens` that the last ones came to, where
/// the copies' world can end them early (`Correction`).
///
/// The engine's thread waits for the answers, and all its streams with it: `most_s` bounds those between two steps
/// together, `most_steps` each copy. What breaks nothing within them is admitted, and the forecast says how far it
/// looked. Rejected: a thread for forecasts, which would have to be sent
/// copies of the engine, and answers for an engine that has gone on since.
struct ForecastSlo {
  using role = roles::Gate;

  Promises promises = Promises::soft;
  std::int64_t most_steps = 8192; ///< of each copy
  double most_s = 0.02;           ///< of `clock`, for all answers between two steps
  int probes = 6;                 ///< moments that are tried to say when the newcomer should come again
  std::function<double()> clock = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };

  template <class E>
  [[nodiscard]] GateAnswer answer(const Generation& newcomer, const Outlook<E>& outlook) const;
};

namespace detail {

/// What a newcomer would meet.
struct Foreseen {
  bool possible = true; ///< the engine would take it
  bool keeps = true;    ///< its own promises, as far as the copy went
  bool harms = false;   ///< a promise to somebody else breaks that would be kept without the newcomer
  bool all = false;     ///< everybody who is promised something has ended
  Seconds ttft{-1};     ///< below 0: no first token as far as the copy went
  Seconds longest{0};   ///< gap between two tokens
  Seconds looked{0};    ///< how far the copy went
  std::optional<ForeseenStep> next;

  [[nodiscard]] bool good() const { return keeps && !harms; }
};

/// A short number of seconds.
[[nodiscard]] inline std::string seconds_text(Seconds seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", seconds.count());
  return text;
}

/// "TTFT 2.3 s predicted, 0.5 asked; longest gap 0.04 s predicted, 0.05 asked".
[[nodiscard]] inline std::string forecast_text(const Foreseen& seen, const Slo& slo) {
  std::string text;
  if (seen.ttft.count() >= 0)
    text = "TTFT " + seconds_text(seen.ttft) + " s predicted";
  else
    text = "TTFT above " + seconds_text(seen.looked) + " s predicted";
  if (!std::isinf(slo.ttft.count())) text += ", " + seconds_text(slo.ttft) + " asked";
  if (seen.longest.count() > 0 && !std::isinf(slo.tbt.count()))
    text += "; longest gap " + seconds_text(seen.longest) + " s predicted, " + seconds_text(slo.tbt) + " asked";
  if (seen.harms) text += "; a promise to somebody else would break";
  if (seen.good() && !seen.all) text += "; looked " + seconds_text(seen.looked) + " s ahead";
  return text;
}

/// One answer's work.
template <class E>
class Forecasting {
 public:
  Forecasting(const ForecastSlo& gate, const Generation& newcomer, const Outlook<E>& outlook, double until)
      : gate_(&gate), newcomer_(&newcomer), outlook_(&outlook), until_(until), start_(outlook.engine().now()) {}

  /// If the newcomer comes now.
  [[nodiscard]] Foreseen now() { return meets(LookAhead<E>(*outlook_), outlook_->arrival()); }

  /// In what time the newcomer could come with nobody's promise broken; infinite: in no time, for it would break even
  /// alone; none: not found.
  [[nodiscard]] std::optional<Seconds> keepable_in() {
    const LookAhead<E>& end = without(Until::all_have_ended);
    if (cut_) return std::nullopt;
    const Foreseen last = meets(end, end.now());
    if (late()) return std::nullopt;
    if (!last.good() && end.alive() > 0) return std::nullopt; // somebody is still here, as far as the copy went
    if (!last.good()) return Seconds{std::numeric_limits<double>::infinity()};
    auto bad = std::make_unique<LookAhead<E>>(*outlook_);
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

  /// The engine's next iteration if no newcomer comes, as far as that was looked at.
  [[nodiscard]] std::optional<ForeseenStep> next_without() const {
    return without_ ? without_->first_step() : std::nullopt;
  }

 private:
  [[nodiscard]] LookBound bounded() const { return {gate_->most_steps, until_, gate_->clock}; }
  [[nodiscard]] bool late() const { return gate_->clock() > until_; }

  /// The newcomer, who came at `arrival`, enters when the copy `from` is where it is.
  [[nodiscard]] Foreseen meets(const LookAhead<E>& from, Seconds arrival) {
    LookAhead<E> copy(from);
    PromiseReading& reading = copy.reading();
    const std::size_t before = reading.broken().size();
    const Expected<RequestId> id = copy.enter(*newcomer_, arrival);
    Foreseen seen;
    if (!id) {
      seen.possible = false; // the engine says why
      return seen;
    }
    LookBound bound = bounded();
    for (std::size_t looked_at = before;;) {
      const bool ran = copy.step(bound);
      seen.all = reading.left() == 0;
      if (!ran || seen.all) reading.look_at(copy.now());
      const PromiseReading::Followed& own = reading.of(*id);
      const bool served = own.promises.started();
      seen.keeps = !own.broken(copy.now()) && (served || !own.over);
      if (gate_->promises == Promises::hard)
        for (; looked_at < reading.broken().size() && !seen.harms; ++looked_at)
          seen.harms = reading.broken()[looked_at] != *id && kept_without(reading.broken()[looked_at]);
      // Where the first token is late, the copy goes on: by how much is asked for.
      const bool decided = seen.harms || (!seen.keeps && (served || own.over));
      const bool done = !ran || seen.all || (gate_->promises == Promises::soft && own.over);
      if (decided || done) break;
    }
    const PromiseReading::Followed& own = reading.of(*id);
    if (own.promises.started()) seen.ttft = own.promises.first - arrival;
    seen.longest = own.longest;
    seen.next = copy.first_step();
    seen.looked = copy.now() - arrival;
    seen.all = seen.all || own.over;
    return seen;
  }

  enum class Until : std::uint8_t { promises_are_over, all_have_ended };
  /// The copy into which no newcomer comes, so far on: until those that are promised something have ended, or until all
  /// have.
  const LookAhead<E>& without(Until until) {
    if (!without_) without_ = std::make_unique<LookAhead<E>>(*outlook_);
    LookAhead<E>& copy = *without_;
    LookBound bound = bounded();
    while ((until == Until::all_have_ended ? copy.alive() : copy.reading().left()) > 0 && copy.step(bound)) {
    }
    copy.reading().look_at(copy.now());
    cut_ = copy.reading().left() > 0;
    return copy;
  }
  /// In doubt not: a refusal has to be right.
  [[nodiscard]] bool kept_without(RequestId id) {
    const LookAhead<E>& end = without(Until::promises_are_over);
    return !cut_ && !end.reading().breaks(id);
  }

  const ForecastSlo* gate_;
  const Generation* newcomer_;
  const Outlook<E>* outlook_;
  double until_;
  Seconds start_;
  std::unique_ptr<LookAhead<E>> without_;
  bool cut_ = false; ///< time or steps ran out before promises were over
};

} // namespace detail

template <class E>
GateAnswer ForecastSlo::answer(const Generation& newcomer, const Outlook<E>& outlook) const {
  GateAnswer answer;
  if (promises == Promises::none || !outlook.looks_ahead() || !KeptPromises{.slo = newcomer.slo}.promised())
    return answer;
  const double left_s = most_s - outlook.looked_s();
  if (left_s <= 0) { // streams have waited long enough
    answer.forecast = "not looked at: many came at once";
    return answer;
  }
  const double began = clock();
  detail::Forecasting<E> forecasting(*this, newcomer, outlook, began + left_s);
  const detail::Foreseen seen = forecasting.now();
  if (!seen.possible) return answer;
  answer.forecast = detail::forecast_text(seen, newcomer.slo);
  if (promises == Promises::hard && !seen.good()) {
    answer.admit = false;
    answer.error.status = 429;
    answer.error.type = "rate_limit_error";
    answer.error.code = "slo_not_keepable";
    if (const std::optional<Seconds> wait = forecasting.keepable_in(); wait && std::isinf(wait->count()))
      answer.forecast += "; not keepable even with nobody else here";
    else if (wait) {
      answer.forecast += "; keepable in " + detail::seconds_text(*wait) + " s";
      answer.retry_after_s = wait->count();
    }
    answer.error.message = answer.forecast;
  }
  answer.foresight = Foresight{seen.ttft, clock() - began, answer.admit ? seen.next : forecasting.next_without()};
  return answer;
}

} // namespace sluice
