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
#include <span>
#include <vector>

namespace sluice {

/// Blocks that are on the device only while a layer computes: those that are there already, and those that it lacks.
struct PassingBlocks {
  std::int64_t here = 0, missing = 0;
};

/// Chooses, by layer, how many of the blocks that are here go, so that each layer finds room for those that it lacks.
/// `spare`: blocks that are free, less those that KV takes for good; below 0 if there are too few. Blocks of earlier
/// layers have left when a layer computes, and its own count either way, so only those of later layers are in its way.
/// As few go as that takes, and those of the last layers first, which have the most time to come again. If even that
/// does not suffice, all go that are in a layer's way. Returns how many blocks a layer lacks at most, 0: none does.
inline std::int64_t choose_evictions(std::span<const PassingBlocks> layers, std::int64_t spare,
                                     std::vector<std::int64_t>& evicted) {
  evicted.clear();
  std::int64_t most = 0; // that any of the layers so far lacks: evictions from the layers behind it
  for (const PassingBlocks& layer : layers) {
    evicted.push_back(most);
    most = std::max(most, layer.missing - spare);
    spare += layer.here;
  }
  std::int64_t all = 0;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    evicted[layer] = std::clamp<std::int64_t>(evicted[layer] - all, 0, layers[layer].here);
    all += evicted[layer];
  }
  return most;
}

/// Reuses the memory of its lists. Callers hold the schedule's mutex.
class PrefetchedKv {
 public:
  explicit PrefetchedKv(MachineCore& core) : core_(&core) {}

  /// Evicts prefetched blocks that are in a layer's way. Rejected: evicting all of them. Each iteration that takes new
  /// blocks then fetches its first layers twice; on an H200, Confluence's link moved half as much again.
  void make_way() {
    const std::int64_t stay = count_blocks();
    if (choose_evictions(passing_, room() - stay, evicted_) == 0) return;
    // Prefetched hidden states first, all of them: no layer's count has them.
    core_->sequences.for_each([this](Slot, KvSequence& sequence) {
      for (std::size_t table = passing_.size(); table < sequence.tables.size(); ++table)
        for (BlockRun& run : sequence.tables[table].runs())
          if (run.passes()) core_->evict(sequence, static_cast<int>(table), run);
    });
    (void)choose_evictions(passing_, room() - stay, evicted_);
    for (std::size_t layer = 0; layer < evicted_.size(); ++layer) {
      const auto requests = core_->batch.requests();
      for (std::size_t i = requests.size(); i-- > 0 && evicted_[layer] > 0;)
        if (requests[i].row->holding.host.contains(static_cast<int>(layer)))
          evict_last(requests[i], static_cast<int>(layer), evicted_[layer]);
    }
  }

 private:
  /// Counts passing blocks by layer. Returns how many blocks there must be for KV that stays, and for weights.
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
        PassingBlocks passing;
        if (away) table.cut(scheduled.head);
        const std::int64_t first =
            sequence.resident.contains(layer) ? scheduled.held / core_->block_tokens : scheduled.first_block(layer);
        table.each(first, scheduled.blocks, [&](const BlockRun& run) {
          const bool passes = away && run.first < scheduled.head;
          if (run.keeps_device() && passes)
            passing.here += core_->store.held_once(run);
          else if (!run.keeps_device())
            (passes ? passing.missing : stay) += run.count;
        });
        if (!scheduled.uses(layer)) return;
        of(layer).here += passing.here;
        of(layer).missing += passing.missing;
      });
      for (int layer = 0; sequence.has_hidden && layer < core_->layers; ++layer)
        (sequence.hidden[static_cast<std::size_t>(layer)].stays ? stay : of(layer).missing) +=
            hidden_to_take(*core_, sequence, layer);
    }
    // Hidden states that a layer starts from have been read, block by block if need be, when its own blocks are taken.
    for (const ScheduledRequest& scheduled : core_->batch.requests())
      scheduled.restored.for_each([&](int layer) { of(layer).missing = std::max<std::int64_t>(of(layer).missing, 1); });
    return stay;
  }
  /// Evicts the last of a request's blocks in a layer, until `count` is 0 or there are no more. Blocks that another
  /// sequence holds too would not become free.
  void evict_last(const ScheduledRequest& scheduled, int layer, std::int64_t& count) {
    KvSequence& sequence = core_->sequence(scheduled);
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    std::int64_t end = std::min({scheduled.head, scheduled.blocks, table.size()});
    (void)table.cut(end);
    while (end > 0 && count > 0) {
      const BlockRun run = table[table.find(end - 1)];
      if (run.keeps_device() && core_->store.held_once(run) == run.count) {
        BlockRun& last = table[table.cut(std::max<std::int64_t>(run.first, end - count))];
        count -= last.count;
        core_->evict(sequence, layer, last);
      }
      end = run.first;
    }
  }
  PassingBlocks& of(int layer) { return passing_[static_cast<std::size_t>(layer)]; }
  /// Device blocks that are free or will be.
  [[nodiscard]] std::int64_t room() const { return core_->store.free_blocks() + core_->store.leaving(); }

  MachineCore* core_;
  std::vector<PassingBlocks> passing_; ///< by layer
  std::vector<std::int64_t> evicted_;  ///< by layer
};

} // namespace sluice
