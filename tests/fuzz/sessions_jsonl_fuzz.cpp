// SPDX-License-Identifier: Apache-2.0
// Traces of sessions: any text is read, or refused in one line, whichever of the two formats it is taken for.
#include "sluice/workload/nlohmann/whole_trace.hpp"

#include "fuzz/fuzz_support.hpp"
#include "workload/trace_text.hpp"

SLUICE_FUZZ_TARGET(sessions_jsonl) {
  const std::string text = sluice_test::text_of(data, size);
  for (auto trace : {sluice::read_bailian(sluice_test::lines_of(text, "trace")),
                     sluice::read_aiperf_sessions(sluice_test::lines_of(text, "trace"))}) {
    if (trace)
      sluice_test::drain(*trace);
    else
      sluice_test::require_one_line(trace.error());
  }
  return 0;
}
