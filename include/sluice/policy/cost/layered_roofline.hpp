// SPDX-License-Identifier: Apache-2.0
// LayeredRoofline: the roofline of a model whose layers differ in attention, KV or experts.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/description.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/layer_work.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// AttentionCost: what one layer does with one group's entries, by the kind of attention.

/// FLOPs and bytes of one group in one layer. A multiply-add is two FLOPs.
struct AttentionCost {
  double decode_pair = 0;     ///< FLOPs of a decoded token for each entry that it attends to
  double prompt_pair = 0;     ///< the same of a prompt's token
  double expand = 0;          ///< FLOPs that compute K and V of one cached token, before a prompt attends to it
  double token = 0;           ///< FLOPs of each fresh token, whatever its context: a recurrent state's
  double entry = 0;           ///< bytes of one entry; of a state, all of them
  double stride = 1;          ///< tokens of one entry
  std::int64_t reach = KvRule::unlimited;  ///< tokens that a token attends to at most
  std::int64_t window = KvRule::unlimited; ///< tokens that are there at most
  int limit = -1;             ///< the number of `reach` in `ReadLimits`; -1: none
  bool state = false;         ///< read and written by every step, for each sequence
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
/// A recurrent state of heads x K x V: decay, outer product, and the product with the query, each a multiply-add or less
/// per element (Mamba-2, arXiv 2405.21060; the gated delta rule, arXiv 2412.06464, has one product more).
[[nodiscard]] constexpr double state_token_flops(const LayerDescription& layer) {
  return 6.0 * layer.heads * layer.head_dim * layer.value_dim;
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
  }
  return cost;
}

/// (query, key) pairs of `fresh` tokens after `cached` ones, of which each attends to the last `reach` and itself among
/// them.
[[nodiscard]] constexpr double pairs_within(std::int64_t cached, std::int64_t fresh, std::int64_t reach) {
  const auto growing = static_cast<double>(
      reach == KvRule::unlimited ? fresh : std::clamp<std::int64_t>(reach - cached, 0, fresh));
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
  for (const ChunkWork& chunk : work.chunks) {
    const std::int64_t there = std::min(chunk.cached.count(), cost.window);
    sum.flops += cost.prompt_pair * pairs_within(chunk.cached.count(), chunk.fresh.count(), cost.reach) / cost.stride +
                 cost.expand * static_cast<double>(there);
    sum.bytes += static_cast<double>(there + 2 * chunk.fresh.count()); // read, and the fresh ones written
  }
  sum.bytes *= cost.entry / cost.stride;
  return sum;
}

/// As `Roofline`: a layer is its matrix products followed by its attention, each bound by FLOPs or by bytes. Layers that
/// are alike are counted together, and `StepTime::layer` is the mean of all layers: such a model's iterations move
/// nothing between two layers. A window or the top k of sparse attention limits what a token reads; latents are absorbed
/// when decoding and expanded for prompts; a state is read and written by every step.
///
/// Rebuilding K and V is not known here.
class LayeredRoofline {
 public:
  using role = roles::Cost;
  struct State {};

  LayeredRoofline(const ModelDescription& model, const Device& device, RooflineEfficiency efficiency = {})
      : link_(device_link(device)), layers_(static_cast<double>(model.layers.size())) {
    const FlopsPerSecond flops = device.compute_rate(efficiency.compute);
    const BytesPerSecond bytes = device.memory_rate(efficiency.bandwidth);
    SLUICE_ASSERT(flops.count() > 0 && bytes.count() > 0, "a device with positive rates");
    SLUICE_ASSERT(!model.layers.empty(), "a model with layers");
    per_byte_ = 1.0 / bytes.count();
    per_flop_ = 1.0 / flops.count();
    const ReadLimits reads{model.kv};
    std::vector<std::size_t> kind_of;
    for (std::size_t layer = 0; layer < model.layers.size(); ++layer)
      kind_of.push_back(kind(model, static_cast<int>(layer), reads));
    for (const Module& module : model.modules) {
      const std::size_t dot = module.name.find('.', 7);
      if (module.name.rfind("layers.", 0) != 0 || dot == std::string::npos) continue;
      add(kinds_[kind_of[static_cast<std::size_t>(std::stoi(module.name.substr(7, dot - 7)))]], module);
    }
    const ModuleClass head = model.tied_embeddings ? ModuleClass::embedding : ModuleClass::head;
    head_bytes_ = static_cast<double>(model.weight_bytes(head).count());
    head_flops_ = 2.0 * model.hidden * model.vocabulary;
    embedding_row_ = static_cast<double>(std::int64_t{model.hidden} * model.element_bytes);
  }

