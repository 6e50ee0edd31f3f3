// SPDX-License-Identifier: Apache-2.0
// The one translation unit that compiles decoders and the machine.
#include "run/machine.hpp"

#include "sluice/backend/cpu/move_bytes.hpp"
#include "sluice/cost/layer_work.hpp"
#include "sluice/decoder/eigen/make_decoder.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace running {

using namespace sluice;

std::unique_ptr<Decoder> make_decoder(const ModelWeights& weights, Tokens block_tokens, int threads) {
  return sluice::make_decoder(weights, block_tokens, threads);
}

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A layer as a device holds it: where the host's bytes lie so already, there; otherwise one layer is copied, and
/// stands for all.
class Layers {
 public:
  explicit Layers(const ModelWeights& weights) : weights_(weights) {
    in_place_ = std::all_of(weights.layers.begin(), weights.layers.end(), [&](const auto& tensors) {
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (tensors[i] != tensors.front() + weights.layout.places[i].offset) return false;
      return reinterpret_cast<std::uintptr_t>(tensors.front()) % weight_alignment == 0;
    });
    if (in_place_) return;
    // Room for the alignment that a vector of bytes does not promise.
    copy_.resize(static_cast<std::size_t>(weights.layout.bytes.count() + weight_alignment));
    const auto address = reinterpret_cast<std::uintptr_t>(copy_.data());
    first_ =
        copy_.data() + (weight_alignment - static_cast<std::int64_t>(address % weight_alignment)) % weight_alignment;
    for (std::size_t i = 0; i < weights.layout.places.size(); ++i) {
      const TensorPlace& place = weights.layout.places[i];
      std::memcpy(first_ + place.offset, weights.layers.front()[i], static_cast<std::size_t>(place.bytes()));
    }
    weights.forget(0);
  }
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

/// Seconds of one layer of `rows` tokens of one sequence: the fastest layer of about `budget_s`, at least two of them,
/// of which the first warms up.
double layer_time(const ModelWeights& weights, Decoder& decoder, const Layers& layers, int rows, Tokens block_tokens,
                  double budget_s) {
  const auto count = static_cast<std::size_t>(rows);
  const std::vector<std::int32_t> tokens(count, 0);
  std::vector<std::int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  const TokenBlocks blocks = blocks_for(Tokens{rows}, block_tokens);
  const auto floats = static_cast<std::size_t>(kv_block_floats(weights.config.shape, block_tokens));
  std::vector<float> memory(floats * static_cast<std::size_t>(blocks.count()));
  std::vector<float*> pointers;
  for (std::size_t at = 0; at < memory.size(); at += floats) pointers.push_back(memory.data() + at);
  const SequenceRows sequence{0, rows, 0, pointers.data(), 0};

  constexpr int most = 6; // of a small model: more says no more
  double best = 0;
  const Clock::time_point begin = Clock::now();
  for (int done = 0; done < 2 || (done < most && seconds_since(begin) < budget_s); ++done) {
    const int layer = done % weights.config.shape.layers;
    if (layer == 0) decoder.begin(tokens, positions);
    const Clock::time_point one = Clock::now();
    decoder.layer(layers.at(layer), {&sequence, 1}, rows, 0);
    const double took = seconds_since(one);
    if (done > 0 && (best == 0 || took < best)) best = took;
  }
  return std::max(best, 1e-9);
}

} // namespace

/// By the decoder itself: what Roofline says of a layer is then what was measured of one, for few rows and for many.
Rates measure_rates(const ModelWeights& weights, Decoder& decoder, const Limits& limits) {
  const Clock::time_point begin = Clock::now();
  const ModelShape& shape = weights.config.shape;
  const Layers layers(weights);
  const LayerWork work(shape);
  const int rows =
      static_cast<int>(std::min<std::int64_t>({limits.batch_tokens.count(), 64, weights.config.max_positions}));
  const double one = layer_time(weights, decoder, layers, 1, limits.block_tokens, 0.08);
  const double many = layer_time(weights, decoder, layers, rows, limits.block_tokens, 0.12);
  Rates rates;
  rates.reading = BytesPerSecond{work.weight_bytes(Tokens{1}) / one};
  rates.computing = FlopsPerSecond{work.linear_flops(Tokens{rows}).count() / many};

  // Copied as the link copies. No more than this: a run promises to hold little beside its weights and memories, so
  // that a large last cache answers for some of it.
  std::vector<std::byte> from(std::size_t{16} << 20, std::byte{1});
  std::vector<std::byte> to(from.size());
  double best = 1;
  const Clock::time_point copies = Clock::now();
  for (int done = 0; done < 2 || (done < 4 && seconds_since(copies) < 0.03); ++done) {
    const Clock::time_point copy = Clock::now();
    move_bytes(to.data(), from.data(), static_cast<std::int64_t>(from.size()));
    best = std::min(best, seconds_since(copy));
  }
  rates.copying = BytesPerSecond{static_cast<double>(from.size()) / std::max(best, 1e-9)};
  rates.took = Seconds{seconds_since(begin)};
  return rates;
}

Expected<std::shared_ptr<CpuMachine>> make_machine(ModelWeights weights, std::unique_ptr<Decoder> decoder,
                                                   const CpuSetup& setup, CpuListener listener) {
  return CpuMachine::make(std::move(weights), std::move(decoder), setup, std::move(listener));
}

} // namespace running
