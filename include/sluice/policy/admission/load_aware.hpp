// SPDX-License-Identifier: Apache-2.0
// LoadAware: which requests have their KV on the host, and which of them the host attends in an iteration (NEO).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/hosted_choice.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// NEO's load-aware scheduling (arXiv 2411.01142; read from its code). In each iteration:
///
///  - If the decodes on the device outgrow it, the newest moves to the host and decodes there. If device memory with
///    the first of the host's decodes is at most `full`, that one moves to the device.
///  - Newcomers join, first come, first served: on the device while it has room; after the first that has none, on the
///    host, as many as raise the tokens per second of a decode with all others.
///  - Of the decodes on the host, those run, longest waiting first, that give the most tokens per second beside the
///    device's work. None may: then the device computes one batch, and reads its weights once. One that has waited for
///    `patience` always runs.
///
/// Read differently: NEO adds decodes as long as the device does not wait; here as many as the estimate's best, which
/// may wait a little rather than read the weights twice. `patience` is not NEO's, whose host may starve a request.
struct LoadAware : Fcfs {
  static constexpr bool steady = false; // the balance changes with each token
  double full = 0.95;
  Seconds patience{1};
  static constexpr auto numbers =
      Numbers{"LoadAware", Number{"full", &LoadAware::full, 0, 1, "share of device memory that a return may fill"},
              Number{"patience", &LoadAware::patience, 0, 1e9, "seconds after which a decode on the host always runs"}};

  struct State : Fcfs::State {
    std::vector<Slot> device, host, prompts; ///< running: decodes by where their KV will be, and prompts
    std::vector<Slot> order;                 ///< those that could join
    std::vector<Tokens> contexts;
    std::vector<ChunkWork> chunks;
  };

  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    Room room{view, view.ledger->device().capacity().count(), view.ledger->host().free().count()};
    divide(view, state, estimate.host_attends(), room);
    HostedChoice decoding{view, estimate, {}};
    for (const Slot slot : state.device) {
      ++decoding.work.decodes;
      decoding.work.decode_context += view.row(slot).context();
    }
    decoding.work.samples = decoding.work.decodes;
    HostedChoice now = decoding;
    state.chunks.clear();
    state.contexts.clear();
    for (const Slot slot : state.host) state.contexts.push_back(view.row(slot).context());

    ClaimBuilder<batching, Newcomers::optional> claims(view, proposal);
    for (const Slot slot : state.device) claims.keep(slot);
    for (const Slot slot : state.host) claims.keep(slot);
    for (std::size_t i = state.device.size(); i < proposal.claims.size(); ++i) proposal.claims[i].on_host = true;
    for (const Slot slot : state.prompts) {
      claims.keep(slot);
      proposal.claims.back().on_host = !view.row(slot).holding.all_resident();
      compute(view, proposal.claims.back(), state, now.work);
    }
    const std::size_t running = state.contexts.size();
    join(view, state, estimate.host_attends(), decoding, room, claims, proposal, now.work);
    now.work.chunks = state.chunks;

    std::size_t late = 0;
    while (late < running && view.now - view.row(state.host[late]).last_token > patience) ++late;
    const std::size_t run = now.best_count(std::span{state.contexts}.first(running), late);
    for (std::size_t i = run; i < running; ++i) proposal.claims[state.device.size() + i].tokens = Tokens{0};
  }

 private:
  /// Layer blocks that are left.
  struct Room {
    const View& view;
    std::int64_t device, host;
    [[nodiscard]] std::int64_t of(Slot slot) const {
      const RequestRow& row = view.row(slot);
      return row.blocks_after(row.pending(), view.limits.block_tokens).count() * view.geometry.layers;
    }
    /// The device's room for the layers of a prompt whose KV passes through to the host.
    [[nodiscard]] std::int64_t passing(Slot slot) const { return 2 * of(slot) / view.geometry.layers; }
    /// Takes room for a request on the host, less what the host has of it.
    void pass(Slot slot) {
      const RequestRow& row = view.row(slot);
      if (row.pending().count() > 1) device -= passing(slot);
      host -= of(slot) - (row.holding.host.empty() ? 0 : row.blocks.count() * view.geometry.layers);
    }
  };

  /// Divides the running requests, and moves decodes between the memories.
  void divide(const View& view, State& state, bool attends, Room& room) const {
    for (auto* list : {&state.device, &state.host, &state.prompts}) list->clear();
    const std::int64_t capacity = room.device;
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      const bool here = row.holding.all_resident(), decodes = row.pending().count() == 1;
      (!decodes ? state.prompts : here ? state.device : state.host).push_back(slot);
      if (here)
        room.device -= room.of(slot);
      else
        room.pass(slot);
    }
    const bool crowded = room.device < 0;
    while (attends && room.device < 0 && !state.device.empty() && room.of(state.device.back()) <= room.host) {
      room.device += room.of(state.device.back());
      room.host -= room.of(state.device.back());
      state.host.push_back(state.device.back());
      state.device.pop_back();
    }
    const auto most = static_cast<std::int64_t>((1 - full) * static_cast<double>(capacity));
    while (!crowded && !state.host.empty() && room.device - room.of(state.host.front()) >= (attends ? most : 0)) {
      room.device -= room.of(state.host.front());
      state.device.push_back(state.host.front());
      state.host.erase(state.host.begin());
    }
    std::stable_sort(state.host.begin(), state.host.end(),
                     [&](Slot a, Slot b) { return view.row(a).last_token < view.row(b).last_token; });
  }
  /// What a claim computes on the device, unless it is a decode on the host.
  static void compute(const View& view, const Claim& claim, State& state, Work& work) {
    const RequestRow& row = view.row(claim.slot);
    if (claim.tokens.count() > 0) state.chunks.push_back({claim.tokens, row.computed});
    if (claim.tokens == row.pending()) ++work.samples;
  }

  /// Claims places for preempted requests that may return and for newcomers, in this order.
  template <class Builder>
  static void join(const View& view, State& state, bool attends, const HostedChoice& decoding, Room room,
                   Builder& claims, Proposal& proposal, Work& work) {
    state.order.clear();
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return) state.order.push_back(slot);
    for (std::size_t i = 0; i < state.queue.size() && i < static_cast<std::size_t>(view.limits.batch); ++i)
      state.order.push_back(state.queue[i]);
    std::erase_if(state.order, [&](Slot slot) { return view.row(slot).waits; });
    std::size_t next = 0;
    const auto joins = [&](bool on_host) {
      if (!claims.join(state.order[next], false)) return false;
      proposal.claims.back().on_host = on_host;
      compute(view, proposal.claims.back(), state, work);
      ++next;
      return true;
    };
    for (; next < state.order.size() && room.of(state.order[next]) <= room.device;) {
      room.device -= room.of(state.order[next]);
      if (!joins(false)) return;
    }
    const std::size_t running = state.contexts.size();
    const std::size_t places = static_cast<std::size_t>(view.limits.batch) - proposal.claims.size();
    for (std::size_t i = next; attends && i < state.order.size() && i - next < places; ++i) {
      room.pass(state.order[i]);
      if (room.host < 0 || room.device < 0) break;
      state.contexts.push_back(view.row(state.order[i]).context() + Tokens{1});
    }
    std::size_t hosted = decoding.best_count(state.contexts, running) - running;
    state.contexts.resize(running);
    // Alone a request runs, whatever that takes.
    if (proposal.claims.empty() && next < state.order.size()) hosted = std::max<std::size_t>(hosted, 1);
    while (hosted-- > 0)
      if (!joins(attends)) return;
  }
};

static_assert(explain<LoadAware>());

} // namespace sluice
