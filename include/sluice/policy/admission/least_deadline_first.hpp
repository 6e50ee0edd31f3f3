// SPDX-License-Identifier: Apache-2.0
// LeastDeadlineFirst: by the deadline of the first token, within what the tightest TPOT allows (SCORPIO).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/request_costs.hpp"
#include "sluice/policy/admission/virtual_batch.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// SCORPIO's two guards (Tang et al., arXiv 2505.23022, sections 3.3 and 3.4), for requests with SLOs of their own:
///
///  - *TTFT guard*: newcomers join by the deadline of their first token. One whose prompt would end after its deadline,
///    behind those of the newcomers that join before it, is unattainable and rejected, also while no place is free.
///    With `rejects` = 0 it joins when no other waits, so that every request is served.
///  - *TPOT guard, admission*: a request counts as tightest TPOT / its TPOT of a place, its share of the iterations. A
///    newcomer joins if the predicted iteration of that *virtual batch* keeps the tightest TPOT.
///  - *TPOT guard, credits*: each iteration gives every decoding request that share of credit, and the requests with a
///    whole one take part in it. The others keep their memory and sit out.
struct LeastDeadlineFirst {
  using role = roles::Admission;
  static constexpr bool steady = false; // credits and deadlines pass
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = Batching::chunked;

  double guard = 1;            ///< share of the tightest TPOT that a predicted iteration may take
  double least_share = 0.0625; ///< of the iterations, for requests with a long TPOT or none
  bool rejects = true;         ///< false: unattainable requests go last
  static constexpr auto numbers = Numbers{
      "LeastDeadlineFirst",
      Number{"guard", &LeastDeadlineFirst::guard, 0, 1e9, "share of the tightest TPOT for a predicted iteration"},
      Number{"least_share", &LeastDeadlineFirst::least_share, 1e-3, 1, "of the iterations for a request, at least"},
      Number{"rejects", &LeastDeadlineFirst::rejects, 0, 1, "0: requests whose first token would be late go last"}};

  struct State {
    std::set<QueueEntry> queue; ///< by the first token's deadline
    Credits credits;
    std::vector<Slot> behind; ///< scratch: unattainable requests
  };

  void enter(State& state, Slot slot, const RequestRow& row) const {
    state.credits.start(slot);
    state.queue.insert(QueueEntry::by_deadline(row, slot));
  }
  void leave(State& state, Slot slot, const RequestRow& row) const {
    state.queue.erase(QueueEntry::by_deadline(row, slot));
  }

  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    VirtualBatch batch = VirtualBatch::of(view, view.running, least_share);
    Builder claims(view, proposal);
    keep_running(view, state, batch, claims, proposal);
    bool open = true; // for one more request
    const auto joins = [&](Slot one) {
      return open = open && join(view, one, estimate, proposal.claims, batch, claims);
    };
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return && !view.row(slot).waits) joins(slot);
    state.behind.clear();
    double prompts_s = 0; // of the newcomers that go first
    int attainable = 0;   // newcomers
    for (const QueueEntry& next : state.queue) {
      const RequestRow& row = view.row(next.slot);
      if (row.waits) continue; // for blocks of a tier: until they are there it computes nothing
      const double ends = view.now.count() + prompts_s + prompt_time(estimate, row).count();
      if (ends <= next.key) {
        if (joins(next.slot)) prompts_s = ends - view.now.count();
        ++attainable;
      } else if (rejects) {
        proposal.refused.push_back({next.slot, "its first token would come after its deadline"});
      } else {
        state.behind.push_back(next.slot);
      }
      if (!open && !rejects) return;
      // No more than a batch of those that stay is looked at: the cost of a step must not grow with the queue.
      if (std::max(attainable, static_cast<int>(state.behind.size())) >= view.limits.batch) break;
    }
    for (const Slot slot : state.behind) joins(slot);
  }
  void settle(const View& /*view*/, std::span<Claim> /*accepted*/) const {}

 private:
  using Builder = ClaimBuilder<batching, Newcomers::optional>;

  /// Running requests stay. Those that decode take part if they have a credit.
  void keep_running(const View& view, State& state, const VirtualBatch& batch, Builder& claims,
                    Proposal& proposal) const {
    state.credits.begin(view.step);
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      if (row.pending().count() > 1 || state.credits.takes_part(slot, batch.share(row)))
        claims.keep(slot);
      else
        proposal.claims.push_back({slot, Tokens{0}, Tokens{0}, true});
    }
  }
  /// Claims a place for a request if the virtual batch with it keeps the tightest TPOT, or if nobody runs.
  /// `claimed`: all that run or have joined.
  bool join(const View& view, Slot slot, const Estimate& estimate, std::span<const Claim> claimed, VirtualBatch& batch,
            Builder& claims) const {
    const VirtualBatch with = batch.with(view, claimed, view.row(slot));
    if (batch.places > 0 && estimate.step(with.decode()).count() > guard * with.tightest) return false;
    if (!claims.join(slot, false)) return false;
    batch = with;
    return true;
  }
};

static_assert(explain<LeastDeadlineFirst>());

} // namespace sluice
