// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace sluice;
using doctest::Approx;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

RequestRow row_of(std::uint32_t id, double arrival, std::int64_t output, double slo_tbt, double slo_ttft = never) {
  RequestRow row;
  row.id = RequestId{id};
  row.spec = RequestSpec{Seconds{arrival}, Tokens{100}, Tokens{output}, {Seconds{slo_ttft}, Seconds{slo_tbt}}};
  return row;
}

void deliver(Summary::State& state, RequestRow& row, double when, std::int64_t count = 1) {
  row.delivered += Tokens{count};
  Summary{}.on(state, events::Delivered{row, Tokens{count}, Seconds{when}});
}

} // namespace

// The worked examples of docs/metrics.md, number by number.
TEST_CASE("docs/metrics.md: one request with a pause") {
  // SLO 0.1 s. Arrives at 1; tokens at 1.5, 1.6, 1.7, 2.15, 2.25: gaps 0.1, 0.1, 0.45, 0.1.
  Summary::State state;
  RequestRow row = row_of(0, 1.0, 5, 0.1, 0.4);
  Summary{}.on(state, events::Submitted{row});
  for (const double when : {1.5, 1.6, 1.7, 2.15, 2.25}) deliver(state, row, when);
  Summary{}.on(state, events::Ended{row, Seconds{2.25}});
  const Metrics m = measure(state, Seconds{2.25});
  CHECK(m.mean_ttft_s == Approx(0.5));
  CHECK(m.mean_e2e_s == Approx(1.25));
  CHECK(m.mean_tpot_s == Approx(0.1875));
  CHECK(m.tokens_on_time == 3);
  CHECK(m.deadlines_missed == 4); // at 1.8, 1.9, 2.0 and 2.1
  CHECK(m.tbt_attainment == Approx(3.0 / 7));
  CHECK(m.per_token_attainment == Approx(3.0 / 4));
  CHECK(m.ttft_attainment == 0);
  CHECK(m.tpot_attainment == 0);
  CHECK(m.longest_gap_s == Approx(0.45));
  CHECK(m.p50_tbt_s == Approx(0.1));
  CHECK(m.p99_tbt_s == Approx(0.45));
  CHECK(m.throughput_tokens_per_s == Approx(5 / 1.25));
  CHECK(m.throughput_requests_per_min == Approx(60 / 1.25));
}

