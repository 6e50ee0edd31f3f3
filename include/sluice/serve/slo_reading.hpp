// SPDX-License-Identifier: Apache-2.0
// SloReading: SLO attainment of requests in a copy of an engine.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/slo_attainment.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sluice {

/// Follows some of a copy's requests.
class SloReading final : public EventListener {
 public:
  struct Followed {
    SloAttainment attainment;
    Seconds longest{0}; ///< longest gap between two tokens since the copy was made
    bool over = false;  ///< it has ended or was refused

    /// Whether it has missed its SLO. Later deadlines do not count once it is over.
    [[nodiscard]] bool missed(Seconds now) const {
      return attainment.verdict(over ? attainment.last : now) == SloAttainment::Verdict::missed;
    }
  };

  SloReading() = default;
  /// Continues from another reading's state.
  void take_over(const SloReading& other) {
    of_ = other.of_;
    missed_ = other.missed_;
    left_ = other.left_;
  }

  void follow(RequestId id, const SloAttainment& attainment) {
    left_ += of_.try_emplace(index(id), Followed{attainment, Seconds{0}, false}).second ? 1 : 0;
  }
  [[nodiscard]] const Followed& of(RequestId id) const {
    const auto found = of_.find(index(id));
    SLUICE_ASSERT(found != of_.end(), "a request that is followed");
    return found->second;
  }
  /// How many of the followed requests have not ended.
  [[nodiscard]] std::int64_t left() const { return left_; }
  /// The requests that have missed their SLO since, in order of time.
  [[nodiscard]] const std::vector<RequestId>& missed() const { return missed_; }
  [[nodiscard]] bool misses(RequestId id) const {
    return std::find(missed_.begin(), missed_.end(), id) != missed_.end();
  }
  /// The first iteration that ran.
  [[nodiscard]] const std::optional<ForeseenStep>& first_step() const { return first_; }
  /// Finds requests whose deadline has passed without a token.
  void look_at(Seconds now) {
    for (auto& [at, one] : of_)
      if (!one.over && one.missed(now)) add_missed(RequestId{at});
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
    if (one.missed(event.when)) add_missed(event.row.id);
  }
  void on(const events::Ended& event) { over(event.row.id); }
  void on(const events::Refused& event) {
    if (over(event.id)) add_missed(event.id);
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
  void add_missed(RequestId id) {
    if (!misses(id)) missed_.push_back(id);
  }

  std::unordered_map<std::uint32_t, Followed> of_;
  std::vector<RequestId> missed_;
  std::int64_t left_ = 0;
  std::optional<ForeseenStep> first_;
};

} // namespace sluice
