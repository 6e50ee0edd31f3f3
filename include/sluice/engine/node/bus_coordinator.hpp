// SPDX-License-Identifier: Apache-2.0
// BusCoordinator: chooses the valid combination of the engines' levels with the most weights on the host (Select-N).
#pragma once

#include "sluice/engine/node/bus.hpp"
#include "sluice/engine/node/coordinator.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// Select-N's per-bus coordinator (4.5, Figure 8). An engine's levels run from the smallest interval that meets its SLO
/// (its minimum) to the largest with which its model and its KV fit the device (its maximum: none streamed, if they fit
/// so). Among all combinations that the bus has room for, the coordinator takes the one with the most memory on the
/// host. Idle engines are left out: an engine whose neighbours are all idle gets its minimum, unless the bus is slower
/// than the engine's lane, from which the engine computes that minimum.
///
/// Figure 8 enumerates the combinations of two engines. Here branch and bound over the levels handles any number of
/// engines and finds the same combination: each engine's best level comes first, and the bound is what the remaining
/// engines could still add and move. After `most_nodes` the search takes the best so far, because many equal engines
/// make it a knapsack problem.
///
/// *Room on the bus*: `iter_time`, by which the figure divides, is one number per model for every interval: the time in
/// which an iteration meets its SLO. If it meant the iteration's own time alone on the bus, it would rule out every
/// engine that waits for its transfers, because these use the whole bus however few they are. But an engine with time
/// to spare gets more than its rate: the bus is divided evenly, so a combination is valid if every engine then gets its
/// least rate. Without an SLO, an engine's least rate is what it uses alone, and the rule is the figure's sum to the
/// letter. An engine that cannot meet its SLO even alone is owed at most an even share.
///
/// *No valid combination*: the paper does not cover this case. The batches are then cut to what fits: an engine that
/// wants more than the bus can stream takes fewer requests, and does not stream at the others' cost. First, engines
/// whose batch no level has room for get their maximum by the running requests only, then all engines do. If the
/// running requests exceed the bus, the maximum is by the first request, and no engine gets more than its running
/// requests take. If the bus has no room for one request each, the engine that asks takes the level that moves the
/// least and preempts no request. Like the paper's, the choice is by memory alone and ignores fairness: of two equal
/// engines, one can have the longer batch.
struct BusCoordinator {
  using role = roles::Coordinator;
  static constexpr bool lends = false;
  static constexpr bool grants = true;

  BytesPerSecond bus{std::numeric_limits<double>::infinity()}; ///< of all lanes together
  int most_nodes = 100'000;                                    ///< per search

  void lend(std::span<const Member> /*members*/, std::size_t /*asks*/, Bytes /*missing*/,
            std::span<int> /*layers*/) const {}

  [[nodiscard]] int grant(std::span<const Member> members, std::size_t asks) const {
    bool alone = bus >= members[asks].link;
    for (std::size_t i = 0; i < members.size(); ++i) alone = alone && (i == asks || !members[i].alive);
    if (alone) return std::numeric_limits<int>::max();
    for (const Room room : {Room::all, Room::bounded, Room::running, Room::first})
      if (const std::vector<int> chosen = best(members, asks, room); !chosen.empty()) return chosen[asks];
    return valid(members[asks], Room::running).back().level;
  }

