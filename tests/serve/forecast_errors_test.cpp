// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/forecast_errors.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

using namespace sluice;

namespace {

const Slo chat{Seconds{0.5}, Seconds{0.1}}, batch{Seconds{10}, Seconds{1}};

/// A request that is foretold `first` and `longest` and gets its tokens at these times.
void serve(ForecastErrors& errors, std::uint32_t id, const Slo& slo, double first, double longest,
           const std::vector<double>& times) {
  errors.entered(RequestId{id}, slo);
  errors.foretell({{RequestId{id}, Seconds{first}, Seconds{longest}}});
  for (const double at : times) errors.delivered(RequestId{id}, Seconds{at});
  errors.ended(RequestId{id});
}

} // namespace

TEST_CASE("ForecastErrors: measured less foretold, of the first token and of the longest gap") {
  ForecastErrors errors;
  CHECK(errors.margin(chat) == unmeasured_lead(chat));
  CHECK(errors.margin(Slo{}) == SloLead{});
  serve(errors, 0, chat, 1.0, 0.05, {1.25, 1.3, 1.365, 1.4});
  CHECK(errors.measured() == 2);
  CHECK(errors.margin(chat).ttft.count() == doctest::Approx(0.25)); // more than is kept anyway at the beginning
  CHECK(errors.margin(chat).tbt == unmeasured_lead(chat).tbt);
  for (std::uint32_t id = 1; id < ForecastErrors::few - 1; ++id)
    serve(errors, id, chat, 2.0, 0.05, {1.5, 1.52}); // sooner than foretold: no margin, and the first one's stays
  CHECK(errors.margin(chat).tbt == unmeasured_lead(chat).tbt);
  serve(errors, ForecastErrors::few, chat, 2.0, 0.05, {3.0, 3.06}); // the second largest of a hundred is their P99
  CHECK(errors.margin(chat).ttft.count() == doctest::Approx(0.25));
  CHECK(errors.margin(chat).tbt.count() == doctest::Approx(0.01));
}

TEST_CASE("ForecastErrors: later forecasts may foretell worse, which is then no error") {
  ForecastErrors errors;
  errors.entered(RequestId{3}, chat);
  errors.foretell({{RequestId{3}, Seconds{1}, Seconds{0.02}}});
  errors.foretell({{RequestId{3}, Seconds{1.4}, Seconds{0.06}}}); // a newcomer that was let in delays it
  errors.foretell({{RequestId{3}, Seconds{1.3}, Seconds{0.03}}});
  errors.delivered(RequestId{3}, Seconds{1.4});
  errors.foretell({{RequestId{3}, Seconds{-1}, Seconds{0.04}}});
  errors.delivered(RequestId{3}, Seconds{1.46});
  errors.ended(RequestId{3});
  errors.each([](const SloClassName& /*name*/, const ForecastErrorsOfClass& of) {
    REQUIRE(of.ttft.size() == 1);
    REQUIRE(of.gap.size() == 1);
    CHECK(of.ttft.quantile(1) == doctest::Approx(0));
    CHECK(std::abs(of.gap.quantile(1)) < 1e-9);
  });
}

TEST_CASE("ForecastErrors: only of requests that were foretold, that ended by themselves, and of SLOs that they have") {
  ForecastErrors errors;
  errors.entered(RequestId{1}, chat);
  errors.delivered(RequestId{1}, Seconds{5});
  errors.delivered(RequestId{1}, Seconds{9});
  errors.ended(RequestId{1}); // no forecast was made of it
  serve(errors, 2, Slo{}, 1, 0.05, {3, 4});
  CHECK(errors.measured() == 0);
  errors.entered(RequestId{3}, chat);
  errors.foretell({{RequestId{3}, Seconds{1}, Seconds{0.1}}, {RequestId{99}, Seconds{1}, Seconds{0.1}}});
  errors.delivered(RequestId{3}, Seconds{1});
  errors.left(RequestId{3});
  errors.ended(RequestId{3});
  CHECK(errors.measured() == 1); // its first token's
}

TEST_CASE("ForecastErrors: a class has its own margin once it has some errors, until then all classes'") {
  ForecastErrors errors;
  Random random(2);
  std::vector<double> late, slow;
  std::uint32_t id = 0;
  for (std::size_t i = 0; i < ForecastErrors::few; ++i) {
    const double by = 0.2 * random.uniform();
    late.push_back(by);
    serve(errors, id++, chat, 1, 0.05, {1 + by, 1.05 + by});
  }
  const auto second_largest = [](std::vector<double> values) { // the P99 of a hundred
    std::nth_element(values.begin(), values.begin() + 1, values.end(), std::greater<>{});
    return values[1];
  };
  CHECK(errors.margin(batch).ttft.count() == doctest::Approx(second_largest(late)));
  for (std::size_t i = 0; i < ForecastErrors::few; ++i) {
    const double by = 3 * random.uniform();
    slow.push_back(by);
    serve(errors, id++, batch, 1, 0.05, {1 + by, 1.05 + by});
  }
  CHECK(errors.margin(chat).ttft.count() == doctest::Approx(second_largest(late)));
  CHECK(errors.margin(batch).ttft.count() == doctest::Approx(second_largest(slow)));
}

TEST_CASE("ForecastErrors: one request in a hundred of the newest may be off by more than the margin") {
  ForecastErrors errors;
  for (std::uint32_t id = 0; id < 1000; ++id) serve(errors, id, chat, 1, 0.05, {9, 9.05}); // forgotten
  std::vector<double> late;
  Random random(4);
  for (std::uint32_t id = 0; id < ForecastErrorsOfClass::window; ++id) {
    late.push_back(random.uniform());
    serve(errors, id, chat, 1, 0.05, {1 + late.back(), 1.05 + late.back()});
  }
  const double margin = errors.margin(chat).ttft.count();
  const auto beyond = std::count_if(late.begin(), late.end(), [&](double one) { return one > margin + 1e-12; });
  CHECK(beyond <= 3);
  CHECK(beyond >= 1);
}

TEST_CASE("ForecastErrors: SLOs that were only asked for take no class from those that were served") {
  ForecastErrors errors;
  for (int i = 0; i < 100; ++i) (void)errors.margin({Seconds{0.001 * (i + 1)}, Seconds{0.001}}); // all are refused
  serve(errors, 1, chat, 1, 0.05, {1.1, 1.2});
  std::vector<SloClassName> names;
  errors.each([&](const SloClassName& name, const ForecastErrorsOfClass& of) {
    names.push_back(name);
    CHECK(of.ttft.size() == 1);
  });
  CHECK(names == std::vector{SloClassName{"0.5", "0.1"}});
}
