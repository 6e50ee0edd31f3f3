// SPDX-License-Identifier: Apache-2.0
// entry<E>: an engine type's row in the registry. It instantiates the engine: once per program, in the system's own
// file. SLUICE_ENGINES_FOR says for which kind of run: simulation, machine or both (the default).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/text.hpp"
#include "sluice/engine/node/bus_coordinator.hpp"
#include "sluice/engine/node/node.hpp"
#include "sluice/engine/node/remap_controller.hpp"
#include "sluice/engine/node/simulate_node.hpp"
#include "sluice/engine/product.hpp"
#include "sluice/engine/submit.hpp"

#include "engines/caching_choice.hpp"
#include "engines/config_of.hpp"
#include "engines/delivery_choice.hpp"
#include "engines/other_rules.hpp"
#include "engines/system.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#ifndef SLUICE_ENGINES_FOR
#define SLUICE_ENGINES_FOR both
#endif

namespace engines {

namespace detail {

/// The published systems are compiled for one kind of run, because no program has use for both
/// (engines/CMakeLists.txt); a user's engines for both.
enum class EnginesFor { simulation, machine, both };
constexpr EnginesFor engines_for = EnginesFor::SLUICE_ENGINES_FOR;

/// The policy's name; empty if it is the role's default.
template <class Role, class P>
std::string choice() {
  if constexpr (std::is_same_v<P, typename sluice::Default<Role>::type>)
    return {};
  else
    return sluice::type_name<P>();
}

/// The policies that differ from the defaults, in the order of a decision.
template <class E>
Composed composed_of(bool deposit) {
  namespace roles = sluice::roles;
  return {E::transfer_type::name,
          {choice<roles::Admission, typename E::admission_type>(),
           choice<roles::Placement, typename E::placement_type>(), choice<roles::Weights, typename E::weights_type>(),
           choice<roles::Transfer, typename E::transfer_type>(), choice<roles::Replan, typename E::replan_type>(),
           choice<roles::Relief, typename E::relief_type>(), choice<roles::Retention, typename E::retention_type>(),
           choice<roles::Caching, typename E::caching_type>(),
           deposit ? choice<roles::Delivery, sluice::TokenDeposit>() : choice<roles::Delivery, sluice::Immediate>(),
           choice<roles::Lookahead, typename E::lookahead_type>(), choice<roles::Layout, typename E::layout_type>()},
          sluice::Caches<typename E::caching_type>};
}

/// The system's engine, with the policies that a program selects at run time.
template <class E>
using Dressed = sluice::With<E, CostChoice, DeliveryChoice, sluice::BasicSimulated<CostChoice>, Observer>;

template <class E>
typename E::Config config_of(const Simulation& of) {
  typename E::Config config =
      engines::config_of<E>(of.setup, of.slo, sluice::BasicSimulated<CostChoice>{of.setup.cost});
  config.delivery.deposit = of.deposit;
  config.explains_misses = of.explains_misses;
  config.observers = std::tuple{Observer{of.listener}};
  return config;
}

template <class System>
sluice::Expected<Simulated> simulate(const Simulation& of) {
  using E = Dressed<System>;
  sluice::Expected<SimulatedEngine> engine = sluice::make_any<E>(config_of<E>(of));
  if (!engine) return engine.error();
  return Simulated{*std::move(engine), composed_of<E>(of.deposit)};
}

/// Whether a placement keeps all KV on the device, as far as the compiler can compute: `least` need not be constexpr.
template <class P>
concept KeepsAllResident = !P::places_layers && requires {
  requires std::bool_constant<P().least(2).all_resident()>::value;
};

/// An engine whose placement keeps all KV on the device needs no other rule: those are not instantiated.
template <class E>
inline constexpr bool offloads = !KeepsAllResident<typename E::placement_type>;

/// Simulates on the requested rule: the system's own, or one of `Rules`.
template <class System, class... Rules>
sluice::Expected<Simulated> simulate_on(const Simulation& of, sluice::Parts<Rules...>) {
  using Own = typename System::transfer_type;
  if constexpr (offloads<System>) {
    std::optional<sluice::Expected<Simulated>> made;
    const auto on = [&]<class Rule>(std::type_identity<Rule>) {
      if constexpr (!std::is_same_v<Rule, Own>) {
        if (!made && of.rule == Rule::name) made.emplace(simulate<sluice::With<System, Rule>>(of));
      }
    };
    (on(std::type_identity<Rules>{}), ...);
    if (made) return *std::move(made);
    SLUICE_ASSERT(of.rule.empty() || of.rule == Own::name, "a rule that the system is compiled for");
  }
  return simulate<System>(of);
}

template <class System, class Also>
sluice::Expected<Simulated> simulated(const Simulation& of) {
  return simulate_on<System>(of, Also{});
}

/// The system on a real machine: with its own Caching policy, or the one that a program selects at run time.
template <class System>
using Driven = std::conditional_t<sluice::Caches<typename System::composition::caching_type>,
                                  sluice::With<System, Believed, sluice::Cpu, Observer>,
                                  sluice::With<System, Believed, sluice::Cpu, CachingChoice, Observer>>;

template <class System>
sluice::Expected<RealEngine> real(const Setup& setup, sluice::Slo slo, sluice::Cpu backend, Observer observer) {
  using E = Driven<System>;
  typename E::Config config = engines::config_of<E>(setup, slo, std::move(backend));
  if constexpr (requires { config.caching.says; }) config.caching.says = setup.host_caching;
  config.observers = std::tuple{observer};
  return sluice::make_any<E>(std::move(config));
}

template <class System>
RealComposed real_composed() {
  return {sluice::engine_name<System>(), System::composition::transfer_type::name,
          System::composition::delivery_type::deposits, sluice::foresees<System>};
}

/// Whether the system recomputes K and V of a prefix: its placement drops KV (eLLM, KVPR, Apt-Serve), or its retention
/// keeps hidden states instead (HCache).
template <class System>
inline constexpr bool rebuilds_kv = requires(typename System::Config config) {
  config.placement.states;
}
|| sluice::Rebuilds<typename System::composition::placement_type> || System::composition::retention_type::keeps_hidden;

/// Simulates `Count` tenants under `Coordinator` to the end.
template <class System, class Coordinator, std::size_t Count>
sluice::Expected<NodeEnd> simulate_tenants(const NodeSimulation& of) {
  using E = Dressed<System>;
  return [&]<std::size_t... I>(std::index_sequence<I...>)->sluice::Expected<NodeEnd> {
    using N = sluice::Node<Coordinator, SharingChoice, std::conditional_t<(I < Count), E, E>...>;
    typename N::Config config{.engines = {config_of<E>(of.tenants[I])...}, .sharing = of.sharing, .bus = of.bus};
    if constexpr (requires { config.coordinator.bus; }) config.coordinator.bus = of.bus;
    if constexpr (requires { config.coordinator.order; }) config.coordinator.order = of.order;
    sluice::Expected<N> node = N::make(std::move(config));
    if (!node) return node.error();
    std::array<Requests, Count> readers{of.workloads[I]...};
    const auto tell = [&of](const sluice::SimulationProgress& at) {
      of.tell(at.submitted - at.alive);
      return true;
    };
    sluice::Status status = simulate_node(*node, readers, tell);
    if (!status.ok() && status.error().code != sluice::ErrorCode::livelocked) return status.error();
    return NodeEnd{node->now(), std::move(status), composed_of<E>(of.tenants.front().deposit)};
  }
  (std::make_index_sequence<Count>{});
}

/// Each number of tenants is a separate node type.
template <class System, class Coordinator>
sluice::Expected<NodeEnd> simulate_node(const NodeSimulation& of) {
  switch (of.tenants.size()) {
  case 2:
    return simulate_tenants<System, Coordinator, 2>(of);
  case 3:
    return simulate_tenants<System, Coordinator, 3>(of);
  default:
    return simulate_tenants<System, Coordinator, 4>(of);
  }
}

} // namespace detail

/// A system that is only simulated, under the name `name`, on its own transfer rule and those in `Also`.
template <class E, class Also = OtherRules>
System simulated_entry(std::string_view name, std::string_view what) {
  System system{.name = name, .what = what};
  if constexpr (detail::engines_for != detail::EnginesFor::machine) system.simulate = &detail::simulated<E, Also>;
  system.numbers = &numbers_of<E>;
  system.foresees = sluice::foresees<E>;
  system.uses_hints = sluice::heeded_hints<E>;
  using sluice::LayerSet;
  const typename E::placement_type placement{};
  system.equal_layers = sluice::needs_equal_layers<typename E::composition>(placement, LayerSet::all(2), 2);
  system.movable_layers = sluice::needs_equal_layers<typename E::composition>(placement, LayerSet{}, 2);
  return system;
}

/// Makes the system run for real, as the engine type `E`.
template <class E>
void add_real([[maybe_unused]] System& system) {
  if constexpr (detail::engines_for != detail::EnginesFor::simulation) {
    system.run = &detail::real<E>;
    system.composed = &detail::real_composed<E>;
    system.knows_lengths = sluice::knows_lengths<E>;
    system.caches = sluice::Caches<typename E::composition::caching_type>;
    system.evicts = sluice::reached_by<typename E::composition::caching_type>(sluice::Tier{}).replacement;
    system.moves_weights = !std::is_same_v<typename E::composition::weights_type, sluice::ResidentWeights>;
    system.finds_released = E::composition::retention_type::finds_released;
    system.rebuilds_kv = detail::rebuilds_kv<E>;
    system.states_on_device = sluice::KeepsStates<typename E::composition::placement_type>;
  }
}

/// A system that is simulated and runs for real.
template <class E, class Also = OtherRules>
System entry(std::string_view name, std::string_view what) {
  System system = simulated_entry<E, Also>(name, what);
  add_real<E>(system);
  return system;
}

/// A system that can also serve several tenants in a node, under `Coordinator`.
template <class E, class Coordinator>
System tenants_entry(std::string_view name, std::string_view what) {
  System system = entry<E>(name, what);
  if constexpr (detail::engines_for != detail::EnginesFor::machine)
    system.simulate_node = &detail::simulate_node<E, Coordinator>;
  return system;
}

} // namespace engines
