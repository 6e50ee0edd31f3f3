// SPDX-License-Identifier: Apache-2.0
// Reckoning: computes what must have crossed the link in an iteration, block by block, from where each block was and
// is.
#pragma once

#include "sluice/report/observer/observer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

namespace sluice::testing {

/// Where one block of one layer's KV is: by the definition of `Holding`, without the counting code of state/memory.
struct Place {
  bool device = false;
  bool host = false;        ///< K and V
  bool states = false;      ///< the layer's inputs on the host: in addition to KV on the device, or instead of it
  bool states_here = false; ///< the layer's inputs on the device, instead of KV
};

inline Place place_of(const Holding& holding, int layer, std::int64_t block, std::int64_t block_tokens) {
  const std::int64_t last =
      (block + 1) * block_tokens; // the block's last token, from 1: a block is wholly in the head or not in it
  const bool old = holding.head == all_tokens || last <= holding.head.count();
  const bool copied = last <= holding.copied.count();
  if (holding.host.contains(layer)) return old ? Place{false, true, false} : Place{true, false, false};
  const bool next = holding.next_states && holding.head != all_tokens &&
                    block == holding.head.count() / block_tokens; // behind the head
  if (holding.nowhere.contains(layer))
    return old ? Place{false, false, holding.hidden.contains(layer) && !holding.states_on_device,
                       holding.hidden.contains(layer) && holding.states_on_device}
               : Place{true, false, next && holding.hidden.contains(layer) && !holding.states_on_device};
  return {true, copied, holding.saved.contains(layer)};
}

/// Room of one block of one layer of a request of `total` blocks, in layer blocks: by the definition of KvBlocks'
/// parts, without its sums.
inline std::int64_t size_of(const Geometry& geometry, int layer, std::int64_t block, std::int64_t total) {
  if (geometry.alike()) return 1;
  std::int64_t sum = 0;
  for (const KvPart& part : geometry.kv().parts())
    if (part.layers.contains(layer) && (part.keep == KvRule::unlimited || block >= total - part.keep) &&
        (block + 1) % part.step == 0)
      sum += part.units;
  return sum;
}

/// Layer blocks that cross the link. Optional transfers stay within the bounds that the engine's comments state.
struct Crossed {
  std::int64_t in = 0, out = 0;
  std::int64_t perhaps_in = 0, perhaps_out = 0;
  std::int64_t again = 0;  ///< blocks with a clean copy on the host, which a full host may have dropped since (if the
                           ///< layers change, copies of all resident ones shrink to the smallest: perhaps_out)
  std::int64_t landed = 0; ///< blocks of `in` whose device memory is counted before they arrive
};

/// A request's state at the end of the last iteration, or in this one.
struct Held {
  Holding holding;
  std::int64_t blocks = 0;
  Tokens computed{0};
  std::int64_t loaded = 0; ///< blocks from a tier, if it had none before
};

/// Every block of every layer. `computes`: the request is part of the iteration, and so needs all its KV on the device;
/// `runs`: it is in the batch.
inline Crossed crossed_by(const Held& before, const Held& after, bool computes, bool runs, const Geometry& geometry,
                          std::int64_t block_tokens) {
  const HiddenSize hidden = geometry.hidden_size();
  const int layers = geometry.layers;
  Crossed sum;
  std::int64_t states_in = 0, states_perhaps = 0, kept_states = 0, new_states = 0;
  const bool dropped = after.computed < before.computed;
  // Dropped states are no second place.
  const bool changed = !(before.holding.without_saved() == after.holding.without_saved());
  const bool other_layers = before.holding.away() != after.holding.away();
  for (int layer = 0; layer < layers; ++layer)
    for (std::int64_t block = 0; block < std::max(before.blocks, after.blocks); ++block) {
      const bool was_there = block < before.blocks && !dropped;
      // KV moves before it grows, and is copied after that.
      const std::int64_t then = size_of(geometry, layer, block, before.blocks);
      const std::int64_t since = size_of(geometry, layer, block, after.blocks);
      const Place was = block < before.blocks ? place_of(before.holding, layer, block, block_tokens) : Place{};
      const Place is = block < after.blocks ? place_of(after.holding, layer, block, block_tokens) : Place{};
      if (block >= after.blocks || !was_there) {
        if (was.device) sum.perhaps_out += then; // was leaving when the others found no memory
        if (block >= after.blocks) continue;
        if (block >= after.loaded) sum.out += is.host ? since : 0; // computed now, and not kept only on the device
        new_states += is.states ? 1 : 0;
        continue;
      }
      if (was.host && !was.device) { // K and V must arrive if they are needed, or stay
        if (is.device) {
          sum.in += then;
          sum.landed += then;
        } else if (is.host) {
          sum.in += computes && !after.holding.attended_on_host ? then : 0;
          sum.out += computes && after.holding.written_back ? then : 0;
        } else {
          sum.perhaps_in += computes ? then : 0; // or rebuilt at once
        }
      }
      sum.out += is.host && !was.host ? since : 0;
      if (is.host && was.host && was.device) (other_layers ? sum.perhaps_out : sum.again) += std::max(then, since);
      // Copies cover all resident layers: if some were nowhere, no copy stays, and copies may be made again at once.
      if (is.host && is.device && was.host && !was.device && !before.holding.nowhere.empty()) sum.perhaps_out += since;
      kept_states += is.states && !was.states ? 1 : 0;
      const bool was_hidden = was.states && !was.device;
      if (was_hidden && runs && (computes || changed)) {
        ++states_in;
        sum.landed += is.device ? 1 : 0;
      }
      // A growing share of the tokens counts as fetched completely (detail::move_claim).
      if (is.states && !is.device && !was_hidden && runs) ++states_perhaps;
    }
  sum.out += hidden.room(kept_states).count() + hidden.room(new_states).count();
  sum.in += hidden.room(states_in).count();
  sum.perhaps_in += hidden.room(states_perhaps).count();
  return sum;
}

/// Weights that cross in an iteration under `now`, after one under `before`: every streamed layer, and those that were
/// streamed and now stay.
inline double weights_crossed(const WeightsPlan& before, const WeightsPlan& now, Bytes layer, int layers) {
  double parts = 0;
  for (int l = 0; l < layers; ++l) {
    const double absent = before.streamed.contains(l) ? before.share : 0.0;
    const double absent_now = now.streamed.contains(l) ? now.share : 0.0;
    parts += absent_now + std::max(0.0, absent - absent_now);
  }
  return parts * static_cast<double>(layer.count());
}

/// Compares the totals of each iteration's record with the sum over all requests.
struct Reckoning {
  std::map<RequestId, Held> held;
  WeightsPlan weights;
  std::optional<Geometry> geometry; ///< from the first plan on
  std::int64_t block_tokens = 16;
  LayerBlocks host_capacity{0}, host_used{0};
  double blocks_moved = 0;
  double weights_moved = 0;
  std::int64_t overwritten = 0; ///< layers returned over the link after other engines' use
  std::int64_t moving = 0;      ///< iterations that moved something
  std::int64_t exactly = 0;     ///< iterations whose blocks could be determined exactly

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
      CHECK_MESSAGE(runs == (row.phase == Phase::running), "the batch is the running requests");
      const Tokens tokens = runs ? claim->second : Tokens{0};
      Held& after = now[row.id] = {row.holding, row.blocks.count(), row.computed};
      const Tokens loaded = row.meets > 0 ? row.awaited() : row.computed;
      if (held[row.id].blocks == 0) after.loaded = loaded.count() / block_tokens;
      const Crossed one = crossed_by(held[row.id], after, tokens.count() > 0, runs, *geometry, block_tokens);
      sum.in += one.in;
      sum.out += one.out;
      sum.perhaps_in += one.perhaps_in;
      sum.perhaps_out += one.perhaps_out;
      sum.again += one.again;
      sum.landed += one.landed;
      after.computed += tokens; // at its end
    }
    held.swap(now);
    sum.in += record.from_tier.count();
    sum.landed += record.from_tier.count();
    sum.out += record.to_tier.count();
    if (std::max(host_used, record.host_used) + record.to_host >= host_capacity) sum.perhaps_out += sum.again;
    host_used = record.host_used;
    CAPTURE(record.step);
    CAPTURE(sum.perhaps_in);
    CAPTURE(sum.perhaps_out);
    CHECK_MESSAGE(record.to_device.count() >= sum.in, "all required blocks come in");
    CHECK_MESSAGE(record.to_device.count() <= sum.in + sum.perhaps_in, "and no others");
    CHECK_MESSAGE(record.to_host.count() >= sum.out, "all required blocks go out");
    CHECK_MESSAGE(record.to_host.count() <= sum.out + sum.perhaps_out, "and no others");
    // KV of live requests, without what a tier below the device has and gets.
    const double moved = static_cast<double>(sum.in + sum.out - record.from_tier.count() - record.to_tier.count());
    blocks_moved += moved;
    moving += moved > 0 ? 1 : 0;
    exactly += moved > 0 && sum.perhaps_in + sum.perhaps_out == 0 ? 1 : 0;

