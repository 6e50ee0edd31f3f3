// SPDX-License-Identifier: Apache-2.0
// run<System>: the system's engine type, dressed for this program, through the workload.
#pragma once

#include "sluice/core/type_name.hpp"
#include "sluice/engine/simulate.hpp"
#include "sluice/transfer/deadline_pool.hpp"
#include "sluice/transfer/earliest_deadline_first.hpp"
#include "sluice/transfer/fair_share.hpp"
#include "sluice/transfer/next_layer.hpp"

#include "compare/collect.hpp"
#include "compare/delivery_choice.hpp"

#include <array>
#include <string>
#include <type_traits>
#include <utility>

namespace compared {

/// The policy's name, or nothing where it is the role's default.
template <class Role, class P>
std::string choice() {
  if constexpr (std::is_same_v<P, typename sluice::Default<Role>::type>)
    return {};
  else
    return sluice::type_name<P>();
}

/// What differs from the defaults, in the order of a decision.
template <class E>
std::array<std::string, 10> choices(bool deposit) {
  namespace roles = sluice::roles;
  return {choice<roles::Admission, typename E::admission_type>(),
          choice<roles::Placement, typename E::placement_type>(),
          choice<roles::Weights, typename E::weights_type>(),
          choice<roles::Transfer, typename E::transfer_type>(),
          choice<roles::Replan, typename E::replan_type>(),
          choice<roles::Relief, typename E::relief_type>(),
          choice<roles::Retention, typename E::retention_type>(),
          deposit ? choice<roles::Delivery, sluice::TokenDeposit>() : choice<roles::Delivery, sluice::Immediate>(),
          choice<roles::Lookahead, typename E::lookahead_type>(),
          choice<roles::Layout, typename E::layout_type>()};
}

/// The system's engine, with what a comparison chooses while it runs. `Watch`: what is recorded.
template <class Engine, class Watch = Recorder>
using Dressed = sluice::With<Engine, CostChoice, DeliveryChoice, sluice::BasicSimulated<CostChoice>, Watch>;

/// Its configuration: what every system gets alike, and the parameters of single policies.
template <class E>
typename E::Config config_of(const Setup& setup, const Request& request) {
  typename E::Config config{.limits = setup.limits,
                            .geometry = setup.geometry,
                            .device_blocks = setup.device_blocks,
                            .host_blocks = setup.host_blocks,
                            .cost = setup.cost,
                            .backend = sluice::BasicSimulated<CostChoice>{setup.cost}};
  config.delivery.deposit = request.deposit;
  const Tuned& tuned = setup.tuned;
  if constexpr (requires { config.placement.options.alpha; }) config.placement.options.alpha = tuned.alpha;
  if constexpr (requires { config.placement.options.node_limit; })
    if (tuned.plan_nodes) config.placement.options.node_limit = *tuned.plan_nodes;
  if constexpr (requires { config.admission.rotation; }) {
    config.admission.first_token = request.slo.ttft;
    config.admission.next_token = request.slo.tbt;
    if (tuned.rotation) config.admission.rotation = *tuned.rotation;
    if (tuned.lag_alpha) config.admission.alpha = *tuned.lag_alpha;
    if (tuned.lag_first) config.admission.beta_first = *tuned.lag_first;
    if (tuned.lag_next) config.admission.beta_next = *tuned.lag_next;
  }
  if constexpr (requires { config.weights.peak; }) {
    sluice::Device peak = setup.device;
    peak.compute_fraction = peak.bandwidth_fraction = 1; // of the data sheet
    config.weights.peak.emplace(setup.model, peak);
  }
  if constexpr (requires { config.weights.engines_on_bus; }) config.weights.engines_on_bus = setup.engines_on_bus;
  if constexpr (requires { config.weights.interval; })
    if (tuned.interval) config.weights.interval = *tuned.interval;
  if constexpr (requires { config.weights.most_layers; })
    if (tuned.remapped) config.weights.most_layers = *tuned.remapped;
  if constexpr (requires { config.weights.source.record; }) config.weights.source.record = setup.record;
  if constexpr (requires { config.relief.max_wait; }) config.relief.max_wait = tuned.max_wait;
  if constexpr (requires { config.placement.worst_batch; }) config.placement.worst_batch = setup.worst_batch;
  return config;
}

/// `Watch` has a `collect` of its own.
template <class Engine, class Watch = Recorder>
sluice::Status run_engine(const Request& request, Outcome& outcome) {
  using E = Dressed<Engine, Watch>;
  const Setup& setup = request.setup;
  sluice::Expected<E> engine = E::make(config_of<E>(setup, request));
  if (!engine) return engine.error();
  sluice::Expected<Requests> requests = setup.open(request.slo);
  if (!requests) return requests.error();
  const auto tell = [&request](const sluice::SimulationProgress& at) {
    request.tell(at.submitted - at.alive);
    return true;
  };
  if (sluice::Status status = simulate(*engine, *requests, tell); !status) return status;

  const Composed names{.transfer = E::transfer_type::name, .choices = choices<E>(request.deposit)};
  collect(request, names, engine->template observed<Watch>(), engine->now(), outcome);
  return {};
}

/// An engine whose KV never waits on the host has no use for another rule: it is not instantiated for them.
template <class Engine>
inline constexpr bool offloads =
    Engine::placement_type::places_layers || !typename Engine::placement_type().least(2).all_resident();

/// The system on the rule that the request names: its own, or one of `Rules`.
template <class Engine, class... Rules>
sluice::Status run(const Request& request, Outcome& outcome) {
  if constexpr (offloads<Engine>) {
    using Own = typename Engine::transfer_type;
    const auto on = [&]<class Rule>(std::type_identity<Rule>, sluice::Status& status) {
      if constexpr (!std::is_same_v<Rule, Own>) {
        if (request.rule != Rule::name) return false;
        status = run_engine<sluice::With<Engine, Rule>>(request, outcome);
        return true;
      } else {
        return false;
      }
    };
    sluice::Status status;
    if ((on(std::type_identity<Rules>{}, status) || ...)) return status;
    SLUICE_ASSERT(request.rule.empty() || request.rule == Own::name, "a rule for which built_on() holds");
  }
  return run_engine<Engine>(request, outcome);
}

} // namespace compared
