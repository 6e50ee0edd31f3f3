// SPDX-License-Identifier: Apache-2.0
// Two missing hooks give two messages, whatever other messages the engine gives.
// sentences: 2
// says: this Replan policy needs .void observe\(State&, Seconds predicted, Seconds measured\) const.
// says: this Replan policy needs .Window window\(\) const.
#include "sluice/engine/engine.hpp"
#include "sluice/report/observer/summary.hpp"

struct Hourly {
  using role = sluice::roles::Replan;
  struct State {};
  bool due(const sluice::View& view, const State&, std::uint64_t) const { return view.step % 3600 == 0; }
#ifdef GOOD
  sluice::Window window() const { return {1, 1}; }
  void observe(State&, sluice::Seconds, sluice::Seconds) const {}
  void planned(State&) const {}
#endif
};

using E = sluice::Engine<Hourly, sluice::Summary>;
using Other = sluice::With<E, sluice::Drop>; // made of the same policies: the same two messages, each once

std::size_t use(const E& engine, const Other& other) {
  return engine.observed<sluice::Summary>().requests.size() + other.observed<sluice::Summary>().gaps.size();
}