  /// The requests that an engine's level must have room for.
  enum class Room : std::uint8_t {
    all,     ///< the engine's batch, including requests that would join
    bounded, ///< the same; if no level has room for them, the running requests
    running, ///< the running requests, and at least one
    first,   ///< one request; and no more than the running ones take
  };
  /// The best combination, one level (`WeightsPlan::level`, -1: none streamed) per engine; empty if none fits the bus.
  [[nodiscard]] std::vector<int> best(std::span<const Member> members, std::size_t asks, Room room = Room::all) const {
    std::vector<std::vector<Choice>> choices(members.size());
    const auto runs = [&](std::size_t i) { return i == asks || members[i].alive; };
    std::size_t running = 0;
    for (std::size_t i = 0; i < members.size(); ++i)
      if (runs(i)) ++running;
    const double share = bus.count() / static_cast<double>(running) * (1 - 1e-9);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (runs(i)) choices[i] = valid(members[i], room);
      if (!runs(i)) choices[i].emplace_back();
      for (Choice& choice : choices[i])
        if (choice.late) choice.least = std::min(choice.least, share);
    }
    const std::vector<double> none(members.size(), 0.0);
    Search search{choices, bus.count(), most_nodes, none, none, none, none, none, none, {}, {}, -1};
    search.most.push_back(0);
    search.worth.push_back(0);
    search.owed.push_back(0);
    for (std::size_t i = members.size(); i-- > 0;) {
      search.most[i] = search.most[i + 1] + choices[i].front().host;
      search.worth[i] = search.worth[i + 1];
      double owed = std::numeric_limits<double>::infinity();
      for (const Choice& choice : choices[i]) owed = std::min(owed, choice.least);
      search.owed[i] = search.owed[i + 1] + owed;
      for (const Choice& choice : choices[i])
        if (choice.host > 0) search.worth[i] = std::max(search.worth[i], choice.host / choice.least);
    }
    search.current.resize(members.size());
    search.from(0, 0, 0);
    return search.found;
  }

 private:
  struct Choice {
    int level = -1;
    double host = 0;   ///< bytes of weights on the host
    double rate = 0;   ///< bytes per second over the bus, if it has room
    double least = 0;  ///< bytes per second with which the engine's iterations meet their SLO
    bool late = false; ///< the iterations miss their SLO even alone on the bus
  };

  /// The part of an iteration that overlaps no transfer takes equally long at any rate, so the transfers have the
  /// remaining time of the SLO.
  static Choice choice_of(const Member& member, const WeightsLevel& level) {
    const auto host = static_cast<double>(level.moved_per_iteration.count());
    const double step = level.step.count();
    const double slo = member.batch.slo.count();
    const double time = slo - std::max(0.0, step - host / member.link.count());
    return {level.plan.level, host, host / step, host / std::max(time, step), slo > 0 && slo < step * (1 - 1e-9)};
  }

  /// An engine's choices, the most weights on the host first. The maximum is by memory: a level that leaves the batch
  /// too little is no choice, unless no level leaves it more.
  static std::vector<Choice> valid(const Member& member, Room room) {
    std::vector<Choice> choices;
    LayerBlocks most = member.own;
    for (const WeightsLevel& level : member.levels) most = std::max(most, member.own + level.plan.freed);
    const BatchNeeds& batch = member.batch;
    const LayerBlocks running = std::max(batch.running, batch.first);
    LayerBlocks wanted = room == Room::running ? running : batch.demand;
    if (room == Room::bounded && batch.demand > most) wanted = running;
    if (room == Room::first) wanted = batch.first;
    const LayerBlocks needed = std::min(wanted, most);
    LayerBlocks enough = most; // the least level that has room for all running requests
    if (room == Room::first) {
      if (member.own >= running) enough = member.own;
      for (const WeightsLevel& level : member.levels)
        if (member.own + level.plan.freed >= running) enough = std::min(enough, member.own + level.plan.freed);
    }
    for (const WeightsLevel& level : member.levels)
      if (const LayerBlocks has = member.own + level.plan.freed; has >= needed && has <= enough)
        choices.push_back(choice_of(member, level));
    if (choices.empty() || member.own >= needed) choices.push_back({});
    std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.host > b.host; });
    return choices;
  }

  struct Search {
    const std::vector<std::vector<Choice>>& choices;
    double bus;
    int nodes_left;
    std::vector<double> most;  ///< bytes on the host that the engines from here on could have
    std::vector<double> worth; ///< and the most of them per byte/s of the bus that these engines are owed
    std::vector<double> owed;  ///< the least that they are owed of the bus
    std::vector<double> rate, least, given;
    std::vector<int> current;
    std::vector<int> found;
    double best;

    /// `host`: bytes that the engines before this one have on the host; `taken`: their share of the bus.
    void from(std::size_t engine, double host, double taken) {
      if (engine == choices.size()) {
        if (host > best) {
          best = host;
          found = current;
        }
        return;
      }
      for (const Choice& choice : choices[engine]) {
        if (host + choice.host + most[engine + 1] <= best || nodes_left <= 0) break; // the next choices have less
        const double left = bus - taken - choice.least;
        if (left < owed[engine + 1] || host + choice.host + left * worth[engine + 1] <= best) continue;
        --nodes_left;
        rate[engine] = choice.rate;
        least[engine] = choice.least;
        current[engine] = choice.level;
        if (choice.host <= 0 || (left > 0 && fits())) from(engine + 1, host + choice.host, taken + choice.least);
      }
      rate[engine] = least[engine] = 0;
    }
    /// Whether every engine so far gets its least rate; later engines only leave less.
    bool fits() {
      divide_fairly(bus, rate, given);
      for (std::size_t i = 0; i < rate.size(); ++i)
        if (given[i] < least[i]) return false;
      return true;
    }
  };
};

static_assert(Coordinator<BusCoordinator>);

} // namespace sluice
