// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/nlohmann/whole_trace.hpp"

#include "fuzz/fuzz_support.hpp"
#include "workload/trace_text.hpp"

SLUICE_FUZZ_TARGET(token_ids_jsonl) {
  auto trace = sluice::read_token_ids(sluice_test::lines_of(sluice_test::text_of(data, size), "trace"));
  if (trace) sluice_test::drain(*trace);
  return 0;
}
