// SPDX-License-Identifier: Apache-2.0
// fluid_reference: the four transfer rules by plain event simulation, written from their definitions; shares only the
// input type with the evaluator.
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace sluice::test {

enum class ReferenceRule { next_layer, fair_share, earliest_deadline_first, deadline_pool };

struct ReferenceTransfer {
  int stream;
  int step;       ///< layer number in the whole run: token * L + layer
  int previous;   ///< the step of the stream's previous transfer, or -1
  double latency; ///< link work before the first block
  double blocks;  ///< still to move
  double seconds_per_block;
  bool weights;   ///< streamed weights, not KV
  int frees_slot; ///< weights: the step that had their slot before, or -1
  [[nodiscard]] bool done() const { return latency <= 1e-13 && blocks * seconds_per_block <= 1e-13; }
};

/// The reference's lane to the host: the traffic that it moves from the start, and the outcome.
struct ReferenceOutward {
  double blocks = 0;
  bool shares = false;  ///< one lane serves both directions and divides evenly
  double ends_s = 0;    ///< when the last of them had left, if they did
  bool paused = false;  ///< the lane to the device was idle meanwhile, with blocks of the first iteration left to move
  bool resumed = false; ///< it moved something again after an idle time
};

/// The computation's own use of the link in the reference. Each stretch of computing (a layer, the parts before and
/// after) is cut into `pieces`, and the last `Pipeline::on_link` of each piece is an all-reduce over the link. While
/// transfers are active as well, each gets half of the link. With infinitely many pieces (0) there are no events: while
/// transfers are active a piece takes 1 + on_link times as long, and both proceed at that lower speed.
struct ReferenceReduces {
  int pieces = 0;
};

/// The end of each of `tokens` iterations run back to back from a cold start, in seconds. `outward`: in parallel to
/// them. The spells of the pipeline's clock count from the start of the first.
inline std::vector<double> reference_run(const Pipeline& pipeline, ReferenceRule rule, int tokens,
                                         ReferenceOutward* outward = nullptr,
                                         const ReferenceReduces* reduces = nullptr) {
  const int layers = pipeline.layers();
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<ReferenceTransfer> transfers;
  std::vector<std::vector<double>> amounts;
  for (const LayerStream& stream : pipeline.streams) {
    std::vector<double> row(at(layers), 0.0);
    for (int l = 0; l < layers; ++l)
      if (stream.layers.contains(l)) row[at(l)] = stream.blocks;
    amounts.push_back(row);
  }
  const std::size_t weights_row = amounts.size();
  if (!pipeline.weights.empty()) {
    amounts.emplace_back(at(layers), 0.0);
    for (int l = 0; l < layers; ++l)
      if (pipeline.weights.layers.contains(l)) amounts.back()[at(l)] = pipeline.weights.blocks;
  }
  std::vector<int> weights_steps; // of all tokens, in order
  for (int token = 0; token < tokens + 1; ++token)
    for (int l = 0; l < layers; ++l) {
      int sharers = 0;
      for (const auto& row : amounts) sharers += row[at(l)] > 0;
      bool first = true;
      for (std::size_t s = 0; s < amounts.size(); ++s) {
        if (amounts[s][at(l)] <= 0) continue;
        int previous = -1;
        for (const ReferenceTransfer& t : transfers)
          if (t.stream == static_cast<int>(s)) previous = t.step;
        const bool pooled = rule == ReferenceRule::deadline_pool || rule == ReferenceRule::next_layer;
        double latency = pooled ? (first ? pipeline.link.per_layer_s : 0.0) : pipeline.link.per_layer_s / sharers;
        const bool weights = s == weights_row;
        int frees_slot = -1;
        if (weights) {
          const std::size_t slots = at(pipeline.weights.slots);
          if (weights_steps.size() >= slots) frees_slot = weights_steps[weights_steps.size() - slots];
          weights_steps.push_back(token * layers + l);
        }
        transfers.push_back({static_cast<int>(s), token * layers + l, previous, latency, amounts[s][at(l)],
                             1 / pipeline.link.blocks_per_s, weights, frees_slot});
        first = false;
      }
    }

  std::vector<double> ends;
  double now = 0;
  int step = 0; // the layer that computes now or next
  bool computing = false;
  // The remainder of the embedding, a layer or the output head at full speed, in stretches of pure computing and of
  // all-reduces; `reducing` says which kind the last one is.
  std::vector<double> busy;
  const auto begin = [&](double compute_s) {
    busy.clear();
    if (compute_s <= 0) return;
    if (reduces == nullptr || pipeline.on_link <= 0 || reduces->pieces == 0) {
      busy.push_back(compute_s);
      return;
    }
    const double piece_s = compute_s / reduces->pieces;
    for (int i = 0; i < reduces->pieces; ++i) { // from the end
      busy.push_back(piece_s * pipeline.on_link);
      busy.push_back(piece_s * (1 - pipeline.on_link));
    }
  };
  begin(pipeline.before_s);
  bool after = false; // in the output head of `step`'s token
  int computed = -1;  // the last step computed
  int started = -1;
  bool rested = false;                                                   // the lane to the device was idle at some time
  double urgent_s = pipeline.urgent_blocks / pipeline.link.blocks_per_s; // left to move, at the full rate
  const double out_blocks_per_s =
      outward != nullptr && outward->shares ? pipeline.link.blocks_per_s : pipeline.link.out_blocks_per_s;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (int guard = 0; guard < 10'000'000; ++guard) {
    // Compute: do everything that can happen now.
    while (!busy.empty() && busy.back() <= 1e-13) busy.pop_back();
    const bool reducing = busy.size() % 2 == 1 && reduces != nullptr && pipeline.on_link > 0 && reduces->pieces > 0;
    if (busy.empty()) {
      if (computing) {
        computed = step;
        computing = false;
        ++step;
        if (step % layers == 0) {
          after = true;
          begin(pipeline.after_s);
          continue;
        }
      } else if (after) {
        after = false;
        ends.push_back(now);
        if (static_cast<int>(ends.size()) == tokens) return ends;
        begin(pipeline.before_s);
        continue;
      }
      const bool swapped_in =
          urgent_s <= (pipeline.urgent_blocks - pipeline.first_blocks) / pipeline.link.blocks_per_s + 1e-13;
      const bool ready =
          swapped_in && std::none_of(transfers.begin(), transfers.end(),
                                     [&](const ReferenceTransfer& t) { return t.step == step && !t.done(); });
      if (!computing && ready) {
        computing = true;
        started = step;
        begin(pipeline.compute_s[at(step % layers)]);
        continue;
      }
    }
    // Link: which transfers may use it.
    double held = 0;
    for (const ReferenceTransfer& t : transfers)
      if (t.step > computed && !t.weights) held += amounts[at(t.stream)][at(t.step % layers)] - t.blocks;
    std::vector<ReferenceTransfer*> active;
    const int token = after ? step / layers - 1 : step / layers;
    if (urgent_s <= 1e-13)
      for (ReferenceTransfer& t : transfers) {
        if (t.done()) continue;
        bool may = false;
        if (t.weights) {
          // One after the other; each needs its slot, and under `NextLayer` also the start of the layer before.
          const bool in_turn = std::none_of(transfers.begin(), transfers.end(), [&](const ReferenceTransfer& other) {
            return other.weights && other.step < t.step && !other.done();
          });
          may = in_turn && computed >= t.frees_slot;
          if (rule == ReferenceRule::next_layer) may = may && (t.step == 0 || started >= t.step - 1);
          if (rule == ReferenceRule::deadline_pool) may = may && t.step / layers <= token + 1;
          if (may) active.push_back(&t);
          // The pool has one queue: everything after weights without a slot waits too.
          if (rule == ReferenceRule::deadline_pool) break;
          continue;
        }
        switch (rule) {
        case ReferenceRule::next_layer:
          may = t.step == 0 || started >= t.step - 1;
          break;
        case ReferenceRule::fair_share:
        case ReferenceRule::earliest_deadline_first:
          may = computed >= t.previous;
          break;
        case ReferenceRule::deadline_pool:
          may = t.step / layers <= token + 1 && held < pipeline.room_blocks - 1e-10;
          break;
        }
        if (may) active.push_back(&t);
        // Nothing overtakes in the pool's queue: everything after KV without free blocks waits too.
        if (rule == ReferenceRule::deadline_pool) break;
      }
    if (rule == ReferenceRule::next_layer) { // a latency of the layer runs before its shares
      for (ReferenceTransfer* t : active)
        if (t->latency > 1e-13) {
          active = {t};
          break;
        }
    } else if (rule != ReferenceRule::fair_share && !active.empty()) {
      ReferenceTransfer* nearest = active.front();
      for (ReferenceTransfer* t : active)
        if (t->step < nearest->step) nearest = t;
      active = {nearest};
    }
    // Until the next event.
    double next = infinity;
    const bool inward = urgent_s > 1e-13 || !active.empty();
    const bool out = outward != nullptr && outward->blocks > 1e-10;
    if (outward != nullptr) {
      rested = rested || !inward;
      outward->resumed = outward->resumed || (rested && inward);
    }
    double half = 1;
    if (reduces != nullptr && !busy.empty() && (inward || out)) {
      if (reduces->pieces == 0)
        half = 1 / (1 + pipeline.on_link);
      else if (reducing)
        half = 0.5;
    }
    if (!busy.empty()) next = busy.back() / half;
    double speed = half * (inward && out ? (1 - pipeline.link.mix_loss) / (outward->shares ? 2 : 1) : 1);
    for (const LinkSpell& spell : pipeline.clock.spells) {
      if (spell.from_s > now + 1e-13) next = std::min(next, spell.from_s - now);
    }
    for (auto spell = pipeline.clock.spells.rbegin(); spell != pipeline.clock.spells.rend(); ++spell)
      if (spell->from_s <= now + 1e-13) {
        speed *= spell->share;
        break;
      }
    if (out) {
      next = std::min(next, outward->blocks / out_blocks_per_s / speed);
      if (!inward && std::any_of(transfers.begin(), transfers.end(),
                                 [&](const ReferenceTransfer& t) { return t.step < layers && !t.done(); }))
        outward->paused = true;
    }
    if (urgent_s > 1e-13) {
      const double behind_s = (pipeline.urgent_blocks - pipeline.first_blocks) / pipeline.link.blocks_per_s;
      next = std::min(next, (urgent_s > behind_s + 1e-13 ? urgent_s - behind_s : urgent_s) / speed);
    }
    const double share = active.empty() ? 0 : speed / static_cast<double>(active.size());
    for (const ReferenceTransfer* t : active) {
      const double work = t->latency > 1e-13 ? t->latency : t->blocks * t->seconds_per_block;
      next = std::min(next, work / share);
      if (rule == ReferenceRule::deadline_pool && !t->weights && t->latency <= 1e-13)
        next = std::min(next, (pipeline.room_blocks - held) * t->seconds_per_block / share);
    }
    if (next == infinity) return {}; // nothing can ever move: memory is too small
    for (ReferenceTransfer* t : active) {
      if (t->latency > 1e-13)
        t->latency -= next * share;
      else
        t->blocks = std::max(0.0, t->blocks - next * share / t->seconds_per_block);
    }
    now += next;
    if (!busy.empty()) busy.back() -= next * half;
    if (urgent_s > 1e-13) urgent_s -= next * speed;
    if (out) {
      outward->blocks = std::max(0.0, outward->blocks - next * speed * out_blocks_per_s);
      if (outward->blocks <= 1e-10) outward->ends_s = now;
    }
  }
  return {};
}

} // namespace sluice::test
