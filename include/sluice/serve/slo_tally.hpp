// SPDX-License-Identifier: Apache-2.0
// SloTally: SLO attainment of many requests; SloJudge: computes it for an engine that replays requests.
#pragma once

#include "sluice/report/observer/any_observer.hpp"
#include "sluice/serve/slo_attainment.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Counts as docs/metrics.md defines. If there is nothing to count, shares are NaN.
struct SloTally {
  std::int64_t requests = 0;
  std::int64_t with_slo = 0, met = 0; ///< requests with an SLO; those that met it
  std::int64_t with_ttft = 0, first_in_time = 0;
  std::int64_t on_time = 0, missed = 0; ///< tokens after the first that were on time; deadlines missed
  std::int64_t refused = 0;             ///< part of `requests`: the engine could not serve them

  /// `over`: when a request without a token ended.
  void add(const SloAttainment& kept, Seconds over) {
    ++requests;
    const SloAttainment::Verdict verdict = kept.verdict(kept.started() ? kept.last : over);
    if (verdict != SloAttainment::Verdict::none) ++with_slo;
    if (verdict == SloAttainment::Verdict::met) ++met;
    if (!std::isinf(kept.slo.ttft.count())) {
      ++with_ttft;
      if (!kept.first_is_late(over)) ++first_in_time;
    }
    on_time += kept.on_time;
    missed += kept.missed;
  }
  /// A request that the engine could not serve misses its SLO.
  void add_refused(const Slo& slo) {
    ++requests;
    ++refused;
    if (SloAttainment{.slo = slo}.has_slo()) ++with_slo;
    if (!std::isinf(slo.ttft.count())) ++with_ttft;
  }

  [[nodiscard]] double attainment() const { return share(met, with_slo); }
  [[nodiscard]] double first_attainment() const { return share(first_in_time, with_ttft); }
  [[nodiscard]] double token_attainment() const { return share(on_time, on_time + missed); }

 private:
  static double share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : std::nan("");
  }
};

/// Listens to an engine that replays `requests`; its request ids are indexes into them.
class SloJudge final : public EventListener {
 public:
  explicit SloJudge(std::span<const RequestSpec> requests) {
    for (const RequestSpec& request : requests) kept_.push_back({.slo = request.slo, .arrival = request.arrival});
    over_.resize(kept_.size());
  }
  [[nodiscard]] const SloTally& tally() const { return tally_; }
  /// Ends the replay: requests that the engine never finished count as refused.
  void finish() {
    for (std::size_t i = 0; i < kept_.size(); ++i)
      if (!over_[i]) tally_.add_refused(kept_[i].slo);
  }

  using hears = Events<events::Delivered, events::Ended, events::Refused>;
  void hear(const AnyEvent& event) override {
    event.visit(hears{}, [this](const auto& of_its_type) { this->on(of_its_type); });
  }

 private:
  void on(const events::Delivered& event) {
    if (event.count.count() > 0) (void)kept_.at(index(event.row.id)).release(event.count.count(), event.when);
  }
  void on(const events::Ended& event) {
    over_.at(index(event.row.id)) = true;
    tally_.add(kept_.at(index(event.row.id)), event.now);
  }
  void on(const events::Refused& event) {
    over_.at(index(event.id)) = true;
    tally_.add_refused(kept_.at(index(event.id)).slo);
  }

  std::vector<SloAttainment> kept_; ///< by request
  std::vector<bool> over_;          ///< by request
  SloTally tally_;
};

} // namespace sluice
