// SPDX-License-Identifier: Apache-2.0
// BufferedStreams: the transfers of rules that give each request a one-layer buffer (OrbitFlow, 3.3.1).
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace sluice::detail {

/// The streams of a pipeline, with the weights as an extra stream, and the link work of each transfer.
class BufferedStreams {
 public:
  explicit BufferedStreams(const Pipeline& pipeline) : pipeline_(pipeline) {
    SLUICE_ASSERT(pipeline.layers() <= max_layers, "at most max_layers layers");
    const std::size_t layers = pipeline.compute_s.size();
    if (pipeline.link.per_layer_s <= 0) return;
    std::fill_n(share_s_.begin(), layers, 0.0);
    for (std::size_t s = 0; s < size(); ++s)
      if (is_weights(s) || pipeline.streams[s].blocks > 0)
        layers_of(s).for_each([&](int layer) { share_s_[static_cast<std::size_t>(layer)] += 1; });
    for (std::size_t l = 0; l < layers; ++l)
      if (share_s_[l] > 0) share_s_[l] = pipeline.link.per_layer_s / share_s_[l];
  }

  [[nodiscard]] std::size_t requests() const { return pipeline_.streams.size(); }
  /// The requests, plus one stream for the weights if any are streamed.
  [[nodiscard]] std::size_t size() const { return requests() + (pipeline_.weights.empty() ? 0 : 1); }
  [[nodiscard]] bool is_weights(std::size_t stream) const { return stream == requests(); }
  [[nodiscard]] bool uses(std::size_t stream, int layer) const { return layers_of(stream).contains(layer); }
  [[nodiscard]] int first(std::size_t stream) const { return layers_of(stream).lowest(); }
  /// The stream's next layer in this token, or -1.
  [[nodiscard]] int after(std::size_t stream, int layer) const {
    const LayerSet layers = layers_of(stream);
    return (layers - LayerSet::all(layer + 1)).lowest();
  }
  /// The transfer's work, in seconds of the whole link.
  [[nodiscard]] double work_s(std::size_t stream, int layer) const {
    const double blocks = is_weights(stream) ? pipeline_.weights.blocks : pipeline_.streams[stream].blocks;
    if (blocks <= 0) return 0;
    const double latency = pipeline_.link.per_layer_s > 0 ? share_s_[static_cast<std::size_t>(layer)] : 0;
    return blocks / pipeline_.link.blocks_per_s + latency;
  }

 private:
  [[nodiscard]] LayerSet layers_of(std::size_t stream) const {
    return is_weights(stream) ? pipeline_.weights.layers : pipeline_.streams[stream].layers;
  }

  const Pipeline& pipeline_;
  LayerArray share_s_; ///< each transfer's share of its layer's latency; not set without latency
};

// request_buffers: the blocks in flight if each request has a buffer of one layer (OrbitFlow, 3.3.1).

/// One buffer for every request that offloads anything.
inline double request_buffers(std::span<const LayerStream> streams) {
  double blocks = 0;
  for (const LayerStream& stream : streams)
    if (!stream.layers.empty()) blocks += stream.blocks;
  return blocks;
}

} // namespace sluice::detail
