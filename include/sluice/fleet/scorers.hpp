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

/// By the blocks of the prompt that the engines' caches have, by their own word: among the engines that have any, 1 for
/// the most, 0 for the fewest, linear between them, and 1 if they have equally many; 0 for the others. That is
/// `indexedScoresToNormalizedScoredPods` of llm-d-inference-scheduler's `precise-prefix-cache-scorer`.
struct FoundScorer {
  static constexpr RouterReads reads{.prefixes = true};
  struct State {};

  double weight = 1;

  void score(const FleetView& view, const RoutedRequest& /*request*/, State& /*state*/,
             std::span<double> scores) const {
    std::int32_t least = std::numeric_limits<std::int32_t>::max(), most = 0;
    for (const std::size_t one : view.open)
      if (const std::int32_t found = view.found[one]; found > 0) {
        least = std::min(least, found);
        most = std::max(most, found);
      }
    if (most == 0) return;
    const auto range = static_cast<double>(most - least);
    for (std::size_t i = 0; i < scores.size(); ++i)
      if (const std::int32_t found = view.found[view.open[i]]; found > 0)
        scores[i] += weight * (range > 0 ? static_cast<double>(found - least) / range : 1);
  }
  void sent(const FleetView& /*view*/, const RoutedRequest& /*request*/, std::size_t /*engine*/, State& /*s*/) const {}
};

/// The share of the prompt's first blocks that the engine was sent before, by the router's own table: the most recently
/// used blocks of each engine, whatever its caches still have. That is `prefix-cache-scorer` of
/// gateway-api-inference-extension, except for an engine whose table has lost a prompt's first blocks and has later
/// ones: here it has nothing of the prompt, there the later ones count while another engine has the first ones.
struct SentScorer {
  static constexpr RouterReads reads{};
  struct State {
    std::vector<SentBlocks> of{};          ///< by engine
    std::vector<std::uint64_t> versions{}; ///< by engine: counts the changes of `of`
    KeyHolders holders{};
    std::uint32_t sends = 0;
    std::vector<KeyHolders::Question> questions{}; ///< scratch
    std::vector<std::size_t> found{};              ///< scratch, by engine
  };

  double weight = 1;
  std::size_t most = 256;    ///< blocks of a prompt that are compared
  std::size_t room = 31'250; ///< blocks that the table has of each engine

  void score(const FleetView& view, const RoutedRequest& request, State& state, std::span<double> scores) const {
    const std::span<const BlockKey> keys = request.keys.first(std::min(most, request.keys.size()));
    if (keys.empty()) return;
    const auto ask = [&state](std::uint32_t engine, std::span<const BlockKey> asked) {
      return state.of[engine].find(asked);
    };
    state.questions.clear();
    state.holders.plan(
        keys, [&state](std::uint32_t engine) { return state.versions[engine]; }, state.questions);
    for (const KeyHolders::Question& one : state.questions) one.put(ask);
    state.found.assign(view.engines(), 0);
    state.holders.find(keys, ask, [&state](std::uint32_t engine, std::size_t count) { state.found[engine] = count; });
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] += weight * static_cast<double>(state.found[view.open[i]]) / static_cast<double>(keys.size());
  }
  void sent(const FleetView& view, const RoutedRequest& request, std::size_t engine, State& state) const {
    const std::span<const BlockKey> keys = request.keys.first(std::min(most, request.keys.size()));
    if (keys.empty()) return;
    state.of.resize(view.engines());
    state.versions.resize(view.engines());
    state.of[engine].use(keys, room, ++state.sends);
    ++state.versions[engine];
    state.holders.add(keys, static_cast<std::uint32_t>(engine), state.sends);
    if (state.holders.full())
      state.holders.sweep([&](KeyHolders::Keys /*keys*/, std::uint32_t one, std::uint64_t stamp) {
        return stamp >= state.of[one].oldest();
      });
  }
};

static_assert(Scorer<QueueScorer> && Scorer<KvScorer> && Scorer<FoundScorer> && Scorer<SentScorer>);
static_assert(Router<WeightedScorers<QueueScorer, KvScorer, FoundScorer>>);

} // namespace sluice
