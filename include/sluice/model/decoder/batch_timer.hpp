// SPDX-License-Identifier: Apache-2.0
// BatchTimer: how long one iteration's passes take on a given device.
#pragma once

#include "sluice/core/units.hpp"

#include <algorithm>

namespace sluice {

/// The rows of a timed iteration: one chunk of a prompt, and decodes.
struct TimedBatch {
  int chunk = 0;   ///< rows
  int past = 0;    ///< tokens of its sequence before the chunk
  int decodes = 0; ///< rows, each a sequence of its own
  int context = 0; ///< tokens before each decode's row
  /// If false, rows pass projections, norms and MLP, and each row attends only to itself.
  bool attends = true;
  int longest = 0; ///< tokens before the first decode's row instead of `context`, if above 0
  /// Rows behind those, the first tokens of one more sequence, of which a layer computes only K and V. A device with
  /// memory of its own reads their hidden states from it, which is timed too.
  int stored = 0;

  /// Tokens before the row of decode `i`.
  [[nodiscard]] int context_of(int i) const { return i == 0 && longest > 0 ? longest : context; }
  /// The most tokens of a sequence, its fresh ones included.
  [[nodiscard]] int longest_sequence() const {
    const int decode = decodes > 0 ? std::max(context, longest) + 1 : 0;
    return std::max({past + chunk, decode, stored});
  }
  [[nodiscard]] int rows() const { return chunk + decodes; }
  [[nodiscard]] int all_rows() const { return rows() + stored; }
  [[nodiscard]] int sequences() const { return decodes + (chunk > 0 ? 1 : 0); }
  friend bool operator==(const TimedBatch&, const TimedBatch&) = default;
};

/// How long a batch took.
struct BatchTimes {
  Seconds begin{0}; ///< embedding
  Seconds layer{0}; ///< mean of the layers that follow another layer: an iteration is their sum, slow ones included
  Seconds head{0};  ///< last norm and logits of every sequence's last row
  Seconds sampler{0};
};

/// An abstract class: programs choose their device at run time, and a measurement takes milliseconds per call.
class BatchTimer {
 public:
  BatchTimer() = default;
  BatchTimer(const BatchTimer&) = delete;
  BatchTimer& operator=(const BatchTimer&) = delete;
  virtual ~BatchTimer() = default;

  /// Whether there is enough memory, and enough positions, for the batch.
  [[nodiscard]] virtual bool fits(const TimedBatch& batch) const = 0;
  /// Times one pass of a batch that fits and has at least one row. A single measurement; the caller repeats it.
  [[nodiscard]] virtual BatchTimes time(const TimedBatch& batch) = 0;
};

} // namespace sluice
