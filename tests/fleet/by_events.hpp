// SPDX-License-Identifier: Apache-2.0
// by_events: the reference for fleets: every event in order of time, and reports without any delay.
#pragma once

#include "fleet/small_fleet.hpp"

#include <queue>

namespace sluice_test {

/// Serves `requests` behind `router`, event by event, in the plainest way. Returns the engine of each request.
template <class E, class R>
std::vector<std::uint32_t> route_by_events(std::size_t count, const sluice::Server& server, const R& router,
                                           const std::vector<sluice::RequestSpec>& requests) {
  using namespace sluice;
  std::vector<E> engines;
  for (std::size_t i = 0; i < count; ++i) {
    auto engine = E::make(configure<E>(server));
    REQUIRE(engine);
    engines.push_back(*std::move(engine));
  }
  std::vector<std::vector<RequestSpec>> pending(count); // routed, while the engine computes
  std::vector<EngineReport> reports(count);
  std::vector<SentSince> sent(count);
  std::vector<char> busy(count, 0);
  using End = std::pair<double, std::size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto start = [&](std::size_t i, double now) {
    engines[i].idle_until(Seconds{now});
    const View view = engines[i].view();
    reports[i].when = Seconds{now};
    reports[i].waiting = static_cast<std::int32_t>(view.waiting);
    reports[i].preempted = static_cast<std::int32_t>(view.preempted.size());
    reports[i].running = static_cast<std::int32_t>(view.running.size());
    sent[i] = {static_cast<std::int32_t>(pending[i].size()), {}}; // taken now, and not in the report
    for (const RequestSpec& one : pending[i]) REQUIRE(engines[i].submit(one));
    pending[i].clear();
    busy[i] = engines[i].step() == Stepped::ran ? 1 : 0;
    if (busy[i] != 0) ends.push({engines[i].now().count(), i});
  };
  std::vector<std::uint32_t> open(count);
  for (std::size_t i = 0; i < count; ++i) open[i] = static_cast<std::uint32_t>(i);
  typename R::State state;
  std::vector<std::uint32_t> chosen;
  for (const RequestSpec& spec : requests) {
    const double now = spec.arrival.count();
    while (!ends.empty() && ends.top().first <= now) {
      const End end = ends.top();
      ends.pop();
      start(end.second, end.first);
    }
    const std::uint64_t number = chosen.size();
    const FleetView view{spec.arrival, static_cast<std::int64_t>(number), reports, sent, open, {}};
    const std::size_t to = router.choose(view, {spec, {}, number}, state);
    chosen.push_back(static_cast<std::uint32_t>(to));
    pending[to].push_back(spec);
    ++sent[to].requests;
    if (busy[to] == 0) start(to, now);
  }
  return chosen;
}

} // namespace sluice_test
