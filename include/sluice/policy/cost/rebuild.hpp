// SPDX-License-Identifier: Apache-2.0
// Rebuild: what each layer computes to rebuild K and V that are kept nowhere, and how long each layer then takes.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/sub_batches.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
  own_layer_times(cost, work, plain.layer, compute_s);
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

// Fused kernels: how long rebuilding takes together with a layer's own work, in one kernel or one after the other.

/// How rebuilding K and V shares the device with the decoding layer.
enum class Rebuilding : std::uint8_t {
  fused,      ///< one kernel whose thread blocks are split between both (eLLM, section 4.3.2)
  one_by_one, ///< one after the other (eLLM without kernel fusion, section 6.3)
};

/// A kernel's roofline: seconds of its FLOPs and of its bytes at the device's rates.
struct KernelTime {
  double compute_s = 0;
  double memory_s = 0;

  [[nodiscard]] constexpr double alone() const { return std::max(compute_s, memory_s); }
};

inline constexpr int warp_threads = 32;
inline constexpr int most_block_threads = 1024;

/// How many of a fused kernel's `block` threads rebuild: in the ratio of the two volumes, rounded down to whole warps,
/// and at least one warp for each side (eLLM, section 4.3.2). Volumes are FLOPs, or anything proportional to them.
[[nodiscard]] constexpr int rebuilding_threads(double rebuilt_volume, double decoded_volume,
                                               int block = most_block_threads) {
  const double volume = rebuilt_volume + decoded_volume;
  const double share = volume > 0 ? rebuilt_volume / volume : 0.0;
  return std::clamp(static_cast<int>(share * block) / warp_threads * warp_threads, warp_threads, block - warp_threads);
}

/// Seconds of a layer's own two kernels fused with `rebuild`. Each side computes at its share of the threads; both draw
/// on one memory. The faster of the two splits next to the volumes' ratio counts: if whole warps were always rounded
/// the same way, more work could end sooner. A fused kernel is never faster than the layer alone, and is not used if it
/// would be slower than one kernel after the other.
[[nodiscard]] constexpr double fused_seconds(const KernelTime& rebuild, const KernelTime& linear,
                                             const KernelTime& attending) {
  const double own_s = linear.compute_s + attending.compute_s;
  const double memory_s = rebuild.memory_s + linear.memory_s + attending.memory_s;
  const int threads = rebuilding_threads(rebuild.compute_s, own_s);
  const auto split_s = [&](int rebuilding) {
    const double share = static_cast<double>(rebuilding) / most_block_threads;
    return std::max(rebuild.compute_s / share, own_s / (1.0 - share));
  };
  const double compute_s =
      std::min(split_s(threads), split_s(std::min(threads + warp_threads, most_block_threads - warp_threads)));
  return std::max({compute_s, memory_s, linear.alone() + attending.alone()});
}

/// The time of a layer that also rebuilds.
[[nodiscard]] constexpr double async(const KernelTime& rebuild, const KernelTime& linear, const KernelTime& attending,
                                     Rebuilding how) {
  const double one_by_one = rebuild.alone() + linear.alone() + attending.alone();
  return how == Rebuilding::fused ? std::min(one_by_one, fused_seconds(rebuild, linear, attending)) : one_by_one;
}

} // namespace sluice
