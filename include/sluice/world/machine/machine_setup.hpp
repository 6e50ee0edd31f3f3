// SPDX-License-Identifier: Apache-2.0
// MachineSetup: how a machine is made, apart from its weights and runner. KvReach, kv_groups_of: how far back each
// layer of a decoder reads, for a machine and for an engine's geometry.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/world/link/copy.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace sluice {

/// How far back layers read a request's blocks. A machine gives back what no later token reads; by default that is
/// nothing.
struct KvReach {
  LayerSet bounded{}; ///< layers that do not read all blocks
  /// Of each of them, the tokens that a token reads, itself included. A state is behind the token before: 2.
  std::array<std::int32_t, max_layers> tokens{};
  std::int64_t block_tokens = 1;

  KvReach() = default;
  KvReach(const DecoderConfig& config, Tokens block) : block_tokens(block.count()) {
    for (int layer = 0; layer < config.shape.layers; ++layer) {
      const int reach = config.shape.delta.layers.contains(layer) ? 2 : config.window(layer);
      if (reach == 0) continue;
      bounded.insert(layer);
      tokens[static_cast<std::size_t>(layer)] = reach;
    }
  }
  /// The first block that the token at `position`, or any later one, reads or writes.
  [[nodiscard]] std::int64_t first(int layer, std::int64_t position) const {
    if (!bounded.contains(layer)) return 0;
    return std::max<std::int64_t>(0, position + 1 - tokens[static_cast<std::size_t>(layer)]) / block_tokens;
  }
  /// Device blocks, besides those of an engine's ledger, that a layer takes while an iteration of up to `rows` rows and
  /// `batch` requests computes it: the ledger counts what a layer keeps afterwards.
  [[nodiscard]] LayerBlocks while_computing(std::int64_t rows, int batch) const {
    return LayerBlocks{bounded.empty() ? 0 : (rows + block_tokens - 1) / block_tokens + 2 * std::int64_t{batch}};
  }
};

/// What a decoder's layers keep, for a machine whose layers give back what no later token reads
/// (`MachineSetup::gives_back`): every block has `bytes`, that of a state too. Nothing if there are more kinds of
/// layers than KvGroups holds.
[[nodiscard]] inline std::optional<KvGroups> kv_groups_of(const DecoderConfig& config, Tokens block, Bytes bytes) {
  KvGroups groups;
  const std::int64_t entry = bytes.count() / block.count();
  for (int layer = 0; layer < config.shape.layers; ++layer) {
    KvRule rule{.kind = config.shape.has_latents() ? KvKind::latent : KvKind::full, .entry = entry};
    if (config.shape.delta.layers.contains(layer))
      rule = {.kind = KvKind::state, .entry = bytes.count()};
    else if (config.window(layer) > 0)
      rule = {.kind = KvKind::sliding, .entry = entry, .window = config.window(layer)};
    if (!groups.add(layer, rule)) return std::nullopt;
  }
  return groups;
}

class RecordStore; // records/record_store.hpp

struct MachineSetup {
  Bytes device_memory{0}; ///< weights, slots, KV and buffers, all together
  LayerBlocks host_blocks{0};
  LayerBlocks tier_blocks{0}; ///< host blocks besides those, for KV of ended requests (HostTier)
  Replacement tier_evicts = Replacement::least_recent; ///< which of these leave first
  double tier_pin_share = 1; ///< of these, how many the sessions of one salt (an API key) may pin at most; from 0 to 1
  /// Layers whose weights a plan may stream. A device that copies asynchronously keeps a second image of them in pinned
  /// host memory, which costs that much memory for the machine's lifetime. A streamed layer that is not listed is
  /// copied from where ModelWeights has it: the result is the same, but the host waits for the copy.
  LayerSet staged;
  Limits limits;
  /// The most tokens that one iteration passes again because their KV is nowhere (a placement with
  /// PrefixStates::passed), in addition to the batch's: the buffers have rows for them.
  Tokens rebuilt{0};
  /// Device blocks, besides those for KV, that hold hidden states between the layer that keeps them and the link
  /// (`hidden_in_flight`), or that a layer gives back (`KvReach::while_computing`). With fewer a layer waits; if none
  /// is free its states are given up.
  LayerBlocks hidden_blocks{0};
  /// Layers with a window or a state give back blocks that no later token reads. The engine's geometry then has groups
  /// (`kv_groups_of`). Refused with a host tier.
  bool gives_back = false;
  LinkRates link;
  FaultPlan faults{};
  std::shared_ptr<RecordStore> records{}; ///< a disk below the host tier; null: there is none
  /// Times the disk's reads; several threads call it. Empty: the system's clock that never goes back.
  std::function<Seconds()> disk_clock{};
  /// For a GPU; a CPU has only one implementation.
  Products products = Products::invariant;
  bool graphs = true;      ///< for a GPU: small iterations are launched as graphs, if the driver can
  bool skips_idle = false; ///< time with nothing to run passes at once

  /// The most rows of an iteration: the batch's and the rebuilt.
  [[nodiscard]] std::int64_t rows() const { return (limits.batch_tokens + rebuilt).count(); }
};

} // namespace sluice
