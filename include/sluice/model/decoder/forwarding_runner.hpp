// SPDX-License-Identifier: Apache-2.0
// ForwardingRunner: a ModelRunner that forwards every call, as a base for runners that change some of them.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/model_runner.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// A derived class overrides only what it does differently. Its constructor chooses the runner behind it, which may be
/// one of its members.
class ForwardingRunner : public ModelRunner {
 public:
  [[nodiscard]] Bytes workspace(std::int64_t rows, std::int64_t samples) const override {
    return inner_->workspace(rows, samples);
  }
  void place(const RunnerMemory& memory) override { inner_->place(memory); }
  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) override {
    inner_->begin(tokens, positions);
  }
  void announce(std::span<const GrownTable> tables) override { inner_->announce(tables); }
  void expect(std::span<const SampleRow> rows) override { inner_->expect(rows); }
  void restore(std::span<const HiddenRows> rows) override { inner_->restore(rows); }
  void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                    int stored_rows, std::span<const HiddenRows> kept) override {
    inner_->launch_layer(layer, weights, sequences, rows, stored_rows, kept);
  }
  [[nodiscard]] bool has_host_lane() const override { return inner_->has_host_lane(); }
  void open_host_lane() override { inner_->open_host_lane(); }
  [[nodiscard]] Seconds waited_for_host() const override { return inner_->waited_for_host(); }
  void give() override { inner_->give(); }
  void launch_samples(std::span<const SampleRow> rows) override { inner_->launch_samples(rows); }
  [[nodiscard]] std::span<const std::int32_t> tokens() override { return inner_->tokens(); }
  [[nodiscard]] std::span<const float> logits(std::size_t sample) override { return inner_->logits(sample); }
  [[nodiscard]] Status status() override { return inner_->status(); }
  [[nodiscard]] std::optional<GraphCounts> graphs() const override { return inner_->graphs(); }
  [[nodiscard]] const DecoderConfig& config() const override { return inner_->config(); }

 protected:
  void forward_to(ModelRunner& inner) { inner_ = &inner; }

 private:
  ModelRunner* inner_ = nullptr;
};

} // namespace sluice
