// SPDX-License-Identifier: Apache-2.0
// A file of API keys: a mistake is one line, and keys that were read can be used.
#include "sluice/serve/api_keys.hpp"

#include "fuzz/fuzz_support.hpp"

SLUICE_FUZZ_TARGET(api_keys) {
  const auto keys = sluice::read_api_keys(sluice_test::text_of(data, size));
  if (!keys) {
    sluice_test::require_one_line(keys.error());
    return 0;
  }
  const sluice::ApiKeys all(*keys, 0);
  sluice_test::require(all.size() == keys->size(), "each key has an account");
  for (const sluice::ApiKey& one : *keys) {
    sluice::HttpHeaders headers;
    headers.add("Authorization", "Bearer " + one.secret);
    sluice_test::require(all.find(headers) != nullptr, "a key that was read is known");
  }
  return 0;
}
