// SPDX-License-Identifier: Apache-2.0
// DecodeTail: how much longer a decoding kernel takes because its sequences have different lengths.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

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

} // namespace sluice
