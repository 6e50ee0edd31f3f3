// SPDX-License-Identifier: Apache-2.0
// Core: an engine's state that does not depend on its policies: requests, both memories, the plan in force.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/lending.hpp"
#include "sluice/engine/core/policy_table.hpp"
#include "sluice/engine/core/prefix_reuse.hpp"
#include "sluice/state/memory/ledger.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/request_row.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// The live requests. Running, preempted and waiting ones are kept apart, so that a step never scans the waiting ones.
struct RequestTable {
  std::vector<RequestRow> rows; ///< by slot
  std::vector<Slot> free_slots; ///< rows of ended requests
  std::vector<Slot> running;    ///< in the order in which they joined
  std::vector<Slot> preempted;  ///< by arrival
  std::int64_t waiting = 0;     ///< how many requests wait; Admission keeps their order
  std::int64_t alive = 0;
  std::uint32_t next_id = 0;
  std::vector<Answered> answers;    ///< of requests of sessions, until `take_answers`
  bool keeps_answers = false;       ///< since the first `take_answers`: without it the list would only grow
  std::vector<std::uint64_t> named; ///< scratch of `detail::in_giving_order`, by slot: its last call that named it
  std::uint64_t namings = 0;        ///< its calls

  RequestRow& row(Slot slot) { return rows[index(slot)]; }
  [[nodiscard]] const RequestRow& row(Slot slot) const { return rows[index(slot)]; }
};

/// A value: it can be copied, and a decision made on the copy (engine/decision_source.hpp).
///
/// The functions of writers.hpp write it, and `TokenAccounts`, which counts tokens and steps. `CarryOver` changes only
/// itself. All other code takes a `const Core&` (tests/architecture/writers_test.cpp).
struct Core {
  Core(const PolicyTable& table, const Limits& batch_limits, const Geometry& sizes, LayerBlocks device,
       LayerBlocks host, const TierList& below = {}, bool attends_on_host = true);

  [[nodiscard]] const RequestRow& row(Slot slot) const { return requests.row(slot); }
  RequestRow& row(Slot slot) { return requests.row(slot); }
  /// The row of a live request; null if no live request has that id. Searches all rows: for rare calls.
  [[nodiscard]] const RequestRow* find(RequestId id) const;
  /// The snapshot for decisions at `now`.
  [[nodiscard]] View view(Seconds now) const;

  /// The room that `blocks` token blocks of a request take in each memory with the residency `holding`. Always inlined:
  /// a plan of 32 resident requests asks 128 times, and as calls these were a fifth of it.
  [[nodiscard, gnu::always_inline]] Footprint footprint(const Holding& holding, TokenBlocks blocks) const {
    if (geometry.alike() && holding.on_device_alone()) return {layout.room(blocks), LayerBlocks{0}};
    return footprint_away(holding, blocks);
  }
  [[nodiscard]] Footprint footprint(const RequestRow& request) const {
    return footprint(request.holding, request.blocks);
  }
  /// The same without copies and saved hidden states, which are given up for anything else that needs the room.
  [[nodiscard]] Footprint footprint_without_spare(const RequestRow& request, TokenBlocks blocks) const {
    const Holding& holding = request.holding;
    return holding.saved.empty() && holding.copied.count() == 0 ? footprint(holding, blocks)
                                                                : footprint(holding.without_spare(), blocks);
  }
  /// Host memory that holds copies and saved hidden states.
  [[nodiscard]] LayerBlocks spare_blocks() const;
  [[nodiscard]] Footprint footprint_away(const Holding& holding, TokenBlocks blocks) const;
  /// Device memory of a resident request's token blocks.
  [[nodiscard]] LayerBlocks room_of(TokenBlocks blocks) const {
    return geometry.alike() ? layout.room(blocks) : LayerBlocks{geometry.groups->blocks.room(blocks.count())};
  }
  /// Whether a preempted request's layers can be in both memories: those that placements may move, and those whose
  /// blocks have copies only if all are alike.
  [[nodiscard]] bool layerwise() const {
    return layout.layerwise() && (geometry.alike() || !policies->is.copies_ahead);
  }

  /// Whether the plan in force determines this request's residency; `holding_by_plan` returns it.
  [[nodiscard]] bool covers(const RequestRow& request) const {
    return plan.covers_unseen || request.plan_serial == plan_serial;
  }
  [[nodiscard]] const Holding& holding_by_plan(const RequestRow& request) const {
    return request.plan_serial == plan_serial ? request.holding : plan.unseen;
  }
  /// Device memory for KV with this plan of the weights.
  [[nodiscard]] LayerBlocks capacity_with(const WeightsPlan& weights) const {
    return std::max(LayerBlocks{0}, device_blocks + weights.freed);
  }
  /// Whether KV of ended requests, in the first tier, and KV of live ones share the host's memory: unless the device
  /// keeps the blocks of ended requests, so that live ones have nothing on the host.
  [[nodiscard]] bool shares_host() const { return policies->tiers != nullptr && !policies->is.finds_released; }
  /// Whether a request that does not run would still find, on the device and below, what its row says.
  [[nodiscard]] bool finds_the_same(Slot slot) const;
  /// The device blocks in flight, both ways, that the transfer rule needs for these streams: whole blocks.
  [[nodiscard]] LayerBlocks in_flight(std::span<const LayerStream> streams) const;
  /// The same in the evaluator's unit.
  [[nodiscard]] double in_flight_blocks(std::span<const LayerStream> streams) const;

  const PolicyTable* policies; ///< the table of the engine's type
  Limits limits;
  Geometry geometry;
  LayoutTable layout;
  LayerBlocks device_blocks{0}; ///< KV memory while all weights are resident
  bool host_attends = true;     ///< the backend's host can attend decodes

  RequestTable requests;
  Ledger ledger;
  LayerBlocks kv_capacity{0}; ///< KV memory by the plan of the weights in force
  Plan plan;                  ///< in force
  std::uint32_t plan_serial = 1;
  Lending lending;
  PrefixReuse prefix; ///< used if Retention finds released blocks
  OwnedTiers tiers;   ///< used if Caching caches and the backend is simulated

  // State instead of events: that a request has finished survives a discarded decision.
  std::int64_t step = 0;
  std::int64_t finished = 0;
  std::int64_t last_finish_step = -1;
  ServedSums served;
  OutputLengths lengths;
  CarryOver carry_over;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/core.inl.hpp" // IWYU pragma: keep
#endif
