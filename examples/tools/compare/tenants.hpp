// SPDX-License-Identifier: Apache-2.0
// Tenants: several models in one simulation, each with its part of the memory and its own requests.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/node/remap_controller.hpp"

#include "compare/comparison.hpp"
#include "compare/run.hpp"
#include "engines/sharing_choice.hpp"

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace compared {

inline constexpr std::size_t most_tenants = 4; ///< each number of them is another node type to compile

struct Tenant {
  std::string name; ///< its model's; numbered where several have the same
  Setup setup;
  sluice::Seconds base_slo{0};
};

struct Tenants {
  std::vector<Tenant> each;
  engines::SharingChoice sharing;
  sluice::BytesPerSecond bus{std::numeric_limits<double>::infinity()};
  sluice::RemapController::Order order = sluice::RemapController::Order::most_recent_first;

  /// What a tenant's users are promised: its own base, scaled as the first one's is.
  [[nodiscard]] sluice::Slo slo(const Request& request, std::size_t tenant) const {
    sluice::Slo slo = request.slo;
    slo.tbt = slo.tbt * (each[tenant].base_slo / each.front().base_slo);
    return slo;
  }
};

/// `prepare` where there are tenants: each is prepared as if it were alone with its part of the memory, the device's
/// and the host's.
sluice::Expected<Comparison> prepare_tenants(const Options& options, const std::string& command);

/// Whether there are no flags that say something of tenants, where there are none.
sluice::Status check_without_tenants(const Options& options);

/// The setup whose model a row of the report is of: its tenant's, or the only one's. Null: the row is of all tenants.
const Setup* setup_of(const Comparison& comparison, const sluice::SystemReport& row);

} // namespace compared
