// SPDX-License-Identifier: Apache-2.0
// SCORPIO's batch: VirtualBatch counts requests by their TPOT, Credits gives each its share of the iterations.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

// VirtualBatch: a batch in which a request with a relaxed TPOT counts as a part of one (SCORPIO).

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

// Credits: each request takes part in its share of the iterations (SCORPIO).

/// Each iteration gives a request its share of credit, and a request with a whole one takes part and pays it (Tang et
/// al., arXiv 2505.23022, section 3.4).
class Credits {
 public:
  /// A new request in `slot` has none.
  void start(Slot slot) {
    if (index(slot) >= credit_.size()) credit_.resize(index(slot) + 1);
    credit_[index(slot)] = 0;
  }
  /// A proposal for the engine's `step` begins. If it is the last one's, that one was discarded, and costs nothing.
  void begin(std::int64_t step) {
    ran_ = step != step_;
    step_ = step;
  }
  /// Whether the request takes part in this step; ask once in a proposal.
  [[nodiscard]] bool takes_part(Slot slot, double share) {
    double& credit = credit_[index(slot)];
    if (ran_) {
      if (is_whole(credit)) credit -= 1; // it took part in the last iteration
      credit = std::min(credit + share, 2.0);
    }
    return is_whole(credit);
  }

 private:
  static bool is_whole(double credit) { return credit >= 1 - 1e-9; }

  std::vector<double> credit_; ///< by slot
  std::int64_t step_ = -1;     ///< of the last proposal
  bool ran_ = false;
};

} // namespace sluice