TEST_CASE("docs/metrics.md: an hour's gap is one late token and 35,999 missed deadlines") {
  Summary::State state;
  RequestRow row = row_of(0, 0.0, 11, 0.1);
  for (int i = 0; i < 10; ++i) deliver(state, row, 0.1 * (i + 1));
  deliver(state, row, 1.0 + 3600);
  Summary{}.on(state, events::Ended{row, Seconds{3601}});
  const Metrics m = measure(state, Seconds{3601});
  CHECK(m.per_token_attainment == Approx(0.9));
  CHECK(m.deadlines_missed == 35'999);
  CHECK(m.tbt_attainment == Approx(9.0 / (9 + 35'999)));
}

TEST_CASE("docs/metrics.md: goodput counts requests that keep both SLOs") {
  // SLOs: TBT 0.1 s, TTFT 0.4 s. Five requests of three tokens arrive at 0; the last delivery is at 2.
  Summary::State state;
  const double tokens[][3] = {{0.3, 0.4, 0.5},   // both
                              {0.5, 0.6, 0.7},   // the first token is too late
                              {0.3, 0.5, 0.7},   // the others are too slow
                              {0.2, 0.22, 0.36}, // both: TPOT is a mean, one gap of 0.14 is within it
                              {0.4, 0.5, 2.0}};  // ends early, below
  for (std::uint32_t i = 0; i < 5; ++i) {
    RequestRow row = row_of(i, 0.0, i == 4 ? 4 : 3, 0.1, 0.4);
    Summary{}.on(state, events::Submitted{row});
    for (const double when : tokens[i]) deliver(state, row, when);
    if (i < 4) Summary{}.on(state, events::Ended{row, Seconds{tokens[i][2]}});
  }
  const Metrics m = measure(state, Seconds{2});
  CHECK(m.ttft_attainment == Approx(4.0 / 5));
  CHECK(m.tpot_attainment == Approx(3.0 / 5));
  CHECK(m.slo_attainment == Approx(2.0 / 5));
  CHECK(m.goodput_requests_per_s == Approx(2 / 2.0));

  // A request with only one of the two SLOs kept all its SLOs; without any SLO there is no goodput.
  Summary::State one_promise, none;
  RequestRow row = row_of(0, 0.0, 3, std::numeric_limits<double>::infinity(), 0.4);
  Summary{}.on(one_promise, events::Submitted{row});
  RequestRow free = row_of(0, 0.0, 3, std::numeric_limits<double>::infinity());
  Summary{}.on(none, events::Submitted{free});
  for (const double when : {0.3, 5.0, 9.0}) deliver(one_promise, row, when), deliver(none, free, when);
  Summary{}.on(one_promise, events::Ended{row, Seconds{9}});
  Summary{}.on(none, events::Ended{free, Seconds{9}});
  CHECK(measure(one_promise, Seconds{9}).slo_attainment == 1);
  CHECK(measure(one_promise, Seconds{9}).goodput_requests_per_s == Approx(1.0 / 9));
  CHECK(std::isnan(measure(none, Seconds{9}).slo_attainment));
  CHECK(std::isnan(measure(none, Seconds{9}).goodput_requests_per_s));
}

TEST_CASE("docs/metrics.md: tokens that are never delivered") {
  // Two of six tokens were delivered, the last at 2.0; the run ends at 2.35: deadlines at 2.1, 2.2, 2.3 passed.
  Summary::State state;
  RequestRow row = row_of(0, 1.0, 6, 0.1);
  Summary{}.on(state, events::Submitted{row});
  deliver(state, row, 1.9);
  deliver(state, row, 2.0);
  const Metrics m = measure(state, Seconds{2.35});
  CHECK(m.unfinished == 1);
  CHECK(m.tokens_on_time == 1);
  CHECK(m.tokens_late == 4);
  CHECK(m.deadlines_missed == 3);
  CHECK(m.deadlines_missed_undelivered == 3);
  CHECK(m.per_token_attainment == Approx(0.2));
  CHECK(m.tbt_attainment == Approx(0.25));
  CHECK(m.tpot_attainment == 0);
  CHECK(m.longest_gap_s == Approx(0.35));
}

TEST_CASE("docs/metrics.md: a refused request misses one deadline per token") {
  Summary::State state;
  const RequestRow row = row_of(0, 1.0, 6, 0.1);
  Summary{}.on(state, events::Refused{row.id, row.spec.whole(not_a_policy), Seconds{1}, "too long"});
  const Metrics m = measure(state, Seconds{1000});
  CHECK(m.deadlines_missed == 6);
  CHECK(m.tokens_late == 5);
  CHECK(m.tbt_attainment == 0);
}

TEST_CASE("docs/metrics.md: a user who cancels") {
  // Three of six tokens were delivered, at 1.5, 1.6 and 1.95; the user cancels at 2.0, and the run goes on.
  Summary::State state;
  RequestRow row = row_of(0, 1.0, 6, 0.1);
  row.spec.slo.ttft = Seconds{0.4};
  Summary{}.on(state, events::Submitted{row});
  deliver(state, row, 1.5);
  deliver(state, row, 1.6);
  deliver(state, row, 1.95);
  Summary{}.on(state, events::Cancelled{row, Seconds{2.0}});
  RequestRow other = row_of(1, 1.0, 6, 0.1); // cancelled before its first token
  other.spec.slo.ttft = Seconds{0.4};
  Summary{}.on(state, events::Submitted{other});
  Summary{}.on(state, events::Cancelled{other, Seconds{30}});
  const Metrics m = measure(state, Seconds{1000});
  CHECK(m.cancelled == 2);
  CHECK(m.served + m.refused + m.unfinished == 0);
  CHECK(m.tokens_on_time == 1);
  CHECK(m.tokens_late == 1);
  CHECK(m.deadlines_missed == 3);
  CHECK(m.deadlines_missed_undelivered == 0);
  CHECK(m.tbt_attainment == Approx(0.25));
  CHECK(m.ttft_attainment == 0); // of the one that started: 0.5 s
  CHECK(std::isnan(m.tpot_attainment));
  CHECK(m.longest_gap_s == Approx(0.35));
}

TEST_CASE("docs/metrics.md: a deposit bridges a pause") {
  // Tokens are generated at 0.0, 0.05, 0.10, 0.15, then none until 0.42. Released one per 0.1 s: 0.0, 0.1, 0.2, 0.3;
  // the fifth is due at 0.4, does not exist then and is released at 0.42: one missed deadline.
  const auto run = [](bool deposit) {
    Summary::State state;
    RequestRow row = row_of(0, 0.0, 5, 0.1);
    const auto sink = [&](const RequestRow& r, Tokens count, Seconds when) {
      Summary{}.on(state, events::Delivered{r, count, when});
    };
    for (const double made : {0.0, 0.05, 0.10, 0.15, 0.42}) {
      TokenDeposit{}.advance(row, Seconds{made}, sink);
      row.generated += Tokens{1};
      row.last_token = Seconds{made};
      if (deposit) {
        TokenDeposit{}.generated(row, Seconds{made}, sink);
      } else {
        row.delivered += Tokens{1};
        sink(row, Tokens{1}, Seconds{made});
      }
    }
    if (deposit) TokenDeposit{}.finish(row, Seconds{0.42}, sink);
    Summary{}.on(state, events::Ended{row, Seconds{0.42}});
    return measure(state, Seconds{0.42});
  };
  const Metrics without = run(false);
  CHECK(without.tokens_on_time == 3);
  CHECK(without.deadlines_missed == 2); // 0.25 and 0.35
  CHECK(without.tbt_attainment == Approx(0.6));
  const Metrics with = run(true);
  CHECK(with.tokens_on_time == 3);
  CHECK(with.deadlines_missed == 1); // 0.4
  CHECK(with.tbt_attainment == Approx(0.75));
  CHECK(with.longest_gap_s == Approx(0.12));
}

TEST_CASE("a gap of exactly the SLO is on time at any clock value, and a longer one is not") {
  Random random(2);
  for (int i = 0; i < 20'000; ++i) {
    const double slo = 0.001 + random.uniform();
    const double start = std::pow(10.0, 7 * random.uniform());
    const double whole = static_cast<double>(1 + random.below(1000));
    const double end = start + whole * slo; // rounded: the computed gap is not exactly whole * slo
    const Seconds gap{end - start};
    CHECK(deadlines_missed(gap, Seconds{slo}, Seconds{end}) == static_cast<std::int64_t>(whole) - 1);
    CHECK(deadlines_passed(Seconds{start}, Seconds{end}, Seconds{slo}) == static_cast<std::int64_t>(whole));
    CHECK(on_time(gap, Seconds{slo}, Seconds{end}) == (whole == 1));
    CHECK_FALSE(on_time(Seconds{slo * 1.0001}, Seconds{slo}, Seconds{1}));
    CHECK(deadlines_missed(Seconds{slo * 1.0001}, Seconds{slo}, Seconds{1}) == 1);
  }
  CHECK(on_time(Seconds{1e6}, Seconds{never}, Seconds{1e6}));
  CHECK(deadlines_missed(Seconds{1e6}, Seconds{never}, Seconds{1e6}) == 0);
  CHECK(deadlines_passed(Seconds{0}, Seconds{1e6}, Seconds{never}) == 0);
}

namespace {

struct Sent {
  double when;
  int request;
  std::int64_t count;
};

double brute_quantile(std::vector<double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(p * static_cast<double>(values.size()) - 1e-9)));
  return values[rank - 1];
}

} // namespace

TEST_CASE("metrics of random runs agree with the definitions, token by token") {
  Random random(99);
  for (int round = 0; round < 200; ++round) {
    const int requests = 1 + static_cast<int>(random.below(12));
    const double slo = 0.05;
    const double end = 60;
    std::vector<RequestRow> rows;
    std::vector<std::vector<double>> tokens(static_cast<std::size_t>(requests)); // delivery time of each token
    std::vector<Sent> events;
    for (int r = 0; r < requests; ++r) {
      const double arrival = random.uniform() * 10;
      rows.push_back(row_of(static_cast<std::uint32_t>(r), arrival, 1 + static_cast<std::int64_t>(random.below(30)),
                            random.below(8) == 0 ? never : slo, random.below(3) == 0 ? never : 1.0));
      double now = arrival + 2 * random.uniform();
      std::int64_t left = rows.back().output(not_a_policy).count();
      if (random.below(5) == 0) left = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(left) + 1));
      while (left > 0) {
        const std::int64_t count = random.below(6) == 0 ? std::min<std::int64_t>(left, 3) : 1;
        events.push_back({now, r, count});
        tokens[static_cast<std::size_t>(r)].insert(tokens[static_cast<std::size_t>(r)].end(),
                                                   static_cast<std::size_t>(count), now);
        left -= count;
        now += random.below(4) == 0 ? 0.3 * random.uniform() : 0.049;
      }
    }
    std::stable_sort(events.begin(), events.end(), [](auto& a, auto& b) { return a.when < b.when; });
    Summary::State state;
    std::vector<bool> refused(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (tokens[r].empty() && random.below(2) == 0) {
        refused[r] = true;
        Summary{}.on(state, events::Refused{rows[r].id, rows[r].spec.whole(not_a_policy), rows[r].spec.arrival,
                                            "longer than the device"});
      } else {
        Summary{}.on(state, events::Submitted{rows[r]});
      }
    }
    for (const Sent& event : events) {
      RequestRow& row = rows[static_cast<std::size_t>(event.request)];
      deliver(state, row, event.when, event.count);
      if (row.delivered == row.output(not_a_policy)) Summary{}.on(state, events::Ended{row, Seconds{event.when}});
    }
    const Metrics m = measure(state, Seconds{end});

    // The definitions again, from the list of tokens.
    std::vector<double> gaps, ttft, tpot, e2e;
    double on_time_tokens = 0, late = 0, missed = 0, longest = -1, first_arrival = never, last = -never, total = 0;
    int served = 0, ttft_owed = 0, ttft_met = 0, tpot_owed = 0, tpot_met = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const RequestSpec& spec = rows[r].spec.whole(not_a_policy);
      const double tbt = spec.slo.tbt.count();
      const auto& times = tokens[r];
      const bool whole = static_cast<std::int64_t>(times.size()) == spec.output.count();
      served += whole;
      first_arrival = std::min(first_arrival, spec.arrival.count());
      total += static_cast<double>(times.size());
      for (std::size_t i = 1; i < times.size(); ++i) {
        const double gap = times[i] - times[i - 1];
        gaps.push_back(gap);
        longest = std::max(longest, gap);
        if (gap <= tbt)
          ++on_time_tokens;
        else {
          ++late;
          missed += std::ceil(gap / tbt) - 1;
        }
      }
      if (!whole) {
        late += static_cast<double>(spec.output.count() -
                                    std::max<std::int64_t>(1, static_cast<std::int64_t>(times.size())));
        const double since =
            !times.empty() ? times.back() : spec.arrival.count() + (spec.slo.ttft.count() < never ? 1.0 : 0.0);
        if (tbt < never && refused[r]) missed += static_cast<double>(spec.output.count());
        if (tbt < never && !refused[r]) missed += std::floor((end - since) / tbt);
        if (!times.empty()) longest = std::max(longest, end - times.back());
      }
      if (!times.empty()) {
        last = std::max(last, times.back());
        ttft.push_back(times.front() - spec.arrival.count());
        if (whole) e2e.push_back(times.back() - spec.arrival.count());
        if (whole && times.size() > 1)
          tpot.push_back((times.back() - times.front()) / static_cast<double>(times.size() - 1));
      }
      if (spec.slo.ttft.count() < never) {
        ++ttft_owed;
        ttft_met += !times.empty() && times.front() - spec.arrival.count() <= 1.0;
      }
      if (tbt < never) {
        ++tpot_owed;
        tpot_met += whole && (times.size() == 1 ||
                              (times.back() - times.front()) / static_cast<double>(times.size() - 1) <= tbt);
      }
    }
    const auto same = [](double a, double b) {
      return (std::isnan(a) && std::isnan(b)) || a == Approx(b).epsilon(1e-9);
    };
    const auto ratio = [](double a, double b) { return b > 0 ? a / b : std::numeric_limits<double>::quiet_NaN(); };
    CHECK(m.requests == requests);
    CHECK(m.served == served);
    CHECK(m.refused == std::count(refused.begin(), refused.end(), true));
    CHECK(m.served + m.refused + m.cancelled + m.unfinished == m.requests);
    CHECK(m.deadlines_missed == missed);
    if (tpot_owed > 0) {
      CHECK(same(m.tbt_attainment, ratio(on_time_tokens, on_time_tokens + missed)));
      CHECK(same(m.per_token_attainment, ratio(on_time_tokens, on_time_tokens + late)));
    }
    CHECK(same(m.ttft_attainment, ratio(ttft_met, ttft_owed)));
    CHECK(same(m.tpot_attainment, ratio(tpot_met, tpot_owed)));
    struct Quantiles {
      double p, tbt, first, per, whole;
    };
    const Quantiles quantiles[] = {{0.5, m.p50_tbt_s, m.p50_ttft_s, m.p50_tpot_s, m.p50_e2e_s},
                                   {0.95, m.p95_tbt_s, m.p95_ttft_s, m.p95_tpot_s, m.p95_e2e_s},
                                   {0.99, m.p99_tbt_s, m.p99_ttft_s, m.p99_tpot_s, m.p99_e2e_s}};
    for (const auto& [p, tbt, first, per, whole] : quantiles) {
      CHECK(same(tbt, brute_quantile(gaps, p)));
      CHECK(same(first, brute_quantile(ttft, p)));
      CHECK(same(per, brute_quantile(tpot, p)));
      CHECK(same(whole, brute_quantile(e2e, p)));
    }
    double all = longest, sum = 0;
    std::int64_t counted = 0;
    for (const RequestRecord& record : state.requests) {
      if (!record.known || record.outcome == Outcome::cancelled) continue;
      ++counted;
      const bool whole = record.outcome == Outcome::served && record.delivered.count() > 0;
      sum += (whole ? record.last.count() : end) - record.arrival.count();
      if (record.delivered.count() == 0) all = std::max(all, end - record.arrival.count());
    }
    CHECK(same(m.mean_e2e_all_s, ratio(sum, static_cast<double>(counted))));
    CHECK(same(m.longest_gap_all_s, all < 0 ? std::numeric_limits<double>::quiet_NaN() : all));
    CHECK(same(m.longest_gap_s, longest < 0 ? std::numeric_limits<double>::quiet_NaN() : longest));
    if (last > first_arrival) CHECK(same(m.throughput_tokens_per_s, total / (last - first_arrival)));
  }
}

