// SPDX-License-Identifier: Apache-2.0
#include "engines/entry.hpp"
#include "engines/published.hpp"
#include "engines/variants.hpp"

namespace engines {

namespace {

/// Marks a variant, which also serves tenants under `Coordinator`.
template <class E, class Coordinator>
System variant_for_tenants(System system) {
  if constexpr (detail::engines_for != detail::EnginesFor::machine)
    system.simulate_node = &detail::simulate_node<E, Coordinator>;
  system.variant = true;
  return system;
}

} // namespace

System vllm_prefill_first() {
  return variant_for_tenants<VllmPrefillFirst, sluice::Uncoordinated>(
      simulated_entry<VllmPrefillFirst, sluice::Parts<>>("VllmPrefillFirst",
                                                         "variant: vLLM 0.7, whole prompts before decodes"));
}
System mirage_prefill_first() {
  return variant_for_tenants<MiragePrefillFirst, sluice::RemapController>(
      simulated_entry<MiragePrefillFirst, sluice::Parts<>>("MiragePrefillFirst", "variant: Mirage on vLLM 0.7"));
}

} // namespace engines
