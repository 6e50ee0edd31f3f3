// SPDX-License-Identifier: Apache-2.0
// measure_host_attention: how fast a decoder's host lane attends KV (NEO).
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/world/local/rates.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

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
  const auto context = static_cast<int>(std::min<std::int64_t>(2048, weights.config.max_positions));
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
      decoder.layer(held.at(0), sequences, static_cast<int>(count), 0);
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
