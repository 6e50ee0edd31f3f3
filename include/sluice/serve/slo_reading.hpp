// SPDX-License-Identifier: Apache-2.0
// SloReading: SLO attainment of requests in an engine's copy.
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
    bool over = false; ///< the request has ended or was refused

    /// Returns whether the request has missed the limit. Later deadlines do not count once it is over.
    [[nodiscard]] bool missed(Limit limit, Seconds now) const {
      return attainment.misses(limit == Limit::keep ? limits.keep : limits.firm,
                               over && attainment.started() ? attainment.last : now);
    }
  };

  SloReading() = default;
  /// Continues from the state of another reading.
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
      missed_.push_back({id, Limit::keep}); // missed before any newcomer
  }
  [[nodiscard]] const Followed& of(RequestId id) const {
    const auto found = of_.find(index(id));
    SLUICE_ASSERT(found != of_.end(), "a request that is followed");
    return found->second;
  }
  /// Returns the number of followed requests that have not ended.
  [[nodiscard]] std::int64_t left() const { return left_; }
  /// Returns the limits that requests have missed since then, in order of time.
  [[nodiscard]] const std::vector<Miss>& missed() const { return missed_; }
  [[nodiscard]] bool misses(const Miss& one) const {
    return std::find(missed_.begin(), missed_.end(), one) != missed_.end();
  }
  /// Returns the copy's times for the requests that have kept their firm limit so far. The other requests have missed
  /// their SLO, so the errors of their forecasts are not measured.
  [[nodiscard]] std::vector<Foretold> foretold(Seconds now) const {
    std::vector<Foretold> all;
    for (const auto& [at, one] : of_)
      if (!one.missed(Limit::firm, now))
        all.push_back({RequestId{at},
                       one.attainment.started() && !one.started_before ? one.attainment.first : Seconds{-1},
                       one.longest});
    return all;
  }
  /// Stores the first iteration that ran.
  [[nodiscard]] const std::optional<ForeseenStep>& first_step() const { return first_; }
  /// Records requests whose deadline has passed without a token.
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
