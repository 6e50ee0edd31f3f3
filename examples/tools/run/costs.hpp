// SPDX-License-Identifier: Apache-2.0
// costs_of: the cost model that a run's planners use for this machine.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/local/rates.hpp"

#include "engines/cost_choice.hpp"
#include "engines/system.hpp"
#include "run/options.hpp"

#include <functional>
#include <string>

namespace running {

struct Costs {
  engines::CostChoice cost;
  sluice::Device device; ///< the caller sets its memories
  std::string text;      ///< the source of the times, as text
};

/// The kernel times of `--profile`; without it a roofline that is measured in the next third of a second, so two runs
/// differ slightly.
sluice::Expected<Costs> costs_of(const Options& options, const sluice::ModelWeights& weights, sluice::Decoder& decoder,
                                 const sluice::MachineSetup& setup);

/// The same if the caller measures.
sluice::Expected<Costs> costs_of(const Options& options, const sluice::ModelShape& shape, const sluice::LinkRates& link,
                                 const std::function<sluice::Expected<sluice::LocalRates>()>& measure);

/// For a system whose decodes the host attends: whether the machine of `--backend` has a host that does, and whether
/// the device states its rate (a profile may not). Errors name a flag.
sluice::Status check_host_attends(const engines::System& system, const Options& options);
sluice::Status check_host_rate(const engines::System& system, const Options& options, const sluice::Device& device);

} // namespace running
