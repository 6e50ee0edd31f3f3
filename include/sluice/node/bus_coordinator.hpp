// SPDX-License-Identifier: Apache-2.0
// BusCoordinator: of the engines' levels the valid combination that has the most weights on the host (Select-N).
#pragma once

#include "sluice/node/bus.hpp"
#include "sluice/node/coordinator.hpp"

#include <algorithm>
#include <cstdint>
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
/// `iter_time`, by which the figure divides, is one number of a model, whatever its interval: the time in which an
/// iteration keeps its SLO. Taken as the iteration's own time with the bus to itself, it would rule out whoever waits
/// for its transfers, since these take all of the bus however few they are. But who has room to spare takes more than
/// its rate: the bus is divided evenly, so that a combination is valid if everybody then has its least. Without an SLO
/// that is what it takes alone, and the figure's sum to the letter.
///
/// Where no combination fits the bus, which the paper says nothing of, the batches are what fits: an engine that wants
/// more than the bus can stream takes fewer requests, and does not stream beyond it at everybody's cost. So the maximum
/// is then by the memory of those who run already; and where these have outgrown the bus, by that of the first of all,
/// and nobody is given more than they take: as few as possible are preempted. Where the bus has no room for one request
/// each, who asks takes the level that moves the least.
struct BusCoordinator {
  using role = roles::Coordinator;

  BytesPerSecond bus{std::numeric_limits<double>::infinity()}; ///< of all lanes together

  void lend(std::span<const Member> /*members*/, std::size_t /*asks*/, Bytes /*missing*/,
            std::span<int> /*layers*/) const {}

  [[nodiscard]] int grant(std::span<const Member> members, std::size_t asks) const {
    for (const Room room : {Room::all, Room::running, Room::first})
      if (const std::vector<int> chosen = best(members, asks, room); !chosen.empty()) return chosen[asks];
    return valid(members[asks], Room::first).back().level;
  }

  /// For whom an engine's level must leave room.
  enum class Room : std::uint8_t {
    all,     ///< its batch, those included who would join
    running, ///< those who run already, and at least one
    first,   ///< one; and for no more than those who run
  };
  /// The best combination, a level (`WeightsPlan::level`, -1: none streamed) for each engine; empty if none fits the
  /// bus.
  [[nodiscard]] std::vector<int> best(std::span<const Member> members, std::size_t asks, Room room = Room::all) const {
    std::vector<std::vector<Choice>> choices(members.size());
    for (std::size_t i = 0; i < members.size(); ++i)
      choices[i] = i == asks || members[i].alive ? valid(members[i], room) : std::vector{Choice{}};
    const std::vector<double> none(members.size(), 0.0);
    Search search{choices, bus.count(), std::vector<double>(members.size() + 1, 0), none, none, none, {}, {}, -1};
    for (std::size_t i = members.size(); i-- > 0;) search.most[i] = search.most[i + 1] + choices[i].front().host;
    search.current.resize(members.size());
    search.from(0, 0);
    return search.found;
  }

 private:
  struct Choice {
    int level = -1;
    double host = 0;  ///< bytes of weights on the host
    double rate = 0;  ///< bytes a second over the bus, if it has room
    double least = 0; ///< with which its iterations keep their SLO
  };

  /// What does not overlap the computation takes as long at any rate, so that the transfers have the rest of the SLO.
  static Choice choice_of(const Member& member, const WeightsLevel& level) {
    const auto host = static_cast<double>(level.moved_per_iteration.count());
    const double rate = host / level.step.count();
    const double apart = std::max(0.0, level.step.count() - host / member.link.count());
    const double time = member.slo.count() - apart;
    return {level.plan.level, host, rate, time > level.step.count() ? host / time : rate};
  }

  /// The most on the host first. The maximum is by memory: a level that leaves the batch less than it takes is no
  /// choice, unless none leaves it more.
  static std::vector<Choice> valid(const Member& member, Room room) {
    std::vector<Choice> choices;
    LayerBlocks most = member.own;
    for (const WeightsLevel& level : member.levels) most = std::max(most, member.own + level.plan.freed);
    LayerBlocks wanted = member.first;
    if (room == Room::all) wanted = member.demand;
    if (room == Room::running) wanted = std::max(member.musts, member.first);
    const LayerBlocks needed = std::min(wanted, most);
    LayerBlocks enough = most; // the least level that has room for all who run
    if (room == Room::first) {
      const LayerBlocks taken = std::max(member.musts, member.first);
      if (member.own >= taken) enough = member.own;
      for (const WeightsLevel& level : member.levels)
        if (member.own + level.plan.freed >= taken) enough = std::min(enough, member.own + level.plan.freed);
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
    std::vector<double> most; ///< bytes on the host that the engines from here on could have
    std::vector<double> rate, least, given;
    std::vector<int> current;
    std::vector<int> found;
    double best;

    void from(std::size_t engine, double host) {
      if (engine == choices.size()) {
        if (host > best) {
          best = host;
          found = current;
        }
        return;
      }
      for (const Choice& choice : choices[engine]) {
        if (host + choice.host + most[engine + 1] <= best) break; // the next have less
        rate[engine] = choice.rate;
        least[engine] = choice.least;
        current[engine] = choice.level;
        if (choice.host <= 0 || fits()) from(engine + 1, host + choice.host);
      }
      rate[engine] = least[engine] = 0;
    }
    /// Whether everybody so far has its least: who comes later only leaves less.
    bool fits() {
      divide_fairly(bus, rate, given);
      double sum = 0;
      for (std::size_t i = 0; i < rate.size(); ++i) {
        if (given[i] < least[i]) return false;
        sum += least[i];
      }
      return sum < bus;
    }
  };
};

static_assert(Coordinator<BusCoordinator>);

} // namespace sluice
