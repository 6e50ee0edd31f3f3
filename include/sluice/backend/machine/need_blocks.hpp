// SPDX-License-Identifier: Apache-2.0
// BlockNeeds: what the link has to bring for an iteration, and what it may bring for the next.
#pragma once

#include "sluice/backend/machine/hidden_states.hpp"
#include "sluice/backend/machine/link_needs.hpp"
#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/core/ids.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Counts the blocks that an iteration's layers wait for or make, into the schedule's room, and asks for them. Keeps
/// the memory of its lists.
class BlockNeeds {
 public:
  void collect(MachineCore& core) {
    kv_.clear();
    weights_.clear();
    for (const Part& part : core.batch.parts()) {
      int previous = -1;
      for (int layer = 0; layer < core.layers; ++layer) {
        int with_kv = previous, with_hidden = previous; // of one layer neither waits for the other
        need_layer(core, part, layer, with_kv);
        need_hidden(core, part, layer, with_hidden);
        previous = std::max(with_kv, with_hidden);
      }
      if (part.fresh > 0) need_next_token(core, part, previous);
    }
    for (int layer = 0; layer < core.layers; ++layer) {
      if (core.weights.missing(layer) > 0) weights_.push_back({layer, true});
      if (core.weights.streams(layer) && !core.weights.is_coming(layer)) weights_.push_back({layer, false});
    }
    for (int layer = 0; layer < core.layers; ++layer)
      if (core.weights.streams(layer)) weights_.push_back({layer + core.layers, false});
  }
  /// Hands them over: the schedule gives back the lists of the iteration before, to be filled again.
  void begin(LinkSchedule& schedule, TransferOrder order) {
    schedule.begin(order, kv_, weights_);
    for (KvNeed& used : kv_) spare_.push_back(std::move(used.blocks));
  }

 private:
  KvNeed need_of(const MachineCore& core, const Part& part, int layer, int position, int previous) {
    KvNeed need;
    need.slot = index(part.slot);
    need.generation = core.sequences.generation(part.slot);
    need.layer = layer;
    need.position = position;
    need.previous = previous;
    if (!spare_.empty()) {
      need.blocks = std::move(spare_.back());
      need.blocks.clear();
      spare_.pop_back();
    }
    need.blocks.reserve(std::bit_ceil(static_cast<std::size_t>(part.blocks))); // grows a few times in a sequence's life
    return need;
  }
  void put(KvNeed& need, int& previous) {
    if (need.blocks.empty()) {
      spare_.push_back(std::move(need.blocks));
      return;
    }
    previous = need.position;
    need.number = static_cast<int>(kv_.size());
    kv_.push_back(std::move(need));
  }

  /// What passed in this iteration, for the next token.
  void need_next_token(MachineCore& core, const Part& part, int& previous) {
    for (int layer = 0; layer < core.layers; ++layer) {
      if (!part.row->holding.host.contains(layer)) continue;
      KvNeed next = need_of(core, part, layer, layer + core.layers, previous);
      for (std::int64_t block = 0; block < std::min(part.head, part.blocks); ++block)
        next.blocks.push_back(static_cast<std::int32_t>(block));
      previous = layer + core.layers;
      next.number = static_cast<int>(kv_.size());
      kv_.push_back(std::move(next));
    }
    for (int layer = 0; layer < core.layers; ++layer) {
      if (!part.row->holding.hidden.contains(layer)) continue;
      KvNeed next = need_of(core, part, core.layers + layer, layer + core.layers, previous);
      const auto blocks = static_cast<std::int32_t>(core.sequence(part).hidden_cells(layer).size());
      for (std::int32_t block = 0; block < blocks; ++block) next.blocks.push_back(block);
      put(next, previous);
    }
  }

  /// Hidden states with which the layer begins for a part, and blocks for those that the layer keeps.
  void need_hidden(MachineCore& core, const Part& part, int layer, int& previous) {
    LayerRoom& room = core.schedule.room();
    KvSequence& sequence = core.sequence(part);
    auto& cells = sequence.hidden_cells(layer);
    if (part.restored.contains(layer)) {
      KvNeed need = need_of(core, part, core.layers + layer, layer, previous);
      for (std::int64_t block = 0; block < hidden_blocks(core, part.rebuilt); ++block) {
        KvCell& cell = cells[static_cast<std::size_t>(block)];
        const bool leaving = cell.on_device() && cell.leaves;
        if (cell.on_device() && !leaving && core.store.state(cell) != BlockState::arriving) continue;
        cell.awaited = true;
        ++room.missing(layer);
        if (cell.on_device() && !leaving) continue; // on its way
        need.blocks.push_back(static_cast<std::int32_t>(block));
        ++room.reserved(layer, true);
      }
      put(need, previous);
    }
    HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
    hidden.reserved = hidden_to_take(core, sequence, layer);
    room.reserved(layer, true) += hidden.reserved;
  }

  /// One layer of one part: counts blocks that are not there and have to be fetched, and blocks that the layer makes.
  void need_layer(MachineCore& core, const Part& part, int layer, int& previous) {
    LayerRoom& room = core.schedule.room();
    KvNeed stays = need_of(core, part, layer, layer, previous);
    stays.idle = !part.uses(layer);
    stays.first = part.whole || stays.idle;
    stays.passing = false;
    stays.copies = part.row->holding.copied_blocks(part.row->blocks, core.setup.limits.block_tokens).count();
    KvNeed passes = need_of(core, part, layer, layer, previous);
    passes.copies = stays.copies;
    auto& cells = core.sequence(part).cells[static_cast<std::size_t>(layer)];
    for (std::int64_t block = 0; block < part.blocks; ++block) {
      KvCell& cell = cells[static_cast<std::size_t>(block)];
      const KvPlace where = part.place(layer, block);
      if (!cell.exists()) { // made by this layer
        if (part.uses(layer)) ++room.reserved(layer, where != KvPlace::device);
        continue;
      }
      const bool leaving = cell.on_device() && cell.leaves;
      if (cell.on_device() && !leaving && core.store.state(cell) != BlockState::arriving) continue;
      const bool arriving = cell.on_device() && !leaving;
      KvNeed& need = where == KvPlace::device ? stays : passes;
      if (!arriving) {
        if (!part.uses(layer) && where != KvPlace::device) continue; // not computed: its KV stays put
        need.blocks.push_back(static_cast<std::int32_t>(block));
      }
      if (!part.uses(layer)) {
        if (!arriving) ++room.reserved_idle();
        continue;
      }
      cell.awaited = true;
      ++room.missing(layer);
      if (!arriving) ++room.reserved(layer, where != KvPlace::device);
      if (need.first && !arriving) {
        cell.first = true;
        ++room.first_missing();
      }
    }
    put(stays, previous);
    put(passes, previous);
  }

  std::vector<KvNeed> kv_;
  std::vector<WeightNeed> weights_;
  std::vector<std::vector<std::int32_t>> spare_; ///< lists of blocks that earlier iterations have used
};

} // namespace sluice
