// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz_support.hpp"
#include "workload/trace_text.hpp"

SLUICE_FUZZ_TARGET(azure_csv) {
  auto reader = sluice_test::azure_of(sluice_test::text_of(data, size));
  sluice_test::drain(reader);
  return 0;
}