    const Bytes layer = geometry->layer_weight_bytes;
    const WeightsPlan& streams = record.plan->weights;
    const double expected = weights_crossed(weights, streams, layer, geometry->layers);
    const double actual = static_cast<double>(record.weights.count());
    // Besides these only whole layers that are not streamed cross, and only for a lender in a node.
    const double beside = std::round((actual - expected) / static_cast<double>(layer.count()));
    CHECK_MESSAGE(std::abs(actual - expected - beside * static_cast<double>(layer.count())) <= 1,
                  "weights that stream cross in every iteration, weights that return cross once");
    CHECK(beside >= 0);
    CHECK(beside <= geometry->layers - (weights.streamed | streams.streamed).count());
    overwritten += static_cast<std::int64_t>(beside);
    const double returned = actual - weights_crossed({}, streams, layer, geometry->layers);
    weights_moved += actual;
    weights = streams;

    // Arriving blocks already have their memory, and so do returning weights.
    const double landing = static_cast<double>(sum.landed + 1) +
                           std::ceil(returned / static_cast<double>(geometry->layer_block_bytes.count()));
    CHECK_MESSAGE(static_cast<double>((record.device_used + record.in_flight - record.device_capacity).count()) <=
                      landing,
                  "blocks in use and in flight never exceed the blocks of the device");
  }
};

} // namespace sluice::testing
