// SPDX-License-Identifier: Apache-2.0
// Student's t compared with its integrated density and with printed tables.
#include "sluice/report/statistics/interval.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>

using namespace sluice;

namespace {

/// P(|T| <= t) by Simpson's rule over the density: independent of the finite sums.
double integrated(double t, double freedom) {
  const double factor =
      std::exp(std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2)) / std::sqrt(freedom * std::numbers::pi);
  const auto density = [&](double x) { return factor * std::pow(1 + x * x / freedom, -(freedom + 1) / 2); };
  constexpr int steps = 4'000;
  const double width = t / steps;
  double sum = density(0) + density(t);
  for (int i = 1; i < steps; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(i * width);
  return 2 * sum * width / 3;
}

} // namespace

TEST_CASE("the sums for whole degrees of freedom equal the integral of the density") {
  for (std::int64_t freedom = 1; freedom <= 60; ++freedom)
    for (const double t : {0.1, 0.7, 1.0, 1.96, 2.6, 4.0, 9.0}) {
      CAPTURE(freedom);
      CAPTURE(t);
      CHECK(detail::student_t_within(t, freedom) ==
            doctest::Approx(integrated(t, static_cast<double>(freedom))).epsilon(1e-9));
    }
}

TEST_CASE("quantiles equal those of printed tables") {
  const struct {
    double confidence;
    std::int64_t freedom;
    double t;
  } table[] = {{0.95, 1, 12.7062}, {0.95, 2, 4.3027},   {0.95, 3, 3.1824},   {0.95, 4, 2.7764},  {0.95, 5, 2.5706},
               {0.95, 7, 2.3646},  {0.95, 9, 2.2622},   {0.95, 10, 2.2281},  {0.95, 19, 2.0930}, {0.95, 30, 2.0423},
               {0.95, 60, 2.0003}, {0.90, 4, 2.1318},   {0.90, 19, 1.7291},  {0.99, 4, 4.6041},  {0.99, 9, 3.2498},
               {0.99, 30, 2.7500}, {0.95, 120, 1.9799}, {0.99, 120, 2.6174}, {0.999, 10, 4.5869}};
  for (const auto& row : table)
    CHECK(student_t_quantile(row.confidence, row.freedom) == doctest::Approx(row.t).epsilon(5e-5));
}

TEST_CASE("the probability at the quantile is the confidence, and quantiles fall to the normal's") {
  double last = 1e9;
  for (std::int64_t freedom = 1; freedom <= 400; ++freedom) {
    const double t = student_t_quantile(0.95, freedom);
    CHECK(detail::student_t_within(t, freedom) == doctest::Approx(0.95).epsilon(1e-12));
    CHECK(t < last);
    last = t;
  }
  CHECK(last > 1.959964);
  CHECK(student_t_quantile(0.95, 1'000'000) == doctest::Approx(1.959964).epsilon(1e-5));
}
