// SPDX-License-Identifier: Apache-2.0
// PromiseTally: how promises to many requests were kept; PromiseJudge: the same of an engine that is listened to.
#pragma once

#include "sluice/serve/generation_feed.hpp"
#include "sluice/serve/kept_promises.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// Counts as docs/metrics.md defines. A share of nothing is NaN.
struct PromiseTally {
  std::int64_t requests = 0;
  std::int64_t promised = 0, met = 0; ///< requests with an SLO; of them, with every promise kept
  std::int64_t first_promised = 0, first_in_time = 0;
  std::int64_t on_time = 0, missed = 0; ///< tokens after the first, and deadlines without one
  std::int64_t refused = 0;             ///< of `requests`: the engine could not serve them

  /// `over`: when the request was, as far as it had no token by then.
  void add(const KeptPromises& kept, Seconds over) {
    ++requests;
    const KeptPromises::Verdict verdict = kept.verdict(kept.started() ? kept.last : over);
    if (verdict != KeptPromises::Verdict::none) ++promised;
    if (verdict == KeptPromises::Verdict::met) ++met;
    if (!std::isinf(kept.slo.ttft.count())) {
      ++first_promised;
      if (!kept.first_is_late(over)) ++first_in_time;
    }
    on_time += kept.on_time;
    missed += kept.missed;
  }
  /// A request that the engine could not serve keeps no promise.
  void add_refused(const Slo& slo) {
    ++requests;
    ++refused;
    if (KeptPromises{.slo = slo}.promised()) ++promised;
    if (!std::isinf(slo.ttft.count())) ++first_promised;
  }

  [[nodiscard]] double attainment() const { return share(met, promised); }
  [[nodiscard]] double first_attainment() const { return share(first_in_time, first_promised); }
  [[nodiscard]] double token_attainment() const { return share(on_time, on_time + missed); }

 private:
  static double share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : std::nan("");
  }
};

/// Listens to an engine that replays `requests`, whose ids count them.
class PromiseJudge final : public FeedListener {
 public:
  explicit PromiseJudge(std::span<const RequestSpec> requests) {
    for (const RequestSpec& request : requests) kept_.push_back({.slo = request.slo, .arrival = request.arrival});
    over_.resize(kept_.size());
  }
  [[nodiscard]] const PromiseTally& tally() const { return tally_; }
  /// The replay has come to its end: what the engine never served is counted as refused.
  void finish() {
    for (std::size_t i = 0; i < kept_.size(); ++i)
      if (!over_[i]) tally_.add_refused(kept_[i].slo);
  }

  void released(const RequestRow& row, Tokens count, Seconds when) override {
    if (count.count() > 0) (void)kept_.at(index(row.id)).release(count.count(), when);
  }
  void ended(const RequestRow& row, Seconds now) override {
    over_.at(index(row.id)) = true;
    tally_.add(kept_.at(index(row.id)), now);
  }
  void refused(RequestId id, std::string_view /*reason*/) override {
    over_.at(index(id)) = true;
    tally_.add_refused(kept_.at(index(id)).slo);
  }
  void cancelled(const RequestRow& /*row*/, Seconds /*now*/) override {}
  void preempted(const RequestRow& /*row*/, Kept /*kept*/, Seconds /*now*/) override {}
  void resumed(const RequestRow& /*row*/, Seconds /*now*/) override {}
  void planned(const View& /*view*/, const Plan& /*plan*/, Seconds /*wall_time*/) override {}
  void iterated(const IterationRecord& /*record*/) override {}

 private:
  std::vector<KeptPromises> kept_; ///< by request
  std::vector<bool> over_;         ///< by request
  PromiseTally tally_;
};

} // namespace sluice
