// SPDX-License-Identifier: Apache-2.0
// SloReading: SLO attainment of requests in a copy of an engine.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/serve/forecast_errors.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/slo_attainment.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sluice {

/// Follows some of a copy's requests, each against two limits: `keep`, which the engine was given and which has a
/// margin for the forecast's errors, and `firm`, beyond which the client's SLO is missed.
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
    bool over = false; ///< it has ended or was refused

    /// Whether it has missed the limit. Later deadlines do not count once it is over.
    [[nodiscard]] bool missed(Limit limit, Seconds now) const {
      return attainment.misses(limit == Limit::keep ? limits.keep : limits.firm,
                               over && attainment.started() ? attainment.last : now);
    }
  };

  SloReading() = default;
  /// Continues from another reading's state.
  void take_over(const SloReading& other) {
    of_ = other.of_;
    missed_ = other.missed_;
    left_ = other.left_;
  }

  void follow(RequestId id, const SloAttainment& attainment, const Limits& limits) {
    const Followed one{attainment, limits, Seconds{0}, attainment.started(), false};
    if (!of_.try_emplace(index(id), one).second) return;
    ++left_;
    if (attainment.misses(limits.keep, std::max(attainment.last, attainment.arrival)))
      missed_.push_back({id, Limit::keep}); // no newcomer's fault
  }
  [[nodiscard]] const Followed& of(RequestId id) const {
    const auto found = of_.find(index(id));
    SLUICE_ASSERT(found != of_.end(), "a request that is followed");
    return found->second;
  }
  /// How many of the followed requests have not ended.
  [[nodiscard]] std::int64_t left() const { return left_; }
  /// The limits that requests have missed since, in order of time.
  [[nodiscard]] const std::vector<Miss>& missed() const { return missed_; }
  [[nodiscard]] bool misses(const Miss& one) const {
    return std::find(missed_.begin(), missed_.end(), one) != missed_.end();
  }
  /// The copy's times for the requests that keep their firm limit so far. Others have missed their SLO, so their times
  /// are no forecasts to be measured.
  [[nodiscard]] std::vector<Foretold> foretold(Seconds now) const {
    std::vector<Foretold> all;
    for (const auto& [at, one] : of_)
      if (!one.missed(Limit::firm, now))
        all.push_back({RequestId{at},
                       one.attainment.started() && !one.started_before ? one.attainment.first : Seconds{-1},
                       one.longest});
    return all;
  }
  /// The first iteration that ran.
  [[nodiscard]] const std::optional<ForeseenStep>& first_step() const { return first_; }
  /// Finds requests whose deadline has passed without a token.
  void look_at(Seconds now) {
    for (auto& [at, one] : of_)
      if (!one.over) look_at(RequestId{at}, one, now);
  }

  using hears = Events<events::Delivered, events::Ended, events::Refused, events::Cancelled, events::Iterated>;
  void hear(const AnyEvent& event) override {
    event.visit(hears{}, [this](const auto& of_its_type) { this->on(of_its_type); });
  }

 private:
  void on(const events::Delivered& event) {
    const auto found = of_.find(index(event.row.id));
    if (found == of_.end() || event.count.count() < 1) return;
    Followed& one = found->second;
    if (one.attainment.started()) one.longest = std::max(one.longest, event.when - one.attainment.last);
    (void)one.attainment.release(event.count.count(), event.when);
    look_at(event.row.id, one, event.when);
  }
  void on(const events::Ended& event) { over(event.row.id); }
  void on(const events::Refused& event) {
    if (!over(event.id)) return;
    add_missed({event.id, Limit::keep});
    add_missed({event.id, Limit::firm});
  }
  void on(const events::Cancelled& event) { over(event.row.id); }
  void on(const events::Iterated& event) {
    const IterationRecord& record = event.record;
    if (!first_) first_ = ForeseenStep{record.step, record.tokens.count(), record.running, record.duration};
  }
  bool over(RequestId id) {
    const auto found = of_.find(index(id));
    if (found == of_.end() || found->second.over) return false;
    found->second.over = true;
    --left_;
    return true;
  }
  void look_at(RequestId id, const Followed& one, Seconds now) {
    for (const Limit limit : {Limit::keep, Limit::firm})
      if (one.missed(limit, now)) add_missed({id, limit});
  }
  void add_missed(const Miss& one) {
    if (!misses(one)) missed_.push_back(one);
  }

  std::unordered_map<std::uint32_t, Followed> of_;
  std::vector<Miss> missed_;
  std::int64_t left_ = 0;
  std::optional<ForeseenStep> first_;
};

} // namespace sluice
