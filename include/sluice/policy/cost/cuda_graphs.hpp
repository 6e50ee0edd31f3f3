// SPDX-License-Identifier: Apache-2.0
// CudaGraphs: the batch sizes that a server has captured as CUDA graphs, and what a replayed graph saves.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/measured_grid.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// A server that replays CUDA graphs computes a batch padded to the next captured size (vllm/config/compilation.py,
/// `cudagraph_capture_sizes`), and its kernels follow each other without the host. A batch of decodes alone is one
/// graph; with a prompt chunk each piece between two attention kernels is one (`cudagraph_mode` FULL_AND_PIECEWISE, the
/// default). A batch beyond the largest size runs without graphs.
///
/// A profile of single kernels, each launched by the host, counts part of each launch in the kernel's time. A graph
/// saves it: either as measured for whole iterations with and without graphs, or `per_launch` for each kernel.
class CudaGraphs {
 public:
  struct Saving {
    Seconds per_launch{0};                    ///< for each kernel of a graph
    std::optional<MeasuredLine> full, pieces; ///< of a whole iteration by tokens; replace `per_launch`
  };

  CudaGraphs(std::vector<std::int64_t> sizes, Saving saving) : sizes_(std::move(sizes)), saving_(std::move(saving)) {
    SLUICE_ASSERT(!sizes_.empty() && sizes_.front() >= 1 && std::is_sorted(sizes_.begin(), sizes_.end()),
                  "ascending sizes from 1");
  }

  /// vLLM's sizes without a setting: 1, 2, 4, steps of 8 below 256, steps of 16 to 512, and at most twice
  /// `max_num_seqs` (`VllmConfig._set_cudagraph_sizes`).
  static std::vector<std::int64_t> default_sizes(std::int64_t max_num_seqs) {
    const std::int64_t last = std::min<std::int64_t>(2 * max_num_seqs, 512);
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : {1, 2, 4})
      if (size <= last) sizes.push_back(size);
    for (std::int64_t size = 8; size <= std::min<std::int64_t>(last, 255); size += 8) sizes.push_back(size);
    for (std::int64_t size = 256; size <= last; size += 16) sizes.push_back(size);
    return sizes;
  }

  /// The size of the graph for so many tokens; the tokens themselves beyond the largest graph.
  [[nodiscard]] std::int64_t padded(std::int64_t tokens) const {
    const auto size = std::lower_bound(sizes_.begin(), sizes_.end(), tokens);
    return size == sizes_.end() ? tokens : *size;
  }
  [[nodiscard]] bool replays(std::int64_t tokens) const { return tokens <= sizes_.back(); }

  /// Seconds that an iteration of so many tokens saves. `launches` are the kernels of its graphs, without and with
  /// attention.
  [[nodiscard]] double saved(std::int64_t tokens, bool decodes_alone, int pieces, int whole) const {
    if (!replays(tokens)) return 0;
    const std::optional<MeasuredLine>& measured = decodes_alone ? saving_.full : saving_.pieces;
    if (measured) return measured->at(static_cast<double>(padded(tokens)));
    return saving_.per_launch.count() * (decodes_alone ? whole : pieces);
  }

  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return sizes_; }

 private:
  std::vector<std::int64_t> sizes_;
  Saving saving_;
};

} // namespace sluice
