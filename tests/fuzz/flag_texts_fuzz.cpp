// SPDX-License-Identifier: Apache-2.0
// The texts of flags that have a grammar of their own; `--generate` without sessions is `generator_spec`. The first
// byte chooses the flag.
#include "sluice/workload/csv.hpp"
#include "sluice/workload/seeds.hpp"
#include "sluice/workload/session_generator.hpp"
#include "sluice/workload/slo_classes.hpp"

#include "fuzz/fuzz_support.hpp"

SLUICE_FUZZ_TARGET(flag_texts) {
  if (size == 0) return 0;
  const std::string text = sluice_test::text_of(data + 1, size - 1);
  const auto check = [](const auto& read) {
    if (!read) sluice_test::require_one_line(read.error());
  };
  switch (data[0]) {
  case 'c':
    check(sluice::parse_csv_columns(text));
    break;
  case 'd':
    check(sluice::parse_seeds(text));
    break;
  case 'l':
    check(sluice::parse_slo_classes(text));
    break;
  default:
    check(sluice::parse_sessions(text));
  }
  return 0;
}
