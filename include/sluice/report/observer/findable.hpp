// SPDX-License-Identifier: Apache-2.0
// Findable: the observer that knows what a run's requests could have found at most, whatever the system kept.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/observer/metrics.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/state/memory/belady.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// Belady's optimum for a run's own requests: each looks up its prompt when it first joins the batch, and has its
/// blocks until it ends. A driver tells it the blocks (`State::submitted`), which no event names.
struct Findable {
  using role = roles::Observer;
  using hears = Events<events::Refused, events::Preempted, events::Ended>;
  static constexpr bool wants_timeline = false;

  struct Use {
    std::vector<BlockKey> keys; ///< those that have KV when it ends
    std::size_t looked_up = 0;
    Tokens prompt{0};
    /// Unknown until it has been preempted or has ended: it may have its blocks from its arrival on.
    Lifetime life{Seconds{0}, Seconds{std::numeric_limits<double>::infinity()}};
    bool joined = false, served = false;
  };
  struct State {
    std::vector<Use> uses; ///< by id

    /// The engine has taken a request. `keys`: of its prompt's blocks, and of its answer's as far as they are known.
    void submitted(RequestId id, const RequestSpec& spec, std::span<const BlockKey> keys, Tokens block_tokens) {
      if (index(id) >= uses.size()) uses.resize(std::size_t{index(id)} + 1);
      Use& use = uses[index(id)];
      const auto blocks = [&](Tokens tokens) {
        return std::min(keys.size(), static_cast<std::size_t>(tokens.count() / block_tokens.count()));
      };
      const auto known = keys.first(blocks(spec.prompt + spec.output - Tokens{1}));
      use.keys.assign(known.begin(), known.end());
      use.looked_up = blocks(spec.prompt - Tokens{1});
      use.prompt = spec.prompt;
      use.life.begin = spec.arrival;
    }
    /// The largest share of the served requests' prompt tokens that a system with memory for `capacity` blocks, on the
    /// device and in all tiers, could find; NaN if none was served. Comparable with `Metrics::found_share`.
    [[nodiscard]] double share(TokenBlocks capacity, Tokens block_tokens) const {
      std::vector<const Use*> order;
      for (const Use& use : uses)
        if (!use.keys.empty()) order.push_back(&use);
      std::stable_sort(order.begin(), order.end(),
                       [](const Use* a, const Use* b) { return a->life.begin < b->life.begin; });
      std::vector<PrefixUse> requests;
      std::vector<Lifetime> lives;
      for (const Use* use : order) {
        requests.push_back({use->keys, use->served ? use->looked_up : 0});
        lives.push_back(use->life);
      }
      double prompts = 0;
      for (const Use& use : uses) prompts += use.served ? static_cast<double>(use.prompt.count()) : 0;
      if (prompts <= 0) return Metrics::absent;
      return static_cast<double>(belady_hits(requests, capacity, lives) * block_tokens.count()) / prompts;
    }
  };

  void on(State& state, const events::Refused& event) const {
    if (index(event.id) < state.uses.size()) state.uses[index(event.id)].life.end = event.now;
  }
  void on(State& state, const events::Preempted& event) const { joined(state, event.row); }
  void on(State& state, const events::Ended& event) const {
    Use& use = joined(state, event.row);
    use.life.end = event.now;
    use.served = true;
  }

 private:
  static Use& joined(State& state, const RequestRow& row) {
    SLUICE_ASSERT(index(row.id) < state.uses.size(), "a driver that calls submitted for each request");
    Use& use = state.uses[index(row.id)];
    if (!use.joined) use.life.begin = row.running_since;
    use.joined = true;
    return use;
  }
};

static_assert(explain<Findable>());

} // namespace sluice
