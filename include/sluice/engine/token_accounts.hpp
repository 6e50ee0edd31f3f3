// SPDX-License-Identifier: Apache-2.0
// TokenAccounts: counts the tokens of an iteration that has run, delivers them, and ends requests.
#pragma once

#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/writers.hpp"
#include "sluice/engine/policies.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/world/backend.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Counts steps, and tokens in the requests' rows. The other writers of a core are the functions of core/writers.hpp.
template <class C>
class TokenAccounts {
 public:
  /// An iteration has run: every claim's tokens now have KV, and a request with nothing pending has generated a token.
  void account(Core& core, std::span<const Claim> claims, Seconds now, Policies<C>& policies) {
    ++core.step;
    for (const Claim& claim : claims) {
      if (claim.tokens.count() == 0) continue;
      RequestRow& request = core.row(claim.slot);
      request.computed += claim.tokens;
      if constexpr (finds_released) core.prefix.seal(claim.slot, request.computed, core.limits.block_tokens);
      if (request.pending().count() > 0) continue;
      generate<true>(core, request, now, policies);
      ++core.served.tokens;
      if (has_all(request)) finished_.push_back(claim.slot);
    }
  }
  /// The same if every claim decodes and did so in the iteration before: all have waited equally long for this token.
  /// `tightest`: their shortest TBT SLO. Returns how many requests open a block with their next token.
  std::int64_t account_steadily(Core& core, std::span<const Claim> claims, Seconds now, Seconds tightest,
                                Policies<C>& policies) {
    if (claims.empty() || now - core.row(claims.front().slot).last_token <= tightest)
      return account_steadily<false>(core, claims, now, policies);
    return account_steadily<true>(core, claims, now, policies);
  }
  /// Deposits drain while their requests run, wait or are preempted: `advance` brings them up to date before a policy
  /// plans with them.
  static void advance(Core& core, Policies<C>& policies, Seconds now) {
    for (const auto* list : {&core.requests.running, &core.requests.preempted})
      for (const Slot slot : *list)
        policies.delivery.advance(core.row(slot), now, Sink{core, core.row(slot), policies});
  }

  /// Applies the backend's outcomes of an iteration. A request that ended early has got its last token; one that failed
  /// gets no token from this iteration, and is refused with the reason, or computed again. `forget(slot)` is called for
  /// those that do not run on.
  template <class Forget>
  void take(std::span<const RequestOutcome> outcomes, Core& core, Decision& decision, const Draft& draft,
            const PolicyCalls& calls, Seconds now, Forget&& forget) {
    const bool alone = core.requests.running.size() <= 1; // before those that lose their KV together leave the batch
    for (const RequestOutcome& outcome : outcomes) {
      if (!outcome.failed) {
        ending_early_.push_back(core.row(outcome.slot).id);
        continue;
      }
      std::erase_if(decision.claims, [&outcome](const Claim& claim) { return claim.slot == outcome.slot; });
      forget(outcome.slot);
      if (!outcome.recompute || !lose_kv(core, outcome.slot, alone, draft, calls, now))
        fail_request(core, outcome.slot, outcome.reason, draft, calls, now);
    }
  }

  /// Ends the requests that have all their tokens; calls `forget(slot)` for each before its row is reused.
  template <class Forget>
  void end_finished(Core& core, const Draft& draft, Seconds now, Policies<C>& policies, Forget&& forget) {
    if (finished_.empty()) return;
    for (const Slot slot : finished_) {
      RequestRow& request = core.row(slot);
      policies.delivery.finish(request, now, Sink{core, request, policies});
      policies.tell(events::Ended{request, now});
      forget(slot);
      end_request(core, slot, draft, now, {policy_table<C>, &policies});
    }
    finished_.clear();
  }
  /// Requests that have their last token, until `end_finished`.
  [[nodiscard]] std::span<const Slot> finished() const { return finished_; }
  /// A request is cancelled.
  void forget([[maybe_unused]] RequestId id) {
    if constexpr (EndsRequests<typename C::backend_type>) std::erase(ending_early_, id);
  }
  /// For a copy that only predicts the iteration: it does not know yet which requests end.
  void forget_finished() { finished_.clear(); }

 private:
  static constexpr bool finds_released = C::retention_type::finds_released;

  template <bool MayBeLate>
  std::int64_t account_steadily(Core& core, std::span<const Claim> claims, Seconds now, Policies<C>& policies) {
    RequestRow* const rows = core.requests.rows.data();
    ++core.step;
    std::int64_t opening = 0;
    for (const Claim& claim : claims) {
      RequestRow& request = rows[index(claim.slot)];
      request.computed += Tokens{1};
      if constexpr (finds_released) core.prefix.seal(claim.slot, request.computed, core.limits.block_tokens);
      opening += request.slack.count() == 0 ? 1 : 0;
      generate<MayBeLate>(core, request, now, policies);
      if (has_all(request)) finished_.push_back(claim.slot);
    }
    core.served.tokens += static_cast<std::int64_t>(claims.size());
    return opening;
  }

  /// Delivery calls this when tokens of `row` reach their user.
  struct Sink {
    Core& core;
    RequestRow& row;
    Policies<C>& policies;

    void operator()(const RequestRow& request, Tokens count, Seconds when) const {
      if constexpr (C::delivery_type::deposits) { // otherwise `generate` knows: a token is delivered as it is generated
        if (row.last_delivery.count() >= 0 && when - row.last_delivery > row.spec.slo.tbt)
          miss(core, row, when - row.last_delivery, when);
        row.last_delivery = when;
      }
      policies.tell(events::Delivered{request, count, when});
    }
  };
  [[gnu::cold, gnu::noinline]] static void miss(Core& core, RequestRow& row, Seconds gap, Seconds when) {
    const std::int64_t missed = deadlines_missed(gap, row.spec.slo.tbt, when);
    row.missed += missed;
    core.served.missed += missed;
  }

  /// `MayBeLate`: false if no request of the batch has waited longer than its SLO, nor waits for its first token.
  template <bool MayBeLate>
  static void generate(Core& core, RequestRow& request, Seconds now, Policies<C>& policies) {
    if constexpr (MayBeLate) {
      if (request.generated.count() == 0)
        start(core, request, now);
      else if (!C::delivery_type::deposits && now - request.last_token > request.spec.slo.tbt)
        miss(core, request, now - request.last_token, now);
    }
    request.generated += Tokens{1};
    request.last_token = now;
    policies.delivery.generated(request, now, Sink{core, request, policies});
  }
  [[gnu::noinline]] static void start(Core& core, RequestRow& request, Seconds now) {
    request.first_token = now;
    ++core.served.started;
    if (!on_time(now - request.spec.arrival, request.spec.slo.ttft, now)) ++core.served.late_first;
  }
  /// Whether this token is the request's last: by its length, or because the backend said so. The backend's word counts
  /// once, for this request only.
  [[nodiscard]] bool has_all(const RequestRow& request) {
    bool ended = false;
    if constexpr (EndsRequests<typename C::backend_type>) ended = std::erase(ending_early_, request.id) > 0;
    return ended || request.generated >= request.output(not_a_policy);
  }

  std::vector<Slot> finished_;
  std::vector<RequestId> ending_early_; ///< by id, because slots are reused
};

} // namespace sluice
