// SPDX-License-Identifier: Apache-2.0
// The host's lane: the device's bits for contexts of several segments, and its end when something fails.
#include "sluice/core/random.hpp"
#include "sluice/model/decoder/eigen/host_lane.hpp"
#include "sluice/model/decoder/eigen/make_decoder.hpp"

#include "model/decoder/made_sequence.hpp"
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace host_lane_test {

using namespace sluice;
using namespace sluice::testing;

/// Attends nothing, and takes a while.
struct SlowAttention {
  SlowAttention(const ModelShape& /*shape*/, Tokens /*block_tokens*/, int /*threads*/) {}
  void run(ThreadPool& /*pool*/, std::span<const SequenceRows> /*sequences*/, int /*rows*/, int /*window*/,
           const float* /*query*/, float* /*attended*/, std::int64_t /*stride*/) {
    attends = begun = true;
    begun.notify_all();
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    attends = false;
  }
  static inline std::atomic<bool> begun{false}, attends{false};
};

/// Throws where the device attends, when asked to.
struct FailingAttention : PagedAttention {
  using PagedAttention::PagedAttention;
  void run(ThreadPool& pool, std::span<const SequenceRows> sequences, int rows, int window, const float* query,
           float* attended, std::int64_t stride) {
    if (std::this_thread::get_id() == failing) throw std::runtime_error("no memory");
    PagedAttention::run(pool, sequences, rows, window, query, attended, stride);
  }
  static inline std::thread::id failing;
};

TEST_CASE("a lane that is destroyed while it attends waits for its batch, and ends") {
  const DecoderConfig config = family_config("llama2");
  const std::vector<float> query(64, 1.0F);
  const SequenceRows row{0, 1, 0, nullptr, 0};
  for (const bool has_begun : {true, false, true}) {
    SlowAttention::begun = false;
    std::optional<HostLane<SlowAttention>> lane;
    lane.emplace(config.shape, Tokens{block_tokens});
    lane->begin({&row, 1}, 0, query.data(), 64);
    if (has_begun) SlowAttention::begun.wait(false);
    lane.reset();
    CHECK_FALSE(SlowAttention::attends.load());
  }
}

TEST_CASE("the lane's batch ends if the device's attention throws beside it") {
  const MadeModel model(family_config("llama2"), ElementType::f32);
  BasicDecoder<RmsNorm, Rotary, FailingAttention, GatedSilu> decoder{model.weights, Tokens{block_tokens}, 1};
  decoder.open_host_lane();
  const SequenceKv own(model.weights.config, 2), hosted(model.weights.config, 2);
  const std::array<std::int32_t, 2> tokens{3, 5}, positions{0, 0};
  std::array<SequenceRows, 2> rows{SequenceRows{0, 1, 0, own.layers[0].data(), 0},
                                   SequenceRows{1, 1, 0, hosted.layers[0].data(), 0}};
  rows[1].on_host = true;
  decoder.begin(tokens, positions);
  FailingAttention::failing = std::this_thread::get_id();
  CHECK_THROWS_AS(decoder.layer(0, model.layer(0), rows, 2, 0), std::runtime_error);
  FailingAttention::failing = {};
  decoder.begin(tokens, positions);
  decoder.layer(0, model.layer(0), rows, 2, 0); // one batch at a time: an assertion stops it if the first has not ended
  CHECK(decoder.host_lane_times().took > Seconds{0});
  decoder.layer(0, model.layer(0), rows, 0, 2); // only K and V
  CHECK(decoder.host_lane_times().took == Seconds{0});
  CHECK(decoder.host_lane_times().waited == Seconds{0});
}

TEST_CASE("the lane attends contexts of several segments with the device's bits") {
  const ModelShape shape = family_config("qwen2").shape;
  const auto width = static_cast<std::int64_t>(shape.heads) * shape.head_dim;
  Random random{5};
  const auto fill = [&](std::vector<float>& floats) {
    for (float& one : floats) one = static_cast<float>(random.uniform() * 2 - 1);
  };
  const std::array<int, 3> contexts{2049, 1, 5000};
  std::vector<std::vector<float>> blocks;
  std::vector<std::vector<std::byte*>> tables;
  for (const int context : contexts) {
    tables.emplace_back();
    for (int t = 0; t < context; t += block_tokens) {
      fill(blocks.emplace_back(static_cast<std::size_t>(kv_block_floats(shape, Tokens{block_tokens}))));
      tables.back().push_back(reinterpret_cast<std::byte*>(blocks.back().data()));
    }
  }
  std::vector<SequenceRows> rows;
  for (std::size_t i = 0; i < contexts.size(); ++i)
    rows.push_back({static_cast<int>(i), 1, contexts[i] - 1, tables[i].data(), contexts[i] - 1});
  std::vector<float> query(contexts.size() * static_cast<std::size_t>(width));
  fill(query);
  std::vector<float> expected(query.size()), attended(query.size());
  for (const auto& [threads, window] : {std::pair{1, 0}, {3, 0}, {3, 2500}}) {
    ThreadPool pool{threads};
    PagedAttention{shape, Tokens{block_tokens}, threads}.run(pool, rows, 3, window, query.data(), expected.data(),
                                                             width);
    HostLane<PagedAttention> lane{shape, Tokens{block_tokens}};
    lane.begin(rows, window, query.data(), width);
    lane.end(attended.data(), width);
    for (std::size_t i = 0; i < query.size(); ++i)
      REQUIRE(std::bit_cast<std::uint32_t>(attended[i]) == std::bit_cast<std::uint32_t>(expected[i]));
  }
}

} // namespace host_lane_test
