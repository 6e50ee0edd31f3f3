// SPDX-License-Identifier: Apache-2.0
// The registry's order.
#include "engines/registry.hpp"

#include "engines/other_rules.hpp"
#include "engines/published.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace engines {

namespace {

template <class Keep>
std::vector<System> those(Keep keep) {
  std::vector<System> kept;
  std::copy_if(published().begin(), published().end(), std::back_inserter(kept), keep);
  return kept;
}

template <class... Rules>
bool among([[maybe_unused]] std::string_view rule, sluice::Parts<Rules...>) { // g++ 12 warns of an empty list's rule
  return ((Rules::name == rule) || ...);
}

} // namespace

std::span<const System> published() {
  static const std::vector<System> table{
      all_resident(),
      one_at_a_time(),
      vllm_recompute(),
      vllm_swap(),
      swapped_first(),
      waiting_first(),
      sjf_oracle(),
      length_ranked(),
      future_memory(),
      superinfer(),
      deepspeed_inference(),
      flexgen(),
      flexgen_plus(),
      slo_aware(),
      dynamic_heuristic(),
      vllm_recompute_sized(),
      vllm_swap_sized(),
      hcache(),
      ellm(),
      deepspeed_weights(),
      flexgen_weights(),
      select_n(),
      pie(),
      mirage(),
      mirage_one_slot(),
      mirage_no_reversion(),
      orbitflow_uniform(),
      orbitflow_request_wise(),
      orbitflow_pause(),
      orbitflow(),
      orbitflow_pool(),
      orbitflow_srtf(),
      orbitflow_pause_shortest(),
      orbitflow_pause_random(),
      orbitflow_even(),
  };
  return table;
}

std::span<const System> simulated_systems() {
  static const std::vector<System> table = those([](const System& system) { return system.simulate != nullptr; });
  return table;
}

std::span<const System> real_systems() {
  static const std::vector<System> table = those([](const System& system) { return system.run != nullptr; });
  return table;
}

std::vector<System> with_own(std::span<const std::string_view> names, std::vector<System> own) {
  std::vector<System> table = those([&](const System& system) {
    return system.simulate != nullptr && std::find(names.begin(), names.end(), system.name) != names.end();
  });
  std::move(own.begin(), own.end(), std::back_inserter(table));
  return table;
}

bool built_on(std::string_view rule) { return among(rule, OtherRules{}); }

} // namespace engines
