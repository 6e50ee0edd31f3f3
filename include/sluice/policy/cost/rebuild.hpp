// SPDX-License-Identifier: Apache-2.0
// Rebuild: what each layer computes to rebuild K and V that are kept nowhere, and how long each layer then takes.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/policy/cost/sub_batches.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>

namespace sluice {

/// The layers through which a prefix must pass completely, to produce the hidden states from which the K and V of
/// `rebuilt` layers are projected. Below a layer whose hidden states are kept (`hidden`) nothing need pass; the inputs
/// of layer 0 are embeddings. Between rebuilt layers the prefix also passes through swapped and resident ones: their K
/// and V exist, their output does not (eLLM's text treats it as free: docs/systems.md).
[[nodiscard]] constexpr LayerSet passed_layers(LayerSet rebuilt, LayerSet hidden) {
  LayerSet passed;
  bool wanted = false; // a layer above needs this layer's output
  for (int layer = rebuilt.highest(); layer >= 0; --layer) {
    if (wanted) passed.insert(layer);
    wanted = (wanted || rebuilt.contains(layer)) && !hidden.contains(layer);
  }
  return passed;
}

/// Sums up what each layer rebuilds: `sums` has one entry per layer. O(requests + layers) if all requests rebuild the
/// same layers.
inline void rebuild_sums(std::span<const RebuiltWork> rebuilds, std::span<LayerRebuild> sums) {
  std::fill(sums.begin(), sums.end(), LayerRebuild{});
  for (std::size_t i = 0; i < rebuilds.size();) {
    const LayerSet layers = rebuilds[i].layers;
    const LayerSet hidden = rebuilds[i].hidden;
    const bool here = rebuilds[i].states_on_device;
    Tokens tokens{0};
    double pairs = 0;
    const auto alike = [&](const RebuiltWork& other) {
      return other.layers == layers && other.hidden == hidden && other.states_on_device == here;
    };
    for (; i < rebuilds.size() && alike(rebuilds[i]); ++i) {
      const auto count = static_cast<double>(rebuilds[i].tokens.count());
      tokens += rebuilds[i].tokens;
      pairs += 0.5 * count * (count + 1.0);
    }
    SLUICE_ASSERT(layers.highest() < static_cast<int>(sums.size()), "layers of the model");
    layers.for_each([&](int layer) { sums[static_cast<std::size_t>(layer)].projected += tokens; });
    if (here) hidden.for_each([&](int layer) { sums[static_cast<std::size_t>(layer)].read += tokens; });
    passed_layers(layers, hidden).for_each([&](int layer) {
      sums[static_cast<std::size_t>(layer)].passed += tokens;
      sums[static_cast<std::size_t>(layer)].pairs += pairs;
    });
  }
}

/// Fills in the time of each layer, including its rebuilding. Returns the times before and after the layers, the time
/// of a layer that rebuilds nothing, and the share of all that time that uses the link. The model is asked once per
/// kind of layer: layers with equal rebuilding form few kinds, in a repeating pattern.
template <class Cost>
StepTime layer_times(const Cost& cost, const Work& work, std::span<double> compute_s) {
  StepTime plain = step_time(cost, work);
  std::fill(compute_s.begin(), compute_s.end(), plain.layer.count());
  if (work.rebuilds.empty()) return plain;
  std::array<LayerRebuild, max_layers> sums;
  std::array<double, max_layers> on_link_s; // of the layers that rebuild
  // What the sub-batches take in addition to the device's own work, in layers that rebuild too.
  const double hosted_s = work.hosted.nothing() ? 0.0 : (plain.layer - cost.step(work).layer).count();
  const std::size_t layers = compute_s.size();
  rebuild_sums(work.rebuilds, {sums.data(), layers});
  constexpr std::size_t pattern = 8; // the longest pattern that is searched for
  double more_s = 0;                 // seconds more than without rebuilding
  double more_on_link_s = 0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (sums[layer].nothing()) continue;
    const std::size_t back = layer - std::min(layer, pattern);
    std::size_t same = back;
    while (same < layer && !(sums[same] == sums[layer])) ++same;
    if (same < layer) {
      compute_s[layer] = compute_s[same];
      on_link_s[layer] = on_link_s[same];
    } else {
      Work one = work;
      one.rebuilt = sums[layer];
      const StepTime time = cost.step(one);
      compute_s[layer] = time.layer.count() + hosted_s;
      on_link_s[layer] = time.on_link * time.layer.count();
    }
    more_s += compute_s[layer] - plain.layer.count();
    more_on_link_s += on_link_s[layer] - plain.on_link * plain.layer.count();
  }
  if (plain.on_link > 0 || more_on_link_s > 0) {
    const double plain_s = plain.total(static_cast<int>(layers)).count();
    plain.on_link = (plain.on_link * plain_s + more_on_link_s) / (plain_s + more_s);
  }
  return plain;
}

/// How long an iteration computes if no transfer and no attention on the host delays it.
template <class Cost>
[[nodiscard]] Seconds compute_time(const Cost& cost, const Work& work, int layers) {
  if (work.rebuilds.empty()) return step_time(cost, work).total(layers);
  std::array<double, max_layers> compute_s;
  const auto count = static_cast<std::size_t>(layers);
  const StepTime time = layer_times(cost, work, {compute_s.data(), count});
  return time.before + time.after +
         Seconds{std::accumulate(compute_s.begin(), compute_s.begin() + static_cast<std::ptrdiff_t>(count), 0.0)};
}

} // namespace sluice
