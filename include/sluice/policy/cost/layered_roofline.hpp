// SPDX-License-Identifier: Apache-2.0
// LayeredRoofline: the roofline of a model whose layers differ in attention, KV or experts.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/description.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/policy/cost/attention_cost.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// As `Roofline`: a layer is its matrix products followed by its attention, each bound by FLOPs or by bytes. Layers
/// that are alike are counted together, and `StepTime::layer` is the mean of all layers. A window or the top k of
/// sparse attention limits what a token reads; latents are absorbed when decoding and expanded for prompts; a state is
/// read and written by every step.
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
    per_byte_ = 1.0 / bytes.count();
    per_flop_ = 1.0 / flops.count();
    const ReadLimits reads{model.kv};
    for (std::size_t layer = 0; layer < model.layers.size(); ++layer)
      kind_of_.push_back(kind(model, static_cast<int>(layer), reads));
    for (const Module& module : model.modules)
      if (const int layer = module.layer(); layer >= 0) add(kinds_[kind_of_[static_cast<std::size_t>(layer)]], module);
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
    for (const Kind& kind : kinds_) sum = add_time(kind, work, fresh, sum);
    const double head = std::max(head_flops_ * static_cast<double>(work.samples) * per_flop_, head_bytes_ * per_byte_);
    return {Seconds{embedding_row_ * fresh * per_byte_}, Seconds{sum / layers_},
            Seconds{work.samples > 0 ? head : 0.0}};
  }
  /// Each layer's own time: that of its kind.
  bool layer_times(const Work& work, std::span<double> layers_s) const {
    SLUICE_ASSERT(layers_s.size() == kind_of_.size(), "a time for each layer");
    const auto fresh = static_cast<double>(work.tokens().count());
    std::array<double, max_layers> of; // each kind's first entries are set
    for (std::size_t k = 0; k < kinds_.size(); ++k)
      of[k] = fresh > 0 ? add_time(kinds_[k], work, fresh, 0) / kinds_[k].layers : 0.0;
    for (std::size_t layer = 0; layer < layers_s.size(); ++layer) layers_s[layer] = of[kind_of_[layer]];
    return true;
  }
  [[nodiscard]] LinkCost link() const { return link_; }
  [[nodiscard]] const LayeredRoofline& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

 private:
  struct Kind;
  /// `sum` and the seconds of all layers of a kind.
  [[nodiscard]] double add_time(const Kind& kind, const Work& work, double fresh, double sum) const {
    const double chosen = kind.like.experts > 0 ? static_cast<double>(kind.like.per_token) / kind.like.experts : 0.0;
    const double weights = kind.dense_bytes + kind.routed_bytes * (1.0 - std::pow(1.0 - chosen, fresh));
    sum += std::max(kind.flops * fresh * per_flop_, weights * per_byte_);
    for (const AttentionCost& cost : kind.attention) {
      const AttentionAmount amount = attention_amount(cost, work);
      sum += kind.layers * std::max(amount.flops * per_flop_, amount.bytes * per_byte_);
    }
    return sum;
  }

  /// Layers that are alike; FLOPs and bytes are those of all of them.
  struct Kind {
    LayerDescription like;
    std::vector<KvRule> rules;
    std::vector<AttentionCost> attention{}; ///< of one layer
    double layers = 0;
    double flops = 0;       ///< of the matrix products, for one token
    double dense_bytes = 0; ///< weights that every iteration reads
    double routed_bytes = 0;
  };

  std::size_t kind(const ModelDescription& model, int layer, const ReadLimits& reads) {
    const LayerDescription& like = model.layers[static_cast<std::size_t>(layer)];
    std::vector<KvRule> rules;
    for (const KvGroup& group : model.kv.groups())
      if (group.layers.contains(layer)) rules.push_back(group.rule);
    for (std::size_t k = 0; k < kinds_.size(); ++k)
      if (kinds_[k].like == like && kinds_[k].rules == rules) return ++kinds_[k].layers, k;
    Kind fresh{.like = like, .rules = rules, .layers = 1};
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
  std::vector<std::size_t> kind_of_; ///< of each layer
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
