// SPDX-License-Identifier: Apache-2.0
// FitsFutureMemory: a request joins if the KV of all running requests is expected to fit until each has ended
// (LightLLM).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/state/view/future_claims.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace sluice {

/// First come, first served, limited by the expected peak instead of the memory that is free now. Requests are
/// preempted only if the expectation was wrong, and the batch is as large as the expectation allows.
///
/// A request's expected length is the quantile that it draws for life of all past outputs longer than what it has
/// generated (ExpectedOutput). Until `enough` requests have ended, the length is `first_guess`.
template <Batching B = Batching::chunked>
struct BasicFitsFutureMemory {
  using role = roles::Admission;
  static constexpr bool steady = false; // whether a request fits changes with every token
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = B;

  std::size_t enough = 20;
  Tokens first_guess{1024};
  std::uint64_t seed = 1;
  static constexpr auto numbers =
      Numbers{"FitsFutureMemory",
              Number{"enough", &BasicFitsFutureMemory::enough, 0, 1000, "ended requests before their lengths are used"},
              Number{"first_guess", &BasicFitsFutureMemory::first_guess, 1, 1 << 20, "tokens expected until then"},
              Number{"seed", &BasicFitsFutureMemory::seed, 0, 1 << 30, "of the requests' quantiles"}};

  struct State {
    std::deque<Slot> queue;
    std::vector<FutureClaim> claims; ///< scratch: the longest remaining first
  };

  void enter(State& state, Slot slot, const RequestRow& /*row*/) const { state.queue.push_back(slot); }
  void leave(State& state, Slot slot, const RequestRow& /*row*/) const {
    const auto found = std::find(state.queue.begin(), state.queue.end(), slot);
    if (found != state.queue.end()) state.queue.erase(found);
  }

  /// Tokens that the request in `row` is expected to generate, at least 1.
  [[nodiscard]] double expected_remaining(const OutputLengths& lengths, const RequestRow& row) const {
    const ExpectedOutput expected{.enough = enough, .first_guess = first_guess, .seed = seed};
    return expected.remaining(lengths, row, expected.draw(row));
  }

  void propose(const View& view, State& state, Proposal& proposal) const {
    Builder claims(view, proposal);
    state.claims.clear();
    for (const Slot slot : view.running) {
      claims.keep(slot);
      state.claims.push_back(future(view, slot));
    }
    std::sort(state.claims.begin(), state.claims.end(), FutureClaim::longest_first);
    const auto join = [&](Slot slot) {
      const FutureClaim claim = future(view, slot);
      const auto place = std::upper_bound(state.claims.begin(), state.claims.end(), claim, FutureClaim::longest_first);
      const auto inserted = state.claims.insert(place, claim);
      // A request alone always joins: an expectation must not starve it.
      if (state.claims.size() > 1 && !stay_within(view, state.claims)) {
        state.claims.erase(inserted);
        return false;
      }
      return claims.join(slot, false);
    };
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return && !join(slot)) return;
    for (const Slot slot : state.queue)
      if (!join(slot)) return;
  }

  void settle(const View& view, std::span<Claim> accepted) const { Builder::settle(view, accepted); }

 private:
  using Builder = ClaimBuilder<B, Newcomers::optional>;

  /// Whether the device has room for `claims` until all have ended.
  static bool stay_within(const View& view, std::span<const FutureClaim> claims) {
    const LayerBlocks capacity = view.ledger->device().capacity();
    const auto block = static_cast<double>(view.limits.block_tokens.count());
    if (view.geometry.alike())
      return future_peak(claims) <= static_cast<double>(view.geometry.blocks_within(capacity).count()) * block;
    return at_each_end(claims, [&](std::size_t requests, double tokens) {
      return view.geometry.kv_of_all(tokens / block, requests) <= static_cast<double>(capacity.count());
    });
  }
  [[nodiscard]] FutureClaim future(const View& view, Slot slot) const {
    const RequestRow& row = view.row(slot);
    return FutureClaim::of(view, row, expected_remaining(*view.lengths, row));
  }
};

using FitsFutureMemory = BasicFitsFutureMemory<>;

static_assert(Admission<FitsFutureMemory>);

} // namespace sluice
