// SPDX-License-Identifier: Apache-2.0
// BatchTimer: what one iteration's passes take on whatever computes them.
#pragma once

#include "sluice/core/units.hpp"

namespace sluice {

/// The rows of an iteration whose time is measured: one chunk of a prompt, and decodes beside it.
struct TimedBatch {
  int chunk = 0;   ///< rows
  int past = 0;    ///< tokens of its sequence before it
  int decodes = 0; ///< rows, each of a sequence of its own
  int context = 0; ///< tokens of each before its row
  /// Without: rows pass projections, norms and MLP, and nothing attends to more than itself.
  bool attends = true;

  [[nodiscard]] int rows() const { return chunk + decodes; }
  [[nodiscard]] int sequences() const { return decodes + (chunk > 0 ? 1 : 0); }
  friend bool operator==(const TimedBatch&, const TimedBatch&) = default;
};

/// What a batch took.
struct BatchTimes {
  Seconds begin{0}; ///< embedding
  Seconds layer{0}; ///< mean of layers behind others: iterations are sums of layers, slow ones included
  Seconds head{0};  ///< last norm and logits of every sequence's last row
  Seconds sampler{0};
};

/// An abstract class: a program that chooses its device at run time measures by it, in milliseconds a call.
class BatchTimer {
 public:
  BatchTimer() = default;
  BatchTimer(const BatchTimer&) = delete;
  BatchTimer& operator=(const BatchTimer&) = delete;
  virtual ~BatchTimer() = default;

  /// Whether there is memory, and positions, for the batch.
  [[nodiscard]] virtual bool fits(const TimedBatch& batch) const = 0;
  /// Times one pass of a batch that fits and has a row. A single measurement: the caller repeats it.
  [[nodiscard]] virtual BatchTimes time(const TimedBatch& batch) = 0;
};

} // namespace sluice
