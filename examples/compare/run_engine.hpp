// SPDX-License-Identifier: Apache-2.0
// run<System>: the system's engine type, dressed for this program, through the workload.
#pragma once

#include "sluice/core/type_name.hpp"
#include "sluice/observer/chosen_iteration.hpp"
#include "sluice/observer/series.hpp"
#include "sluice/observer/summary.hpp"
#include "sluice/observer/timeline.hpp"
#include "sluice/observer/trace_json.hpp"
#include "sluice/transfer/deadline_pool.hpp"
#include "sluice/transfer/earliest_deadline_first.hpp"
#include "sluice/transfer/fair_share.hpp"
#include "sluice/transfer/next_layer.hpp"

#include "compare/delivery_choice.hpp"
#include "compare/run.hpp"

#include <string>
#include <utility>

namespace compared {

template <class Role, class P>
void append_choice(std::string& text) {
  if (std::is_same_v<P, typename sluice::Default<Role>::type>) return;
  if (text.back() != '<') text += ", ";
  text += sluice::type_name<P>();
}

/// The composition as one would write it: the roles that differ from the defaults.
template <class E>
std::string engine_text(bool deposit) {
  namespace roles = sluice::roles;
  std::string text = "Engine<";
  append_choice<roles::Admission, typename E::admission_type>(text);
  append_choice<roles::Placement, typename E::placement_type>(text);
  append_choice<roles::Weights, typename E::weights_type>(text);
  append_choice<roles::Transfer, typename E::transfer_type>(text);
  append_choice<roles::Replan, typename E::replan_type>(text);
  append_choice<roles::Relief, typename E::relief_type>(text);
  append_choice<roles::Retention, typename E::retention_type>(text);
  if (deposit)
    append_choice<roles::Delivery, sluice::TokenDeposit>(text);
  else
    append_choice<roles::Delivery, sluice::Immediate>(text);
  append_choice<roles::Lookahead, typename E::lookahead_type>(text);
  append_choice<roles::Layout, typename E::layout_type>(text);
  return text + ">";
}

template <class Engine>
sluice::Expected<Outcome> run_engine(const Request& request) {
  using E = sluice::With<Engine, CostChoice, DeliveryChoice, sluice::BasicSimulated<CostChoice>, sluice::Summary,
                         sluice::Series, sluice::ChosenIteration, sluice::Timeline>;
  const Setup& setup = request.setup;
  typename E::Config config{.limits = setup.limits,
                            .geometry = setup.geometry,
                            .device_blocks = setup.device_blocks,
                            .host_blocks = setup.host_blocks,
                            .cost = setup.cost,
                            .backend = sluice::BasicSimulated<CostChoice>{setup.cost}};
  config.delivery.deposit = request.deposit;
  if constexpr (requires { config.placement.options.alpha; }) config.placement.options.alpha = setup.alpha;
  if constexpr (requires { config.relief.max_wait; }) config.relief.max_wait = setup.max_wait;
  if constexpr (requires { config.placement.worst_batch; }) config.placement.worst_batch = setup.worst_batch;
  sluice::Expected<E> engine = E::make(std::move(config));
  if (!engine) return engine.error();
  sluice::Expected<sluice::Trace> trace = setup.open(request.slo);
  if (!trace) return trace.error();
  if (sluice::Status status = simulate(*engine, *trace, request.tell); !status) return status.error();

  Outcome outcome;
  sluice::SystemReport& report = outcome.report;
  report.deposit = request.deposit;
  report.slo_tbt_s = request.slo.tbt.count();
  report.slo_ttft_s = request.slo.ttft.count();
  report.transfer = E::transfer_type::name;
  report.engine_type = engine_text<Engine>(request.deposit);
  collect(report, engine->template observed<sluice::Summary>(), engine->now());
  collect(report, engine->template observed<sluice::Series>());
  collect(report, engine->template observed<sluice::ChosenIteration>());
  if (request.details) outcome.trace = trace_json(engine->template observed<sluice::Timeline>(), report.engine_type);
  return outcome;
}

/// An engine whose KV never waits on the host has no use for another rule: it is not instantiated for them.
template <class Engine>
inline constexpr bool offloads =
    Engine::placement_type::places_layers || !typename Engine::placement_type().least(2).all_resident();

template <class Engine>
sluice::Expected<Outcome> run(const Request& request) {
  if constexpr (offloads<Engine>) {
    switch (request.rule) {
    case Rule::own:
      break;
    case Rule::next_layer:
      return run_engine<sluice::With<Engine, sluice::NextLayer>>(request);
    case Rule::fair_share:
      return run_engine<sluice::With<Engine, sluice::FairShare>>(request);
    case Rule::earliest_deadline_first:
      return run_engine<sluice::With<Engine, sluice::EarliestDeadlineFirst>>(request);
    case Rule::deadline_pool:
      return run_engine<sluice::With<Engine, sluice::DeadlinePool>>(request);
    }
  }
  return run_engine<Engine>(request);
}

} // namespace compared
