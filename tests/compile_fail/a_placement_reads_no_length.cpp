// SPDX-License-Identifier: Apache-2.0
// A Placement that declares nothing cannot get the permission to read lengths; one that says knows_lengths = true can.
// sentences: 1
// says: only an oracle may read how long an answer will be
#include "sluice/policy/placement/placement.hpp"

using namespace sluice;

struct ShortAnswersOnHost {
  using role = roles::Placement;
  static constexpr bool places_layers = false;
#ifdef GOOD
  static constexpr bool knows_lengths = true;
#endif
  template <class Transfer>
  struct State {};
  Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }
  template <class Task, class S>
  Verdict solve(const Task& task, S&, Plan& plan) const {
    plan.requests.clear();
    for (const Claim& claim : task.claims)
      if (task.view.row(claim.slot).remaining(LengthPermit<ShortAnswersOnHost>{}) < Tokens{9})
        plan.requests.push_back({claim.slot, least(task.layers())});
    return {true, 0, Binding::none};
  }
};
static_assert(explain<ShortAnswersOnHost>());
Verdict solve(const PlacementTaskArchetype& task, Plan& plan) {
  ShortAnswersOnHost::State<int> state;
  return ShortAnswersOnHost{}.solve(task, state, plan);
}
