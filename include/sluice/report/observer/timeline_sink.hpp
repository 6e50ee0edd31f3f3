// SPDX-License-Identifier: Apache-2.0
// TimelineSink: a sink for the evaluator's timeline that stores every layer's computation and every transfer.
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/report/observer/iteration_record.hpp"

#include <vector>

namespace sluice {

/// One layer's computation. The compute stream waited for `stall_s` immediately before `start_s`. All times in this
/// file are seconds from the iteration's start.
struct LayerSlice {
  int layer = 0;
  double start_s = 0;
  double end_s = 0;
  double stall_s = 0;
  StallCause cause = StallCause::none;
};

/// One layer's transfer for one stream, or for all (stream -1). Layers numbered L and above belong to the next token.
struct TransferSlice {
  int stream = -1;
  int layer = 0;
  double start_s = 0;
  double end_s = 0;
};

/// The target of a TimelineReplay.
struct TimelineSink {
  static constexpr bool enabled = true;
  std::vector<LayerSlice>& layers;
  std::vector<TransferSlice>& transfers;

  void layer(int layer, double start_s, double end_s, double stall_s, StallCause cause) {
    layers.push_back({layer, start_s, end_s, stall_s, cause});
  }
  void transfer(int stream, int layer, double start_s, double end_s) {
    transfers.push_back({stream, layer, start_s, end_s});
  }
};

} // namespace sluice
