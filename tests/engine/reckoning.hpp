// SPDX-License-Identifier: Apache-2.0
// Reckoning: what must have crossed the link in an iteration, block by block, from where each block was and where it
// is.
#pragma once

#include "sluice/observer/observer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

namespace sluice::testing {

/// Where one layer's KV of one block is, by the words of `Holding` and none of the counting in memory/.
struct Place {
  bool device = false;
  bool host = false;   ///< K and V
  bool states = false; ///< what enters the layer, on the host: beside KV on the device, or for want of any
};

inline Place place_of(const Holding& holding, int layer, std::int64_t block, std::int64_t block_tokens) {
  const std::int64_t last = (block + 1) * block_tokens; // of its tokens, counted from 1: a block is whole or not of it
  const bool old = holding.head == all_tokens || last <= holding.head.count();
  const bool copied = last <= holding.copied.count();
  if (holding.host.contains(layer)) return old ? Place{false, true, false} : Place{true, false, false};
  if (holding.nowhere.contains(layer))
    return old ? Place{false, false, holding.hidden.contains(layer)} : Place{true, false, false};
  return {true, copied, holding.saved.contains(layer)};
}

/// Layer blocks that cross. What may cross besides stays within the bounds that the engine's own comments give.
struct Crossed {
  std::int64_t in = 0, out = 0;
  std::int64_t perhaps_in = 0, perhaps_out = 0;
  std::int64_t again = 0;  ///< had a clean copy on the host, which on a full host may have been given up meanwhile
                           ///< (where the layers change, copies of all resident ones shrink to the least: perhaps_out)
  std::int64_t landed = 0; ///< of `in`, those whose room on the device counts as taken before they are there
};

/// What a request had when the last iteration ended, or has in this one.
struct Held {
  Holding holding;
  std::int64_t blocks = 0;
  Tokens computed{0};
};

/// Every block of every layer, one after the other. `computes`: the request is part of the iteration, and so needs all
/// of its KV on the device; `runs`: it is in the batch.
inline Crossed crossed_by(const Held& before, const Held& after, bool computes, bool runs, int layers,
                          std::int64_t block_tokens, HiddenSize hidden) {
  Crossed sum;
  std::int64_t states_in = 0, states_perhaps = 0, kept_states = 0, new_states = 0;
  const bool dropped = after.computed < before.computed;
  // States that were given up are no other place.
  const bool changed = !(before.holding.without_saved() == after.holding.without_saved());
  const bool other_layers = before.holding.away() != after.holding.away();
  for (int layer = 0; layer < layers; ++layer)
    for (std::int64_t block = 0; block < std::max(before.blocks, after.blocks); ++block) {
      const bool was_there = block < before.blocks && !dropped;
      const Place was = block < before.blocks ? place_of(before.holding, layer, block, block_tokens) : Place{};
      const Place is = block < after.blocks ? place_of(after.holding, layer, block, block_tokens) : Place{};
      if (block >= after.blocks || !was_there) {
        if (was.device) ++sum.perhaps_out; // on its way out when the rest found no room
        if (block >= after.blocks) continue;
        sum.out += is.host ? 1 : 0; // computed now, and not kept on the device alone
        new_states += is.states ? 1 : 0;
        continue;
      }
      if (was.host && !was.device) { // K and V have to come if they are needed, or wanted for good
        if (is.device) {
          ++sum.in;
          ++sum.landed;
        } else if (is.host) {
          sum.in += computes ? 1 : 0;
          sum.out += computes && after.holding.written_back ? 1 : 0;
        } else {
          sum.perhaps_in += computes ? 1 : 0; // or rebuilt at once
        }
      }
      sum.out += is.host && !was.host ? 1 : 0;
      if (is.host && was.host && was.device) ++(other_layers ? sum.perhaps_out : sum.again);
      // Copies are of all resident layers: where some were nowhere none stays, and they may be made again at once.
      if (is.host && is.device && was.host && !was.device && !before.holding.nowhere.empty()) ++sum.perhaps_out;
      kept_states += is.states && !was.states ? 1 : 0;
      const bool was_hidden = was.states && !was.device;
      if (was_hidden && runs && (computes || changed)) {
        ++states_in;
        sum.landed += is.device ? 1 : 0;
      }
      // Whose share of the tokens grows is reckoned as fetched whole (BasicEngine::rebuild).
      if (is.states && !is.device && !was_hidden && runs) ++states_perhaps;
    }
  sum.out += hidden.room(kept_states).count() + hidden.room(new_states).count();
  sum.in += hidden.room(states_in).count();
  sum.perhaps_in += hidden.room(states_perhaps).count();
  return sum;
}

/// Weights that cross in an iteration under `now`, after one under `before`: every streamed layer, and what was
/// streamed and now stays.
inline double weights_crossed(const WeightsPlan& before, const WeightsPlan& now, Bytes layer, int layers) {
  double parts = 0;
  for (int l = 0; l < layers; ++l) {
    const double absent = before.streamed.contains(l) ? before.share : 0.0;
    const double absent_now = now.streamed.contains(l) ? now.share : 0.0;
    parts += absent_now + std::max(0.0, absent - absent_now);
  }
  return parts * static_cast<double>(layer.count());
}

/// Holds the totals of each iteration's record against the sum over all requests.
struct Reckoning {
  std::map<RequestId, Held> held;
  WeightsPlan weights;
  std::optional<Geometry> geometry; ///< from the first plan on
  std::int64_t block_tokens = 16;
  LayerBlocks host_capacity{0}, host_used{0};
  double blocks_moved = 0;
  double weights_moved = 0;
  std::int64_t overwritten = 0; ///< layers that came back over the link after others of a node had their memory
  std::int64_t moving = 0;      ///< iterations that moved something
  std::int64_t exactly = 0;     ///< of these, those whose blocks could be told to the last

