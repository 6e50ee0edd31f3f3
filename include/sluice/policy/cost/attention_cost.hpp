// SPDX-License-Identifier: Apache-2.0
// AttentionCost: FLOPs and bytes of one layer's attention, by the kind of its entries.
#pragma once

#include "sluice/model/description.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// FLOPs and bytes of one group in one layer. A multiply-add is two FLOPs.
struct AttentionCost {
  double decode_pair = 0; ///< FLOPs of a decoded token for each entry that it attends to
  double prompt_pair = 0; ///< the same of a prompt's token
  double expand = 0;      ///< FLOPs that compute K and V of one cached token, before a prompt attends to it
  double expanded = 0;    ///< bytes of these, written once and read once
  double token = 0;       ///< FLOPs of each fresh token, whatever its context: a recurrent state's
  double entry = 0;       ///< bytes of one entry; of a state, all of them
  double stride = 1;      ///< tokens of one entry
  std::int64_t reach = KvRule::unlimited;  ///< tokens that a token attends to at most
  std::int64_t window = KvRule::unlimited; ///< tokens that are there at most
  int limit = -1;                          ///< the number of `reach` in `ReadLimits`; -1: none
  bool state = false;                      ///< read and written by every step, for each sequence
};

/// K and V of heads: scores and weighted sums over all query heads.
[[nodiscard]] constexpr double heads_pair_flops(const LayerDescription& layer) {
  return 2.0 * layer.heads * (layer.head_dim + layer.value_dim);
}
/// Latents, absorbed: queries are projected into the latent space, where every head attends to the same entry
/// (DeepSeek-V2, arXiv 2405.04434, section 2.1.2). The projections are the layer's linear work, as in prompts.
[[nodiscard]] constexpr double absorbed_pair_flops(const LayerDescription& layer) {
  return 2.0 * layer.heads * (layer.latent + layer.latent_value);
}
/// K and V of all heads from one cached latent: prompts attend to these, with fewer FLOPs a pair.
[[nodiscard]] constexpr double expand_flops(const LayerDescription& layer) {
  const int rotated = layer.latent - layer.latent_value;
  return 2.0 * layer.latent_value * layer.heads * (layer.head_dim - rotated + layer.value_dim);
}
/// An indexer's scores, of every entry (DeepSeek-V3.2: "lightning indexer").
[[nodiscard]] constexpr double index_pair_flops(const LayerDescription& layer) {
  return 2.0 * layer.index_heads * layer.index_dim;
}
/// A recurrent state of heads x K x V: decay, outer product, and the product with the query, each a multiply-add or
/// less per element (Mamba-2, arXiv 2405.21060). The gated delta rule (arXiv 2412.06464) has a product with the key
/// more.
[[nodiscard]] constexpr double state_token_flops(const LayerDescription& layer) {
  const double products = layer.attention == AttentionKind::gated_delta ? 4 : 3;
  return 2.0 * products * layer.heads * layer.head_dim * layer.value_dim;
}

/// The cost of the entries that `rule` describes, in a layer like `layer`.
[[nodiscard]] inline AttentionCost attention_cost(const LayerDescription& layer, const KvRule& rule,
                                                  const ReadLimits& reads) {
  AttentionCost cost;
  cost.entry = static_cast<double>(rule.entry);
  cost.stride = static_cast<double>(rule.stride);
  cost.reach = rule.reach();
  cost.window = rule.window;
  cost.limit = reads.find(rule);
  const bool latent = layer.attention == AttentionKind::latent;
  if (rule.kind == KvKind::state) {
    cost.state = true; // a latent layer's running state is that of an incomplete entry, whose FLOPs are linear work
    if (!latent) cost.token = state_token_flops(layer);
  } else if (rule.kind == KvKind::indexer) {
    cost.decode_pair = cost.prompt_pair = index_pair_flops(layer);
  } else {
    cost.decode_pair = latent ? absorbed_pair_flops(layer) : heads_pair_flops(layer);
    cost.prompt_pair = latent && !layer.expands ? cost.decode_pair : heads_pair_flops(layer);
    cost.expand = latent && layer.expands ? expand_flops(layer) : 0;
    // K and V are as wide as the latent's elements: an entry has `latent` of them.
    if (cost.expand > 0) cost.expanded = cost.entry / layer.latent * layer.heads * (layer.head_dim + layer.value_dim);
  }
  return cost;
}

/// (query, key) pairs of `fresh` tokens after `cached` ones, of which each attends to the last `reach` and itself among
/// them.
[[nodiscard]] constexpr double pairs_within(std::int64_t cached, std::int64_t fresh, std::int64_t reach) {
  const auto growing =
      static_cast<double>(reach == KvRule::unlimited ? fresh : std::clamp<std::int64_t>(reach - cached, 0, fresh));
  const double flat = static_cast<double>(fresh) - growing;
  return growing * (static_cast<double>(cached) + 0.5 * (growing + 1.0)) +
         (flat > 0 ? flat * static_cast<double>(reach) : 0.0);
}

/// FLOPs and bytes of one iteration's attention to one group, in one layer.
struct AttentionAmount {
  double flops = 0;
  double bytes = 0;
};
[[nodiscard]] inline AttentionAmount attention_amount(const AttentionCost& cost, const Work& work) {
  const auto decodes = static_cast<double>(work.decodes);
  if (cost.state) {
    const double sequences = decodes + static_cast<double>(work.chunks.size());
    return {cost.token * static_cast<double>(work.tokens().count()), 2 * cost.entry * sequences};
  }
  double read = static_cast<double>(work.decode_context.count());
  if (cost.reach != KvRule::unlimited && work.decodes > 0) {
    const auto known = cost.limit < 0 ? Tokens{0} : work.within[static_cast<std::size_t>(cost.limit)];
    read = known > Tokens{0} ? static_cast<double>(known.count())
                             : decodes * std::min(read / decodes, static_cast<double>(cost.reach));
  }
  AttentionAmount sum{cost.decode_pair * read / cost.stride, read + decodes};
  double expanded = 0;
  for (const ChunkWork& chunk : work.chunks) {
    const std::int64_t there = std::min(chunk.cached.count(), cost.window);
    sum.flops += cost.prompt_pair * pairs_within(chunk.cached.count(), chunk.fresh.count(), cost.reach) / cost.stride +
                 cost.expand * static_cast<double>(there);
    sum.bytes += static_cast<double>(there + 2 * chunk.fresh.count()); // read, and the fresh ones written
    expanded += 2 * cost.expanded * static_cast<double>(there);
  }
  sum.bytes = sum.bytes * cost.entry / cost.stride + expanded;
  return sum;
}

} // namespace sluice
