// SPDX-License-Identifier: Apache-2.0
#include "sluice/policy/cost/nlohmann/orbitflow_profile.hpp"

#include "fuzz/fuzz_support.hpp"

SLUICE_FUZZ_TARGET(orbitflow_profile) {
  const auto profile = sluice::parse_json_object(sluice_test::text_of(data, size), "profile.json");
  if (!profile) {
    sluice_test::require_one_line(profile.error());
    return 0;
  }
  for (const char* section : {"NoPrefetch", "Communication"}) {
    const auto fit = sluice::detail::orbitflow_fit(*profile, section, "profile.json");
    if (!fit) {
      sluice_test::require_one_line(fit.error());
      return 0;
    }
    sluice_test::require(fit->per_token > 0 && fit->fixed >= 0, "a fit that was read gives a time");
  }
  return 0;
}
