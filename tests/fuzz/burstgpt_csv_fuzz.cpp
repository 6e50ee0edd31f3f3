// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/nlohmann/whole_trace.hpp"

#include "fuzz/fuzz_support.hpp"
#include "workload/trace_text.hpp"

SLUICE_FUZZ_TARGET(burstgpt_csv) {
  auto trace = sluice::read_burstgpt(sluice_test::lines_of(sluice_test::text_of(data, size), "trace"));
  if (trace)
    sluice_test::drain(*trace);
  else
    sluice_test::require_one_line(trace.error());
  return 0;
}
