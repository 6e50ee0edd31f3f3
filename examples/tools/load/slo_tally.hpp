// SPDX-License-Identifier: Apache-2.0
// SloTally: how many answers kept their SLOs, by the client's clock.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"

#include "stream_check.hpp" // by its place: tests include this header without the programs' include path

#include <cmath>
#include <cstdint>

namespace loading {

/// How many requests, of all or of one SLO class, were served within their SLOs. Where a request has no TTFT or no TBT
/// SLO, it is not counted there. An SLO is met as sluice-serve counts it: the first token and every later one came in
/// time.
struct SloTally {
  std::int64_t owed_ttft = 0, owed_tpot = 0, owed = 0;
  std::int64_t met_ttft = 0, met_tpot = 0, met = 0;
  std::int64_t met_mean = 0;            ///< met TTFT and TPOT, a mean: what vLLM's benchmark calls good
  std::int64_t on_time = 0, missed = 0; ///< gaps within the SLO, and deadlines missed in the others

  /// A request that was read as it came. `latency`: from its sending to its last token.
  void add(const sluice::Slo& slo, sluice::Seconds ttft, sluice::Seconds tpot, sluice::Seconds latency,
           const StreamCheck& check) {
    const bool has_ttft = !std::isinf(slo.ttft.count()), has_tbt = !std::isinf(slo.tbt.count());
    const bool first = sluice::on_time(ttft, slo.ttft, latency), rest = sluice::on_time(tpot, slo.tbt, latency);
    owed_ttft += has_ttft ? 1 : 0;
    owed_tpot += has_tbt ? 1 : 0;
    owed += has_ttft || has_tbt ? 1 : 0;
    met_ttft += has_ttft && first ? 1 : 0;
    met_tpot += has_tbt && rest ? 1 : 0;
    met += (has_ttft || has_tbt) && first && (!has_tbt || check.deadlines_missed() == 0) ? 1 : 0;
    met_mean += (has_ttft || has_tbt) && first && rest ? 1 : 0;
    if (!has_tbt) return;
    on_time += check.gaps_on_time();
    missed += check.deadlines_missed();
  }
};

} // namespace loading
