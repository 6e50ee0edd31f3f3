// SPDX-License-Identifier: Apache-2.0
// MostPendingFirst: memory goes to the requests that have waited longest per block, as K and V or hidden states.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/hybrid_choice.hpp"
#include "sluice/policy/admission/request_costs.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// Apt-Serve's adaptive scheduling (arXiv 2504.07494; read from its appendix and its code). A request's pending time is
/// the time since its last token, or since its arrival. In each iteration:
///
///  - Prompts are computed if the waiting requests' pending time is at least the running ones' in sum, and memory holds
///    one; else all running requests decode.
///  - Waiting requests get the free memory by `HybridChoice`, which may keep hidden states instead of K and V. Running
///    ones get all memory in the same way, and those that get none leave.
///  - Rebuilding from hidden states delays all requests that are in time, waiting ones too. The delay of each is
///    the number of the request's tokens times `Estimate`'s time to rebuild one. The paper measures that time when its
///    server starts.
///  - A request that is late for its SLO counts next to nothing, and gets memory that others leave (its code).
///
/// Read differently. By the paper's value nobody decodes from hidden states: right after an iteration every request has
/// pended for next to nothing, so the delay of all others weighs more. (Its code computes a request with hidden states
/// again before its next token, every time.) Therefore:
///
///  - A running request's pending time counts to the end of the next iteration.
///  - What a request's hidden states have delayed since they were made counts only beyond the delay of computing the
///    request again (`again_weight`), which is what giving them up costs: rent or buy. So a request keeps them for some
///    tokens, and then gets K and V or leaves.
///  - Running requests never change from K and V to hidden states, and get K and V instead of hidden states without a
///    pause. The paper's code computes them again for either change.
///  - A prompt longer than the token budget is computed in chunks (the paper's code never splits one). Until its last
///    chunk it keeps its memory before all others, late or not: `Drop` would throw its chunks away, and it could start
///    again and again without a token. At most one prompt is in chunks at a time.
struct MostPendingFirst {
  using role = roles::Admission;
  static constexpr bool steady = false;      // pending time passes
  static constexpr bool equal_blocks = true; // sizes are in blocks of all layers
  static constexpr bool knows_lengths = false;
  static constexpr Batching batching = Batching::prefill_first;

  double delay_weight = 1;
  double again_weight = 1;
  double late_share = 1e-4; ///< the paper's code has this value
  int candidates = 1024;
  static constexpr auto numbers = Numbers{
      "MostPendingFirst",
      Number{"delay_weight", &MostPendingFirst::delay_weight, 0, 1e9,
             "of the estimated delay by rebuilding; 1e9 gives nobody hidden states"},
      Number{"again_weight", &MostPendingFirst::again_weight, 0, 1e9,
             "of the estimated delay by computing a request again, which its hidden states may cause before it "
             "counts; 0 as in the paper"},
      Number{"late_share", &MostPendingFirst::late_share, 0, 1,
             "what late requests count if they take all memory, of the waiting requests' mean pending time, or of "
             "that of the last one to become late if it is shorter"},
      Number{"candidates", &MostPendingFirst::candidates, 1, 1'000'000,
             "waiting requests in time that a decision looks at, the first to become late"}};

  struct State {
    PendingQueue queue;
    HybridChoice choice;
    std::vector<Slot> slots; ///< scratch: of the candidates
    std::vector<HybridCandidate> list;
    std::vector<Tokens> began; ///< by slot: tokens that a request had generated when its hidden states were made
  };

