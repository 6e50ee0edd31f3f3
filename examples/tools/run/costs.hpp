// SPDX-License-Identifier: Apache-2.0
// costs_of: what the planners of a run believe of this machine.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/local/rates.hpp"

#include "engines/cost_choice.hpp"
#include "run/options.hpp"

#include <functional>
#include <string>

namespace running {

struct Costs {
  engines::CostChoice cost;
  sluice::Device device; ///< its memories are left for who divides them
  std::string text;      ///< where it is from, for people
};

/// The kernel times of `--profile`; without one a roofline of what the decoder reaches in the next third of a second,
/// and then no two runs believe quite the same.
sluice::Expected<Costs> costs_of(const Options& options, const sluice::ModelWeights& weights, sluice::Decoder& decoder,
                                 const sluice::MachineSetup& setup);

/// The same where something else measures.
sluice::Expected<Costs> costs_of(const Options& options, const sluice::ModelShape& shape, const sluice::LinkRates& link,
                                 const std::function<sluice::Expected<sluice::LocalRates>()>& measure);

} // namespace running
