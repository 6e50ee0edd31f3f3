// SPDX-License-Identifier: Apache-2.0
// Work: what one iteration computes; StepTime: how long that takes.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/model/kv_groups.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// A part of an iteration other than one token of one sequence: `fresh` new tokens after `cached` tokens whose KV
/// exists. A prompt chunk, a whole prompt, or a request recomputed after it was dropped.
struct ChunkWork {
  Tokens fresh{0};  ///< computed now
  Tokens cached{0}; ///< tokens before them: read, not computed
};

/// One request's oldest `tokens`, whose K and V this iteration rebuilds in some layers (`Holding::nowhere`; eLLM).
struct RebuiltWork {
  Tokens tokens{0}; ///< its oldest tokens, which are rebuilt
  LayerSet layers;  ///< layers in which K and V are rebuilt
  LayerSet hidden;  ///< the layers among these that rebuild from kept hidden states: no earlier layer is needed
  bool states_on_device = false; ///< these states are read from device memory, and were not fetched
};

/// What one layer rebuilds for all requests together.
struct LayerRebuild {
  Tokens projected{0}; ///< tokens that pass its K and V projections
  Tokens passed{0}; ///< tokens that pass its other parts (queries, attention, MLP), for a later layer's hidden states
  double pairs = 0; ///< (query, key) pairs of the passed tokens: the oldest tokens attend only to themselves
  Tokens read{0};   ///< of the projected: tokens whose hidden states device memory keeps, so that they are read from it

  /// Whether the layer rebuilds nothing.
  [[nodiscard]] bool nothing() const { return projected == Tokens{0} && passed == Tokens{0}; }
  friend bool operator==(const LayerRebuild&, const LayerRebuild&) = default;
};

/// Decodes whose attention the host's processor computes over KV in its own memory (`Holding::attended_on_host`; NEO).
struct HostedWork {
  std::span<const Tokens> contexts; ///< of each decode: the tokens whose KV it reads, including the fresh one
  Bytes token_bytes{0};             ///< K and V of one token in one layer
  Bytes exchanged_bytes{0}; ///< of one decode in one layer: queries, K and V to the host, the attention's output back

  /// Whether the host attends no decode.
  [[nodiscard]] bool nothing() const { return contexts.empty(); }
  /// The number of decodes.
  [[nodiscard]] std::int64_t decodes() const { return static_cast<std::int64_t>(contexts.size()); }
};

/// What one iteration computes: the sums that every cost model needs. The engine maintains them, so that a step of pure
/// decoding costs a model O(1) for any batch.
struct Work {
  std::int64_t decodes = 0;          ///< sequences with one fresh token
  Tokens decode_context{0};          ///< sum over the decodes of the tokens whose KV they read, including the fresh one
  std::span<const ChunkWork> chunks; ///< all other parts
  std::int64_t samples = 0;          ///< sequences that yield a token: rows of the output head
  /// Tokens whose KV each decode reads, including the fresh one, in the order of the rows of the server's input batch.
  /// Only a world whose cost model has `reads_contexts` fills it; otherwise it is empty, and costs nothing.
  std::span<const Tokens> contexts;
  std::span<const RebuiltWork> rebuilds; ///< requests that also rebuild K and V; each layer does its own share
  /// What a layer rebuilds: `step(work).layer` is the time of such a layer. Empty, except when `layer_times`
  /// (policy/cost/rebuild.hpp) asks for the layers one by one.
  LayerRebuild rebuilt;
  /// Of a model whose layers read limited contexts (`Geometry::groups`): the sum over the decodes of the shorter of
  /// context and limit, for each limit. 0 where nobody has added it; a model then counts every decode at the mean.
  std::array<Tokens, ReadLimits::most> within{};
  /// Decodes that are not among `decodes`. `step_time` (policy/cost/sub_batches.hpp) adds their time; a cost model
  /// never sees them.
  HostedWork hosted;

  /// No work. Faster than `= Work{}`, for which g++ calls `rep stos`: that took a seventh of a short step.
  void clear() {
    decodes = samples = 0;
    decode_context = Tokens{0};
    chunks = {};
    contexts = {};
    rebuilds = {};
    rebuilt = {};
    within = {};
    hosted = {};
  }
  /// Adds one decode, which reads `context` tokens with the fresh one.
  void add_decode(Tokens context, const ReadLimits& reads) {
    ++decodes;
    decode_context += context;
    add_within(context, reads);
  }
  /// Adds its context to `within`.
  void add_within(Tokens context, const ReadLimits& reads) {
    for (std::size_t i = 0; i < reads.limits().size(); ++i) within[i] += std::min(context, reads.limits()[i]);
  }
  /// Fresh tokens, of decodes and chunks, without `hosted`.
  [[nodiscard]] Tokens tokens() const {
    Tokens sum{decodes};
    for (const ChunkWork& chunk : chunks) sum += chunk.fresh;
    return sum;
  }
};

/// How long an iteration computes if no transfer delays it: before the first layer (embedding, scheduling), in each
/// layer, and after the last (norm, output head, sampling).
struct StepTime {
  Seconds before{0};
  Seconds layer{0};
  Seconds after{0};
  /// The share of this time in which the computation uses the link to the host, in both directions, and divides it with
  /// transfers: a tensor-parallel group's all-reduces if they cross PCIe. In [0, 1), spread evenly.
  double on_link = 0;
  /// In each layer, the device waits for the host's attention. Not part of `layer`.
  Seconds waits{0};

  [[nodiscard]] Seconds total(int layers) const { return before + layer * static_cast<double>(layers) + after; }
};

/// The link between host and device as the planner predicts it: bytes per second, and the fixed cost of each layer's
/// transfer (launches, segments).
struct LinkCost {
  BytesPerSecond rate{0}; ///< to the device, without traffic in the other direction
  Seconds per_layer{0};
  /// With a lane each way, traffic to the host has its own lane at `out_rate`; while both are active each loses
  /// `mix_loss` of its rate. On a shared lane evictions move in the background at `rate`, and data written out as it is
  /// computed divides the lane with inbound traffic, less `mix_loss`; `out_rate` is then unused.
  Lanes lanes = Lanes::shared;
  BytesPerSecond out_rate{0};
  double mix_loss = 0;
  /// Time that each contiguous run of memory costs on top of its bytes if it is a copy of its own; 0 if one launch
  /// moves many. A token block has one such run per `Geometry::segment_layers` layers. Streamed weights are long runs,
  /// for which nothing is counted.
  Seconds per_segment{0};
  /// Bytes of KV a second that the host's processor attends; 0: it attends none. Not a property of the link; it
  /// is here because every cost model states its link.
  BytesPerSecond host_attention_rate{0};
  Seconds host_attention_launch{0}; ///< fixed time of the host's attention, for each sub-batch and layer
  int host_attention_batches = 2;   ///< sub-batches: 2, NEO's, or 1
};

// device_link: a device's link from its data sheet, for cost models.
[[nodiscard]] inline LinkCost device_link(const Device& device) {
  LinkCost link{.rate = device.host_to_device,
                .lanes = device.lanes,
                .out_rate = device.device_to_host,
                .mix_loss = device.mix_loss,
                .host_attention_rate = device.host_attention_rate,
                .host_attention_launch = device.host_attention_launch,
                .host_attention_batches = device.host_attention_batches};
  (device.copies == Copies::batched ? link.per_layer : link.per_segment) = device.segment_cost;
  return link;
}

} // namespace sluice
