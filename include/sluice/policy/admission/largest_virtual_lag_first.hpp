// SPDX-License-Identifier: Apache-2.0
// LargestVirtualLagFirst: requests take turns on the device, by how far they lag behind their SLO (SuperInfer).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace sluice {

/// Whose wait a preempted request's lag counts.
enum class LagClock : std::uint8_t {
  engine, ///< since the request's last token was generated (SuperInfer)
  user,   ///< since the user got it: deposited tokens cover a pause
};

/// SuperInfer's RotaSched. The *virtual lag* of a request, in seconds:
///
///   waiting    max(0, now - arrival - beta_first * first_token)
///   preempted  alpha * max(0, now - last token - beta_next * next_token)
///   running    -(now - since when it runs)
///
/// If the free memory fits all waiting and preempted requests: first come, first served. Otherwise all requests are
/// sorted by lag, the largest first, and `rotation` more blocks than are free may change owners. From the head, every
/// request with a lag of at least 0 joins if its blocks fit. From the tail, requests with a lag below 0 leave until
/// they cover what was taken beyond the free memory. Places in the batch are counted the same way.
///
/// With LagClock::user and a Delivery that holds tokens back, "last token" is when the user has got all that exist
/// (`all_delivered_at`). While that is still to come, the user does not wait: the request's lag is -alpha times the
/// time until then, and it joins only within free memory and free places. Without a deposit both clocks decide alike.
/// Rejected: a lag of 0 while tokens are deposited, with which the request would rotate another out at once; and to
/// rotate out requests with the most deposited tokens first, which gains less than a point.
///
/// A request that was preempted before its first token lags like a waiting one. The defaults are SuperInfer's values;
/// `beta_first` is from notes on the paper, not from its sweep. `rotation` is right for its machine alone: where the
/// link moves less during a token's SLO, the same number lets turns stall every step (`rotation_within`).
///
/// Waiting requests lag by arrival alone, so the queue is always in order, and a decision sorts only running and
/// preempted requests. It reads the queue until nothing more can fit: to the end if some memory remains that fits no
/// request.
template <Batching B = Batching::chunked, LagClock C = LagClock::engine>
struct BasicLargestVirtualLagFirst {
  using role = roles::Admission;
  static constexpr bool steady = false;
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = B;

  double alpha = 3;
  double beta_first = 0.5;
  double beta_next = 0;
  Seconds first_token{5};
  Seconds next_token{0.1};
  TokenBlocks rotation{2400}; ///< blocks of all layers that one decision may move beyond the free ones
  static constexpr auto numbers = Numbers{
      "LargestVirtualLagFirst",
      Number{"alpha", &BasicLargestVirtualLagFirst::alpha, 0, 1e9, "weight of a rotated request's lag"},
      Number{"beta_first", &BasicLargestVirtualLagFirst::beta_first, 0, 1e9,
             "share of the first token's SLO after which waiting is lag"},
      Number{"beta_next", &BasicLargestVirtualLagFirst::beta_next, 0, 1e9,
             "share of the next token's SLO after which a rotated request lags"},
      Number{"rotation", &BasicLargestVirtualLagFirst::rotation, 0, 1e9, "token blocks moved beyond the free ones"}};

  /// Returns the rotation budget for a machine: what a link of `rate` (one direction) moves in 0.4 `tbt`, in token
  /// blocks of `token_block` bytes in all layers, and at most 0.4 of the device's `blocks`. That is what SuperInfer's
  /// 2,400 are on its machine: 4 MiB each, 255 GB/s, tokens due every 100 ms, and at least 6,500 blocks (Qwen2.5-32B on
  /// a GH200, section 4 and Fig. 21). At least 1 block, at most 2,400.
  [[nodiscard]] static constexpr TokenBlocks rotation_within(Seconds tbt, BytesPerSecond rate, Bytes token_block,
                                                             TokenBlocks blocks) {
    const double by_link =
        rate.count() > 0 ? 0.4 * tbt.count() * rate.count() / static_cast<double>(token_block.count()) : 0;
    const double most = std::min({2400.0, by_link, 0.4 * static_cast<double>(blocks.count())});
    return TokenBlocks{std::max<std::int64_t>(1, static_cast<std::int64_t>(most))};
  }

  struct Entry {
    double lag = 0;
    RequestId id{};
    Slot slot{};
  };
  struct State {
    std::deque<Slot> queue;       ///< by arrival, and therefore by lag
    std::vector<Entry> preempted; ///< scratch: by lag, the largest first
    std::vector<Entry> running;   ///< scratch: the same
    std::vector<Slot> chosen;     ///< scratch: the requests that join, in order
  };

  void enter(State& state, Slot slot, const RequestRow& /*row*/) const { state.queue.push_back(slot); }
  void leave(State& state, Slot slot, const RequestRow& /*row*/) const {
    const auto found = std::find(state.queue.begin(), state.queue.end(), slot);
    if (found != state.queue.end()) state.queue.erase(found);
  }

