// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/world/local/rates.hpp"

#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <thread>

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

/// Layers without a state take at least 4 ms.
class SlowAttention final : public Decoder {
 public:
  explicit SlowAttention(const DecoderConfig& config) : config_(config) {}
  [[nodiscard]] Bytes workspace(std::int64_t, std::int64_t) const override { return Bytes{0}; }
  void begin(std::span<const std::int32_t>, std::span<const std::int32_t>) override {}
  void layer(int at, const LayerWeights&, std::span<const SequenceRows>, int, int) override {
    if (!config_.shape.delta.layers.contains(at)) std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
  [[nodiscard]] std::span<float> hidden_state(int) override { return {}; }
  void logits(std::span<const int>, std::span<float>) override {}
  [[nodiscard]] const DecoderConfig& config() const override { return config_; }

 private:
  const DecoderConfig& config_;
};

} // namespace

TEST_CASE("where some layers have a state, the time of a layer is the mean over all layers") {
  const ModelWeights weights = tiny_delta(); // two of eight layers attend
  SlowAttention decoder{weights.config};
  const LocalRates rates = measure_rates(weights, decoder, {});
  const LayerWork work(weights.config.shape);
  CHECK(rates.reading.count() <= work.weight_bytes(Tokens{1}) / 1e-3);
  CHECK(rates.computing.count() <= work.linear_flops(Tokens{64}).count() / 1e-3);
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
