// SPDX-License-Identifier: Apache-2.0
// WrittenSlos: SLO attainment as clients see it, when tokens are written to their connections.
#pragma once

#include "sluice/serve/generation.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/serve/recent_quantile.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/slo_class_table.hpp"
#include "sluice/serve/slo_lead.hpp"

#include <algorithm>
#include <cmath>
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
  void begin(GenerationId id, const Slo& slo, double arrival) {
    live_.insert_or_assign(id, Live{{.slo = slo, .arrival = Seconds{arrival}}, 0});
  }
  /// `tokens` of an answer, due at `due`, were written at `now`.
  void written(GenerationId id, std::int64_t tokens, double due, double now) {
    const auto found = live_.find(id);
    if (found == live_.end() || tokens < 1) return;
    Live& live = found->second;
    const double took = std::max(0.0, now - due);
    if (!live.kept.started())
      first_.add(took);
    else if (tokens == 1)
      live.slowest = std::max(live.slowest, took);
    const SloAttainment::Counted counted = live.kept.release(tokens, Seconds{now});
    on_time_ += counted.on_time;
    missed_ += counted.missed;
    if (counted.first && !std::isinf(live.kept.slo.ttft.count()))
      (live.kept.first_is_late(Seconds{now}) ? first_late_ : first_in_time_) += 1;
  }
  /// The last token of an answer was written.
  void end(GenerationId id) {
    const auto found = live_.find(id);
    if (found == live_.end()) return;
    if (found->second.kept.started()) {
      later_.add(found->second.slowest);
      count(found->second.kept, found->second.kept.last);
    }
    live_.erase(found);
  }
  /// The client left: deadlines count up to `now`. Before the first token is due, nothing is decided, nor counted.
  void leave(GenerationId id, double now) {
    const auto found = live_.find(id);
    if (found == live_.end()) return;
    const SloAttainment& kept = found->second.kept;
    missed_ += kept.missing(Seconds{now});
    if (kept.started() || kept.first_is_late(Seconds{now})) count(kept, Seconds{now});
    live_.erase(found);
  }
  /// The server failed the answer, which misses its SLO.
  void fail(GenerationId id) {
    const auto found = live_.find(id);
    if (found == live_.end()) return;
    if (found->second.kept.has_slo()) ++classes_.of(found->second.kept.slo).missed;
    live_.erase(found);
  }
  /// The answer belongs to a request of which another answer was refused, and with it the request.
  void forget(GenerationId id) { live_.erase(id); }

  /// For a request with this SLO.
  [[nodiscard]] SloLead lead(const Slo& slo) const {
    const SloLead measured = lead(), little = unmeasured_lead(slo);
    return {first_.size() < few ? std::max(measured.ttft, little.ttft) : measured.ttft,
            later_.size() < few ? std::max(measured.tbt, little.tbt) : measured.tbt};
  }
  /// As far as it was measured.
  [[nodiscard]] SloLead lead() const { return {Seconds{first_.quantile(0.99)}, Seconds{later_.quantile(0.99)}}; }
  [[nodiscard]] std::int64_t on_time() const { return on_time_; }
  [[nodiscard]] std::int64_t missed() const { return missed_; }
  [[nodiscard]] std::int64_t first_in_time() const { return first_in_time_; }
  [[nodiscard]] std::int64_t first_late() const { return first_late_; }

  void write(PrometheusWriter& to) const {
    const auto whole = [](std::int64_t count) { return static_cast<double>(count); };
    to.counter("sluice:tokens_on_time_total", "Tokens written within the SLO after another.", whole(on_time_));
    to.counter("sluice:deadlines_missed_total", "Deadlines for a token that passed without one.", whole(missed_));
    to.counter("sluice:first_tokens_total", "First tokens with an SLO, by whether they were written in time.",
               whole(first_in_time_), {{"in_time", "true"}});
    to.counter("sluice:first_tokens_total", "", whole(first_late_), {{"in_time", "false"}});
    classes_.each([&](const SloClassName& name, const Verdicts& of) {
      for (const bool met : {true, false})
        to.counter("sluice:slo_answers_total",
                   "Answers with an SLO that are over, by SLO class and by whether every token was written in time.",
                   whole(met ? of.met : of.missed),
                   {{"ttft", name.ttft}, {"tbt", name.tbt}, {"met", met ? "true" : "false"}});
    });
    to.gauge("sluice:delivery_lead_seconds",
             "How much earlier than the SLO the engine serves, because delivery takes that long.", lead().ttft.count(),
             {{"of", "ttft"}});
    to.gauge("sluice:delivery_lead_seconds", "", lead().tbt.count(), {{"of", "tbt"}});
  }

 private:
  struct Live {
    SloAttainment kept;
    double slowest; ///< delivery of a token after the first, seconds
  };
  struct Verdicts {
    std::int64_t met = 0, missed = 0;
  };
  static constexpr std::size_t window = 256, few = 100; // few: as in ForecastErrors

  void count(const SloAttainment& kept, Seconds now) {
    const SloAttainment::Verdict verdict = kept.verdict(now);
    if (verdict == SloAttainment::Verdict::none) return;
    Verdicts& of = classes_.of(kept.slo);
    (verdict == SloAttainment::Verdict::met ? of.met : of.missed) += 1;
  }

  std::unordered_map<GenerationId, Live> live_;
  SloClassTable<Verdicts> classes_;
  RecentQuantile first_{window}, later_{window};
  std::int64_t on_time_ = 0, missed_ = 0, first_in_time_ = 0, first_late_ = 0;
};

} // namespace sluice
