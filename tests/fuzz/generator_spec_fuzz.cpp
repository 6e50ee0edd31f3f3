// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/generator.hpp"

#include "fuzz/fuzz_support.hpp"

SLUICE_FUZZ_TARGET(generator_spec) {
  const auto spec = sluice::parse_generator(sluice_test::text_of(data, size));
  if (!spec) {
    sluice_test::require_one_line(spec.error());
    return 0;
  }
  constexpr std::int64_t enough = 1000; // whatever number of requests the text asks for
  sluice::Shaped<sluice::Generator> reader(sluice::Generator{*spec, 1},
                                           {.limit = enough, .rate_scale = 1.0, .slo = {}});
  sluice_test::drain(reader);
  return 0;
}
