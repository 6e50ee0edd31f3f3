// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include "fuzz/fuzz_support.hpp"
#include "workload/trace_text.hpp"

SLUICE_FUZZ_TARGET(vllm_run) {
  auto reader = sluice_test::reader_of<sluice::VllmRunReader>(sluice_test::text_of(data, size));
  sluice_test::drain(reader);
  return 0;
}
