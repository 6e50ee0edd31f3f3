// SPDX-License-Identifier: Apache-2.0
// The names of an engine's policies: of their types, of their values in the configuration and in the engine, and of
// their states. A list of roles cannot generate names, so they are all bound here, one per line.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/view/view.hpp"

#include <utility>
#include <vector>

namespace sluice {

namespace detail {

/// The names of the policies' types, such as `E::cost_type`. `Policies::of<Role>` is the policy that plays the role.
template <class Policies>
struct NamedPolicies {
  using admission_type = typename Policies::template of<roles::Admission>;
  using placement_type = typename Policies::template of<roles::Placement>;
  using weights_type = typename Policies::template of<roles::Weights>;
  using cost_type = typename Policies::template of<roles::Cost>;
  using transfer_type = typename Policies::template of<roles::Transfer>;
  using replan_type = typename Policies::template of<roles::Replan>;
  using relief_type = typename Policies::template of<roles::Relief>;
  using retention_type = typename Policies::template of<roles::Retention>;
  using caching_type = typename Policies::template of<roles::Caching>;
  using delivery_type = typename Policies::template of<roles::Delivery>;
  using lookahead_type = typename Policies::template of<roles::Lookahead>;
  using layout_type = typename Policies::template of<roles::Layout>;
  using backend_type = typename Policies::template of<roles::Backend>;
};

} // namespace detail

/// Everything from which an engine of this composition is made, `E::Config`; that of a rejected composition takes
/// anything. Policies are values: those that are not set are default-constructed. The cost models, the planner's and a
/// simulated backend's, have no default: they describe hardware, which the user must name.
template <class C>
struct EngineConfig {
  Limits limits;
  Geometry geometry;
  /// Device memory for KV while all weights are resident, blocks in flight included. Below 0 if the weights alone
  /// exceed the device, for engines whose weights can stream.
  LayerBlocks device_blocks{0};
  LayerBlocks host_blocks{0}; ///< host memory for KV of live requests
  Tier tier{}; ///< host memory (or a pool) for KV that outlives its request, for engines whose Caching caches
  typename C::cost_type cost; ///< the planner's
  typename C::backend_type backend;
  typename C::admission_type admission{};
  typename C::placement_type placement{};
  typename C::weights_type weights{};
  typename C::replan_type replan{};
  typename C::relief_type relief{};
  typename C::retention_type retention{};
  typename C::caching_type caching{};
  typename C::delivery_type delivery{};
  typename C::lookahead_type lookahead{};
  typename C::observer_values observers{};
  std::vector<Tier> lower_tiers{}; ///< below `tier`, the nearest first: an SSD, a pool
  bool explains_misses = false;    ///< the tiers remember every block so far, for `events::Missed`
};

/// The policies of an engine, apart from its backend.
///
/// Rejected: a common base of both structs with every name once. A designated initializer such as `E::Config{.limits =
/// …, .lookahead = …}` cannot name a member of a base.
template <class C>
struct PolicyValues {
  /// Moves them out of `config`.
  explicit PolicyValues(EngineConfig<C>& config)
      : admission(std::move(config.admission)),
        placement(std::move(config.placement)),
        weights(std::move(config.weights)),
        cost(std::move(config.cost)),
        replan(std::move(config.replan)),
        relief(std::move(config.relief)),
        retention(std::move(config.retention)),
        caching(std::move(config.caching)),
        delivery(std::move(config.delivery)),
        lookahead(std::move(config.lookahead)),
        observers(std::move(config.observers)) {}

  [[no_unique_address]] typename C::admission_type admission;
  [[no_unique_address]] typename C::placement_type placement;
  [[no_unique_address]] typename C::weights_type weights;
  [[no_unique_address]] typename C::cost_type cost;
  [[no_unique_address]] typename C::replan_type replan;
  [[no_unique_address]] typename C::relief_type relief;
  [[no_unique_address]] typename C::retention_type retention;
  [[no_unique_address]] typename C::caching_type caching;
  [[no_unique_address]] typename C::delivery_type delivery;
  [[no_unique_address]] typename C::lookahead_type lookahead;
  [[no_unique_address]] typename C::observer_values observers;
};

/// The policies' states that only their decisions write: an engine takes them over with a decision that was made on a
/// copy of the engine.
template <class C>
struct DecisionStates {
  [[no_unique_address]] typename C::weights_type::State weights_state{};
  [[no_unique_address]] typename C::relief_type::State relief_state{};
};

namespace detail {
/// A Caching policy's state; that of a policy without one is empty.
template <class P>
struct CachingState {
  struct type {};
};
template <class P>
  requires requires { typename P::State; }
struct CachingState<P> {
  using type = typename P::State;
};
} // namespace detail

/// All states of the policies. The others are also written by events while a copy decides: the copy gets them, and its
/// changes are lost.
template <class C>
struct PolicyStates : DecisionStates<C> {
  typename C::admission_type::State admission_state{};
  [[no_unique_address]] typename C::cost_type::State cost_state{};
  [[no_unique_address]] typename C::replan_type::State replan_state{};
  [[no_unique_address]] typename detail::CachingState<typename C::caching_type>::type caching_state{};
};

} // namespace sluice
