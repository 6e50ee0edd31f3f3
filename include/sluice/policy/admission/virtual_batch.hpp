// SPDX-License-Identifier: Apache-2.0
// VirtualBatch: a batch in which a request with a relaxed TPOT counts as a part of one (SCORPIO).
#pragma once

#include "sluice/policy/cost/work.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace sluice {

/// A request counts as tightest TPOT / its TPOT of a place, its share of the iterations (Tang et al., arXiv 2505.23022,
/// section 3.4). With Credits it takes part in as many, so this is the server's mean batch.
struct VirtualBatch {
  double least_share = 0.0625; ///< of the iterations, for requests with a long TPOT or none
  double tightest = std::numeric_limits<double>::infinity(); ///< TPOT of the SLOs, in seconds
  double places = 0, context = 0;                            ///< sums of shares, and of shares of contexts

  /// The batch of `slots`.
  [[nodiscard]] static VirtualBatch of(const View& view, std::span<const Slot> slots, double least_share) {
    VirtualBatch batch{.least_share = least_share};
    for (const Slot slot : slots) batch.tightest = std::min(batch.tightest, tpot(view.row(slot)));
    for (const Slot slot : slots) batch.add(view.row(slot));
    return batch;
  }
  /// This batch, of the requests in `claimed`, with one more. If that has the tightest TPOT, all shares shrink.
  [[nodiscard]] VirtualBatch with(const View& view, std::span<const Claim> claimed, const RequestRow& row) const {
    VirtualBatch more = *this;
    if (tpot(row) < tightest) {
      more = {.least_share = least_share, .tightest = tpot(row)};
      for (const Claim& claim : claimed) more.add(view.row(claim.slot));
    }
    more.add(row);
    return more;
  }

  [[nodiscard]] double share(const RequestRow& row) const {
    if (tpot(row) <= tightest) return 1.0; // also without any TPOT, or with a TPOT of 0: no ratio of these is a number
    return std::max(least_share, tightest / tpot(row));
  }
  /// A decode of this batch, in whole places.
  [[nodiscard]] Work decode() const {
    Work work;
    work.decodes = work.samples = static_cast<std::int64_t>(std::ceil(places));
    work.decode_context = Tokens{static_cast<std::int64_t>(context)};
    return work;
  }

 private:
  static double tpot(const RequestRow& row) { return row.spec.slo.tbt.count(); }
  void add(const RequestRow& row) {
    const double one = share(row);
    places += one;
    context += one * static_cast<double>(row.context().count() + 1);
  }
};

} // namespace sluice
