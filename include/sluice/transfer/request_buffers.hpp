// SPDX-License-Identifier: Apache-2.0
// BufferedStreams: what the rules share that give each request a buffer of one layer (OrbitFlow, 3.3.1).
#pragma once

#include "sluice/transfer/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace sluice::detail {

/// One buffer for every request that offloads at all; the further blocks of `loads`, which no stream explains, count
/// with their worst layer.
inline double request_buffers(std::span<const double> loads, std::span<const LayerStream> streams) {
  LayerArray unexplained;
  std::copy(loads.begin(), loads.end(), unexplained.begin());
  double blocks = 0;
  for (std::size_t s = 0;
       s < streams.size();) { // neighbours that move the same layers in one pass, as in `layer_loads`
    const LayerSet moved = streams[s].layers;
    double alike = 0;
    for (; s < streams.size() && streams[s].layers == moved; ++s) alike += streams[s].blocks;
    if (moved.empty()) continue;
    blocks += alike;
    moved.for_each([&](int layer) { unexplained[static_cast<std::size_t>(layer)] -= alike; });
  }
  double worst = 0;
  for (std::size_t l = 0; l < loads.size(); ++l) worst = std::max(worst, unexplained[l]);
  return blocks + (worst > 1e-9 * blocks ? worst : 0); // sums of fractional blocks differ in their last bits
}

/// The streams of a pipeline, `extra_blocks` as one more, with the link work of each transfer.
class BufferedStreams {
 public:
  explicit BufferedStreams(const Pipeline& pipeline) : pipeline_(pipeline) {
    SLUICE_ASSERT(pipeline.layers() <= max_layers, "at most max_layers layers");
    const std::size_t layers = pipeline.compute_s.size();
    for (std::size_t l = 0; l < pipeline.extra_blocks.size(); ++l)
      if (pipeline.extra_blocks[l] > 0) extra_.insert(static_cast<int>(l));
    size_ = pipeline.streams.size() + (extra_.empty() ? 0 : 1);
    if (pipeline.link.per_layer_s <= 0) return;
    std::fill_n(share_s_.begin(), layers, 0.0);
    for (std::size_t s = 0; s < size_; ++s)
      if (s == pipeline.streams.size() || pipeline.streams[s].blocks > 0)
        layers_of(s).for_each([&](int layer) { share_s_[static_cast<std::size_t>(layer)] += 1; });
    for (std::size_t l = 0; l < layers; ++l)
      if (share_s_[l] > 0) share_s_[l] = pipeline.link.per_layer_s / share_s_[l];
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool uses(std::size_t stream, int layer) const { return layers_of(stream).contains(layer); }
  [[nodiscard]] int first(std::size_t stream) const { return layers_of(stream).lowest(); }
  /// The stream's next layer of this token, or -1.
  [[nodiscard]] int after(std::size_t stream, int layer) const {
    const LayerSet layers = layers_of(stream);
    return (layers - LayerSet::all(layer + 1)).lowest();
  }
  /// Seconds of an undivided link.
  [[nodiscard]] double work_s(std::size_t stream, int layer) const {
    const double blocks = stream < pipeline_.streams.size() ? pipeline_.streams[stream].blocks
                                                            : pipeline_.extra_blocks[static_cast<std::size_t>(layer)];
    if (blocks <= 0) return 0;
    const double latency = pipeline_.link.per_layer_s > 0 ? share_s_[static_cast<std::size_t>(layer)] : 0;
    return blocks / pipeline_.link.blocks_per_s + latency;
  }

 private:
  [[nodiscard]] LayerSet layers_of(std::size_t stream) const {
    return stream < pipeline_.streams.size() ? pipeline_.streams[stream].layers : extra_;
  }

  const Pipeline& pipeline_;
  LayerSet extra_;
  std::size_t size_ = 0;
  LayerArray share_s_; ///< each transfer's share of its layer's latency; not set without latency
};

} // namespace sluice::detail
