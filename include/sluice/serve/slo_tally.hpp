// SPDX-License-Identifier: Apache-2.0
// SloTally: SLO attainment of many requests; SloJudge: computes it for an engine that replays requests.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/serve/slo_attainment.hpp"

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
  void add(const SloAttainment& kept, Seconds over);
  /// A request that the engine could not serve misses its SLO.
  void add_refused(const Slo& slo);

  [[nodiscard]] double attainment() const { return share(met, with_slo); }
  [[nodiscard]] double first_attainment() const { return share(first_in_time, with_ttft); }
  [[nodiscard]] double token_attainment() const { return share(on_time, on_time + missed); }

 private:
  static double share(std::int64_t part, std::int64_t whole);
};

/// Listens to an engine that replays `requests`; its request ids are indexes into them.
class SloJudge final : public EventListener {
 public:
  explicit SloJudge(std::span<const RequestSpec> requests);
  [[nodiscard]] const SloTally& tally() const { return tally_; }
  /// Ends the replay: requests that the engine never finished count as refused.
  void finish();

  using hears = Events<events::Delivered, events::Ended, events::Refused>;
  void hear(const AnyEvent& event) override;

 private:
  void on(const events::Delivered& event);
  void on(const events::Ended& event);
  void on(const events::Refused& event);

  std::vector<SloAttainment> kept_; ///< by request
  std::vector<bool> over_;          ///< by request
  SloTally tally_;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/slo_tally.inl.hpp"
#endif
