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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
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

/// Layers' weights as a device holds them: in place where the host's bytes already lie so; otherwise one layer of each
/// kind is copied and stands for all of its kind.
class HeldLayers {
 public:
  explicit HeldLayers(const ModelWeights& weights) : weights_(weights), kinds_(layers_by_kind(weights.config)) {
    in_place_ = true;
    for (int layer = 0; in_place_ && layer < weights.config.shape.layers; ++layer) {
      const auto& tensors = weights.layers[static_cast<std::size_t>(layer)];
      for (std::size_t i = 0; i < tensors.size(); ++i)
        in_place_ = in_place_ && tensors[i] == tensors.front() + weights.layout_at(layer).places[i].offset;
      in_place_ = in_place_ && reinterpret_cast<std::uintptr_t>(tensors.front()) % weight_alignment == 0;
    }
    if (in_place_) return;
    // Room for the alignment, which a vector of bytes does not guarantee.
    const auto bytes = static_cast<std::size_t>(weights.layout.bytes.count());
    copy_.resize(bytes * kinds_.size() + static_cast<std::size_t>(weight_alignment));
    std::byte* to = aligned(copy_.data(), weight_alignment);
    for (const LayersOfKind& of_kind : kinds_) {
      const int layer = of_kind.layers.front();
      const std::vector<TensorPlace>& places = weights.layout_at(layer).places;
      for (std::size_t i = 0; i < places.size(); ++i)
        std::memcpy(to + places[i].offset, weights.layers[static_cast<std::size_t>(layer)][i],
                    static_cast<std::size_t>(places[i].bytes()));
      weights.forget(layer);
      copies_.push_back(std::exchange(to, to + bytes));
    }
  }
  HeldLayers(const HeldLayers&) = delete;
  HeldLayers& operator=(const HeldLayers&) = delete;

  [[nodiscard]] const std::vector<LayersOfKind>& kinds() const { return kinds_; }
  /// A layer of that kind that is held: the `turn`-th of them, if all are.
  [[nodiscard]] int held(std::size_t kind, std::size_t turn) const {
    const std::vector<int>& layers = kinds_[kind].layers;
    return in_place_ ? layers[turn % layers.size()] : layers.front();
  }
  /// The weights of a layer that is held, or of the one that stands for it.
  [[nodiscard]] LayerWeights at(int layer) const {
    const std::byte* from = weights_.layers[static_cast<std::size_t>(layer)].front();
    for (std::size_t kind = 0; kind < copies_.size(); ++kind)
      if (kinds_[kind].kind == weights_.config.kind(layer)) from = copies_[kind];
    return LayerWeights{weights_.layout_at(layer), from, nullptr, weights_.layout.bytes.count()};
  }

 private:
  const ModelWeights& weights_;
  std::vector<LayersOfKind> kinds_;
  bool in_place_ = false;
  std::vector<std::byte> copy_;
  std::vector<std::byte*> copies_; ///< by kind; none, if all layers are held in place
};

/// Seconds of one layer with `rows` tokens of one sequence: of each kind the fastest layer within about `budget_s`, of
/// at least two, whose first warms up. The mean over the model's layers counts, because planners predict all alike.
template <class Clock>
[[nodiscard]] double layer_time(const ModelWeights& weights, Decoder& decoder, const HeldLayers& layers, int rows,
                                Tokens block_tokens, double budget_s) {
  const auto count = static_cast<std::size_t>(rows);
  std::vector<std::int32_t> tokens, positions(count);
  for (std::int64_t row = 0; row < rows; ++row) tokens.push_back(measured_token(row, weights.config.shape.vocabulary));
  std::iota(positions.begin(), positions.end(), 0);
  const TokenBlocks blocks = blocks_for(Tokens{rows}, block_tokens);
  const auto floats = static_cast<std::size_t>(kv_block_floats(weights.config.shape, block_tokens));
  std::vector<float> memory(floats * static_cast<std::size_t>(blocks.count()));
  std::vector<std::byte*> pointers;
  for (std::size_t at = 0; at < memory.size(); at += floats)
    pointers.push_back(reinterpret_cast<std::byte*>(memory.data() + at));
  const SequenceRows sequence{0, rows, 0, pointers.data(), 0};

  const std::size_t kinds = layers.kinds().size();
  std::vector<double> best(kinds);
  constexpr std::size_t most = 6; // layers of a small model: more add no information
  decoder.begin(tokens, positions);
  const Clock all;
  for (std::size_t done = 0; done < 2 * kinds || (done < most && all.elapsed().count() < budget_s); ++done) {
    const std::size_t kind = done % kinds, turn = done / kinds;
    const int layer = layers.held(kind, turn);
    const Clock one;
    decoder.layer(layer, layers.at(layer), {&sequence, 1}, rows, 0);
    const double took = std::max(one.elapsed().count(), 1e-9);
    if (turn == 1 || (turn > 1 && took < best[kind])) best[kind] = took;
  }
  double sum = 0;
  for (std::size_t kind = 0; kind < kinds; ++kind)
    sum += best[kind] * static_cast<double>(layers.kinds()[kind].layers.size());
  return sum / weights.config.shape.layers;
}

} // namespace detail

