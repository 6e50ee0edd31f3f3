// SPDX-License-Identifier: Apache-2.0
// Tenants: several models in one simulation, each with its own requests and its share of memory.
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

inline constexpr std::size_t most_tenants = 4; ///< each number of tenants is another node type to compile

struct Tenant {
  std::string name; ///< its model's name, with a number if several tenants have the same model
  Setup setup;
  sluice::Seconds base_slo{0};
};

struct Tenants {
  std::vector<Tenant> each;
  engines::SharingChoice sharing;
  sluice::BytesPerSecond bus{std::numeric_limits<double>::infinity()};
  sluice::RemapController::Order order = sluice::RemapController::Order::most_recent_first;

  /// Returns the SLO of a tenant's users: the tenant's own base, scaled like the first tenant's.
  [[nodiscard]] sluice::Slo slo(const Request& request, std::size_t tenant) const {
    sluice::Slo slo = request.slo;
    slo.tbt = slo.tbt * (each[tenant].base_slo / each.front().base_slo);
    return slo;
  }
};

/// `prepare` for tenants: prepares each one as if it were alone, with its share of the device's and the host's memory.
sluice::Expected<Comparison> prepare_tenants(const Options& options, const std::string& command);

/// Checks that no tenant flag was given without --tenants.
sluice::Status check_without_tenants(const Options& options);

/// Returns the setup of a row's model: its tenant's, or the only one. Null if the row covers all tenants.
const Setup* setup_of(const Comparison& comparison, const sluice::SystemReport& row);

} // namespace compared