  [[nodiscard]] StepTime step(const Work& work) const {
    const auto fresh = static_cast<double>(work.tokens().count());
    if (fresh == 0) return {};
    SLUICE_ASSERT(work.rebuilds.empty() && work.rebuilt.nothing(), "K and V of such a model are not rebuilt");
    double sum = 0;
    for (const Kind& kind : kinds_) {
      const double missed = kind.experts > 0 ? std::pow(1.0 - kind.per_token / kind.experts, fresh) : 0.0;
      const double weights = kind.dense_bytes + kind.routed_bytes * (1.0 - missed);
      sum += std::max(kind.flops * fresh * per_flop_, weights * per_byte_);
      for (const AttentionCost& cost : kind.attention) {
        const AttentionAmount amount = attention_amount(cost, work);
        sum += kind.layers * std::max(amount.flops * per_flop_, amount.bytes * per_byte_);
      }
    }
    const double head =
        work.samples > 0
            ? std::max(head_flops_ * static_cast<double>(work.samples) * per_flop_, head_bytes_ * per_byte_)
            : 0.0;
    return {Seconds{embedding_row_ * fresh * per_byte_}, Seconds{sum / layers_}, Seconds{head}};
  }
  [[nodiscard]] LinkCost link() const { return link_; }
  [[nodiscard]] const LayeredRoofline& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

 private:
  /// Layers that are alike; FLOPs and bytes are those of all of them.
  struct Kind {
    LayerDescription like;
    std::vector<KvRule> rules;
    std::vector<AttentionCost> attention{}; ///< of one layer
    double layers = 0;
    double flops = 0;       ///< of the matrix products, for one token
    double dense_bytes = 0; ///< weights that every iteration reads
    double routed_bytes = 0;
    double experts = 0, per_token = 0;
  };

  std::size_t kind(const ModelDescription& model, int layer, const ReadLimits& reads) {
    const LayerDescription& like = model.layers[static_cast<std::size_t>(layer)];
    std::vector<KvRule> rules;
    for (const KvGroup& group : model.kv.groups())
      if (group.layers.contains(layer)) rules.push_back(group.rule);
    for (std::size_t k = 0; k < kinds_.size(); ++k)
      if (kinds_[k].like == like && kinds_[k].rules == rules) return ++kinds_[k].layers, k;
    Kind fresh{.like = like, .rules = rules, .layers = 1};
    fresh.experts = like.experts;
    fresh.per_token = like.per_token;
    for (const KvRule& rule : rules) fresh.attention.push_back(attention_cost(like, rule, reads));
    kinds_.push_back(std::move(fresh));
    return kinds_.size() - 1;
  }
  static void add(Kind& kind, const Module& module) {
    if (module.columns > 1) kind.flops += 2.0 * static_cast<double>(module.rows * module.columns * module.active);
    (module.of == ModuleClass::routed_experts ? kind.routed_bytes : kind.dense_bytes) +=
        static_cast<double>(module.bytes());
  }

  std::vector<Kind> kinds_;
  LinkCost link_;
  double layers_;
  double per_byte_ = 0;
  double per_flop_ = 0;
  double head_bytes_ = 0;
  double head_flops_ = 0;
  double embedding_row_ = 0; ///< bytes
};

static_assert(explain<LayeredRoofline>());

} // namespace sluice
