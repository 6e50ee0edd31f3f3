// SPDX-License-Identifier: Apache-2.0
// What a bundle measures beside its kernels: captured graphs, decodes of unequal lengths, and experts.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/measured_grid.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {

// CudaGraphs: the batch sizes that a server has captured as CUDA graphs, and what a replayed graph saves.

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

// SkewTable: measured decodes of two lengths in one batch.

/// Where the time of unequal decodes lies between that of as many at their mean length (0) and that of as many at the
/// longest (1), as measured for batches of two lengths (LLMServingSim 2.0's `skew.csv`, column `alpha`).
///
/// A batch is looked up by its chunk, its decodes and its skew, (longest - mean) / longest: the nearest measured one on
/// each axis, in this order. The measured batches have their long sequences first, and two lengths; `DecodeTail`
/// computes what the table measures, for any order and lengths.
class SkewTable {
 public:
  struct Point {
    std::int64_t chunk = 0; ///< fresh tokens beside the decodes
    std::int64_t decodes = 0;
    double skew = 0;  ///< in [0, 1)
    double share = 0; ///< of the way from the mean's time to the longest one's
  };

  explicit SkewTable(std::vector<Point> points) : points_(std::move(points)) {
    SLUICE_ASSERT(!points_.empty(), "at least one point");
    std::sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) {
      return std::tie(a.chunk, a.decodes, a.skew) < std::tie(b.chunk, b.decodes, b.skew);
    });
  }

  /// `decoding(context)`: seconds of the work's decodes at that many tokens before the fresh one.
  template <class Decoding>
  [[nodiscard]] double seconds(const Work& work, Decoding decoding) const {
    if (work.contexts.size() < 2) return 0;
    double sum = 0, most = 0;
    for (const Tokens context : work.contexts) {
      sum += static_cast<double>(context.count() - 1);
      most = std::max(most, static_cast<double>(context.count() - 1));
    }
    const double mean = sum / static_cast<double>(work.contexts.size());
    if (most <= mean) return 0;
    std::int64_t chunk = 0;
    for (const ChunkWork& part : work.chunks)
      if (part.fresh > Tokens{1}) chunk += part.fresh.count();
    const double share = at(chunk, work.decodes, (most - mean) / most);
    return std::max(0.0, share * (decoding(most) - decoding(mean)));
  }
  [[nodiscard]] double at(std::int64_t chunk, std::int64_t decodes, double skew) const {
    auto first = points_.begin(), last = points_.end();
    narrow(first, last, static_cast<double>(chunk), [](const Point& p) { return static_cast<double>(p.chunk); });
    narrow(first, last, static_cast<double>(decodes), [](const Point& p) { return static_cast<double>(p.decodes); });
    narrow(first, last, skew, [](const Point& p) { return p.skew; });
    double sum = 0;
    for (auto point = first; point != last; ++point) sum += point->share;
    return sum / static_cast<double>(last - first);
  }

 private:
  using Iterator = std::vector<Point>::const_iterator;
  /// Keeps the points whose coordinate is nearest; of two equally near ones the smaller.
  template <class Coordinate>
  static void narrow(Iterator& first, Iterator& last, double at, Coordinate coordinate) {
    auto above = std::lower_bound(first, last, at, [&](const Point& p, double value) { return coordinate(p) < value; });
    double nearest = above == last ? coordinate(*(above - 1)) : coordinate(*above);
    if (above != first && above != last && at - coordinate(*(above - 1)) <= coordinate(*above) - at)
      nearest = coordinate(*(above - 1));
    const auto less = [&](const Point& p, double value) { return coordinate(p) < value; };
    const auto more = [&](double value, const Point& p) { return value < coordinate(p); };
    first = std::lower_bound(first, last, nearest, less);
    last = std::upper_bound(first, last, nearest, more);
  }

  std::vector<Point> points_; ///< ascending
};

// DecodeTail: how much longer a decoding kernel takes because its sequences have different lengths.

/// The thread blocks of FlashAttention 2's decoding kernel on a device (Dao, 2023; flash_fwd_launch_template.h,
/// `run_flash_splitkv_fwd`). Each sequence and KV head has one block. The blocks are dealt out head after head, within
/// a head in the order of the batch's rows, to the multiprocessors as they become free. All running blocks share the
/// memory's rate, and no block reads faster than one block can. So the longest sequence of the last heads outlives the
/// others, and then reads at one block's rate.
///
/// A batch with fewer than 0.8 blocks per place of two on each multiprocessor is split along the KV
/// (`num_splits_heuristic`), and nothing outlives anything. Beside a prompt chunk the kernel has a block for each query
/// head instead, and is never split (`set_params_splitkv` is called for decodes alone).
///
/// `SkewTable` looks up measured batches of two lengths instead. It knows one order of the rows, and no more lengths.
class DecodeTail {
 public:
  struct Device {
    int multiprocessors = 0;
    int kv_heads = 0;    ///< of this device's share of the model
    int query_heads = 0; ///< the same
  };
  /// In tokens of one KV head per second.
  struct Rates {
    double block = 0;  ///< of one thread block
    double memory = 0; ///< of all together
  };

  DecodeTail(const Device& device, const Rates& rates) : device_(device), rates_(rates) {
    SLUICE_ASSERT(device.multiprocessors > 0 && device.kv_heads > 0 && device.query_heads >= device.kv_heads,
                  "multiprocessors, and heads in groups");
    SLUICE_ASSERT(rates.block > 0 && rates.memory > 0, "positive rates");
  }