  [[nodiscard]] double lag(const View& view, const RequestRow& row) const {
    if (row.phase == Phase::running) return -(view.now - row.running_since).count();
    if (row.phase == Phase::waiting || row.generated == Tokens{0})
      return std::max(0.0, (view.now - row.spec.arrival - first_token * beta_first).count());
    const Seconds waits = view.now - (C == LagClock::user ? all_delivered_at(row) : row.last_token);
    if (C == LagClock::user && waits < Seconds{0}) return alpha * waits.count();
    return alpha * std::max(0.0, (waits - next_token * beta_next).count());
  }

  void propose(const View& view, State& state, Proposal& proposal) const {
    std::int64_t free = view.ledger->device().free().count();
    for (const Slot slot : view.running) free -= growth(view, view.row(slot));
    free = std::max<std::int64_t>(free, 0); // Relief handles what running requests themselves lack
    Builder claims(view, proposal);
    if (all_fit(view, state, free)) {
      for (const Slot slot : view.running) claims.keep(slot);
      claims.join_in_order([&state](auto&& visit) {
        for (const Slot slot : state.queue)
          if (!visit(slot)) return;
      });
      return;
    }
    list(view, view.preempted, state.preempted);
    list(view, view.running, state.running);
    std::int64_t beyond = choose(view, state, free) - free;
    auto places = static_cast<std::int64_t>(state.chosen.size() + view.running.size()) - view.limits.batch;
    while (!state.running.empty() && (beyond > 0 || places > 0) && state.running.back().lag < 0) {
      const Slot slot = state.running.back().slot;
      beyond -= held(view, view.row(slot)) + growth(view, view.row(slot));
      --places;
      proposal.leaving.push_back(slot);
      state.running.pop_back();
    }
    for (const Slot slot : view.running)
      if (std::find(proposal.leaving.begin(), proposal.leaving.end(), slot) == proposal.leaving.end())
        claims.keep(slot);
    for (const Slot slot : state.chosen)
      if (!claims.join(slot, false)) return;
  }

  void settle(const View& view, std::span<Claim> accepted) const { Builder::settle(view, accepted); }

 private:
  using Builder = ClaimBuilder<B, Newcomers::optional>;

  /// Layer blocks that the request holds on the device.
  static std::int64_t held(const View& view, const RequestRow& row) {
    return view.geometry.kv_of(row.blocks, row.resident_layers).count();
  }
  /// Layer blocks that its next token, or its remaining prompt, takes on top.
  static std::int64_t growth(const View& view, const RequestRow& row) {
    const TokenBlocks after = row.blocks_after(row.pending(), view.limits.block_tokens);
    return view.geometry.kv_of(after).count() - held(view, row);
  }

  static bool all_fit(const View& view, const State& state, std::int64_t free) {
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return) free -= growth(view, view.row(slot));
    for (const Slot slot : state.queue) {
      if (free < 0) return false;
      free -= growth(view, view.row(slot));
    }
    return free >= 0;
  }

  void list(const View& view, std::span<const Slot> slots, std::vector<Entry>& entries) const {
    entries.clear();
    for (const Slot slot : slots) {
      const RequestRow& row = view.row(slot);
      if (row.phase == Phase::running || row.may_return) entries.push_back({lag(view, row), row.id, slot});
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.lag != b.lag ? a.lag > b.lag : a.id < b.id; });
  }

  /// Fills `chosen` from the head of the order; at equal lag, preempted requests come before waiting ones. Returns the
  /// layer blocks that they take.
  std::int64_t choose(const View& view, State& state, std::int64_t free) const {
    state.chosen.clear();
    std::int64_t left = free + view.geometry.kv_of(rotation).count();
    std::int64_t taken = 0;
    auto preempted = state.preempted.begin();
    auto waiting = state.queue.begin();
    while (left > 0 && static_cast<int>(state.chosen.size()) < view.limits.batch) {
      const bool has_preempted = preempted != state.preempted.end();
      const bool has_waiting = waiting != state.queue.end();
      if (!has_preempted && !has_waiting) break;
      const bool take_preempted = has_preempted && (!has_waiting || preempted->lag >= lag(view, view.row(*waiting)));
      const bool covered = take_preempted && preempted->lag < 0; // its user has tokens: nobody leaves for it
      const Slot slot = take_preempted ? (preempted++)->slot : *waiting++;
      const std::int64_t need = growth(view, view.row(slot));
      const bool full = static_cast<int>(state.chosen.size() + view.running.size()) >= view.limits.batch;
      if (need > left || (covered && (full || need > free - taken))) continue;
      left -= need;
      taken += need;
      state.chosen.push_back(slot);
    }
    return taken;
  }
};

using LargestVirtualLagFirst = BasicLargestVirtualLagFirst<>;
/// The same by the user's clock, for an engine with a TokenDeposit.
using LargestUserLagFirst = BasicLargestVirtualLagFirst<Batching::chunked, LagClock::user>;

static_assert(Admission<LargestVirtualLagFirst> && Admission<LargestUserLagFirst>);

} // namespace sluice
