// SPDX-License-Identifier: Apache-2.0
// A placement policy whose `solve` is spelt `slove`: the compiler's answer that docs/writing-a-policy.md shows.
// sentences: 1
// says: this Placement policy needs .template <class Task, class S> Verdict solve\(const Task&, S& state, Plan&\)
// const.
#include "sluice/engine/engine.hpp"

struct EverythingAway {
  using role = sluice::roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {};
  sluice::Holding least(int layers) const { return {.host = sluice::LayerSet::all(layers)}; }

  template <class Task, class S>
#ifdef GOOD
  sluice::Verdict solve(const Task&, S&, sluice::Plan&) const {
#else
  sluice::Verdict slove(const Task&, S&, sluice::Plan&) const {
#endif
      return {};
}
}
;

using MyEngine = sluice::Engine<EverythingAway>;

inline sluice::Stepped step(MyEngine& engine) { return engine.step(); }
