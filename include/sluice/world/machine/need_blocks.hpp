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
    moving_.clear();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      const KvSequence& sequence = core.sequence(scheduled);
      if (sequence.has_hidden || sequence.resident != LayerSet::all(core.layers)) moving_.push_back({&scheduled, -1});
    }
    for (int layer = 0; layer < core.layers; ++layer)
      for (Moving& one : moving_) {
        int with_kv = one.previous, with_hidden = one.previous; // within one layer neither waits for the other
        need_layer(core, *one.scheduled, layer, with_kv);
        need_hidden(core, *one.scheduled, layer, with_hidden);
        one.previous = std::max(with_kv, with_hidden);
      }
    for (int layer = 0; layer < core.layers; ++layer)
      for (Moving& one : moving_)
        if (one.scheduled->fresh > 0) need_next_token(core, *one.scheduled, layer, one.previous);
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
  /// Whether the block can be read, and will not leave before its layer.
  static bool is_here(const KvBlock& entry) { return entry.state.readable() && !entry.leaves(); }
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
    if (!sequence.has_hidden) return;
    auto& table = sequence.hidden_table(layer);
    if (scheduled.restored.contains(layer)) {
      KvNeed need = need_of(core, scheduled, core.layers + layer, layer, previous);
      for (std::int64_t block = 0; block < hidden_blocks(core, scheduled.rebuilt); ++block) {
        KvBlock& entry = table[static_cast<std::size_t>(block)];
        if (is_here(entry)) continue;
        entry.awaited = true;
        ++room.missing(layer);
        if (entry.on_device() && !entry.leaves()) continue; // arriving already
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
    KvSequence& sequence = core.sequence(scheduled);
    if (sequence.resident.contains(layer)) return;
    const bool uses = scheduled.uses(layer);
    KvNeed stays = need_of(core, scheduled, layer, layer, previous);
    stays.idle = !uses;
    stays.first = scheduled.whole || stays.idle;
    stays.passing = false;
    stays.copies = sequence.settled_copies;
    KvNeed passes = need_of(core, scheduled, layer, layer, previous);
    passes.copies = stays.copies;
    auto& table = sequence.tables[static_cast<std::size_t>(layer)];
    std::int64_t missing = 0, to_take[2] = {0, 0}; // the latter for blocks that stay, and for those that pass
    for (std::int64_t block = 0; block < scheduled.blocks; ++block) {
      KvBlock& entry = table[static_cast<std::size_t>(block)];
      if (is_here(entry)) continue;
      const bool passing = scheduled.place(layer, block) != KvPlace::device;
      if (!entry.exists()) { // this layer makes it
        if (uses) ++to_take[passing ? 1 : 0];
        continue;
      }
      const bool arriving = entry.on_device() && !entry.leaves();
      if (!arriving) {
        if (!uses && passing) continue; // the layer does not read it, so it stays where it is
        cover(passing ? passes : stays, block);
      }
      if (!uses) {
        if (!arriving) ++room.reserved_idle();
        continue;
      }
      entry.awaited = true;
      ++missing;
      if (arriving) continue;
      ++to_take[passing ? 1 : 0];
      if (!passing && stays.first) {
        entry.first = true;
        ++room.first_missing();
      }
    }
    room.missing(layer) += missing;
    room.reserved(layer, false) += to_take[0];
    room.reserved(layer, true) += to_take[1];
    put(stays, previous);
    put(passes, previous);
  }

  std::vector<KvNeed> firsts_, others_;
  std::vector<WeightNeed> weights_;
  /// A scheduled request with KV that is not resident, and the position of its last need so far.
  struct Moving {
    const ScheduledRequest* scheduled = nullptr;
    int previous = -1;
  };
  std::vector<Moving> moving_;
};

} // namespace sluice
