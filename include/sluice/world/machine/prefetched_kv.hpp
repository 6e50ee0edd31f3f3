// SPDX-License-Identifier: Apache-2.0
// PrefetchedKv: blocks that were fetched for a coming token, and go where they would take a layer's room.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/world/machine/block.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/kv_sequences.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Reuses the memory of its lists. Callers hold the schedule's mutex.
class PrefetchedKv {
 public:
  explicit PrefetchedKv(MachineCore& core) : core_(&core) {}

  /// Evicts prefetched blocks where a layer would find no room for those that it lacks. Blocks that pass in earlier
  /// layers have left by then, so only those of later layers are in its way: as few go as that takes, and the last
  /// layer's first, which has the most time to fetch them again. Rejected: evicting all of them. Each iteration that
  /// takes new blocks then fetches its first layers twice; on an H200, Confluence's link moved half as much again.
  void make_way() {
    const std::int64_t stay = count_blocks(), before = room();
    std::int64_t lacks = stay - before, most = 0; // blocks that the layer lacks besides its own; the most of any layer
    lacking_before_.clear();
    for (const Passing& layer : passing_) {
      lacking_before_.push_back(most);
      most = std::max(most, lacks + layer.missing);
      lacks -= layer.here;
    }
    if (most == 0) return;
    core_->sequences.for_each([this](Slot, KvSequence& sequence) { // hidden states, which no layer counts
      for (std::size_t table = passing_.size(); table < sequence.tables.size(); ++table)
        for (BlockRun& run : sequence.tables[table].runs())
          if (run.passes()) core_->evict(sequence, static_cast<int>(table), run);
    });
    for (std::size_t layer = passing_.size(); layer-- > 0 && room() - before < lacking_before_[layer];)
      for (const ScheduledRequest& scheduled : core_->batch.requests()) {
        KvSequence& sequence = core_->sequence(scheduled);
        if (!scheduled.row->holding.host.contains(static_cast<int>(layer))) continue;
        sequence.tables[layer].each(0, std::min(scheduled.head, scheduled.blocks), [&](BlockRun& run) {
          if (run.on_device() && room() - before < lacking_before_[layer])
            core_->evict(sequence, static_cast<int>(layer), run);
        });
      }
  }

 private:
  /// Blocks that are on the device only while a layer computes.
  struct Passing {
    std::int64_t here = 0, missing = 0;
  };

  /// Counts them into `passing_`. Returns how many blocks there must be for KV that stays, and for weights.
  [[nodiscard]] std::int64_t count_blocks() {
    std::int64_t stay = core_->schedule.weights_blocks();
    passing_.assign(static_cast<std::size_t>(core_->layers), {});
    const LayerSet all = LayerSet::all(core_->layers);
    for (const ScheduledRequest& scheduled : core_->batch.requests()) {
      const KvSequence& sequence = core_->sequence(scheduled);
      const bool appends = core_->blocks_of(scheduled.held) < scheduled.blocks;
      (appends ? all : all - sequence.resident).for_each([&](int layer) {
        BlockTable& table = core_->sequence(scheduled).tables[static_cast<std::size_t>(layer)];
        const bool away = scheduled.row->holding.away().contains(layer);
        Passing passing;
        if (away) table.cut(scheduled.head);
        const std::int64_t first = sequence.resident.contains(layer) ? scheduled.held / core_->block_tokens : 0;
        table.each(first, scheduled.blocks, [&](const BlockRun& run) {
          const bool here = run.on_device() && !run.leaves(), passes = away && run.first < scheduled.head;
          if (here && passes)
            passing.here += core_->store.held_once(run);
          else if (!here)
            (passes ? passing.missing : stay) += run.count;
        });
        if (!scheduled.uses(layer)) return;
        passing_[static_cast<std::size_t>(layer)].here += passing.here;
        passing_[static_cast<std::size_t>(layer)].missing += passing.missing;
      });
      // Hidden states that a layer starts from are not counted: they have been read when the layer's own blocks are
      // taken.
      for (int layer = 0; sequence.has_hidden && layer < core_->layers; ++layer)
        (sequence.hidden[static_cast<std::size_t>(layer)].stays ? stay
                                                                : passing_[static_cast<std::size_t>(layer)].missing) +=
            hidden_to_take(*core_, sequence, layer);
    }
    return stay;
  }
  /// Device blocks that are free or will be.
  [[nodiscard]] std::int64_t room() const { return core_->store.free_blocks() + core_->store.leaving(); }

  MachineCore* core_;
  std::vector<Passing> passing_;             ///< by layer
  std::vector<std::int64_t> lacking_before_; ///< by layer: the most blocks that a layer before it lacks
};

} // namespace sluice
