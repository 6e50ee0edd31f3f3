// SPDX-License-Identifier: Apache-2.0
// LoadAware: which requests have their KV on the host, and which of them the host attends in an iteration (NEO).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/hosted_choice.hpp"
#include "sluice/policy/admission/request_costs.hpp"

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
///    host, as many as raise the tokens per second of a decode with all others. They leave as much of the host's memory
///    free as the device has, so that the device's decodes can move out.
///  - The decodes on the host are tried, longest waiting first. One runs if the device then waits for neither
///    sub-batch; otherwise it sits out, and so does each later one that is at least as long. If the device's work alone
///    gives at least as many tokens per second, none runs. One that has waited for `patience` always runs. If the
///    device has no work, all run.
///  - With one batch the device always waits for the host, at least for its launch. As many run then, longest waiting
///    first, as give the most tokens per second.
///
/// Read differently: docs/systems.md.
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
    std::vector<std::size_t> hosted;         ///< claims of decodes that the host would attend
    std::vector<Tokens> contexts;
    std::vector<ChunkWork> chunks;
  };

  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    const bool attends = estimate.host_attends();
    Room room{view, view.ledger->device().capacity().count(), view.ledger->host().free().count()};
    divide(view, state, attends, room);
    const Work decodes = decode_work(view, state.device);
    Work now = decodes;
    state.chunks.clear();
    state.hosted.clear();

    ClaimBuilder<batching, Newcomers::optional> claims(view, proposal);
    for (const Slot slot : state.device) claims.keep(slot);
    for (const Slot slot : state.host) {
      claims.keep(slot);
      proposal.claims.back().on_host = true;
      compute(view, proposal, attends, state, now);
    }
    for (const Slot slot : state.prompts) {
      claims.keep(slot);
      proposal.claims.back().on_host = !view.row(slot).holding.all_resident();
      compute(view, proposal, attends, state, now);
    }
    join(view, state, estimate, decodes, room, claims, proposal, now);
    now.chunks = state.chunks;
    if (attends) choose(view, state, estimate, now, proposal);
  }

 private:
  /// Layer blocks that are left.
  struct Room {
    const View& view;
    std::int64_t device, host;
    [[nodiscard]] std::int64_t of(Slot slot) const { return resident_room(view, view.row(slot)); }
    /// The device's room for the layers of a prompt whose KV passes through to the host.
    [[nodiscard]] std::int64_t passing(Slot slot) const { return 2 * of(slot) / view.geometry.layers; }
    /// Takes room for a request on the host, less what the host has of it.
    void pass(Slot slot) {
      const RequestRow& row = view.row(slot);
      if (row.pending().count() > 1) device -= passing(slot);
      host -= of(slot) - (row.holding.host.empty() ? 0 : view.geometry.kv_of(row.blocks).count());
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
  /// Counts what the last claim computes on the device, or that the host would attend it.
  static void compute(const View& view, Proposal& proposal, bool attends, State& state, Work& work) {
    const Claim& claim = proposal.claims.back();
    const RequestRow& row = view.row(claim.slot);
    const bool decodes = claim.tokens.count() == 1 && row.pending().count() == 1;
    if (decodes && claim.on_host && attends) {
      state.hosted.push_back(proposal.claims.size() - 1);
      return;
    }
    if (decodes) {
      ++work.decodes;
      work.decode_context += row.context();
    } else if (claim.tokens.count() > 0) {
      state.chunks.push_back({claim.tokens, row.computed});
    }
    if (claim.tokens.count() > 0 && claim.tokens == row.pending()) ++work.samples;
  }

  /// Claims places for preempted requests that may return and for newcomers, in this order.
  template <class Builder>
  static void join(const View& view, State& state, const Estimate& estimate, const Work& decodes, Room room,
                   Builder& claims, Proposal& proposal, Work& work) {
    const bool attends = estimate.host_attends();
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
      compute(view, proposal, attends, state, work);
      ++next;
      return true;
    };
    for (; next < state.order.size() && room.of(state.order[next]) <= room.device;) {
      room.device -= room.of(state.order[next]);
      if (!joins(false)) return;
    }
    if (next == state.order.size()) return;
    std::size_t hosted = 0;
    if (attends) {
      room.host -= view.ledger->device().capacity().count(); // NEO: num_cpu_blocks - num_gpu_blocks
      state.contexts.clear();
      const std::size_t places = static_cast<std::size_t>(view.limits.batch) - proposal.claims.size();
      for (std::size_t i = next; i < state.order.size() && i - next < places; ++i) {
        room.pass(state.order[i]);
        if (room.host < 0 || room.device < 0) break;
        state.contexts.push_back(view.row(state.order[i]).context() + Tokens{1});
      }
      if (!state.contexts.empty()) {
        HostedChoice choice(view, estimate, decodes);
        for (const Slot slot : state.host) choice.add(view.row(slot).context());
        hosted = choice.best_count(state.contexts);
      }
    }
    // Alone a request runs, whatever that takes.
    if (proposal.claims.empty()) hosted = std::max<std::size_t>(hosted, 1);
    while (hosted-- > 0)
      if (!joins(attends)) return;
  }

  /// Of the decodes on the host, those that do not run now sit out.
  void choose(const View& view, State& state, const Estimate& estimate, const Work& work, Proposal& proposal) const {
    if (work.tokens().count() == 0) return;
    HostedChoice choice(view, estimate, work);
    const auto context = [&](std::size_t i) { return view.row(proposal.claims[i].slot).context(); };
    bool none = false;
    if (choice.one_batch()) {
      state.contexts.clear();
      for (const std::size_t i : state.hosted) state.contexts.push_back(context(i));
      for (std::size_t at = choice.best_count(state.contexts); at < state.hosted.size(); ++at)
        proposal.claims[state.hosted[at]].tokens = Tokens{0};
    } else {
      const double without = choice.rate();
      for (const std::size_t i : state.hosted)
        if (!choice.add_if_it_fits(context(i))) proposal.claims[i].tokens = Tokens{0};
      none = choice.rate() <= without;
    }
    for (const std::size_t i : state.hosted) {
      Claim& claim = proposal.claims[i];
      const bool late = view.now - view.row(claim.slot).last_token > patience;
      if (late)
        claim.tokens = Tokens{1};
      else if (none)
        claim.tokens = Tokens{0};
    }
  }
};

static_assert(explain<LoadAware>());

} // namespace sluice
