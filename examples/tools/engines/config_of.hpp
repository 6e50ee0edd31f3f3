// SPDX-License-Identifier: Apache-2.0
// config_of<E>: an engine type's configuration from the command line's setup, for a simulated or a real backend.
#pragma once

#include "sluice/model/device/device.hpp"
#include "sluice/policy/cost/calibrated.hpp"

#include "engines/numbers.hpp"
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

/// `E`'s configuration: the setup that all systems share, and the numbers of its policies.
template <class E>
typename E::Config config_of(const Setup& setup, sluice::Slo slo, typename E::backend_type backend) {
  typename E::Config config{.limits = setup.limits,
                            .geometry = setup.geometry,
                            .device_blocks = setup.device_blocks,
                            .host_blocks = setup.host_blocks,
                            .cost = cost_of<typename E::cost_type>(setup),
                            .backend = std::move(backend)};
  // A simulated engine's host memory is the tier's; a real machine has room for its own.
  if constexpr (sluice::has_tiers<E>) {
    config.tier.capacity = sluice::TokenBlocks{config.host_blocks.count() / setup.geometry.layers};
    if constexpr (E::retention_type::finds_released) config.host_blocks = {}; // else live requests share it
    config.tier = sluice::reached_by<typename E::caching_type>(config.tier);
    config.lower_tiers = setup.lower_tiers;
  }
  // What policies must know of the machine and the workload. A policy gets it by the name that it declares, never by
  // the names of its members.
  if constexpr (sluice::numbers_name<typename E::admission_type>() == "LargestVirtualLagFirst") {
    config.admission.first_token = slo.ttft;
    config.admission.next_token = slo.tbt;
    // With KV in groups a block takes the less room the more its request has: the first one's, the most, keeps what
    // rotates within the link.
    const sluice::LayerBlocks room = setup.geometry.kv_of(sluice::TokenBlocks{1});
    if (const sluice::Bytes block = setup.geometry.layer_block_bytes * room.count(); block.count() > 0)
      config.admission.rotation = config.admission.rotation_within(slo.tbt, setup.cost.link().rate, block,
                                                                   sluice::TokenBlocks{setup.device_blocks / room});
  }
  if constexpr (sluice::numbers_name<typename E::weights_type>() == "StreamedShare") {
    sluice::Device peak = setup.device;
    peak.compute_fraction = peak.bandwidth_fraction = 1; // the data sheet's peak rates
    config.weights.peak.emplace(setup.model, peak);
    config.weights.engines_on_bus = setup.engines_on_bus;
  }
  if constexpr (sluice::numbers_name<typename E::weights_type>() == "SloInterval")
    if constexpr (requires { config.weights.source.record; }) config.weights.source.record = setup.record.get();
  if constexpr (sluice::numbers_name<typename E::placement_type>() == "FewestLayers")
    config.placement.worst_batch = setup.worst_batch;
  set_numbers(config.admission, setup.numbers);
  set_numbers(config.placement, setup.numbers);
  set_numbers(config.weights, setup.numbers);
  set_numbers(config.replan, setup.numbers);
  set_numbers(config.relief, setup.numbers);
  set_numbers(config.retention, setup.numbers);
  set_numbers(config.caching, setup.numbers);
  set_numbers(config.delivery, setup.numbers);
  set_numbers(config.lookahead, setup.numbers);
  return config;
}

} // namespace engines
