// SPDX-License-Identifier: Apache-2.0
// run_node<System>: one system for several tenants, each with an engine of that type, in one node.
#pragma once

#include "sluice/node/bus_coordinator.hpp"
#include "sluice/node/node.hpp"
#include "sluice/node/remap_controller.hpp"
#include "sluice/node/simulate_node.hpp"

#include "compare/run_engine.hpp"
#include "compare/tenants.hpp"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace compared {

/// Runs `Count` tenants under `Coordinator` to the end.
template <class Engine, class Coordinator, std::size_t Count>
sluice::Status run_tenants(const Request& request, Outcome& outcome) {
  using E = Dressed<Engine>;
  const Tenants& tenants = *request.setup.tenants;
  return [&]<std::size_t... I>(std::index_sequence<I...>)->sluice::Status {
    using N = sluice::Node<Coordinator, SharingChoice, std::conditional_t<(I < Count), E, E>...>;
    typename N::Config config{
        .engines = {config_of<E>(tenants.each[I].setup, request)...}, .sharing = tenants.sharing, .bus = tenants.bus};
    if constexpr (requires { config.coordinator.bus; }) config.coordinator.bus = tenants.bus;
    if constexpr (requires { config.coordinator.order; }) config.coordinator.order = tenants.order;
    sluice::Expected<N> node = N::make(std::move(config));
    if (!node) return node.error();
    std::array<Requests, Count> readers;
    for (std::size_t i = 0; i < Count; ++i) {
      sluice::Expected<Requests> opened = tenants.each[i].setup.open(tenants.slo(request, i));
      if (!opened) return opened.error();
      readers[i] = *std::move(opened);
    }
    const auto tell = [&request](const sluice::SimulationProgress& at) {
      request.tell(at.submitted - at.alive);
      return true;
    };
    const sluice::Status status = simulate_node(*node, readers, tell);
    const bool livelocked = !status.ok() && status.error().code == sluice::ErrorCode::livelocked;
    if (!status.ok() && !livelocked) return status;
    const Composed names{.transfer = E::transfer_type::name,
                         .choices = choices<E>(request.deposit),
                         .livelock = livelocked ? status.error().what : ""};
    std::vector<const Recorder::State*> recorded;
    node->for_each_engine(
        [&](std::size_t, const E& engine) { recorded.push_back(&engine.template observed<Recorder>()); });
    collect(request, names, recorded, node->now(), outcome);
    return {};
  }
  (std::make_index_sequence<Count>{});
}

/// As many tenants as there are, 2 to 4: each number is a node type.
template <class Engine, class Coordinator>
sluice::Status run_node(const Request& request, Outcome& outcome) {
  switch (request.setup.tenants->each.size()) {
  case 2:
    return run_tenants<Engine, Coordinator, 2>(request, outcome);
  case 3:
    return run_tenants<Engine, Coordinator, 3>(request, outcome);
  default:
    return run_tenants<Engine, Coordinator, 4>(request, outcome);
  }
}

} // namespace compared
