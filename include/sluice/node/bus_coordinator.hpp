// SPDX-License-Identifier: Apache-2.0
// BusCoordinator: of the engines' levels the valid combination that has the most weights on the host (Select-N).
#pragma once

#include "sluice/node/coordinator.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// Select-N's per-bus coordinator (4.5, Figure 8). An engine's levels run from the smallest interval that meets its SLO
/// (its minimum) to the largest with which its model and its KV fit the device (its maximum: none streamed, where they
/// fit so). Of all combinations whose transfer rates sum to less than the bus, the one with the most memory on the
/// host. An engine that is idle is left out: whoever runs beside it has its minimum.
///
/// Figure 8 is for two engines, and enumerates. Any number is searched here by branch and bound over the levels, each
/// engine's best first, with what the rest could still add as the bound: the same combination.
///
/// Where no combination fits the bus, which the paper says nothing of, the maximum is by the memory of those who run
/// already, and the batch is what fits beside: an engine that wants more than the bus can stream takes fewer requests,
/// and does not stream beyond the bus at everybody's cost. Where not even that fits, who asks takes the level that
/// moves the least and preempts nobody.
struct BusCoordinator {
  using role = roles::Coordinator;

  BytesPerSecond bus{std::numeric_limits<double>::infinity()}; ///< of all lanes together

  void lend(std::span<const Member> /*members*/, std::size_t /*asks*/, Bytes /*missing*/,
            std::span<int> /*layers*/) const {}

  [[nodiscard]] int grant(std::span<const Member> members, std::size_t asks) const {
    for (LayerBlocks Member::*batch : {&Member::demand, &Member::musts})
      if (const std::vector<int> chosen = best(members, asks, batch); !chosen.empty()) return chosen[asks];
    return valid(members[asks], members[asks].musts).back().level;
  }

  /// The best combination, a level (`WeightsPlan::level`, -1: none streamed) for each engine that has room for its
  /// `batch`; empty if none fits the bus.
  [[nodiscard]] std::vector<int> best(std::span<const Member> members, std::size_t asks,
                                      LayerBlocks Member::*batch = &Member::demand) const {
    std::vector<std::vector<Choice>> choices(members.size());
    for (std::size_t i = 0; i < members.size(); ++i)
      choices[i] = i == asks || members[i].alive ? valid(members[i], members[i].*batch) : std::vector{Choice{}};
    Search search{choices, bus.count(), std::vector<double>(members.size() + 1, 0), {}, {}, -1};
    for (std::size_t i = members.size(); i-- > 0;) search.most[i] = search.most[i + 1] + choices[i].front().host;
    search.current.resize(members.size());
    search.from(0, 0, 0);
    return search.found;
  }

 private:
  struct Choice {
    int level = -1;
    double host = 0; ///< bytes of weights on the host
    double rate = 0; ///< bytes a second over the bus
  };

  /// The most on the host first. The maximum is by memory: a level that leaves the batch less than it takes is no
  /// choice, unless none leaves it more.
  static std::vector<Choice> valid(const Member& member, LayerBlocks batch) {
    std::vector<Choice> choices;
    LayerBlocks most = member.own;
    for (const WeightsLevel& level : member.levels) most = std::max(most, member.own + level.plan.freed);
    const LayerBlocks needed = std::min(batch, most);
    for (const WeightsLevel& level : member.levels)
      if (member.own + level.plan.freed >= needed) {
        const auto host = static_cast<double>(level.moved_per_iteration.count());
        choices.push_back({level.plan.level, host, host / level.step.count()});
      }
    if (choices.empty() || member.own >= needed) choices.push_back({-1, 0, 0});
    std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.host > b.host; });
    return choices;
  }
  struct Search {
    const std::vector<std::vector<Choice>>& choices;
    double bus;
    std::vector<double> most; ///< bytes on the host that the engines from here on could have
    std::vector<int> current;
    std::vector<int> found;
    double best;

    void from(std::size_t engine, double host, double rate) {
      if (engine == choices.size()) {
        if (host > best) {
          best = host;
          found = current;
        }
        return;
      }
      for (const Choice& choice : choices[engine]) {
        if (host + choice.host + most[engine + 1] <= best) return; // the next have less
        if (rate + choice.rate >= bus && choice.rate > 0) continue;
        current[engine] = choice.level;
        from(engine + 1, host + choice.host, rate + choice.rate);
      }
    }
  };
};

static_assert(Coordinator<BusCoordinator>);

} // namespace sluice
