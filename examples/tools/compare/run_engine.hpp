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
#include "compare/config_of.hpp"
#include "compare/delivery_choice.hpp"

#include <array>
#include <string>
#include <tuple>
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

/// Its configuration in a simulation, with or without a deposit as the row asks for.
template <class E>
typename E::Config config_of(const Setup& setup, const Request& request) {
  typename E::Config config = config_of<E>(setup, request.slo, sluice::BasicSimulated<CostChoice>{setup.cost});
  config.delivery.deposit = request.deposit;
  if constexpr (requires { std::get<0>(config.observers).request; }) std::get<0>(config.observers).request = &request;
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
  const sluice::Status status = simulate(*engine, *requests, tell);
  const bool livelocked = !status.ok() && status.error().code == sluice::ErrorCode::livelocked;
  if (!status.ok() && !livelocked) return status;

  const Composed names{.transfer = E::transfer_type::name,
                       .choices = choices<E>(request.deposit),
                       .livelock = livelocked ? status.error().what : ""};
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