TEST_CASE("a decode batch of any size adds one sample per iteration, a deposit one in total") {
  Summary::State state;
  std::vector<RequestRow> rows;
  for (std::uint32_t r = 0; r < 64; ++r) rows.push_back(row_of(r, 0, 1001, 0.1));
  double now = 0;
  Random random(1);
  for (int step = 0; step <= 1000; ++step) {
    now += 0.05 + 0.01 * random.uniform();
    for (RequestRow& row : rows) deliver(state, row, now);
  }
  CHECK(state.gaps.size() == 1000);
  CHECK(latencies(state).tbt.count() == 64'000);

  Summary::State deposit;
  for (RequestRow& row : rows) {
    row.delivered = Tokens{0};
    double due = random.uniform();
    for (int token = 0; token < 1000; ++token) {
      deliver(deposit, row, due);
      due += 0.1;
    }
  }
  CHECK(deposit.gaps.size() == 1);
  CHECK(deposit.gaps.front().value == 0.1);
  CHECK(measure(deposit, Seconds{101}).tokens_on_time == 64 * 999);
}

TEST_CASE("iterations and plans add up; bytes are blocks times the block size") {
  Summary::State state;
  const Summary summary;
  View view;
  view.geometry.layer_block_bytes = Bytes{65'536};
  Plan plan;
  for (int i = 1; i <= 200; ++i) summary.on(state, events::Planned{view, plan, Seconds{i * 1e-6}, Seconds{i * 2e-6}});
  IterationRecord record;
  record.device_capacity = LayerBlocks{100};
  record.duration = Seconds{1};
  record.device_used = LayerBlocks{80};
  record.stall = Seconds{0.5};
  record.to_device = LayerBlocks{7};
  record.to_host = LayerBlocks{2};
  record.host_used = LayerBlocks{30};
  summary.on(state, events::Iterated{record});
  record.start = Seconds{1};
  record.duration = Seconds{3};
  record.device_used = LayerBlocks{40};
  record.repeated = true;
  summary.on(state, events::Iterated{record});
  const Metrics m = measure(state, state.last_event);
  CHECK(m.end_s == 4);
  CHECK(m.iterations == 2);
  CHECK(m.repeated_iterations == 1);
  CHECK(m.stall_share == Approx(1.0 / 4));
  CHECK(m.blocks_to_device == 14);
  CHECK(m.bytes_moved == 18 * 65'536);
  CHECK(m.device_peak_bytes == 80 * 65'536);
  CHECK(m.device_peak_share == Approx(0.8));
  CHECK(m.device_mean_share == Approx((80.0 + 3 * 40) / 400));
  CHECK(m.host_peak_bytes == 30 * 65'536);
  CHECK(m.plans == 200);
  CHECK(m.planning_s == Approx(201 * 100 * 1e-6));
  CHECK(m.planning_p99_us == Approx(198));
  CHECK(m.planning_wall_p99_us == Approx(396));
  // No SLO and no delivery: absent, not zero and not one.
  CHECK(std::isnan(m.tbt_attainment));
  CHECK(std::isnan(m.ttft_attainment));
  CHECK(std::isnan(m.p99_tbt_s));
  CHECK(std::isnan(m.throughput_tokens_per_s));
}

TEST_CASE("refusals keep their reason, and equal ones in a row share one text") {
  Summary::State state;
  for (std::uint32_t i = 0; i < 10; ++i)
    Summary{}.on(state, events::Refused{RequestId{i}, row_of(i, 0, 1, 1).spec.whole(not_a_policy), Seconds{0},
                                        i < 4 ? "too long" : "no SLO"});
  CHECK(state.reasons == std::vector<std::string>{"too long", "no SLO"});
  CHECK(state.reasons[static_cast<std::size_t>(state.requests[3].reason)] == "too long");
  CHECK(state.reasons[static_cast<std::size_t>(state.requests[4].reason)] == "no SLO");
  CHECK(measure(state, Seconds{0}).refused == 10);
}

namespace {

/// The records of requests that arrive `every` seconds and end `spent(i)` seconds later; below 0: refused.
template <class Spent>
double growth(std::size_t requests, Spent&& spent, double every = 1) {
  Summary::State state;
  for (std::size_t i = 0; i < requests; ++i) {
    const auto id = static_cast<std::uint32_t>(i);
    RequestRow row = row_of(id, every * static_cast<double>(i), 1, 0.1);
    Summary{}.on(state, events::Submitted{row});
    if (const double after = spent(i); after < 0) {
      Summary{}.on(state, events::Refused{row.id, row.spec.whole(not_a_policy), row.spec.arrival, "no room"});
    } else if (std::isfinite(after)) {
      deliver(state, row, row.spec.arrival.count() + after);
      Summary{}.on(state, events::Ended{row, row.spec.arrival + Seconds{after}});
    }
  }
  return measure(state, Seconds{1e6}).queue_grows;
}

} // namespace

TEST_CASE("a queue grows if requests come faster than they end, in whatever order they are served") {
  Random random{5};
  const auto noise = [&random] { return static_cast<double>(random.below(1'000)) / 1'000; };
  for (const std::size_t requests : {std::size_t{40}, std::size_t{200}, std::size_t{1'000}}) {
    CAPTURE(requests);
    const auto n = static_cast<double>(requests);
    CHECK(growth(requests, [&](std::size_t) { return 3 + 4 * noise(); }) == 0);                    // a steady state
    CHECK(growth(requests, [&](std::size_t i) { return 3 + 0.5 * static_cast<double>(i); }) == 1); // first come
    CHECK(growth(requests, [&](std::size_t i) { return i % 2 == 0 ? 0.5 : never; }) == 1);         // half starve
    CHECK(growth(requests, [&](std::size_t i) { return i % 3 == 0 ? 1 : 2 * (n - static_cast<double>(i)); }) ==
          1);                                                                             // last come
    CHECK(growth(requests, [&](std::size_t i) { return i % 2 == 0 ? 2.0 : -1.0; }) == 0); // refusals keep it short
  }
  // A stable queue fills from empty, and is seldom marked: first come, first served, exponential gaps and service.
  for (const double load : {0.5, 0.8}) {
    int marked = 0;
    for (int run = 0; run < 200; ++run) {
      double arrival = 0, free = 0;
      Summary::State state;
      for (std::uint32_t id = 0; id < 300; ++id) {
        arrival -= std::log(1 - random.uniform());
        free = std::max(free, arrival) - load * std::log(1 - random.uniform());
        RequestRow row = row_of(id, arrival, 1, 0.1);
        Summary{}.on(state, events::Submitted{row});
        deliver(state, row, free);
        Summary{}.on(state, events::Ended{row, Seconds{free}});
      }
      marked += queue_grows(state) > 0.5 ? 1 : 0;
    }
    CAPTURE(load);
    CHECK(marked <= 20); // of 200
  }
  CHECK(std::isnan(growth(least_for_growth - 1, [](std::size_t) { return never; })));
  CHECK(std::isnan(growth(
      200, [](std::size_t) { return never; }, 0))); // all at once: a batch to work off
}

TEST_CASE("a request whose user leaves before the first token has waited until then") {
  // Nobody is served after the first ten, and users leave: in the end, or after half a second each.
  const auto growth_until = [](auto&& leaves) {
    Summary::State state;
    for (std::uint32_t id = 0; id < 200; ++id) {
      RequestRow row = row_of(id, id, 1, 0.1);
      Summary{}.on(state, events::Submitted{row});
      if (id < 10) {
        deliver(state, row, id + 0.5);
        Summary{}.on(state, events::Ended{row, Seconds{id + 0.5}});
      } else {
        Summary{}.on(state, events::Cancelled{row, Seconds{leaves(id)}});
      }
    }
    return measure(state, Seconds{1e6}).queue_grows;
  };
  CHECK(growth_until([](std::uint32_t) { return 300.0; }) == 1);
  CHECK(growth_until([](std::uint32_t id) { return id + 0.5; }) == 0);
}

TEST_CASE("goodput divides by the time that counts, if it is known, and throughput until the last delivery") {
  Summary::State state;
  for (std::uint32_t id = 0; id < 10;
       ++id) { // arrivals at 10, 11, ..., of two tokens each; the last one waits until 99
    RequestRow row = row_of(id, 10 + id, 2, 0.1);
    Summary{}.on(state, events::Submitted{row});
    const double end = id == 9 ? 99 : 10.05 + id;
    deliver(state, row, end - 0.01);
    deliver(state, row, end);
    Summary{}.on(state, events::Ended{row, Seconds{end}});
  }
  CHECK(measure(state, Seconds{99}).throughput_requests_per_min == Approx(60 * 10.0 / 89)); // to the last delivery
  state.rates_from = Seconds{5};
  CHECK(measure(state, Seconds{99}).throughput_requests_per_min == Approx(60 * 10.0 / 94));
  CHECK(std::isnan(measure(state, Seconds{99}).horizon_s));
  state.rates_until = Seconds{25};
  CHECK(measure(state, Seconds{99}).horizon_s == 20);
  const Metrics m = measure(state, Seconds{99});
  CHECK(m.throughput_requests_per_min == Approx(60 * 10.0 / 94));
  CHECK(m.throughput_tokens_per_s == Approx(20.0 / 94));
  CHECK(m.goodput_requests_per_s == Approx(static_cast<double>(std::llround(10 * m.slo_attainment)) / 20));
  Summary::State other = state;
  other.rates_until = Seconds{std::numeric_limits<double>::infinity()}; // its last request arrived earlier
  const Summary::State* const parts[] = {&state, &other};
  CHECK(measure(merged(parts), Seconds{99}).goodput_requests_per_s == Approx(2 * m.goodput_requests_per_s));
}

TEST_CASE("prompt tokens of refused and unfinished requests are left out, not those of cancelled ones") {
  Summary::State state;
  for (std::uint32_t id = 0; id < 4; ++id) {
    RequestRow row = row_of(id, 0, 2, 0.1);
    row.spec.prompt = Tokens{std::int64_t{100} << id};
    Summary{}.on(state, events::Submitted{row});
    if (id == 0) {
      deliver(state, row, 1, 2);
      Summary{}.on(state, events::Ended{row, Seconds{1}});
    }
    if (id == 1) Summary{}.on(state, events::Refused{row.id, row.spec.whole(not_a_policy), Seconds{1}, "no room"});
    if (id == 2) Summary{}.on(state, events::Cancelled{row, Seconds{1}});
  }
  CHECK(measure(state, Seconds{9}).left_out_tokens_share == Approx(1000.0 / 1500)); // 200 refused, 800 left
}
