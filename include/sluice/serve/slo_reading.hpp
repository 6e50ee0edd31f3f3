// SPDX-License-Identifier: Apache-2.0
// SloReading: SLO attainment of requests in an engine's copy.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/serve/forecast_errors.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/slo_attainment.hpp"

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
    [[nodiscard]] bool missed(Limit limit, Seconds now) const;
  };

  SloReading() = default;
  /// Continues from the state of another reading.
  void take_over(const SloReading& other);

  void follow(RequestId id, const SloAttainment& attainment, const Limits& limits);
  [[nodiscard]] const Followed& of(RequestId id) const;
  /// Returns the number of followed requests that have not ended.
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

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/slo_reading.inl.hpp"
#endif
