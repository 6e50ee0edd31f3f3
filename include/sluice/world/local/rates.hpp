// SPDX-License-Identifier: Apache-2.0
// measure_rates: the rates that this machine reaches with a model, and the Device that planners predict with.
#pragma once

#include "sluice/core/stopwatch.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/policy/cost/layer_work.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/world/cpu/copy_engine.hpp"
#include "sluice/world/cpu/move_bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

namespace sluice {

/// The rates that this machine reaches with a model.
struct LocalRates {
  BytesPerSecond reading{0};   ///< weights, with one row at a time
  FlopsPerSecond computing{0}; ///< matrix products, with many rows
  BytesPerSecond copying{0};   ///< between the two memories, unthrottled
  BytesPerSecond attending{0}; ///< KV, by the host's lane; 0: not measured (measure_host_attention)
  Seconds attending_launch{0}; ///< fixed time of that in each layer
  Seconds took{0};             ///< of the measurement
};

namespace detail {

/// A layer's weights as a device holds them: in place where the host's bytes already lie so; otherwise one layer is
/// copied and stands for all.
class HeldLayers {
 public:
  explicit HeldLayers(const ModelWeights& weights) : weights_(weights) {
    in_place_ = std::all_of(weights.layers.begin(), weights.layers.end(), [&](const auto& tensors) {
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (tensors[i] != tensors.front() + weights.layout.places[i].offset) return false;
      return reinterpret_cast<std::uintptr_t>(tensors.front()) % weight_alignment == 0;
    });
    if (in_place_) return;
    // Room for the alignment, which a vector of bytes does not guarantee.
    copy_.resize(static_cast<std::size_t>(weights.layout.bytes.count() + weight_alignment));
    first_ = aligned(copy_.data(), weight_alignment);
    for (std::size_t i = 0; i < weights.layout.places.size(); ++i) {
      const TensorPlace& place = weights.layout.places[i];
      std::memcpy(first_ + place.offset, weights.layers.front()[i], static_cast<std::size_t>(place.bytes()));
    }
    weights.forget(0);
  }
  HeldLayers(const HeldLayers&) = delete;
  HeldLayers& operator=(const HeldLayers&) = delete;

  [[nodiscard]] LayerWeights at(int layer) const {
    const std::byte* from = in_place_ ? weights_.layers[static_cast<std::size_t>(layer)].front() : first_;
    return LayerWeights{weights_.layout, from, nullptr, weights_.layout.bytes.count()};
  }

 private:
  const ModelWeights& weights_;
  bool in_place_ = false;
  std::vector<std::byte> copy_;
  std::byte* first_ = nullptr;
};

/// Seconds of one layer with `rows` tokens of one sequence: the fastest layer within about `budget_s`, of at least two;
/// the first warms up.
[[nodiscard]] inline double layer_time(const ModelWeights& weights, Decoder& decoder, const HeldLayers& layers,
                                       int rows, Tokens block_tokens, double budget_s) {
  const auto count = static_cast<std::size_t>(rows);
  const std::vector<std::int32_t> tokens(count, 0);
  std::vector<std::int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  const TokenBlocks blocks = blocks_for(Tokens{rows}, block_tokens);
  const auto floats = static_cast<std::size_t>(kv_block_floats(weights.config.shape, block_tokens));
  std::vector<float> memory(floats * static_cast<std::size_t>(blocks.count()));
  std::vector<std::byte*> pointers;
  for (std::size_t at = 0; at < memory.size(); at += floats)
    pointers.push_back(reinterpret_cast<std::byte*>(memory.data() + at));
  const SequenceRows sequence{0, rows, 0, pointers.data(), 0};

  constexpr int most = 6; // layers of a small model: more add no information
  double best = 0;
  const Stopwatch all;
  for (int done = 0; done < 2 || (done < most && all.elapsed().count() < budget_s); ++done) {
    const int layer = done % weights.config.shape.layers;
    if (layer == 0) decoder.begin(tokens, positions);
    const Stopwatch one;
    decoder.layer(layers.at(layer), {&sequence, 1}, rows, 0);
    const double took = one.elapsed().count();
    if (done > 0 && (best == 0 || took < best)) best = took;
  }
  return std::max(best, 1e-9);
}

} // namespace detail

/// Measures the rates in at most about 0.3 s with the decoder itself, so that Roofline's prediction for a layer equals
/// the measurement, with few rows and with many. Compile it for the same vector instructions as the decoder: it copies
/// as the link does.
[[nodiscard]] inline LocalRates measure_rates(const ModelWeights& weights, Decoder& decoder, const Limits& limits) {
  const Stopwatch all;
  const LayerWork work(weights.config.shape);
  const detail::HeldLayers layers(weights);
  const int rows =
      static_cast<int>(std::min<std::int64_t>({limits.batch_tokens.count(), 64, weights.config.max_positions}));
  const double one = detail::layer_time(weights, decoder, layers, 1, limits.block_tokens, 0.08);
  const double many = detail::layer_time(weights, decoder, layers, rows, limits.block_tokens, 0.12);
  LocalRates rates;
  rates.reading = BytesPerSecond{work.weight_bytes(Tokens{1}) / one};
  rates.computing = FlopsPerSecond{work.linear_flops(Tokens{rows}).count() / many};

  // No larger than this: a run takes little memory besides its weights and memories. A large last-level cache therefore
  // holds some of it.
  std::vector<std::byte> from(std::size_t{16} << 20, std::byte{1});
  std::vector<std::byte> to(from.size());
  double best = 1;
  const Stopwatch copies;
  for (int done = 0; done < 2 || (done < 4 && copies.elapsed().count() < 0.03); ++done) {
    const Stopwatch copy;
    move_bytes(to.data(), from.data(), static_cast<std::int64_t>(from.size()));
    best = std::min(best, copy.elapsed().count());
  }
  rates.copying = BytesPerSecond{static_cast<double>(from.size()) / std::max(best, 1e-9)};
  rates.took = all.elapsed();
  return rates;
}

/// Gives `device` the link of a run: a stated rate is kept; without one the link reaches `unlimited`.
inline void set_link(Device& device, const LinkRates& link, BytesPerSecond unlimited) {
  const auto rate = [&](double stated) { return stated > 0 ? BytesPerSecond{stated} : unlimited; };
  device.host_to_device = rate(link.to_device_bytes_per_s);
  device.device_to_host = rate(link.to_host_bytes_per_s);
  device.lanes = link.each_way ? Lanes::each_way : Lanes::shared;
}

/// This machine as a Device, whose roofline (`Roofline{shape, device}`) is the measurement. The caller divides the
/// memories and sets their sizes.
[[nodiscard]] inline Device measured_device(const LocalRates& rates, const LinkRates& link) {
  Device device;
  device.name = "this machine";
  device.memory_bandwidth = rates.reading;
  device.half_precision_peak = rates.computing;
  device.compute_fraction = device.bandwidth_fraction = 1; // as measured
  set_link(device, link, rates.copying);
  if (rates.attending.count() > 0) {
    device.host_attention_rate = rates.attending;
    device.host_attention_launch = rates.attending_launch;
    device.host_attention_batches = 1; // a machine computes a layer's rows together
  }
  return device;
}

} // namespace sluice
