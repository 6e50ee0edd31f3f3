// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/nlohmann/jsonl_reader.hpp"

#include "fuzz/fuzz_support.hpp"
#include "workload/trace_text.hpp"

SLUICE_FUZZ_TARGET(token_ids_jsonl) {
  auto reader = sluice_test::reader_of<sluice::TokenIdsReader>(sluice_test::text_of(data, size));
  sluice_test::drain(reader);
  return 0;
}
