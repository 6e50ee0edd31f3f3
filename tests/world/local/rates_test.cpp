// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/world/cpu/decoder_timer.hpp"
#include "sluice/world/local/rates.hpp"

#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"
#include "support/small_decoders.hpp"
#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

using namespace sluice;

TEST_CASE("rates are measured with the decoder's own layers, for one row and for many") {
  const ModelWeights weights = tiny_llama();
  testing::CountingDecoder decoder{weights.config};
  Limits limits;
  limits.batch_tokens = Tokens{48};
  const LocalRates rates = measure_rates(weights, decoder, limits);
  CHECK(decoder.begun == 2);
  CHECK(decoder.layers >= 4);
  CHECK(decoder.layers <= 12);
  CHECK(decoder.most_rows == 48);
  CHECK(rates.reading.count() > 0);
  CHECK(rates.computing.count() > 0);
  CHECK(rates.copying.count() > 0);
  CHECK(rates.took.count() > 0);
}

namespace {

/// Layers of one kind take at least 8 ms. Counts the layers that do not have the weights of their kind.
class SlowKind final : public Decoder {
 public:
  SlowKind(const ModelWeights& weights, LayerKind slow) : weights_(weights), config_(weights.config), slow_(slow) {}
  [[nodiscard]] Bytes workspace(std::int64_t, std::int64_t) const override { return Bytes{0}; }
  void begin(std::span<const std::int32_t>, std::span<const std::int32_t>) override {}
  void layer(int at, const LayerWeights& layer, std::span<const SequenceRows>, int, int) override {
    const LayerKind kind = config_.kind(at);
    wrong += layer.router.empty() == (config_.shape.experts > 0 && !kind.dense);
    wrong += layer.convolution.empty() == kind.state;
    wrong += std::memcmp(layer.attention_norm.row(0), weights_.layers[static_cast<std::size_t>(at)][0],
                         static_cast<std::size_t>(layer.attention_norm.row_bytes())) != 0;
    if (kind == slow_) std::this_thread::sleep_for(std::chrono::milliseconds(8));
  }
  [[nodiscard]] std::span<float> hidden_state(int) override { return {}; }
  void logits(std::span<const int>, std::span<float>) override {}
  [[nodiscard]] const DecoderConfig& config() const override { return config_; }

  int wrong = 0;

 private:
  const ModelWeights& weights_;
  const DecoderConfig& config_;
  LayerKind slow_;
};

/// Written to a folder and mapped from there, where no tensor lies as in memory.
ModelWeights mapped(const ModelWeights& weights, const sluice_test::TemporaryFolder& folder) {
  testing::write_checkpoint(folder.path, weights);
  Expected<ModelWeights> read = read_checkpoint(folder.path.string());
  if (!read) FAIL(read.error().line());
  return *std::move(read);
}

/// Each kind's time counts as often as the model has layers of it, which is so many 8 ms.
void check_mean(const ModelWeights& weights, Seconds (*mean)(const ModelWeights&, SlowKind&)) {
  for (const LayersOfKind& slow : layers_by_kind(weights.config)) {
    CAPTURE(slow.kind.number());
    SlowKind decoder{weights, slow.kind};
    const double least = 8e-3 * static_cast<double>(slow.layers.size()) / weights.config.shape.layers;
    CHECK(mean(weights, decoder).count() >= least);
    CHECK(decoder.wrong == 0);
  }
}

/// As `tiny-mla-experts`, in a form that a config.json has.
ModelWeights deepseek() {
  DecoderConfig config = tiny_latent_experts_config();
  config.shape.name = "deepseek_v3";
  config.shape.shared_intermediate = config.shape.moe_intermediate;
  return random_weights(config, 1);
}

/// Attending layers and two kinds with a state.
ModelWeights small_states() {
  for (const DecoderConfig& config : testing::small_decoders())
    if (config.shape.name == "qwen3_next") return random_weights(config, 1);
  FAIL("no such model");
  return {};
}

} // namespace

TEST_CASE("where layers are of several kinds, the time of a layer is the mean over all layers") {
  const auto measured = [](const ModelWeights& weights, SlowKind& decoder) {
    const LayerWork work(weights.config.shape);
    const LocalRates rates = measure_rates(weights, decoder, {});
    const Seconds many{work.linear_flops(Tokens{64}).count() / rates.computing.count()};
    return std::min(Seconds{work.weight_bytes(Tokens{1}) / rates.reading.count()}, many);
  };
  const sluice_test::TemporaryFolder routed, states;
  check_mean(tiny_delta(), measured);          // two of eight layers attend
  check_mean(tiny_latent_experts(), measured); // one of eight is dense
  check_mean(mapped(deepseek(), routed), measured);
  check_mean(mapped(small_states(), states), measured);
}

TEST_CASE("a timer that holds few layers times each kind") {
  const auto timed = [](const ModelWeights& weights, SlowKind& decoder) {
    Expected<VirtualMemory> memory = DecoderTimer::reserve(weights, Bytes{1});
    REQUIRE(memory);
    DecoderTimer timer(weights, decoder, Tokens{16}, *std::move(memory), Bytes{1 << 20});
    CHECK(timer.layers() == static_cast<int>(layers_by_kind(weights.config).size()));
    TimedBatch batch;
    batch.chunk = 1;
    return timer.time(batch).layer;
  };
  check_mean(tiny_delta(), timed);
  check_mean(tiny_latent_experts(), timed);
}

TEST_CASE("a stated link rate is kept; otherwise the link is as fast as copying memory") {
  LocalRates rates;
  rates.reading = BytesPerSecond{10e9};
  rates.computing = FlopsPerSecond{50e9};
  rates.copying = BytesPerSecond{7e9};
  const Device stated = measured_device(rates, {2e9, 1e9, true});
  CHECK(stated.host_to_device == BytesPerSecond{2e9});
  CHECK(stated.device_to_host == BytesPerSecond{1e9});
  CHECK(stated.lanes == Lanes::each_way);
  const Device unlimited = measured_device(rates, {});
  CHECK(unlimited.host_to_device == BytesPerSecond{7e9});
  CHECK(unlimited.device_to_host == BytesPerSecond{7e9});
  CHECK(unlimited.lanes == Lanes::shared);
  // Its roofline predicts the measurement: one row reads a layer at `reading`.
  const ModelShape shape = tiny_llama_config().shape;
  Work one;
  one.decodes = 1;
  one.decode_context = Tokens{1};
  const double layer_s = Roofline{shape, unlimited}.step(one).layer.count();
  CHECK(layer_s >= LayerWork(shape).weight_bytes(Tokens{1}) / 10e9);
  CHECK(layer_s <= 1.5 * LayerWork(shape).weight_bytes(Tokens{1}) / 10e9);
}
