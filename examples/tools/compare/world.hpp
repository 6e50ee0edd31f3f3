// SPDX-License-Identifier: Apache-2.0
// World: the simulated machine, which --model, --device, --profile and --tp describe.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/description.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/workload.hpp"

#include "compare/options.hpp"
#include "engines/cost_choice.hpp"

#include <memory>
#include <optional>
#include <string>

namespace compared {

/// Model, device, and the cost model for both. For a group, the part of one device.
struct World {
  sluice::ModelShape shape;
  sluice::Device device;
  engines::CostChoice cost;
  std::string cost_name;
  std::string name{}; ///< a group's name
  int devices = 1;
  std::string group_note{};
  std::string measured{};       ///< the caution about a measured profile: on what; empty: a roofline
  sluice::Bytes whole_token{0}; ///< of KV, on all devices of a group together
  std::optional<sluice::ModelDescription> layered{}; ///< a model whose layers differ; `shape` then has its widths alone
  std::shared_ptr<const sluice::KvLayers> groups{};  ///< of such a model, in blocks of the engines' length

  [[nodiscard]] sluice::Bytes weight_bytes() const { return layered ? layered->weight_bytes() : shape.weight_bytes(); }
  /// Sizes for engines, which `groups` outlives.
  [[nodiscard]] sluice::Geometry geometry(sluice::Tokens block_tokens) const;
};

/// Reads the machine's files. Errors: a file is wrong, flags exclude each other, or the profile was measured with
/// another model or on another device.
sluice::Expected<World> world_of(const MachineOptions& machine);

/// Returns the decode step of one request whose KV fills the budget, with nothing offloaded. It is one SLO in
/// OrbitFlow's traces, and the unit of time for traces whose arrivals count steps.
sluice::Seconds full_budget_step(const World& world, sluice::TokenBlocks budget, sluice::Tokens block_tokens);

/// Returns the decode step of a full batch of the workload's mean lengths, with the prompt and half of the output in KV
/// and nothing offloaded.
sluice::Seconds full_batch_step(const World& world, const sluice::WorkloadTotals& sum, int batch);

} // namespace compared
