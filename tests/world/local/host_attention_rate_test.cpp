// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/world/local/rates.hpp"

#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

using namespace sluice;

namespace {

/// Has a host that takes a fixed time and attends KV at a rate; sometimes the machine is busy. Computes nothing.
class HostedDecoder final : public Decoder {
 public:
  HostedDecoder(DecoderConfig config, HostAttentionRate host, Seconds row)
      : config_(std::move(config)), host_(host), row_(row) {}

  [[nodiscard]] Bytes workspace(std::int64_t, std::int64_t) const override { return Bytes{0}; }
  void begin(std::span<const std::int32_t>, std::span<const std::int32_t>) override {}
  void layer(int, const LayerWeights&, std::span<const SequenceRows> sequences, int rows, int) override {
    CHECK(open);
    CHECK(sequences.size() == static_cast<std::size_t>(rows));
    const std::int64_t token = std::int64_t{2} * config_.shape.kv_heads * config_.shape.head_dim * 4;
    std::int64_t attended = 0;
    for (const SequenceRows& sequence : sequences) {
      CHECK(sequence.on_host);
      attended += (sequence.position + 1) * token;
    }
    took_ = host_.launch + row_ * static_cast<double>(rows - 1) + Bytes{attended} / host_.rate;
    if (++layers % 3 == 0) took_ = took_ * 5;
  }
  [[nodiscard]] bool has_host_lane() const override { return true; }
  void open_host_lane() override { open = true; }
  [[nodiscard]] HostLaneTimes host_lane_times() const override { return {took_, Seconds{0}}; }
  [[nodiscard]] std::span<float> hidden_state(int) override { return {}; }
  void logits(std::span<const int>, std::span<float>) override {}
  [[nodiscard]] const DecoderConfig& config() const override { return config_; }

  bool open = false;
  int layers = 0;

 private:
  DecoderConfig config_;
  HostAttentionRate host_;
  Seconds row_; ///< of each row after the first, whatever its context
  Seconds took_{0};
};

} // namespace

TEST_CASE("the host's attention is measured as a rate and a fixed time, whatever disturbs some of its layers") {
  const ModelWeights weights = tiny_llama();
  for (const double row_s : {0.0, 1e-6}) {
    HostedDecoder decoder{weights.config, {BytesPerSecond{3e9}, Seconds{40e-6}}, Seconds{row_s}};
    const HostAttentionRate measured = measure_host_attention(weights, decoder, Limits{});
    // One row of one token attends, too; other rows are in the rate, and make it lower.
    CHECK(measured.rate.count() <= 3e9 * 1.01);
    CHECK(measured.rate.count() >= (row_s > 0 ? 1e9 : 2.97e9));
    CHECK(measured.launch.count() == doctest::Approx(40e-6).epsilon(0.01));
  }
}

TEST_CASE("a decoder without a lane on the host has no such rate") {
  const ModelWeights weights = tiny_llama();
  testing::CountingDecoder decoder{weights.config};
  CHECK(measure_host_attention(weights, decoder, Limits{}).rate == BytesPerSecond{0});
  CHECK(decoder.layers == 0);
}

TEST_CASE("the device of measured rates states the host's attention if it was measured, beside one batch") {
  LocalRates rates;
  rates.reading = BytesPerSecond{10e9};
  rates.computing = FlopsPerSecond{50e9};
  rates.copying = BytesPerSecond{7e9};
  CHECK(measured_device(rates, {}).host_attention_rate == BytesPerSecond{0});
  rates.attending = BytesPerSecond{2e9};
  rates.attending_launch = Seconds{1e-5};
  const Device device = measured_device(rates, {});
  CHECK(device.host_attention_rate == BytesPerSecond{2e9});
  CHECK(device.host_attention_launch == Seconds{1e-5});
  CHECK(device.host_attention_batches == 1);
}
