// SPDX-License-Identifier: Apache-2.0
// Group: the devices that serve one model together, as --tp specifies.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/model/shape.hpp"

#include "compare/comparison.hpp"

#include <string>

namespace compared {

/// A tensor-parallel group as seen by one of its devices.
struct Group {
  sluice::ModelShape shard;
  sluice::Device member;
  engines::CostChoice cost;
  std::string name; ///< all its devices, with their links
  std::string cost_name;
  std::string note; ///< for the report: what each device stores, and the memory it can access
};

/// Makes the group of `--tp` devices. Each error names the invalid flag.
sluice::Expected<Group> group_of(const MachineOptions& machine, const sluice::ModelShape& whole,
                                 const sluice::Device& device);

} // namespace compared
