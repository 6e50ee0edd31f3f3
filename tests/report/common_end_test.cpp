// SPDX-License-Identifier: Apache-2.0
// Common end of two runs: the reference is `measure`, told that a run ended later than it did.
#include "sluice/core/random.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/seed_tables.hpp"
#include "sluice/report/seeds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice_test::common_end_ {

using namespace sluice;

/// A run of requests that arrive at `arrivals`. Of ten, `served` are served; the others are refused, left or cancelled,
/// half of them after a token.
struct Run {
  Summary::State state;
  double end = 0;
};
Run run_of(Random& random, const std::vector<double>& arrivals, int served) {
  constexpr Outcome others[] = {Outcome::refused, Outcome::unfinished, Outcome::cancelled};
  Run run;
  for (const double arrival : arrivals) {
    RequestRecord request;
    request.known = true;
    request.arrival = Seconds{arrival};
    request.output = Tokens{10};
    request.slo_ttft = Seconds{20};
    request.slo_tbt = Seconds{3};
    request.outcome = static_cast<int>(random.below(10)) < served ? Outcome::served : others[random.below(3)];
    const bool whole = request.outcome == Outcome::served;
    request.delivered = whole ? Tokens{10} : Tokens{static_cast<std::int64_t>(random.below(2))};
    request.first = Seconds{arrival + 50 * random.uniform()};
    request.last = whole ? Seconds{request.first.count() + 50 * random.uniform()} : request.first;
    run.end = std::max({run.end, arrival, request.started() ? request.last.count() : 0.0});
    run.state.requests.push_back(request);
  }
  return run;
}
Metrics metrics_of(const Run& run, double end) { return measure(run.state, Seconds{end}); }

std::vector<double> arrivals_of(Random& random) {
  std::vector<double> arrivals;
  for (int i = 0, n = 1 + static_cast<int>(random.below(30)); i < n; ++i) arrivals.push_back(100 * random.uniform());
  std::sort(arrivals.begin(), arrivals.end());
  return arrivals;
}

TEST_CASE("until a later end, the mean E2E of all is what a run of that end has") {
  Random random(1);
  int longer = 0;
  for (int i = 0; i < 300; ++i) {
    const Run run = run_of(random, arrivals_of(random), static_cast<int>(random.below(11)));
    const Metrics own = metrics_of(run, run.end);
    if (own.requests == own.cancelled) continue;
    const double later = run.end + 1000 * random.uniform();
    const double until = mean_e2e_all_until(own, later);
    CHECK(until == doctest::Approx(metrics_of(run, later).mean_e2e_all_s).epsilon(1e-12));
    longer += until > own.mean_e2e_all_s ? 1 : 0;
    CHECK(mean_e2e_all_until(own, run.end / 2) == own.mean_e2e_all_s); // an earlier end shortens no wait
    CHECK(mean_e2e_all_until(own, Metrics::absent) == own.mean_e2e_all_s);
  }
  CHECK(longer > 100);
}

TEST_CASE("the run that serves more sets the common end, of two that serve as many the earlier") {
  const auto run = [](std::int64_t served, double end) {
    Metrics m;
    m.requests = 10, m.served = served, m.refused = 10 - served, m.end_s = end;
    return m;
  };
  CHECK(common_end(run(9, 50), run(3, 900)) == 50);
  CHECK(common_end(run(3, 20), run(9, 50)) == 50);
  CHECK(common_end(run(9, 50), run(9, 40)) == 40);
}

/// A row of one system, from its runs of several seeds.
SystemReport row_of(const std::string& name, const std::vector<Metrics>& each) {
  std::vector<SystemReport> runs;
  std::vector<std::uint64_t> seeds;
  for (const Metrics& metrics : each) {
    seeds.push_back(runs.size() + 1);
    runs.emplace_back().metrics = metrics;
    runs.back().name = name;
  }
  return each.size() == 1 ? runs.front() : joined(std::move(runs), seeds);
}

TEST_CASE("a verdict by E2E counts refused requests until the common end of each seed") {
  Random random(2);
  const JudgedFigure& by = judged_figures[2];
  REQUIRE(by.figure == &Metrics::mean_e2e_all_s);
  for (int i = 0; i < 20; ++i)
    for (const std::size_t seeds : {std::size_t{1}, std::size_t{4}, std::size_t{8}}) {
      std::vector<Metrics> whole, refusing;
      std::vector<double> expected;
      double sum = 0;
      for (std::size_t seed = 0; seed < seeds; ++seed) {
        const std::vector<double> arrivals = arrivals_of(random);
        const Run all = run_of(random, arrivals, 10);
        Run none = run_of(random, arrivals, 0);
        for (RequestRecord& request : none.state.requests) request.outcome = Outcome::refused;
        none.end = arrivals.back() + 60 * random.uniform(); // often before the run that serves all
        whole.push_back(metrics_of(all, all.end));
        refusing.push_back(metrics_of(none, none.end));
        const double waited = metrics_of(none, std::max(none.end, all.end)).mean_e2e_all_s;
        expected.push_back(waited - whole.back().mean_e2e_all_s);
        sum += whole.back().mean_e2e_all_s;
      }
      const SystemReport a = row_of("refusing", refusing), b = row_of("whole", whole);
      const JudgedValues values = judged_values(a, b, by);
      REQUIRE(values.row.size() == seeds);
      for (std::size_t seed = 0; seed < seeds; ++seed)
        CHECK(values.row[seed] - values.reference[seed] == doctest::Approx(expected[seed]).epsilon(1e-9));
      const Paired found = judged(a, b, by), turned = judged(b, a, by);
      CHECK(found.pairs() == seeds);
      CHECK(found.losses == 0); // no system is faster because it refuses all
      CHECK(turned.wins == 0);
      CHECK(turned.difference.mean == doctest::Approx(-found.difference.mean));
      // Per cent are of the mean that the reference has in this comparison.
      CHECK(detail::judged_scale(by, a, b) == doctest::Approx(100 / (sum / static_cast<double>(seeds))));
      double waits = 0;
      for (const double value : values.row) waits += value / static_cast<double>(seeds);
      CHECK(detail::judged_scale(by, b, a) == doctest::Approx(100 / waits));
      // Attainments stay as they are.
      const JudgedValues attained = judged_values(b, a, judged_figures[0]);
      for (std::size_t seed = 0; seed < seeds; ++seed) CHECK(attained.row[seed] == whole[seed].slo_attainment);
    }
}

} // namespace sluice_test::common_end_
