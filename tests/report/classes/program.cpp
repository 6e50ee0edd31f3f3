// SPDX-License-Identifier: Apache-2.0
// sluice-compare with its own engines, as sluice_add_programs() makes it of an installed Sluice.
#include "engines/program.hpp"

#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/placement/all_resident.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/serve/process.hpp"
#include "sluice/state/plan/space.hpp"

#include "deadline_first.hpp"
#include "engines/entry.hpp"
#include "engines/registry.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace {

using namespace sluice;

/// Offloads as few layers as possible, alike of every request, and tries every number twenty times. It says nothing of
/// its effort.
struct SilentSearch {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };

  [[nodiscard]] Holding least(int layers) const { return {.host = LayerSet::all(layers)}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      bool fits = false;
      for (int layers = 0; layers <= task.layers() && !fits; ++layers)
        for (int again = 0; again < 20; ++again) {
          const Holding holding{.host = evenly_spaced_layers(task.layers(), layers)};
          plan.requests.clear();
          for (const Claim& claim : task.claims.first(count)) plan.requests.push_back({claim.slot, holding});
          fits = state.trial.fits(task, plan);
        }
      return fits;
    });
  }
};
using Silent = Engine<SilentSearch, FcfsPrefillFirst, EveryStep>;

/// vLLM's relief, which computes for 40 ms a choice.
struct SlowRelief : PreemptNewest {
  std::size_t choose(const View& view, State& state, std::span<const Claim> candidates) const {
    const double began = thread_seconds();
    while (thread_seconds() - began < 0.04) {
    }
    return PreemptNewest::choose(view, state, candidates);
  }
};
using Slow = Engine<Fcfs, AllResident, SlowRelief, MoveToHost>;

/// Requests take turns and keep no KV, so under load none ends.
using Stuck = Engine<LargestVirtualLagFirst, Drop>;

/// Keeps all KV on the device, but the compiler cannot know it: a row of the registry must not fail on that.
struct UnsaidResident : AllResident {
  [[nodiscard]] Holding least(int layers) const { return AllResident{}.least(layers); }
};
static_assert(Placement<UnsaidResident>);
static_assert(!engines::detail::offloads<Engine<AllResident>>);
static_assert(engines::detail::offloads<Engine<UnsaidResident>>);

} // namespace

namespace engines {

const char* program_name() { return "sluice-deadlines"; }

std::span<const System> systems() {
  static const std::array<std::string_view, 2> named{"VllmSwap", "OrbitFlow"};
  static const std::vector<System> table =
      with_own(named, {simulated_entry<DeadlineFirst, Parts<>>("DeadlineFirst", "earliest deadline first"),
                       simulated_entry<Silent, Parts<>>("Silent", "a search that does not say its effort"),
                       simulated_entry<Slow, Parts<>>("Slow", "a relief of 40 ms a choice"),
                       simulated_entry<Stuck, Parts<>>("Stuck", "turns without KV")});
  return table;
}

} // namespace engines
