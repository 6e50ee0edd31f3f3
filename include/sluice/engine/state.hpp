// SPDX-License-Identifier: Apache-2.0
// EngineState: what an engine remembers that does not depend on its policies.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/cost/work.hpp"
#include "sluice/engine/decision.hpp"
#include "sluice/memory/ledger.hpp"
#include "sluice/plan/plan.hpp"
#include "sluice/transfer/pipeline.hpp"
#include "sluice/view/proposal.hpp"
#include "sluice/view/request_row.hpp"
#include "sluice/view/view.hpp"
#include "sluice/weights/coordination.hpp"
#include "sluice/weights/weights.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::detail {

/// The iteration that `begin` made ready: what `finish` runs, beside the lists of `EngineState`.
struct Launched {
  WeightStream weights;
  double room = 0; ///< blocks in flight
  double urgent_out = 0;
  double background = 0;
  Seconds planning{0}; ///< that it waited for
  bool repeated = false;
};

/// A plan that was made beside an iteration, and what it took.
struct ImaginedPlan {
  Plan plan;
  Seconds wall{0};
};

/// Requests, memory, plans and the iteration under way. A base and not a part of every engine type, so that eight of
/// them in one program construct, move and destroy it by the same code. `BasicEngine` says what is done with it.
class EngineState {
 protected:
  EngineState() = default;

  RequestRow& row(Slot slot) { return rows_[index(slot)]; }
  [[nodiscard]] const RequestRow& row(Slot slot) const { return rows_[index(slot)]; }
  void gather_work();
  /// Of `holding`, `blocks` of each layer are fetched in every iteration: K and V, or what they are rebuilt from.
  void stream_head(const Holding& holding, double blocks, HiddenSize hidden) {
    if (!holding.host.empty())
      streams_.push_back({holding.host, blocks, holding.written_back ? holding.host : LayerSet{}});
    if (!holding.hidden.empty()) streams_.push_back({holding.hidden, hidden.blocks(blocks)});
  }

  // Requests. Running, preempted and waiting apart: a step never scans those who wait.
  std::vector<RequestRow> rows_;
  std::vector<Slot> free_slots_;
  std::vector<Slot> running_;
  std::vector<Slot> preempted_; ///< by arrival
  std::vector<Slot> finished_rows_;
  std::int64_t waiting_ = 0;
  std::int64_t alive_ = 0;
  std::uint32_t next_id_ = 0;

  // Memory and plans.
  Ledger ledger_;
  Plan plan_;
  Plan next_plan_;
  std::uint32_t plan_serial_ = 1;
  LayerBlocks kv_capacity_{0};   ///< device memory for KV, by the plan of the weights in force
  LayerBlocks host_reserved_{0}; ///< host memory that this decision's claims take beyond what they have
  std::vector<WeightsLevel> levels_;
  int granted_level_ = std::numeric_limits<int>::max();
  Coordination coordination_; ///< of the node that the engine is in, if it is
  LayerBlocks borrowed_{0};   ///< memory of others of the node, as KV blocks
  BatchNeeds needs_;          ///< of the batch that asks, or of that which runs
  LayerBlocks borrowed_in_force_{0};
  int lent_layers_ = 0;      ///< of its own, to others of the node
  int lent_in_force_ = 0;    ///< that the plan in force does without, and not for its own KV
  int most_lent_layers_ = 0; ///< at any time since its last iteration: their weights are overwritten
  int own_level_ = 0;        ///< layers' memory given up for its own KV, by the plan in force
  double prompt_tokens_ = 0; ///< of all requests accepted
  std::int64_t accepted_ = 0;

  // The iteration.
  Proposal proposal_;
  Decision decision_; ///< what is to run
  Decision pending_;  ///< decided ahead, if valid
  Work work_;
  std::vector<ChunkWork> chunks_;
  std::vector<RebuiltWork> rebuilds_;
  std::vector<LayerStream> streams_;
  std::vector<Slot> stream_slots_; ///< whose they are, for observers that replay
  double urgent_blocks_ = 0;       ///< must cross the link first
  double first_blocks_ = 0;        ///< of these, what the first layer waits for
  LayerBlocks leaving_{0};         ///< evicted by this decision: still on the device until they have crossed
  double written_blocks_ = 0;      ///< written out by prompts as they are computed
  LayerBlocks arriving_{0};        ///< fetched for good: their room is already counted as used
  double returned_blocks_ = 0;     ///< of weights that come back to the device for good
  LayerBlocks moved_to_device_{0}, moved_to_host_{0};
  LayerArray compute_{};
  Launched launched_;
  bool plan_changed_ = false;
  bool quiet_ = false; ///< nothing has happened since an iteration in which everybody decoded and nothing moved
  std::int64_t full_blocks_ = 0; ///< while quiet: requests of the batch whose next token opens a block

  // Facts, as levels.
  std::int64_t step_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t last_finish_step_ = -1;
};

/// What the batch computes, as sums.
inline void EngineState::gather_work() {
  work_ = Work{};
  chunks_.clear();
  for (const Claim& claim : decision_.claims) {
    const RequestRow& who = row(claim.slot);
    if (claim.tokens.count() == 0) continue;
    if (claim.tokens == who.pending()) ++work_.samples;
    if (claim.tokens.count() == 1 && who.pending().count() == 1) {
      ++work_.decodes;
      work_.decode_context += who.computed + Tokens{1};
    } else {
      chunks_.push_back({claim.tokens, who.computed});
    }
  }
  work_.chunks = chunks_;
  work_.rebuilds = rebuilds_;
}

} // namespace sluice::detail
