// SPDX-License-Identifier: Apache-2.0
// needed_kernels: the configurations that a model's steps launch, and whether the build compiles them. exceeded_limits:
// the kernels' other limits that the model exceeds.
#pragma once

#include "sluice/model/decoder/config.hpp"

#include "kernels/families.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace sluice::kernels {

/// One configuration that a model needs.
struct NeededKernel {
  std::string family; ///< "Norm"
  std::string config; ///< ".element = ElementType::bf16, .kind = NormKind::rms"
  std::string line;   ///< of kernels/configs.cmake
  bool compiled = false;
};

using sluice::decoder_of;

/// Calls `visit(config)` for every configuration that a step of the decoder may launch, for any kind of offloading:
/// both kinds of block copies, and K and V rebuilt while others decode. Biases, QK norms, learned positions and
/// rotations are parameters of the same kernels.
template <class Visit>
void each_needed_kernel(const DecoderConfig& decoder, ElementType element, Visit&& visit) {
  const int head_dim = decoder.shape.head_dim;
  visit(EmbedConfig{.element = element});
  visit(NormConfig{.element = element, .kind = decoder.norm});
  visit(RopeAndStoreConfig{.element = element, .head_dim = head_dim});
  for (const int warps : {1, 4}) // decoding; prompts
    visit(PagedAttentionConfig{.element = element, .head_dim = head_dim, .warps = warps});
  visit(MergeSegmentsConfig{.element = element, .head_dim = head_dim});
  for (const int rows : {16, 64, 128}) visit(TileProductConfig{.element = element, .tile_rows = rows});
  if (decoder.mlp == MlpKind::experts) {
    visit(RouteConfig{.element = ElementType::f32}); // a router's logits, like the head's, are not rounded
    visit(PlaceConfig{});
    visit(GatherRowsConfig{.element = element});
    for (const int rows : {16, 64, 128}) visit(GroupedProductConfig{.element = element, .tile_rows = rows});
    visit(ScatterRowsConfig{.element = element});
  }
  if (decoder.mlp == MlpKind::relu)
    visit(ActivationConfig{.element = element, .kind = ActivationKind::relu, .gated = false});
  else
    visit(ActivationConfig{.element = element, .kind = ActivationKind::silu, .gated = true});
  visit(SampleConfig{.element = ElementType::f32});
  visit(CopySegmentsConfig{});
}

/// The same as text, with a flag for those that are compiled.
[[nodiscard]] inline std::vector<NeededKernel> needed_kernels(const DecoderConfig& decoder, ElementType element) {
  std::vector<NeededKernel> needed;
  each_needed_kernel(decoder, element, [&needed]<ListedConfig Config>(const Config& config) {
    const auto& listed = KernelFamily<Config>::configs;
    needed.push_back({std::string{KernelFamily<Config>::name}, describe(config), line_of(config),
                      std::find(listed.begin(), listed.end(), config) != listed.end()});
  });
  return needed;
}

/// Limits beyond the configurations: a sentence for each one that a model exceeds, none if the kernels can compute it.
[[nodiscard]] inline std::vector<std::string> exceeded_limits(const DecoderConfig& decoder, ElementType element) {
  const ModelShape& shape = decoder.shape;
  std::vector<std::string> exceeded;
  const int packet = 16 / bytes_of(element);
  const auto whole = [&](const char* name, int inputs) {
    if (inputs % packet == 0) return;
    exceeded.push_back(std::string{name} + " " + std::to_string(inputs) + ": products read inputs by packets of " +
                       std::to_string(packet));
  };
  whole("hidden size", shape.hidden);
  whole("heads x head size", shape.heads * shape.head_dim);
  const bool experts = decoder.mlp == MlpKind::experts;
  whole(experts ? "intermediate size of an expert" : "intermediate size", experts ? shape.moe_intermediate : shape.mlp);
  if (shape.vocabulary >= sampling_most_tokens)
    exceeded.push_back("vocabulary " + std::to_string(shape.vocabulary) + ": Sample takes fewer than " +
                       std::to_string(sampling_most_tokens) + " tokens");
  if (std::any_of(decoder.windows.begin(), decoder.windows.end(), [](int window) { return window > 0; }))
    exceeded.push_back("a sliding window: PagedAttention attends to the whole context");
  if (shape.has_latents()) exceeded.push_back("latent attention: PagedAttention reads K and V of heads");
  if (shape.has_states() || decoder.gated_heads || decoder.norm == NormKind::rms_offset || shape.rotated > 0)
    exceeded.push_back("the gated delta rule's layers and norms: no kernel computes them");
  if (decoder.neighbours_rotate || decoder.rope_scaling.rotated_factor != 1 || decoder.rope_scaling.score_factor != 1)
    exceeded.push_back("neighbours that rotate, or YaRN: RopeAndStore rotates halves, by factors of 1");
  if (experts && (decoder.routing != ExpertRouting{} || shape.shared_intermediate > 0 || !shape.dense.empty()))
    exceeded.push_back(
        "experts other than Mixtral's: Route weighs the best by their softmax, and all layers have them");
  using AnyRoute = Route<RouteConfig{}>;
  if (experts && shape.experts > AnyRoute::most_experts)
    exceeded.push_back(std::to_string(shape.experts) + " experts: Route takes at most " +
                       std::to_string(AnyRoute::most_experts));
  if (experts && shape.experts_per_token > AnyRoute::most_taken)
    exceeded.push_back(std::to_string(shape.experts_per_token) + " experts of a token: Route takes at most " +
                       std::to_string(AnyRoute::most_taken));
  return exceeded;
}

} // namespace sluice::kernels
