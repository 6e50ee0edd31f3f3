// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/slo_attainment.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace sluice;

TEST_CASE("ahead_of: the SLO less the lead, at least half of it, and no SLO stays none") {
  const Slo slo{Seconds{0.5}, Seconds{0.1}};
  CHECK(ahead_of(slo, {}) == slo);
  const Slo less = ahead_of(slo, {Seconds{0.05}, Seconds{0.02}});
  CHECK(less.ttft.count() == doctest::Approx(0.45));
  CHECK(less.tbt.count() == doctest::Approx(0.08));
  CHECK(ahead_of(slo, {Seconds{9}, Seconds{9}}) == Slo{Seconds{0.25}, Seconds{0.05}});
  CHECK(ahead_of(slo, {Seconds{-1}, Seconds{-1}}) == slo);
  const Slo none = ahead_of(Slo{}, {Seconds{1}, Seconds{1}});
  CHECK(std::isinf(none.ttft.count()));
  CHECK(std::isinf(none.tbt.count()));
  CHECK(unmeasured_lead(Slo{}) == SloLead{});
  CHECK(unmeasured_lead(slo).ttft.count() == doctest::Approx(0.1));
}