  void know(const View& view) {
    geometry = view.geometry;
    block_tokens = view.limits.block_tokens.count();
    host_capacity = view.ledger->host().capacity();
  }

  void check(const IterationRecord& record) {
    REQUIRE_MESSAGE(geometry.has_value(), "no iteration without a plan");
    std::map<Slot, Tokens> claims;
    for (const Claim& claim : record.batch) claims[claim.slot] = claim.tokens;
    Crossed sum;
    std::map<RequestId, Held> now;
    for (std::size_t i = 0; i < record.rows.size(); ++i) {
      const RequestRow& row = record.rows[i];
      if (row.phase != Phase::running && row.phase != Phase::preempted) continue;
      const auto claim = claims.find(Slot{static_cast<std::uint32_t>(i)});
      const bool runs = claim != claims.end();
      CHECK_MESSAGE(runs == (row.phase == Phase::running), "the batch is those who run");
      const Tokens tokens = runs ? claim->second : Tokens{0};
      Held& after = now[row.id] = {row.holding, row.blocks.count(), row.computed};
      const Crossed one = crossed_by(held[row.id], after, tokens.count() > 0, runs, geometry->layers, block_tokens,
                                     geometry->hidden_size());
      sum.in += one.in;
      sum.out += one.out;
      sum.perhaps_in += one.perhaps_in;
      sum.perhaps_out += one.perhaps_out;
      sum.again += one.again;
      sum.landed += one.landed;
      after.computed += tokens; // by its end
    }
    held.swap(now);
    if (std::max(host_used, record.host_used) + record.to_host >= host_capacity) sum.perhaps_out += sum.again;
    host_used = record.host_used;
    CAPTURE(record.step);
    CAPTURE(sum.perhaps_in);
    CAPTURE(sum.perhaps_out);
    CHECK_MESSAGE(record.to_device.count() >= sum.in, "what has to come in does");
    CHECK_MESSAGE(record.to_device.count() <= sum.in + sum.perhaps_in, "and nothing else");
    CHECK_MESSAGE(record.to_host.count() >= sum.out, "what has to go out does");
    CHECK_MESSAGE(record.to_host.count() <= sum.out + sum.perhaps_out, "and nothing else");
    const double moved = static_cast<double>(sum.in + sum.out);
    blocks_moved += moved;
    moving += moved > 0 ? 1 : 0;
    exactly += moved > 0 && sum.perhaps_in + sum.perhaps_out == 0 ? 1 : 0;

    const Bytes layer = geometry->layer_weight_bytes;
    const WeightsPlan& streams = record.plan->weights;
    const double expected = weights_crossed(weights, streams, layer, geometry->layers);
    const double actual = static_cast<double>(record.weights.count());
    // Beside these only whole layers, which nobody streams, and only of a lender in a node.
    const double beside = std::round((actual - expected) / static_cast<double>(layer.count()));
    CHECK_MESSAGE(std::abs(actual - expected - beside * static_cast<double>(layer.count())) <= 1,
                  "weights that stream cross in every iteration, weights that return cross once");
    CHECK(beside >= 0);
    CHECK(beside <= geometry->layers - (weights.streamed | streams.streamed).count());
    overwritten += static_cast<std::int64_t>(beside);
    const double returned = actual - weights_crossed({}, streams, layer, geometry->layers);
    weights_moved += actual;
    weights = streams;

    // What lands has its room already, and so have weights that come back.
    const double landing = static_cast<double>(sum.landed + 1) +
                           std::ceil(returned / static_cast<double>(geometry->layer_block_bytes.count()));
    CHECK_MESSAGE(static_cast<double>((record.device_used + record.in_flight - record.device_capacity).count()) <=
                      landing,
                  "blocks in use and blocks in flight are never more than there are");
  }
};

} // namespace sluice::testing
