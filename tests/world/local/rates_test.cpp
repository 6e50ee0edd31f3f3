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
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

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

/// A clock that moves only when a layer of `SlowKind` says so.
struct LayerClock {
  static inline Seconds now{0};
  Seconds begin = now;
  [[nodiscard]] Seconds elapsed() const { return now - begin; }
};

/// Layers of one kind take 8 ms of LayerClock, and others no time. Counts the layers that do not have the weights of
/// their kind.
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
    if (kind == slow_) LayerClock::now += Seconds{8e-3};
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

/// Each kind's time counts as often as the model has layers of it, which is so many 8 ms: no more and no less.
void check_mean(const ModelWeights& weights, Seconds (*mean)(const ModelWeights&, SlowKind&)) {
  for (const LayersOfKind& slow : layers_by_kind(weights.config)) {
    CAPTURE(slow.kind.number());
    SlowKind decoder{weights, slow.kind};
    const double expected = 8e-3 * static_cast<double>(slow.layers.size()) / weights.config.shape.layers;
    CHECK(mean(weights, decoder).count() == doctest::Approx(expected).epsilon(1e-6));
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
    const LocalRates rates = measure_rates<LayerClock>(weights, decoder, {});
    const Seconds many{work.linear_flops(Tokens{64}).count() / rates.computing.count()};
    CHECK(work.weight_bytes(Tokens{1}) / rates.reading.count() == doctest::Approx(many.count()).epsilon(1e-6));
    return many;
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
    BasicDecoderTimer<LayerClock> timer(weights, decoder, Tokens{16}, *std::move(memory), Bytes{1 << 20});
    CHECK(timer.layers() == static_cast<int>(layers_by_kind(weights.config).size()));
    TimedBatch batch;
    batch.chunk = 1;
    return timer.time(batch).layer;
  };
  check_mean(tiny_delta(), timed);
  check_mean(tiny_latent_experts(), timed);
}

namespace {

/// Keeps the tokens of the largest batch.
class TokensOf final : public Decoder {
 public:
  explicit TokensOf(const DecoderConfig& config) : config_(config) {}
  [[nodiscard]] Bytes workspace(std::int64_t, std::int64_t) const override { return Bytes{0}; }
  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t>) override {
    if (tokens.size() > most.size()) most.assign(tokens.begin(), tokens.end());
  }
  void layer(int, const LayerWeights&, std::span<const SequenceRows>, int, int) override {}
  [[nodiscard]] std::span<float> hidden_state(int) override { return {}; }
  void logits(std::span<const int>, std::span<float>) override {}
  [[nodiscard]] const DecoderConfig& config() const override { return config_; }

  std::vector<std::int32_t> most;

 private:
  const DecoderConfig& config_;
};

float number(const Matrix& of, std::int64_t row, std::int64_t column) {
  float value = 0;
  std::memcpy(&value, of.row(row) + column * std::int64_t{sizeof value}, sizeof value);
  return value;
}

/// The experts whose router's scores of these tokens' embeddings are largest.
std::set<std::int64_t> experts_of(const ModelWeights& weights, int layer, const std::vector<std::int32_t>& tokens) {
  const detail::HeldLayers held(weights);
  const Matrix router = held.at(layer).router;
  std::set<std::int64_t> found;
  for (const std::int32_t token : tokens) {
    std::vector<double> scores(static_cast<std::size_t>(router.rows));
    for (std::int64_t e = 0; e < router.rows; ++e)
      for (std::int64_t i = 0; i < router.columns; ++i)
        scores[static_cast<std::size_t>(e)] += double{number(router, e, i)} * number(weights.embedding, token, i);
    std::vector<std::int64_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    found.insert(order.begin(), order.begin() + weights.config.shape.experts_per_token);
  }
  return found;
}

} // namespace

TEST_CASE("measured rows have different tokens, which pass through all experts") {
  const ModelWeights weights = tiny_latent_experts();
  const ModelShape& shape = weights.config.shape;
  const auto check = [&](const std::vector<std::int32_t>& tokens) {
    CHECK(tokens.size() == 64);
    CHECK(std::set<std::int32_t>(tokens.begin(), tokens.end()).size() == tokens.size());
    CHECK(*std::max_element(tokens.begin(), tokens.end()) < shape.vocabulary);
    CHECK(*std::min_element(tokens.begin(), tokens.end()) >= 0);
    CHECK(experts_of(weights, 1, tokens).size() == static_cast<std::size_t>(shape.experts));
  };
  const std::vector<std::int32_t> alike(64, 0);
  CHECK(experts_of(weights, 1, alike).size() == static_cast<std::size_t>(shape.experts_per_token));
  TokensOf measured{weights.config};
  (void)measure_rates(weights, measured, {});
  check(measured.most);
  TokensOf timed{weights.config};
  Expected<VirtualMemory> memory = DecoderTimer::reserve(weights, Bytes{1});
  REQUIRE(memory);
  DecoderTimer timer(weights, timed, Tokens{16}, *std::move(memory), Bytes{1 << 20});
  TimedBatch batch;
  batch.chunk = 64;
  (void)timer.time(batch);
  check(timed.most);
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