  /// Seconds of one layer's kernel beyond the kernel for as many sequences of equal length and the same sum.
  /// `beside_chunk`: the launch has a prompt chunk too. `rows`: the sequences of the launch, more than the contexts if
  /// a graph pads it.
  [[nodiscard]] double seconds(std::span<const Tokens> contexts, bool beside_chunk, std::int64_t rows) const {
    if (contexts.size() < 2 || (!beside_chunk && split(rows))) return 0;
    double sum = 0, least = static_cast<double>(contexts.front().count()), most = least;
    for (const Tokens context : contexts) {
      const auto tokens = static_cast<double>(context.count());
      sum += tokens;
      least = std::min(least, tokens);
      most = std::max(most, tokens);
    }
    if (most == least) return 0;
    const int heads = beside_chunk ? device_.query_heads : device_.kv_heads;
    const double mean = sum / static_cast<double>(contexts.size());
    const double equal = dealt([mean](std::size_t) { return mean; }, contexts.size(), heads);
    const double unequal =
        dealt([&](std::size_t i) { return static_cast<double>(contexts[i].count()); }, contexts.size(), heads);
    return std::max(0.0, unequal - equal);
  }
  /// Whether the kernel splits a batch of so many sequences along the KV.
  [[nodiscard]] bool split(std::int64_t rows) const {
    return static_cast<double>(rows) * device_.kv_heads < 0.8 * 2 * device_.multiprocessors;
  }
  /// Seconds until the last of the blocks ends: `length(i)` tokens for sequence i and each of `heads`.
  template <class Length>
  [[nodiscard]] double dealt(Length length, std::size_t sequences, int heads) const {
    // All running blocks progress alike, so a block that starts when `progress` tokens have passed ends at `progress`
    // plus its length, whatever the rates are meanwhile.
    const auto places = static_cast<std::size_t>(device_.multiprocessors);
    const std::size_t blocks = sequences * static_cast<std::size_t>(heads);
    // Query heads of one group read the same K and V, once from memory.
    const double memory = rates_.memory * heads / device_.kv_heads;
    double progress = 0, seconds = 0;
    std::size_t next = 0, sequence = 0;
    // Of the running blocks, in tokens of progress: a heap. A member would save the allocation, but a planner's thread
    // may share this model.
    std::vector<double> ends;
    ends.reserve(std::min(places, blocks));
    const auto start = [&] {
      ends.push_back(progress + length(sequence));
      std::push_heap(ends.begin(), ends.end(), std::greater<>{});
      if (++sequence == sequences) sequence = 0;
      ++next;
    };
    while (next < blocks && ends.size() < places) start();
    while (!ends.empty()) {
      const double end = ends.front();
      seconds += (end - progress) / std::min(rates_.block, memory / static_cast<double>(ends.size()));
      progress = end;
      std::pop_heap(ends.begin(), ends.end(), std::greater<>{});
      ends.pop_back();
      if (next < blocks) start();
    }
    return seconds;
  }

  [[nodiscard]] const Rates& rates() const { return rates_; }

 private:
  Device device_;
  Rates rates_;
};

// ExpertTable: measured times of a mixture of experts, by tokens and by the experts that they touch.

/// The experts of one device, and how many of all each token chooses.
struct ExpertShare {
  int all = 0;    ///< of the layer
  int here = 0;   ///< on this device: all, or a share of them (expert parallelism)
  int chosen = 0; ///< by each token, of all

  /// Experts on this device that `tokens` tokens touch on average if each chooses uniformly: a token leaves an expert
  /// out with probability 1 - chosen/all.
  [[nodiscard]] double touched(double tokens) const {
    if (tokens <= 0) return 0;
    return here * (1.0 - std::pow(1.0 - static_cast<double>(chosen) / all, tokens));
  }
};

/// Seconds of one layer's experts (LLMServingSim 2.0's `moe.csv`): tokens that each choose `chosen` experts, which
/// touch some number of experts together. Linear between measured points; the time depends mostly on the number of
/// touched experts, whose weights are read.
///
/// A router that prefers some experts touches fewer of them, so uniform routing is the slowest for few tokens. No
/// recording says how its server's router chose.
class ExpertTable {
 public:
  struct Row {
    std::int64_t tokens = 0;
    MeasuredLine seconds; ///< by touched experts
  };

  /// `rows` ascend; there is at least one.
  ExpertTable(ExpertShare experts, std::vector<Row> rows) : experts_(experts), rows_(std::move(rows)) {
    SLUICE_ASSERT(!rows_.empty() && experts.chosen >= 1 && experts.here >= 1 && experts.here <= experts.all &&
                      experts.chosen <= experts.all,
                  "measured rows, and experts of which tokens choose some");
  }

  /// `tokens` of all devices that share the experts. This device computes its share of their choices, as many as
  /// tokens * here / all tokens would make.
  [[nodiscard]] double seconds(double tokens) const {
    if (tokens <= 0) return 0;
    return at(tokens * experts_.here / experts_.all, experts_.touched(tokens));
  }
  [[nodiscard]] double at(double tokens, double touched) const {
    const detail::Bracket between =
        detail::bracket(rows_, tokens, [](const Row& row) { return static_cast<double>(row.tokens); });
    return detail::blend(between, [&](std::size_t i) { return rows_[i].seconds.at(touched); });
  }
  [[nodiscard]] const ExpertShare& experts() const { return experts_; }

 private:
  ExpertShare experts_;
  std::vector<Row> rows_;
};

} // namespace sluice
