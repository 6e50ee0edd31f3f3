// SPDX-License-Identifier: Apache-2.0
// QueueScorer, KvScorer, FoundScorer, SentScorer: llm-d's scorers.
#pragma once

#include "sluice/fleet/key_holders.hpp"
#include "sluice/fleet/sent_blocks.hpp"
#include "sluice/fleet/weighted_scorers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// 1 for the shortest queue among the engines, 0 for the longest, linear between them (`queue-scorer`). A preempted
/// request waits again. As in llm-d, what was sent since the reports does not count, unless `counts_sent`.
struct QueueScorer {
  static constexpr RouterReads reads{.load = true};
  struct State {};

  double weight = 1;
  bool counts_sent = false;

  void score(const FleetView& view, const RoutedRequest& /*request*/, State& /*state*/,
             std::span<double> scores) const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (const std::size_t one : view.open) {
      least = std::min(least, waiting(view, one));
      most = std::max(most, waiting(view, one));
    }
    const auto range = static_cast<double>(most - least);
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] += weight * (range > 0 ? static_cast<double>(most - waiting(view, view.open[i])) / range : 1);
  }
  void sent(const FleetView& /*view*/, const RoutedRequest& /*request*/, std::size_t /*engine*/, State& /*s*/) const {}

 private:
  [[nodiscard]] std::int64_t waiting(const FleetView& view, std::size_t engine) const {
    const EngineReport& report = view.reports[engine];
    return std::int64_t{report.waiting} + report.preempted + (counts_sent ? view.sent[engine].requests : 0);
  }
};

/// The share of KV memory that is free (`kv-cache-utilization-scorer`).
struct KvScorer {
  static constexpr RouterReads reads{.load = true};
  struct State {};

  double weight = 1;

  void score(const FleetView& view, const RoutedRequest& /*request*/, State& /*state*/,
             std::span<double> scores) const {
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] += weight * std::max(0.0, 1 - view.reports[view.open[i]].kv_used);
  }
  void sent(const FleetView& /*view*/, const RoutedRequest& /*request*/, std::size_t /*engine*/, State& /*s*/) const {}
};

/// The share of the prompt's blocks that the engine's caches have, by its own word (`precise-prefix-cache-scorer`).
struct FoundScorer {
  static constexpr RouterReads reads{.prefixes = true};
  struct State {};

  double weight = 1;

  void score(const FleetView& view, const RoutedRequest& request, State& /*state*/, std::span<double> scores) const {
    if (request.keys.empty()) return;
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] += weight * static_cast<double>(view.found[view.open[i]]) / static_cast<double>(request.keys.size());
  }
  void sent(const FleetView& /*view*/, const RoutedRequest& /*request*/, std::size_t /*engine*/, State& /*s*/) const {}
};

/// The share of the prompt's first blocks that the engine was sent before, by the router's own table
/// (`prefix-cache-scorer`): the most recently used blocks of each engine, whatever its caches still have.
struct SentScorer {
  static constexpr RouterReads reads{};
  struct State {
    std::vector<SentBlocks> of{}; ///< by engine
    KeyHolders holders{};         ///< of first blocks
  };

  double weight = 1;
  std::size_t most = 256;    ///< blocks of a prompt that are compared
  std::size_t room = 31'250; ///< blocks that the table has of each engine

  void score(const FleetView& view, const RoutedRequest& request, State& state, std::span<double> scores) const {
    const std::span<const BlockKey> keys = request.keys.first(std::min(most, request.keys.size()));
    if (keys.empty()) return;
    for (const std::uint32_t engine : state.holders.of(keys.front())) {
      const auto at = std::lower_bound(view.open.begin(), view.open.end(), engine);
      if (at != view.open.end() && *at == engine)
        scores[static_cast<std::size_t>(at - view.open.begin())] +=
            weight * static_cast<double>(state.of[engine].find(keys)) / static_cast<double>(keys.size());
    }
  }
  void sent(const FleetView& view, const RoutedRequest& request, std::size_t engine, State& state) const {
    const std::span<const BlockKey> keys = request.keys.first(std::min(most, request.keys.size()));
    if (keys.empty()) return;
    state.of.resize(view.engines());
    state.of[engine].use(keys, room);
    state.holders.add(keys.front(), static_cast<std::uint32_t>(engine));
    if (state.holders.full())
      state.holders.sweep([&](BlockKey key, std::uint32_t one) { return state.of[one].find({&key, 1}) > 0; });
  }
};

static_assert(Scorer<QueueScorer> && Scorer<KvScorer> && Scorer<FoundScorer> && Scorer<SentScorer>);
static_assert(Router<WeightedScorers<QueueScorer, KvScorer, FoundScorer>>);

} // namespace sluice
