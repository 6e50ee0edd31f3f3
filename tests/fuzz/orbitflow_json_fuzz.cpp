// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/nlohmann/orbitflow_json.hpp"

#include "fuzz/fuzz_support.hpp"
#include "workload/trace_text.hpp"

SLUICE_FUZZ_TARGET(orbitflow_json) {
  auto reader = sluice_test::orbitflow_of(sluice_test::text_of(data, size), 0.05);
  if (!reader) {
    sluice_test::require_one_line(reader.error());
    return 0;
  }
  const std::int64_t counted = reader->header().requests;
  sluice_test::drain(*reader);
  sluice_test::require(counted > 0, "an opened trace holds requests");
  return 0;
}
