// SPDX-License-Identifier: Apache-2.0
// config_of<E>: an engine type's configuration from the command line's setup, for a simulated or a real backend.
#pragma once

#include "sluice/model/device/device.hpp"
#include "sluice/policy/cost/calibrated.hpp"

#include "engines/setup.hpp"

#include <type_traits>
#include <utility>

namespace engines {

/// The command line's cost model, as the engine's cost type: CostChoice itself, or a cost model calibrated from it.
template <class Cost>
Cost cost_of(const Setup& setup) {
  if constexpr (std::is_same_v<Cost, CostChoice>)
    return setup.cost;
  else
    return Cost{setup.cost,
                setup.calibrates ? sluice::CalibrationPace::of_machine() : sluice::CalibrationPace::at_rest()};
}

/// `E`'s configuration: the setup that all systems share, and the parameters of single policies.
template <class E>
typename E::Config config_of(const Setup& setup, sluice::Slo slo, typename E::backend_type backend) {
  typename E::Config config{.limits = setup.limits,
                            .geometry = setup.geometry,
                            .device_blocks = setup.device_blocks,
                            .host_blocks = setup.host_blocks,
                            .cost = cost_of<typename E::cost_type>(setup),
                            .backend = std::move(backend)};
  const Tuned& tuned = setup.tuned;
  if constexpr (requires { config.placement.options.alpha; }) config.placement.options.alpha = tuned.alpha;
  if constexpr (requires { config.placement.options.node_limit; })
    if (tuned.plan_nodes) config.placement.options.node_limit = *tuned.plan_nodes;
  if constexpr (requires { config.admission.rotation; }) {
    config.admission.first_token = slo.ttft;
    config.admission.next_token = slo.tbt;
    if (tuned.rotation) config.admission.rotation = *tuned.rotation;
    if (tuned.lag_alpha) config.admission.alpha = *tuned.lag_alpha;
    if (tuned.lag_first) config.admission.beta_first = *tuned.lag_first;
    if (tuned.lag_next) config.admission.beta_next = *tuned.lag_next;
  }
  if constexpr (requires { config.weights.peak; }) {
    sluice::Device peak = setup.device;
    peak.compute_fraction = peak.bandwidth_fraction = 1; // the data sheet's peak rates
    config.weights.peak.emplace(setup.model, peak);
  }
  if constexpr (requires { config.weights.engines_on_bus; }) config.weights.engines_on_bus = setup.engines_on_bus;
  if constexpr (requires { config.weights.interval; })
    if (tuned.interval) config.weights.interval = *tuned.interval;
  if constexpr (requires { config.weights.most_layers; })
    if (tuned.remapped) config.weights.most_layers = *tuned.remapped;
  if constexpr (requires { config.weights.source.record; }) config.weights.source.record = setup.record.get();
  if constexpr (requires { config.relief.max_wait; }) config.relief.max_wait = tuned.max_wait;
  if constexpr (requires { config.placement.worst_batch; }) config.placement.worst_batch = setup.worst_batch;
  return config;
}

} // namespace engines
