// SPDX-License-Identifier: Apache-2.0
// LeastDeadlineFirst: by the deadline of the first token, within what the tightest TPOT allows (SCORPIO).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// SCORPIO's two guards (Tang et al., arXiv 2505.23022, section 4), for requests with SLOs of their own:
///
///  - *TTFT guard*: newcomers join by the deadline of their first token. One whose prompt would end after its deadline
///    is unattainable; it joins only when no other waits. (SCORPIO rejects it. Here a queue cannot refuse a request
///    that it has accepted.)
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
  static constexpr auto numbers = Numbers{
      "LeastDeadlineFirst",
      Number{"guard", &LeastDeadlineFirst::guard, 0, 1e9, "share of the tightest TPOT for a predicted iteration"},
      Number{"least_share", &LeastDeadlineFirst::least_share, 1e-3, 1, "of the iterations for a request, at least"}};

  struct Entry {
    double due = 0;
    RequestId id{};
    Slot slot{};
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  struct State {
    std::set<Entry> queue;      ///< by the first token's deadline
    std::vector<double> credit; ///< by slot
    std::vector<Slot> behind;   ///< scratch: unattainable requests
    std::int64_t step = -1;     ///< of the last proposal
  };

  void enter(State& state, Slot slot, const RequestRow& row) const {
    if (index(slot) >= state.credit.size()) state.credit.resize(index(slot) + 1);
    state.credit[index(slot)] = 0;
    state.queue.insert(entry(slot, row));
  }
  void leave(State& state, Slot slot, const RequestRow& row) const { state.queue.erase(entry(slot, row)); }

  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    Virtual batch;
    for (const Slot slot : view.running) batch.tightest = std::min(batch.tightest, tpot(view.row(slot)));
    for (const Slot slot : view.running) batch.add(*this, view.row(slot));
    Builder claims(view, proposal);
    keep_running(view, state, batch.tightest, claims, proposal);
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return && !join(view, slot, estimate, proposal.claims, batch, claims)) return;
    state.behind.clear();
    double prompts_s = 0; // of the newcomers that go first
    for (const Entry& next : state.queue) {
      const RequestRow& row = view.row(next.slot);
      const double ends = view.now.count() + prompts_s + prompt_s(estimate, row);
      if (ends > next.due) {
        // No more than a batch of them is looked at: the cost of a step must not grow with the queue.
        state.behind.push_back(next.slot);
        if (state.behind.size() >= static_cast<std::size_t>(view.limits.batch)) break;
        continue;
      }
      if (!join(view, next.slot, estimate, proposal.claims, batch, claims)) return;
      prompts_s = ends - view.now.count();
    }
    for (const Slot slot : state.behind)
      if (!join(view, slot, estimate, proposal.claims, batch, claims)) return;
  }
  void settle(const View& /*view*/, std::span<Claim> /*accepted*/) const {}

 private:
  using Builder = ClaimBuilder<batching, Newcomers::optional>;
  static Entry entry(Slot slot, const RequestRow& row) {
    return {(row.spec.arrival + row.spec.slo.ttft).count(), row.id, slot};
  }
  static double tpot(const RequestRow& row) { return row.spec.slo.tbt.count(); }
  [[nodiscard]] double share(const RequestRow& row, double tightest) const {
    return std::isinf(tightest) ? 1.0 : std::max(least_share, tightest / tpot(row));
  }

  /// The batch by shares.
  struct Virtual {
    double tightest = std::numeric_limits<double>::infinity();
    double places = 0, context = 0;
    void add(const LeastDeadlineFirst& policy, const RequestRow& row) {
      const double share = policy.share(row, tightest);
      places += share;
      context += share * static_cast<double>(row.context().count() + 1);
    }
  };

  /// Running requests stay. Those that decode take part if they have a credit, once in an iteration; a proposal that
  /// was discarded pays none.
  void keep_running(const View& view, State& state, double tightest, Builder& claims, Proposal& proposal) const {
    const bool ran = view.step != state.step;
    state.step = view.step;
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      double& credit = state.credit[index(slot)];
      if (row.pending().count() > 1) {
        claims.keep(slot);
        continue;
      }
      if (ran) {
        if (credit >= 1 - 1e-9) credit -= 1; // it took part in the last iteration
        credit = std::min(credit + share(row, tightest), 2.0);
      }
      if (credit >= 1 - 1e-9)
        claims.keep(slot);
      else
        proposal.claims.push_back({slot, Tokens{0}, Tokens{0}, true});
    }
  }
  static double prompt_s(const Estimate& estimate, const RequestRow& row) {
    const ChunkWork prompt{row.pending(), row.computed};
    Work work;
    work.chunks = {&prompt, 1};
    work.samples = 1;
    return estimate.step(work).count();
  }
  /// Claims a place for a request if the virtual batch with it keeps the tightest TPOT, or if nobody runs.
  /// `claimed`: all that run or have joined.
  bool join(const View& view, Slot slot, const Estimate& estimate, std::span<const Claim> claimed, Virtual& batch,
            Builder& claims) const {
    const RequestRow& row = view.row(slot);
    Virtual with = batch;
    if (tpot(row) < with.tightest) { // all shares shrink
      with = {.tightest = tpot(row)};
      for (const Claim& claim : claimed) with.add(*this, view.row(claim.slot));
    }
    with.add(*this, row);
    Work work;
    work.decodes = work.samples = static_cast<std::int64_t>(std::ceil(with.places));
    work.decode_context = Tokens{static_cast<std::int64_t>(with.context)};
    if (batch.places > 0 && estimate.step(work).count() > guard * with.tightest) return false;
    if (!claims.join(slot, false)) return false;
    batch = with;
    return true;
  }
};

static_assert(explain<LeastDeadlineFirst>());

} // namespace sluice
