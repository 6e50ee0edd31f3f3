// SPDX-License-Identifier: Apache-2.0
// Space: the compiled product as values: roles, policies, combinations and engines.
#pragma once

#include "engines/system.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace explored {

struct RoleChoices {
  std::string role;
  std::vector<std::string> models;
};

/// One combination of models, by its number in the product.
struct Combination {
  bool works = false;       ///< its parts work together
  std::size_t original = 0; ///< the number of the combination with the same engine; usually its own
};

/// An engine that can be run.
struct Candidate {
  std::size_t number = 0; ///< its combination's
  std::string name;       ///< `Engine<…>`
  sluice::Expected<engines::Simulated> (*simulate)(const engines::Simulation&) = nullptr;
};

struct Space {
  std::string product; ///< "small", "full" or "tiers"
  std::vector<RoleChoices> roles;
  std::vector<Combination> combinations;
  std::vector<Candidate> engines; ///< by number

  /// The index of a combination's policy for role `r`.
  [[nodiscard]] std::size_t model_of(std::size_t number, std::size_t r) const {
    std::size_t stride = 1;
    for (std::size_t later = r + 1; later < roles.size(); ++later) stride *= roles[later].models.size();
    return number / stride % roles[r].models.size();
  }
  /// The distance between the numbers of two combinations that differ only in role `r`, by neighbouring policies.
  [[nodiscard]] std::size_t stride_of(std::size_t r) const {
    std::size_t stride = 1;
    for (std::size_t later = r + 1; later < roles.size(); ++later) stride *= roles[later].models.size();
    return stride;
  }
};

/// The product of this build.
Space space();

} // namespace explored