/// Measures the rates in at most about 0.3 s with the decoder itself, so that Roofline's prediction for a layer equals
/// the measurement, with few rows and with many. Compile it for the same vector instructions as the decoder: it copies
/// as the link does. `Clock` times the layers, as Stopwatch does.
template <class Clock = Stopwatch>
[[nodiscard]] LocalRates measure_rates(const ModelWeights& weights, Decoder& decoder, const Limits& limits) {
  const Stopwatch all;
  const LayerWork work(weights.config.shape);
  const detail::HeldLayers layers(weights);
  const int rows =
      static_cast<int>(std::min<std::int64_t>({limits.batch_tokens.count(), 64, weights.config.max_positions}));
  const double one = detail::layer_time<Clock>(weights, decoder, layers, 1, limits.block_tokens, 0.08);
  const double many = detail::layer_time<Clock>(weights, decoder, layers, rows, limits.block_tokens, 0.12);
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

// measure_host_attention: how fast a decoder's host lane attends KV (NEO).

/// What a `Device` states about attention on the host. A rate of 0: there is none.
struct HostAttentionRate {
  BytesPerSecond rate{0}; ///< bytes of K and V that are attended in a second, with the copies of queries and results
  Seconds launch{0};      ///< fixed time, in each layer: what one row of one token takes
};

/// Measures attention by the thread that attends for a machine (`Decoder::open_host_lane`, which this opens): layers
/// whose rows all belong to the host, with contexts of up to 2048 tokens and 16 MiB of K and V, and with one row of one
/// token. The computing thread attends nothing itself, so it takes results as soon as the lane has them. The fastest of
/// a few layers of each kind counts. (Rejected: the time that the layer waits. It is too short if the computing thread
/// loses its core in between.)
///
/// The rate is an upper limit: the layers read the same 16 MiB, which large caches keep, and no other thread computes
/// meanwhile. The time that further rows take besides their K and V is in the rate, by rows of long contexts.
[[nodiscard]] inline HostAttentionRate measure_host_attention(const ModelWeights& weights, Decoder& decoder,
                                                              const Limits& limits) {
  if (!decoder.has_host_lane()) return {};
  decoder.open_host_lane();
  const Tokens block_tokens = limits.block_tokens;
  const int window = weights.config.window(0); // the layer that is measured reads no more
  const auto context = static_cast<int>(
      std::min<std::int64_t>(window > 0 ? std::min(window, 2048) : 2048, weights.config.max_positions));
  const std::int64_t floats = kv_block_floats(weights.config.shape, block_tokens);
  const std::int64_t of_row = blocks_for(Tokens{context}, block_tokens).count();
  constexpr std::int64_t most_floats = (std::int64_t{16} << 20) / std::int64_t{sizeof(float)};
  const auto rows = std::clamp<std::int64_t>(most_floats / (of_row * floats), 1,
                                             std::min<std::int64_t>(limits.batch_tokens.count(), 16));
  std::vector<float> memory(static_cast<std::size_t>(rows * of_row * floats));
  std::vector<std::byte*> blocks;
  for (std::size_t at = 0; at < memory.size(); at += static_cast<std::size_t>(floats))
    blocks.push_back(reinterpret_cast<std::byte*>(memory.data() + at));
  const detail::HeldLayers held(weights);
  const auto fastest = [&](std::int64_t count, int tokens_attended) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 0);
    const std::vector<std::int32_t> positions(tokens.size(), tokens_attended - 1);
    std::vector<SequenceRows> sequences;
    for (std::int64_t row = 0; row < count; ++row) {
      sequences.push_back({static_cast<int>(row), 1, tokens_attended - 1, blocks.data() + row * of_row, 0});
      sequences.back().on_host = true;
    }
    constexpr int layers = 6; // the first warms up
    Seconds best{0};
    for (int done = 0; done < layers; ++done) {
      decoder.begin(tokens, positions);
      decoder.layer(0, held.at(0), sequences, static_cast<int>(count), 0);
      const Seconds took = decoder.host_lane_times().took;
      if (done == 1 || (done > 1 && took < best)) best = took;
    }
    return best;
  };
  const Seconds launch = fastest(1, 1);
  const Seconds attending = std::max(fastest(rows, context) - launch, Seconds{1e-9});
  const double bytes = static_cast<double>(rows * context) * static_cast<double>(floats) * sizeof(float) /
                       static_cast<double>(block_tokens.count());
  return {BytesPerSecond{bytes / attending.count()}, launch};
}

} // namespace sluice
