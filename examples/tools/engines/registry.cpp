// SPDX-License-Identifier: Apache-2.0
// The registry's order.
#include "engines/registry.hpp"

#include "engines/other_rules.hpp"
#include "engines/program.hpp"
#include "engines/published.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace engines {

namespace {

template <class Keep>
std::vector<System> those(std::span<const System> of, Keep keep) {
  std::vector<System> kept;
  std::copy_if(of.begin(), of.end(), std::back_inserter(kept), keep);
  return kept;
}

template <class... Rules>
bool among([[maybe_unused]] std::string_view rule, sluice::Parts<Rules...>) { // g++ 12 warns of an empty list's rule
  return ((Rules::name == rule) || ...);
}

} // namespace

std::span<const System> published() {
#define SLUICE_CALL(name) name(),
  static const std::vector<System> table{SLUICE_PUBLISHED_SYSTEMS(SLUICE_CALL)};
#undef SLUICE_CALL
  return table;
}

bool is_own(const System& system) {
  const auto is_it = [&system](const System& known) { return known.name == system.name; };
  return system.name == "Confluence" || std::none_of(published().begin(), published().end(), is_it);
}

std::span<const System> simulated_systems() {
  static const std::vector<System> table =
      those(systems(), [](const System& system) { return system.simulate != nullptr; });
  return table;
}

std::span<const System> real_systems() {
  static const std::vector<System> table = those(systems(), [](const System& system) { return system.run != nullptr; });
  return table;
}

std::vector<System> with_own(std::span<const std::string_view> names, std::vector<System> own) {
  std::vector<System> table = those(published(), [&](const System& system) {
    return std::find(names.begin(), names.end(), system.name) != names.end();
  });
  std::move(own.begin(), own.end(), std::back_inserter(table));
  return table;
}

bool built_on(std::string_view rule) { return among(rule, OtherRules{}); }

} // namespace engines
