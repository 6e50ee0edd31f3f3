// SPDX-License-Identifier: Apache-2.0
// TimeAudit: checks Why against the clock for any engine by counting every request's time again.
#pragma once

#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/report/observer/why.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

namespace sluice::testing {

struct TimeAudit {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Refused, events::Preempted, events::Resumed, events::Ended,
                       events::Cancelled, events::Iterated>;
  static constexpr bool wants_timeline = false;

  struct Life {
    Seconds arrival{0}, over{-1}, preempted_at{-1};
    double paused_s = 0, stalled_s = 0, ran_s = 0;
    double waited_s = -1; ///< until it first joined a batch
    std::int64_t ran = 0; ///< iterations
  };
  struct State {
    std::map<RequestId, Life> lives;
  };

  void on(State& state, const events::Submitted& event) const {
    state.lives[event.row.id].arrival = event.row.spec.arrival;
  }
  void on(State& state, const events::Refused& event) const {
    state.lives[event.id].arrival = event.spec.arrival;
    over(state.lives[event.id], event.now);
  }
  void on(State& state, const events::Preempted& event) const { state.lives[event.row.id].preempted_at = event.now; }
  void on(State& state, const events::Resumed& event) const {
    Life& life = state.lives[event.row.id];
    life.paused_s += (event.now - life.preempted_at).count();
    life.preempted_at = Seconds{-1};
  }
  void on(State& state, const events::Ended& event) const { over(state.lives[event.row.id], event.now); }
  void on(State& state, const events::Cancelled& event) const { over(state.lives[event.row.id], event.now); }
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    for (const Claim& claim : record.batch) {
      Life& life = state.lives[record.rows[index(claim.slot)].id];
      if (life.waited_s < 0) life.waited_s = std::max(0.0, (record.start - life.arrival).count());
      if (claim.tokens.count() == 0) continue;
      life.stalled_s += record.stall.count();
      life.ran_s += (record.duration - record.stall - record.planning).count();
      ++life.ran;
    }
  }

 private:
  static void over(Life& life, Seconds now) {
    life.over = now;
    if (life.preempted_at.count() >= 0) life.paused_s += (now - life.preempted_at).count();
  }
};

/// Every nanosecond of every request belongs to exactly one cause, the right one.
template <class E>
void check_times(const E& engine) {
  const auto& lives = engine.template observed<TimeAudit>().lives;
  const std::vector<RequestTime> times = Why{}.at_end(engine.template observed<Why>(), engine.now());
  CHECK(times.size() == lives.size());
  double missed = 0;
  for (const RequestTime& of : times) {
    CAPTURE(index(of.id));
    const TimeAudit::Life& life = lives.at(of.id);
    CHECK(of.end != RequestEnd::unfinished);
    CHECK_MESSAGE(std::accumulate(of.spent.begin(), of.spent.end(), std::int64_t{0}) ==
                      ticks_of(life.over) - ticks_of(life.arrival),
                  "the parts are the whole, to the nanosecond");
    const auto sum = [&of](std::initializer_list<TimeCause> causes) {
      std::int64_t ticks = 0;
      for (const TimeCause cause : causes) ticks += of.spent[static_cast<std::size_t>(cause)];
      return seconds_of(ticks);
    };
    const double rounding = 2e-9 * static_cast<double>(life.ran + 2);
    CHECK(std::abs(seconds_of(of.stalled()) - life.stalled_s) <= rounding);
    CHECK(std::abs(sum({TimeCause::paused, TimeCause::dropped}) - life.paused_s) <= rounding);
    if (life.waited_s >= 0)
      CHECK(
          std::abs(sum({TimeCause::queue, TimeCause::batch, TimeCause::tokens, TimeCause::memory, TimeCause::behind}) -
                   life.waited_s) <= rounding);
    const double ran = sum({TimeCause::prompt, TimeCause::decode, TimeCause::beside, TimeCause::again});
    CHECK(std::abs(ran - life.ran_s) <= rounding);
    for (std::size_t i = 0; i < time_causes; ++i) {
      CHECK(of.spent[i] >= 0);
      CHECK(of.covered[i] >= 0);
      CHECK(of.covered[i] <= of.spent[i]);
      CHECK(of.missed[i] >= 0);
      if (of.missed[i] > 0) CHECK_MESSAGE(of.spent[i] > 0, text_of(static_cast<TimeCause>(i)).key);
    }
    // The timeline has no gap.
    std::int64_t at = of.arrival;
    for (const TimeSpell& spell : of.spells) {
      CHECK(spell.begin == at);
      CHECK(spell.end >= spell.begin);
      CHECK(spell.stalled <= spell.end - spell.begin + 1);
      at = spell.end;
    }
    CHECK(at == of.since);
    missed += of.all_missed();
  }
  const Metrics metrics = measure(engine.template observed<Summary>(), engine.now());
  CHECK(missed == doctest::Approx(static_cast<double>(metrics.deadlines_missed)).epsilon(1e-9));
}

} // namespace sluice::testing
