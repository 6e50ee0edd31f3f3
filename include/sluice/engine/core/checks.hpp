// SPDX-License-Identifier: Apache-2.0
// Checks of an engine's configuration, of submitted requests and of what policies answer or throw.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/interrupt.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/policy/caching/caching.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/workload/request.hpp"

#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace sluice::detail {

// Checks of an engine's configuration and of submitted requests, for any policies.

/// Checks a configuration. The error names the mistake in one line.
[[nodiscard]] Status check_setup(const Limits& limits, const Geometry& geometry, LayerBlocks device_blocks,
                                 LayerBlocks host_blocks);

/// Checks a Caching policy's `first_tier()` on a backend whose host tier evicts by `evicts`: `own` is what the policy
/// makes of `host`. Only the order of eviction can be its own, and must be the backend's.
[[nodiscard]] Status check_host_tier(Replacement evicts, const Tier& host, const Tier& own);
/// The error of a Caching policy whose lower tiers get less than is written (`Feed`), on a backend with a disk, which gets
/// all that its host gets.
[[nodiscard]] Error feeds_otherwise();
/// A host's memory whose capacity, rates and latency no policy has by chance.
[[nodiscard]] Tier odd_tier(Replacement evicts);

/// Of `fetched` tokens of a disk's part of a prefix, those that arrive within `patience`, in whole blocks of
/// `block_tokens`: a real backend cannot take a request back whose disk is slow.
[[nodiscard]] Tokens arriving_within(Seconds patience, Tokens fetched, const FoundPrefix& found, Tokens block_tokens);

/// A policy's refusal, with the refused request as the error's `where`.
[[nodiscard]] Error refusal_of(RequestId id, Error error);

/// The error of a call that names a request which has ended or never existed.
[[nodiscard]] Error not_alive(RequestId id);

/// Checks that a request has a prompt and an output, and no more tokens than the context allows.
[[nodiscard]] Status check_length(RequestId id, const RequestSpec& spec, const Limits& limits);

/// Checks that a request may arrive with KV of `arrived` tokens. `alike`: the model's layers are. `rebuilds`: a policy
/// may drop KV, and rebuild it from hidden states, which the engine that computed it did not send.
[[nodiscard]] Status check_arrived(RequestId id, const RequestSpec& spec, Tokens arrived, bool alike, bool real_time,
                                   bool rebuilds);

/// The refusal of a request whose length its engine must know.
[[nodiscard]] Status unknown_length(RequestId id);

/// The memory that a request takes at its longest with the residency `least`, blocks in flight included.
[[nodiscard]] Footprint least_room(const Core& core, const Holding& least, const RequestSpec& spec);

/// Checks that a request that takes `room` at its longest can ever be placed. `lendable`: device memory that the
/// weights could still give up.
[[nodiscard]] Status check_room(RequestId id, Footprint room, const Ledger& ledger, LayerBlocks lendable);

} // namespace sluice::detail

// The check of every proposal: an admission's mistake ends the run with a sentence instead of a wrong result.
namespace sluice {

/// The first mistake of the drafted proposal, in every build. It claims live requests, each once, required ones first,
/// within the batch and the token budget, and no more tokens than a request has to compute; it claims every running
/// request or lets it leave, which only a running request does; it refuses only requests that have never run; and it
/// claims preempted requests only if Relief lets them return. Prompts and decodes have the budget each for themselves:
/// with prefill first they never share an iteration. The cost grows with the claims and the running requests, not with
/// the waiting ones.
[[nodiscard]] ProposalMistake proposal_mistake(const Core& core, Draft& draft);

namespace detail {
/// The mistake as a sentence.
[[nodiscard]] Error impossible_proposal(const Core& core, const ProposalMistake& mistake, Seconds now);
} // namespace detail

// PolicyThrew: an exception that left a policy, or an answer that its engine cannot follow, with the policy's name.

/// A policy's mistake. An engine ends its run with it (`BasicEngine::status`), so that a program names the policy
/// instead of aborting.
class PolicyThrew : public std::runtime_error {
 public:
  /// `expected`: what the policy should have done.
  PolicyThrew(std::string policy, const std::string& what, std::string expected)
      : std::runtime_error(what), policy_(std::move(policy)), expected_(std::move(expected)) {}
  [[nodiscard]] const std::string& policy() const { return policy_; }
  [[nodiscard]] const std::string& expected() const { return expected_; }

 private:
  std::string policy_, expected_;
};

/// Ends the run because of an answer of `policy()` that its engine cannot follow.
[[noreturn, gnu::cold, gnu::noinline]] inline void reject_answer(std::string (*policy)(), const std::string& what,
                                                                 std::string expected) {
  throw PolicyThrew(policy(), what, std::move(expected));
}

/// Ends the run unless a plan can hold for such a window.
inline void check_window(std::string (*policy)(), const Window& window) {
  if (window.min >= 1 && window.max >= window.min && window.max <= Window::longest) return;
  reject_answer(policy, "its window is " + std::to_string(window.min) + " to " + std::to_string(window.max) + " steps",
                "1 <= min <= max <= " + std::to_string(Window::longest));
}
/// Ends the run unless planning can take so long.
inline void check_planning_time(std::string (*policy)(), Seconds time) {
  if (time.count() >= 0 && time.count() < std::numeric_limits<double>::infinity()) return;
  reject_answer(policy, "planning_time is " + std::to_string(time.count()) + " s", "a finite time of at least 0");
}

/// Call it in a `catch (...)`: throws the exception on as `PolicyThrew` of `policy()`. A policy that asked another one
/// keeps the inner name. Lack of memory and an interrupt are no policy's mistakes and pass as they are.
[[noreturn, gnu::cold, gnu::noinline]] inline void rethrow_of(std::string (*policy)()) {
  try {
    throw;
  } catch (const PolicyThrew&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Dropped&) {
    throw;
  } catch (const std::exception& thrown) {
    throw PolicyThrew(policy(), std::string{"it threw an exception: "} + thrown.what(), "an answer");
  } catch (...) {
    throw PolicyThrew(policy(), "it threw an object that is no std::exception", "an answer");
  }
}

/// Asks a policy. What it throws gets its name.
template <class Ask>
decltype(auto) asked(std::string (*policy)(), Ask&& ask) {
  try {
    return ask();
  } catch (...) {
    rethrow_of(policy);
  }
}

/// Call it in a `catch (...)`: the exception as the status that ends an engine's run. What `rethrow_of` passes on as it
/// is leaves this function, too. `policy`: who threw, unless the exception says so.
[[nodiscard, gnu::cold, gnu::noinline]] inline Status thrown_by(std::string (*policy)(), Seconds now) {
  try {
    rethrow_of(policy);
  } catch (const PolicyThrew& thrown) {
    return Error{ErrorCode::infeasible, thrown.policy() + " at " + std::to_string(now.count()) + " s", thrown.what(),
                 thrown.expected()};
  }
}

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/checks.inl.hpp" // IWYU pragma: keep
#endif
