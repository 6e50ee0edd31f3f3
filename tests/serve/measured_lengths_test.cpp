// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/measured_pace.hpp"

#include <doctest/doctest.h>

using namespace sluice;

TEST_CASE("MeasuredLengths assumes the bounds until enough answers have ended, then their measured share") {
  RequestRow row;
  row.spec = RequestSpec{.output = Tokens{100}, .slo = {}, .output_is_bound = true};
  row.generated = Tokens{30};
  MeasuredLengths lengths;
  for (int i = 0; i < 19; ++i) {
    lengths.ended(row);
    CHECK(lengths.share() == 1);
  }
  lengths.ended(row);
  CHECK(lengths.share() == doctest::Approx(0.3));
  row.generated = Tokens{90};
  for (int i = 0; i < 1000; ++i) lengths.ended(row); // old samples are forgotten
  CHECK(lengths.share() == doctest::Approx(0.9).epsilon(0.01));

  CHECK(MeasuredLengths::expected(row, 0.301) == Tokens{31});
  CHECK(MeasuredLengths::expected(row, 0) == Tokens{1});
  CHECK(MeasuredLengths::expected(row, 1) == Tokens{100});
  row.spec = RequestSpec{.output = Tokens{100}, .slo = {}}; // the exact length
  CHECK(MeasuredLengths::expected(row, 0.3) == Tokens{100});
}