  void enter(State& state, Slot slot, const RequestRow& row) const { state.queue.enter(slot, row); }
  void leave(State& state, Slot slot, const RequestRow& row) const { state.queue.leave(slot, row); }

  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    state.queue.pass(view);
    const Batch batch = look_at(view, state, estimate);
    Builder claims(view, proposal);
    if (batch.running_s <= 0 || batch.running_s <= batch.waiting_s) {
      list_waiting(view, state, batch);
      int places = view.limits.batch - static_cast<int>(view.running.size());
      Tokens budget = view.limits.batch_tokens - std::min(view.limits.batch_tokens, batch.chunk);
      state.choice.choose(state.list, batch.free, [&](std::size_t i) {
        const Tokens pending = view.row(state.slots[i]).pending();
        if (places == 0 || (pending > budget && budget < view.limits.batch_tokens)) return false;
        --places;
        budget -= std::min(budget, pending);
        return true;
      });
      if (view.running.empty() || !state.choice.order().empty()) {
        for (const Slot slot : view.running) {
          claims.keep(slot);
          proposal.claims.back().as_states = view.row(slot).holding.states_on_device;
        }
        for (const std::size_t i : state.choice.order()) {
          const std::size_t before = proposal.claims.size();
          if (!claims.join(state.slots[i], false)) break;
          if (proposal.claims.size() == before || state.choice.form(i) != CacheForm::states) continue;
          proposal.claims.back().as_states = true;
          const std::size_t slot = index(state.slots[i]);
          if (state.began.size() <= slot) state.began.resize(slot + 1);
          state.began[slot] = view.row(state.slots[i]).generated;
        }
        return;
      }
    }
    std::int64_t memory = view.ledger->device().capacity().count();
    for (const Slot slot : view.running) {
      if (!in_chunks(view.row(slot))) continue;
      const bool states = view.row(slot).holding.states_on_device;
      memory -= room_of(view, view.row(slot), states);
      claims.keep(slot);
      proposal.claims.back().as_states = states;
    }
    list_running(view, state, batch);
    state.choice.choose(state.list, memory);
    for (std::size_t i = 0; i < state.slots.size(); ++i) {
      const CacheForm form = state.choice.form(i);
      if (form == CacheForm::nothing) {
        proposal.leaving.push_back(state.slots[i]);
        continue;
      }
      claims.keep(state.slots[i]);
      proposal.claims.back().as_states = form == CacheForm::states;
    }
  }
  void settle(const View& view, std::span<Claim> accepted) const { Builder::settle(view, accepted); }

 private:
  using Builder = ClaimBuilder<batching, Newcomers::optional>;

  /// What all requests together say.
  struct Batch {
    double running_s = 0, waiting_s = 0; ///< sums of pending time
    double decode_s = 0;                 ///< one iteration of the running requests
    double delay_s = 0;                  ///< delay of all requests in time, for each token that is rebuilt
    double again_s = 0;                  ///< the same for each token that is computed again
    double late_per_block = 0;           ///< a late request's value
    std::int64_t free = 0;               ///< layer blocks that running requests do not need for their next tokens
    Tokens chunk{0};                     ///< what prompts that are in chunks have left to compute
  };

  static std::int64_t layer_states_room(const View& view, TokenBlocks blocks) {
    return view.geometry.hidden_size().layer_room(blocks, view.limits.block_tokens).count();
  }
  /// Layer blocks for `blocks` of hidden states, and for one layer's K and V.
  static std::int64_t states_room(const View& view, TokenBlocks blocks) {
    return layer_states_room(view, blocks) * view.geometry.layers + blocks.count();
  }
  static std::int64_t room_of(const View& view, const RequestRow& row, bool states) {
    return states ? states_room(view, blocks_after_pending(view, row)) : resident_room(view, row);
  }
  /// Whether a running request's prompt, or what it computes again, is longer than an iteration and not yet computed.
  static bool in_chunks(const RequestRow& row) { return row.pending() > Tokens{1}; }

  Batch look_at(const View& view, const State& state, const Estimate& estimate) const {
    Batch batch;
    auto in_time = static_cast<double>(state.queue.in_time().size());
    batch.waiting_s = state.queue.pending_sum_s(view.now);
    batch.free = view.ledger->device().capacity().count();
    double least_s = state.queue.size() > 0 ? batch.waiting_s / static_cast<double>(state.queue.size()) : 0;
    if (const auto& waiting = state.queue.in_time(); !waiting.empty())
      least_s = std::min(least_s, pending_s(view, view.row(waiting.rbegin()->slot)));
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      batch.running_s += pending_s(view, row);
      in_time += is_late(view, row) ? 0 : 1;
      batch.free -= room_of(view, row, row.holding.states_on_device);
      if (in_chunks(row)) batch.chunk += row.pending();
    }
    for (const Slot slot : view.preempted) {
      const RequestRow& row = view.row(slot);
      batch.waiting_s += pending_s(view, row);
      in_time += is_late(view, row) ? 0 : 1;
    }
    Work decode = decode_work(view, view.running, Tokens{1});
    decode.samples = decode.decodes = std::max<std::int64_t>(1, decode.decodes); // with none, one of a single token
    decode.decode_context = std::max(Tokens{1}, decode.decode_context);
    const HybridDelays delays = HybridDelays::of(view, decode, in_time, estimate);
    batch.decode_s = delays.decode_s;
    batch.delay_s = delay_weight * delays.rebuilt_s;
    batch.again_s = again_weight * delays.again_s;
    const std::int64_t capacity = std::max<std::int64_t>(1, view.ledger->device().capacity().count());
    batch.late_per_block = late_share * std::max(0.0, least_s) / static_cast<double>(capacity);
    return batch;
  }

  void add(const View& view, State& state, const Batch& batch, Slot slot, double pending, bool may_have_states) const {
    const RequestRow& row = view.row(slot);
    const TokenBlocks blocks = blocks_after_pending(view, row);
    HybridCandidate one;
    one.kv = resident_room(view, row);
    one.pending_s = pending;
    one.delay_s = batch.delay_s * static_cast<double>((view.limits.block_tokens * blocks.count()).count());
    if (may_have_states) one.states = states_room(view, blocks);
    if (is_late(view, row)) {
      one.pending_s = batch.late_per_block * static_cast<double>(one.kv);
      if (!row.holding.states_on_device) one.states = 0;
    }
    state.slots.push_back(slot);
    state.list.push_back(one);
  }
  void list_waiting(const View& view, State& state, const Batch& batch) const {
    state.slots.clear();
    state.list.clear();
    const auto consider = [&](Slot slot) {
      const RequestRow& row = view.row(slot);
      add(view, state, batch, slot, pending_s(view, row), row.computed.count() == 0);
    };
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return) consider(slot);
    const auto consider_first = [&](const std::set<QueueEntry>& queue, int count) {
      for (auto next = queue.begin(); next != queue.end() && count > 0; ++next, --count) consider(next->slot);
    };
    consider_first(state.queue.in_time(), candidates);
    consider_first(state.queue.late(), view.limits.batch);
  }
  void list_running(const View& view, State& state, const Batch& batch) const {
    state.slots.clear();
    state.list.clear();
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      if (in_chunks(row)) continue;
      add(view, state, batch, slot, pending_s(view, row) + batch.decode_s, row.holding.states_on_device);
      if (row.holding.states_on_device && index(slot) < state.began.size()) {
        HybridCandidate& one = state.list.back();
        const Tokens held = row.generated - state.began[index(slot)]; // decodes from them, including the next one
        const double again_s = batch.again_s * static_cast<double>(row.context().count());
        one.delay_s = std::max(0.0, one.delay_s * static_cast<double>(held.count()) - again_s);
      }
      if (!row.holding.states_on_device) continue;
      // K and V instead of hidden states need a block to grow by, or the batch would soon be short of one, and room for
      // the last layer's hidden states, from which K and V are projected beside them (HybridCache).
      state.list.back().kv += view.geometry.layers + layer_states_room(view, blocks_after_pending(view, row));
    }
  }
};

static_assert(explain<MostPendingFirst>());

} // namespace sluice
