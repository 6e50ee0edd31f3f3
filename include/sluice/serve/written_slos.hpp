// SPDX-License-Identifier: Apache-2.0
// WrittenSlos: SLO attainment as clients see it, when tokens are written to their connections.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/serve/recent_quantile.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/slo_class_table.hpp"
#include "sluice/serve/slo_lead.hpp"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace sluice {

/// Counts first tokens, gaps and deadlines at the write, against the SLOs that clients asked for (docs/metrics.md).
/// Measures delivery: from when a token was due until it was written.
///
/// `lead` is how much earlier than its SLO an engine must serve a request so that delivery does not break it: the P99,
/// over the newest answers, of an answer's slowest delivery, and at least a fifth of the SLO until a hundred answers
/// have ended. One late token breaks an answer's SLO, so the P99 of single tokens would break nearly every long answer.
/// Tokens that come together, as when a deposit is emptied at the end, were not due one by one and are left out.
class WrittenSlos {
 public:
  /// An answer that the engine has accepted; its request came at `arrival`.
  void begin(GenerationId id, const Slo& slo, double arrival);
  /// `tokens` of an answer, due at `due`, were written at `now`.
  void written(GenerationId id, std::int64_t tokens, double due, double now);
  /// The last token of an answer was written.
  void end(GenerationId id);
  /// The client left: deadlines count up to `now`. Before the first token is due, nothing is decided, nor counted.
  void leave(GenerationId id, double now);
  /// The server failed the answer, which misses its SLO.
  void fail(GenerationId id);
  /// The answer belongs to a request of which another answer was refused, and with it the request.
  void forget(GenerationId id) { live_.erase(id); }

  /// For a request with this SLO.
  [[nodiscard]] SloLead lead(const Slo& slo) const;
  /// As far as it was measured.
  [[nodiscard]] SloLead lead() const { return {Seconds{first_.quantile(0.99)}, Seconds{later_.quantile(0.99)}}; }
  [[nodiscard]] std::int64_t on_time() const { return on_time_; }
  [[nodiscard]] std::int64_t missed() const { return missed_; }
  [[nodiscard]] std::int64_t first_in_time() const { return first_in_time_; }
  [[nodiscard]] std::int64_t first_late() const { return first_late_; }

  void write(PrometheusWriter& to) const;

 private:
  struct Live {
    SloAttainment kept;
    double slowest; ///< delivery of a token after the first, seconds
  };
  struct Verdicts {
    std::int64_t met = 0, missed = 0;
  };
  static constexpr std::size_t window = 256, few = 100; // few: as in ForecastErrors

  void count(const SloAttainment& kept, Seconds now);

  std::unordered_map<GenerationId, Live> live_;
  SloClassTable<Verdicts> classes_;
  RecentQuantile first_{window}, later_{window};
  std::int64_t on_time_ = 0, missed_ = 0, first_in_time_ = 0, first_late_ = 0;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/written_slos.inl.hpp"
#endif
