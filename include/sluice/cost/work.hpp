// SPDX-License-Identifier: Apache-2.0
// Work: what one iteration computes, and StepTime: how long that takes.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/device/lanes.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// The part of an iteration that is not one token of one sequence: `fresh` new tokens after `cached` whose KV exists.
/// A prompt chunk, a whole prompt, or a request rebuilt after it was dropped.
struct ChunkWork {
  Tokens fresh{0};  ///< computed now
  Tokens cached{0}; ///< before them: read, not computed
};

/// One request's oldest `tokens`, whose K and V are rebuilt in some layers in this iteration (`Holding::nowhere`;
/// eLLM).
struct RebuiltWork {
  Tokens tokens{0}; ///< its oldest, rebuilt
  LayerSet layers;  ///< where K and V are rebuilt
  LayerSet hidden;  ///< of these, where they are rebuilt from hidden states that are fetched: no layer before is needed
};

/// What one layer rebuilds, all requests together.
struct LayerRebuild {
  Tokens projected{0}; ///< pass its K and V projections
  Tokens passed{0};    ///< pass the rest of it (queries, attention, MLP), for the sake of a later layer's hidden states
  double pairs = 0;    ///< (query, key) of the passed: the oldest tokens attend to themselves alone

  /// The layer rebuilds nothing.
  [[nodiscard]] bool nothing() const { return projected == Tokens{0} && passed == Tokens{0}; }
  friend bool operator==(const LayerRebuild&, const LayerRebuild&) = default;
};

/// What one iteration computes: the sums that every cost model needs, kept by the engine as it goes, so that a step
/// of pure decoding costs a model O(1) however large the batch.
struct Work {
  std::int64_t decodes = 0;          ///< sequences with one fresh token
  Tokens decode_context{0};          ///< sum over the decodes of the tokens whose KV they read, the fresh one included
  std::span<const ChunkWork> chunks; ///< the others
  std::int64_t samples = 0;          ///< sequences that yield a token: rows of the output head
  std::span<const RebuiltWork> rebuilds; ///< requests that also rebuild K and V; each layer does its own share
  /// What a layer rebuilds: `step(work).layer` is the time of such a layer. Nothing, but where `layer_times`
  /// (cost/rebuild.hpp) asks for the layers one by one.
  LayerRebuild rebuilt;

  /// Fresh tokens, of decodes and chunks.
  [[nodiscard]] Tokens tokens() const {
    Tokens sum{decodes};
    for (const ChunkWork& chunk : chunks) sum += chunk.fresh;
    return sum;
  }
};

/// How long an iteration computes when no transfer holds it up: before the first layer (embedding, scheduling), in
/// each layer, and after the last (norm, output head, sampling).
struct StepTime {
  Seconds before{0};
  Seconds layer{0};
  Seconds after{0};
  /// Of this time, the share in which the computation itself uses the link to the host, both ways, and divides it with
  /// what is moved meanwhile: a tensor-parallel group's all-reduces where they cross PCIe. In [0, 1), spread evenly.
  double on_link = 0;

  [[nodiscard]] Seconds total(int layers) const { return before + layer * static_cast<double>(layers) + after; }
};

/// The link between host and device as the planner predicts it: bytes a second, and what each layer's transfer costs
/// whatever its size (launches, segments).
struct LinkCost {
  BytesPerSecond rate{0}; ///< to the device, with nothing going the other way
  Seconds per_layer{0};
  /// With a lane each way, what goes to the host has its own, at `out_rate`, and while both are active each loses
  /// `mix_loss` of its rate. On a shared lane evictions move in the background, at `rate`; what is written out as it is
  /// computed divides the lane with what comes in, less `mix_loss`. `out_rate` is then not read.
  Lanes lanes = Lanes::shared;
  BytesPerSecond out_rate{0};
  double mix_loss = 0;
  /// Time that each run of contiguous memory costs on top of its bytes, where it is a copy of its own; 0 where a launch
  /// moves many. A token block is one such run for each `Geometry::segment_layers` layers. Streamed weights are long
  /// runs: nothing is counted for them.
  Seconds per_segment{0};
};

} // namespace sluice
