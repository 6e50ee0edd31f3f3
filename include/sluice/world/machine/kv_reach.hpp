// SPDX-License-Identifier: Apache-2.0
// KvReach, kv_groups_of: how far back each layer of a decoder reads, for a machine and for an engine's geometry.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/kv_groups.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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

} // namespace sluice
