// SPDX-License-Identifier: Apache-2.0
// BlockNeeds: the blocks that the link must bring for an iteration, and may bring for the next one.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/kv_needs.hpp"
#include "sluice/world/machine/link_schedule.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Counts the blocks that an iteration's layers wait for or make into the schedule's room, and requests them. Reuses
/// the memory of its lists.
class BlockNeeds {
 public:
  void collect(MachineCore& core) {
    firsts_.clear();
    others_.clear();
    weights_.clear();
    previous_.assign(core.batch.size(), -1);
    for (int layer = 0; layer < core.layers; ++layer)
      for (std::size_t i = 0; i < core.batch.size(); ++i) {
        int with_kv = previous_[i], with_hidden = previous_[i]; // within one layer neither waits for the other
        need_layer(core, core.batch[i], layer, with_kv);
        need_hidden(core, core.batch[i], layer, with_hidden);
        previous_[i] = std::max(with_kv, with_hidden);
      }
    for (int layer = 0; layer < core.layers; ++layer)
      for (std::size_t i = 0; i < core.batch.size(); ++i)
        if (core.batch[i].fresh > 0) need_next_token(core, core.batch[i], layer, previous_[i]);
    for (int layer = 0; layer < core.layers; ++layer) {
      if (core.weights.missing(layer) > 0) weights_.push_back({layer, true});
      if (core.weights.streams(layer) && !core.weights.is_coming(layer)) weights_.push_back({layer, false});
    }
    for (int layer = 0; layer < core.layers; ++layer)
      if (core.weights.streams(layer)) weights_.push_back({layer + core.layers, false});
  }
  /// Hands the needs over; the schedule returns the memory of an earlier iteration's lists.
  void begin(LinkSchedule& schedule, TransferOrder order) {
    const std::size_t firsts = firsts_.size();
    firsts_.insert(firsts_.end(), others_.begin(), others_.end());
    schedule.begin(order, firsts_, firsts, weights_);
  }

 private:
  static KvNeed need_of(const MachineCore& core, const ScheduledRequest& scheduled, int layer, int position,
                        int previous) {
    KvNeed need;
    need.slot = index(scheduled.slot);
    need.generation = core.sequences.generation(scheduled.slot);
    need.layer = layer;
    need.position = position;
    need.previous = previous;
    return need;
  }
  void put(const KvNeed& need, int& previous) {
    if (need.done()) return;
    previous = need.position;
    (need.first ? firsts_ : others_).push_back(need);
  }
  /// The need covers this block, and those between the blocks so far and this one.
  static void cover(KvNeed& need, std::int64_t block) {
    if (need.done()) need.next = static_cast<std::int32_t>(block);
    need.end = static_cast<std::int32_t>(block + 1);
  }

  /// Requests a layer's blocks that only passed in this iteration again, for the next token.
  void need_next_token(MachineCore& core, const ScheduledRequest& scheduled, int layer, int& previous) {
    const int position = layer + core.layers;
    const int before = previous;
    if (scheduled.row->holding.host.contains(layer)) {
      KvNeed next = need_of(core, scheduled, layer, position, before);
      next.end = static_cast<std::int32_t>(std::min(scheduled.head, scheduled.blocks));
      others_.push_back(next);
      previous = position;
    }
    if (scheduled.row->holding.hidden.contains(layer)) {
      KvNeed next = need_of(core, scheduled, core.layers + layer, position, before);
      next.end = static_cast<std::int32_t>(core.sequence(scheduled).hidden_table(layer).size());
      put(next, previous);
    }
  }

  /// Requests the hidden states that the layer starts from, and counts blocks for those that the layer keeps.
  void need_hidden(MachineCore& core, const ScheduledRequest& scheduled, int layer, int& previous) {
    LayerRoom& room = core.schedule.room();
    KvSequence& sequence = core.sequence(scheduled);
    auto& table = sequence.hidden_table(layer);
    if (scheduled.restored.contains(layer)) {
      KvNeed need = need_of(core, scheduled, core.layers + layer, layer, previous);
      for (std::int64_t block = 0; block < hidden_blocks(core, scheduled.rebuilt); ++block) {
        KvBlock& entry = table[static_cast<std::size_t>(block)];
        const bool leaving = entry.on_device() && entry.leaves;
        if (entry.on_device() && !leaving && core.store.state(entry) != BlockState::arriving) continue;
        entry.awaited = true;
        ++room.missing(layer);
        if (entry.on_device() && !leaving) continue; // arriving already
        cover(need, block);
        ++room.reserved(layer, true);
      }
      put(need, previous);
    }
    HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
    hidden.reserved = hidden_to_take(core, sequence, layer);
    room.reserved(layer, true) += hidden.reserved;
  }

  /// One layer of one request: counts blocks that must be fetched, and blocks that the layer makes.
  void need_layer(MachineCore& core, const ScheduledRequest& scheduled, int layer, int& previous) {
    LayerRoom& room = core.schedule.room();
    KvNeed stays = need_of(core, scheduled, layer, layer, previous);
    stays.idle = !scheduled.uses(layer);
    stays.first = scheduled.whole || stays.idle;
    stays.passing = false;
    stays.copies = scheduled.row->holding.copied_blocks(scheduled.row->blocks, core.setup.limits.block_tokens).count();
    KvNeed passes = need_of(core, scheduled, layer, layer, previous);
    passes.copies = stays.copies;
    auto& table = core.sequence(scheduled).tables[static_cast<std::size_t>(layer)];
    for (std::int64_t block = 0; block < scheduled.blocks; ++block) {
      KvBlock& entry = table[static_cast<std::size_t>(block)];
      const KvPlace where = scheduled.place(layer, block);
      if (!entry.exists()) { // this layer makes it
        if (scheduled.uses(layer)) ++room.reserved(layer, where != KvPlace::device);
        continue;
      }
      const bool leaving = entry.on_device() && entry.leaves;
      if (entry.on_device() && !leaving && core.store.state(entry) != BlockState::arriving) continue;
      const bool arriving = entry.on_device() && !leaving;
      KvNeed& need = where == KvPlace::device ? stays : passes;
      if (!arriving) {
        if (!scheduled.uses(layer) && where != KvPlace::device)
          continue; // the layer does not read it, so it stays where it is
        cover(need, block);
      }
      if (!scheduled.uses(layer)) {
        if (!arriving) ++room.reserved_idle();
        continue;
      }
      entry.awaited = true;
      ++room.missing(layer);
      if (!arriving) ++room.reserved(layer, where != KvPlace::device);
      if (need.first && !arriving) {
        entry.first = true;
        ++room.first_missing();
      }
    }
    put(stays, previous);
    put(passes, previous);
  }

  std::vector<KvNeed> firsts_, others_;
  std::vector<WeightNeed> weights_;
  std::vector<int> previous_; ///< by scheduled request: position of its last need so far
};

} // namespace sluice
