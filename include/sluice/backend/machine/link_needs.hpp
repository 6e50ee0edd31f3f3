// SPDX-License-Identifier: Apache-2.0
// KvNeed, WeightNeed: what an iteration wants of the link. LinkSpan: what came over it, and when.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// KV or hidden states of one layer of one sequence that are to be on the device before that layer computes.
struct KvNeed {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  int layer = 0;           ///< as of a CellRef: L more where it is hidden states
  int position = 0;        ///< the layer; L more where it is the next token's
  int number = 0;          ///< in the order of the batch
  int previous = -1;       ///< position of its sequence's offloaded layer before this one; -1: none
  bool first = false;      ///< before any other, and before the first layer starts
  bool passing = true;     ///< for one iteration; false: it stays
  bool idle = false;       ///< no layer computes with it in this iteration
  std::int64_t copies = 0; ///< of KV that stays: so many of its oldest blocks keep their copy on the host
  std::vector<std::int32_t> blocks;
  std::size_t next = 0; ///< of `blocks`, the first that has not been begun
};

/// A layer's weights that are to be there before it computes.
struct WeightNeed {
  int position = 0;
  bool returns = false; ///< for good; else through a slot
};

/// One run of copies to the device that belong together; times are the monotonic clock's.
struct LinkSpan {
  using Time = std::chrono::steady_clock::time_point;
  std::uint32_t slot = 0;
  bool weights = false;
  int position = 0; ///< as of a need
  Time start, end;
};

} // namespace sluice
