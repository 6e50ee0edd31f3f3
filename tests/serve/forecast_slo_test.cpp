// SPDX-License-Identifier: Apache-2.0
// The gate's admitted requests meet their SLO, its refusals are necessary, and its retry times are right.
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/serve/forecast_slo.hpp"

#include "serve/honesty.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

const Slo usual_slo{Seconds{2}, Seconds{0.1}};

LettingIn open_to_all() {
  LettingIn gate;
  gate.open = true;
  return gate;
}
/// Without a bound on processor time, so that the result is the same on every machine.
LettingIn gate_of(ForecastMode mode) {
  LettingIn gate;
  gate.gate.mode = mode;
  gate.gate.clock = [] { return 0.0; };
  return gate;
}
double metric(const Served& served, const std::string& name) {
  const std::size_t at = served.metrics.find("\nsluice:" + name + " ");
  REQUIRE(at != std::string::npos);
  return std::stod(served.metrics.substr(at + name.size() + 9));
}

template <class System>
void check_honest(std::size_t count, std::size_t replay_each) {
  const Server server = small_server();
  const Case twice{server, 1, 0, 1, clients(count, 2 * capacity<System>(server, usual_slo), usual_slo, 3)};
  const Served none = serve_clients<System>(twice, open_to_all());
  const LettingIn gate = gate_of(ForecastMode::hard);
  const Served hard = serve_clients<System>(twice, gate);
  CHECK(none.admitted() == static_cast<std::int64_t>(count));
  CHECK_MESSAGE(none.share_kept() < 0.6, "the load makes requests miss their SLO");
  CHECK_MESSAGE(hard.share_kept() >= 0.95, "admitted requests meet their SLO");
  CHECK_MESSAGE(hard.goodput() >= none.goodput(), "goodput does not fall");
  CHECK(hard.admitted() > static_cast<std::int64_t>(count / 4));
  CHECK(metric(hard, "forecasts_total") >= static_cast<double>(count));
  CHECK(metric(hard, "forecast_refused_total") == static_cast<double>(count) - static_cast<double>(hard.admitted()));
  CHECK(metric(hard, "forecast_first_tokens_total") == static_cast<double>(hard.admitted()));
#if defined(SLUICE_SANITIZED) // thirty times slower: other builds check how often refusals are wrong
  replay_each *= 20;
#endif
  const Replayed replayed = replay_refusals<System>(twice, gate, hard, replay_each);
  CHECK(replayed.refusals * static_cast<std::int64_t>(replay_each) >= 30);
#if !defined(SLUICE_SANITIZED)
  CHECK_MESSAGE(20 * replayed.wrong <= std::max<std::int64_t>(replayed.refusals, 20), "refusals are right");
#endif
}

/// A device whose times differ from the cost model's.
template <class System, class On>
void check_honest_though_wrong(double slowdown, double jitter) {
  const Server server = small_server();
  const Case twice{server, slowdown, jitter, 1, clients(160, 2 * capacity<System>(server, usual_slo), usual_slo, 3)};
  const Served none = serve_clients<System, On>(twice, open_to_all());
  const Served hard = serve_clients<System, On>(twice, gate_of(ForecastMode::hard));
  CHECK(none.share_kept() < 0.6);
  CHECK(hard.share_kept() >= 0.95);
  CHECK(hard.goodput() >= none.goodput());
  CHECK(metric(hard, "forecast_slowdown") == doctest::Approx(slowdown).epsilon(0.05 + jitter));
}

} // namespace

TEST_CASE("ForecastSlo meets SLOs at twice the capacity: VllmSwap") { check_honest<VllmSwap>(160, 3); }
TEST_CASE("ForecastSlo meets SLOs at twice the capacity: OrbitFlow with token deposits") {
  check_honest<OrbitFlow>(120, 3);
}

TEST_CASE("ForecastSlo learns its cost model's error and meets SLOs") {
  check_honest_though_wrong<VllmSwap, OnSimulated>(1.1, 0);
  check_honest_though_wrong<VllmSwap, OnSimulated>(0.8, 0.05);
  check_honest_though_wrong<OrbitFlow, OnSimulated>(1.1, 0.05);
}

TEST_CASE("ForecastSlo forecasts a real-time engine whose decisions are made on a thread") {
  check_honest_though_wrong<VllmSwap, OnCpu>(1, 0);
  check_honest_though_wrong<OrbitFlow, OnCpu>(1, 0);
  check_honest_though_wrong<OrbitFlow, OnCpu>(1.1, 0.05);
}

TEST_CASE("ForecastSlo learns answer lengths: its forecasts err less than with bounds, and it meets SLOs") {
  const Server server = small_server();
  Case of{server, 1, 0, 0.2, clients(200, 2 * capacity<VllmSwap>(server, usual_slo), usual_slo, 3)};
  CHECK(serve_clients<VllmSwap, OnCpu>(of, gate_of(ForecastMode::hard)).share_kept() >= 0.95);
  const auto error_s = [&] {
    const Served soft = serve_clients<VllmSwap, OnCpu>(of, gate_of(ForecastMode::soft));
    return metric(soft, "forecast_ttft_error_seconds_total") / metric(soft, "forecast_first_tokens_total");
  };
  const double learned = error_s();
  of.by_bounds = true;
  CHECK(learned < 0.5 * error_s());
}

namespace {

/// Clients that are refused return exactly when they were told, twice at most, as OpenAI's own clients do.
template <class System>
void check_returns(double rate) {
  for (const std::uint64_t seed : {3U, 4U, 5U}) {
    CAPTURE(seed);
    Case of{small_server(), 1, 0, 1, clients(400, rate, usual_slo, seed)};
    of.charge_s = forecast_step_s;
    const Served none = serve_clients<System>(of, open_to_all());
    of.retries = 2;
    LettingIn gate;
    gate.gate.mode = ForecastMode::hard;
    const Served served = serve_clients<System>(of, gate);
    const Returns returns = returns_of(of, served);
    CHECK(returns.told > 50);
    CHECK(returns.untold == 0);
    CHECK(served.admitted() >= 390); // of 400
    CHECK_MESSAGE(returns.share_admitted() >= 0.8, "the time that a refused client is told is true");
    CHECK_MESSAGE(2 * returns.long_prompts.share() >= returns.short_prompts.share(), "long prompts are served");
    CHECK(served.share_kept() >= 0.97);
    CHECK(served.kept() >= none.kept());
  }
}

} // namespace

TEST_CASE("ForecastSlo admits refused clients that return when told, whatever their prompts' length: VllmSwap") {
  check_returns<VllmSwap>(11);
  check_returns<VllmSwap>(40);
}
TEST_CASE("ForecastSlo admits refused clients that return when told, whatever their prompts' length: Confluence") {
  check_returns<Confluence>(11);
  check_returns<Confluence>(40);
}
TEST_CASE("ForecastSlo admits refused clients that return when told, whatever their prompts' length: OrbitFlow") {
  check_returns<OrbitFlow>(11);
  check_returns<OrbitFlow>(40);
}

TEST_CASE("ForecastSlo names no time beyond its bound") {
  Case of{small_server(), 1, 0, 1, clients(100, 40, usual_slo, 3)};
  LettingIn gate = gate_of(ForecastMode::hard);
  gate.gate.most_wait_s = 0.2; // many would have to wait longer
  const Served served = serve_clients<VllmSwap>(of, gate);
  int refused = 0;
  for (const Became& one : served.of) {
    if (one.admitted) continue;
    ++refused;
    CHECK(one.retry_after_s > 0);
    CHECK(one.retry_after_s <= 0.2);
  }
  CHECK(refused > 20);
}

TEST_CASE("QueueLimit names a later time to each that it refuses, until a request leaves") {
  std::vector<Sent> sent = clients(160, 40, Slo{}, 5);
  for (std::size_t i = 120; i < 160; ++i) sent[i].at = sent[i - 1].at + Seconds{1e-6}; // between two steps
  LettingIn gate = open_to_all();
  gate.queue.most = 4;
  const Served served = serve_clients<VllmSwap>({small_server(), 1, 0, 1, sent}, gate);
  int later = 0;
  for (std::size_t i = 150; i < 160; ++i) {
    REQUIRE(served.of[i].error.code == "queue_full");
    CHECK(served.of[i].retry_after_s <= 60);
    if (i > 150) later += served.of[i].retry_after_s > served.of[i - 1].retry_after_s ? 1 : 0;
  }
  CHECK(later == 9);
}

TEST_CASE("QueueLimit names the time when running requests will end, until one has left") {
  std::vector<Sent> sent = clients(40, 40, Slo{}, 5);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i].generation.prompt.assign(50, 5);
    sent[i].generation.max_tokens = 200 + static_cast<std::int64_t>(i);
    sent[i].at = Seconds{i < 28 ? 0.08 * static_cast<double>(i) : 3 + 1e-6 * static_cast<double>(i)};
  }
  LettingIn gate = open_to_all();
  gate.queue.most = 4; // beside the 24 of a batch
  const Served served = serve_clients<VllmSwap>({small_server(), 1, 0, 1, sent}, gate);
  int later = 0;
  for (std::size_t i = 28; i < 40; ++i) {
    CAPTURE(i);
    REQUIRE(served.of[i].error.code == "queue_full");
    CHECK(served.of[i].retry_after_s > 1.2); // one second before
    CHECK(served.of[i].retry_after_s < 8);
    later += i > 28 && served.of[i].retry_after_s > served.of[i - 1].retry_after_s ? 1 : 0;
  }
  CHECK(later == 11);
}

TEST_CASE("ForecastSlo promises nothing to a large newcomer whose prompt cannot begin soon, and serves small ones") {
  std::vector<Sent> sent = clients(14, 1, usual_slo, 5);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i].at = Seconds{i < 2 ? 0.0001 * static_cast<double>(i) : 0.3 + 0.001 * static_cast<double>(i)};
    sent[i].generation.prompt.assign(i < 2 ? 3000 : 250, 5);
    sent[i].generation.max_tokens = 20;
  }
  const Served served = serve_clients<Confluence>({small_server(), 1, 0, 1, sent}, gate_of(ForecastMode::hard));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CAPTURE(i);
    CHECK(served.of[i].admitted == (i != 1)); // whose promise all others would break
    CHECK(served.of[i].kept == (i != 1));
  }
  CHECK(served.of[1].error.code == "slo_not_keepable");
  CHECK(served.of[1].retry_after_s > 0);
}

TEST_CASE("ForecastSlo, soft, admits everybody; its forecasts are exact to the bit if nobody arrives later") {
  Case twice{small_server(), 1, 0, 1, clients(40, 11, usual_slo, 5)};
  const Served soft = serve_clients<VllmSwap>(twice, gate_of(ForecastMode::soft));
  const Served none = serve_clients<VllmSwap>(twice, open_to_all());
  CHECK(soft.admitted() == 40);
  CHECK(soft.kept() == none.kept()); // forecasts have no effect
  CHECK(soft.end == none.end);
  for (const Became& one : soft.of) CHECK(one.forecast.find("TTFT ") == 0);

  for (const std::size_t count : {1U, 20U, 40U}) { // nobody arrives after the last one
    Case some = twice;
    some.sent.resize(count);
    for (std::size_t i = 0; i + 1 < count; ++i) some.sent[i].generation.slo = {};
    const Served served = serve_clients<VllmSwap>(some, gate_of(ForecastMode::soft));
    CHECK(metric(served, "forecast_first_tokens_total") == 1);
    CHECK(metric(served, "forecast_ttft_error_seconds_total") <= 1e-9);
    CHECK((served.of.back().forecast.find("2 asked") != std::string::npos));
  }
}

TEST_CASE("ForecastSlo admits requests without an SLO; without time to look, soft admits and hard refuses") {
  Case twice{small_server(), 1, 0, 1, clients(60, 11, Slo{}, 5)};
  const Served without_slo = serve_clients<VllmSwap>(twice, gate_of(ForecastMode::hard));
  CHECK(without_slo.admitted() == 60);
  CHECK(metric(without_slo, "forecasts_total") == 0);

  twice = {small_server(), 1, 0, 1, clients(60, 11, usual_slo, 5)};
  LettingIn hurried = gate_of(ForecastMode::hard);
  double now = 0;
  hurried.gate.clock = [&now] { return now += 0.001; };
  hurried.gate.most_s = 0.0045; // a few steps
  const Served cut = serve_clients<VllmSwap>(twice, hurried);
  CHECK(cut.of.front().admitted); // the engine was empty
  CHECK(cut.of.front().forecast.find(" s ahead") != std::string::npos);
  CHECK(metric(cut, "forecast_unlooked_total{admitted=\"false\"}") + static_cast<double>(cut.admitted()) == 60);
  for (const Became& one : cut.of) {
    if (one.admitted) continue;
    CHECK(one.error.status == 429);
    CHECK(one.error.code == "not_forecast");
    CHECK(one.error.message.find("not looked at") == 0);
    CHECK(one.retry_after_s > 0);
  }
  CHECK(metric(cut, "forecast_refused_total") == 0);

  hurried.gate.mode = ForecastMode::soft;
  const Served soft = serve_clients<VllmSwap>(twice, hurried);
  CHECK(soft.admitted() == 60);
  CHECK(metric(soft, "forecast_unlooked_total{admitted=\"true\"}") > 0);
}

TEST_CASE("ForecastSlo says if it may not look because running streams cannot wait, and for how long") {
  Server server = small_server();
  server.limits.batch_tokens = Tokens{2048}; // a prompt is one slow step, longer than the TBT of the stream after it
  std::vector<Sent> both = clients(2, 1, {Slo{}.ttft, Seconds{0.1}}, 5);
  both[0].at = Seconds{0};
  both[1].at = Seconds{2};
  for (Sent& one : both) {
    one.generation.prompt.assign(1500, 5);
    one.generation.max_tokens = 300;
  }
  const Case of{server, 1, 0, 1, both};
  double now = 0;
  LettingIn gate;
  gate.gate.mode = ForecastMode::hard;
  gate.gate.clock = [&now] { return now += 15e-6; };
  const Became hard = serve_clients<VllmSwap>(of, gate).of[1];
  CHECK(!hard.admitted);
  CHECK(hard.error.code == "not_forecast");
  CHECK(hard.error.message.find("not looked at: running streams cannot wait") == 0);
  const double slow_s = serve_clients<VllmSwap>(of, open_to_all()).of[0].ttft.count();
  REQUIRE(slow_s > 0.2);
  CHECK(hard.retry_after_s > slow_s - 0.1); // what is missing: at most a whole TBT of the slow step is there
  CHECK(hard.retry_after_s < slow_s + gate.gate.most_s);

  gate.gate.mode = ForecastMode::soft;
  const Became soft = serve_clients<VllmSwap>(of, gate).of[1];
  CHECK(soft.admitted);
  CHECK(soft.forecast.find("not looked at: running streams cannot wait") == 0);
}

namespace {

/// Twenty clients between the same two steps, after others with long prompts: ten whose prompts have 400 tokens, of
/// which the host has `on_host`, and ten with 100 that the host does not know. There is time for few forecasts. Their
/// TTFT SLOs are too short for the gate to hold them.
Served serve_crowd(Tokens on_host) {
  std::vector<Sent> sent = clients(10, 1, Slo{}, 5); // their prompts take seconds
  for (std::size_t i = 0; i < 10; ++i) {
    sent[i].at = Seconds{1e-6 * static_cast<double>(i)};
    sent[i].generation.prompt.assign(1500, 5);
    sent[i].generation.max_tokens = 300;
  }
  for (std::size_t i = 10; i < 30; ++i) {
    Sent one = sent.front();
    one.at = Seconds{1 + 1e-6 * static_cast<double>(i)}; // between the same two steps
    one.generation.slo = {Seconds{0.13}, Seconds{0.1}};
    one.generation.prompt.resize(i < 20 ? 400 : 100);
    if (i < 20) one.generation.on_host = on_host;
    one.generation.sequence = i;
    sent.push_back(one);
  }
  const Case of{small_server(), 1, 0, 1, sent};
  double now = 0;
  LettingIn gate;
  gate.gate.mode = ForecastMode::hard;
  gate.gate.clock = [&now] { return now += 50e-6; };
  return serve_clients<VllmSwap>(of, gate);
}

} // namespace

TEST_CASE("ForecastSlo refuses nobody for a newcomer whose prompt is longer, however much of it the host has") {
  const Served served = serve_crowd(Tokens{304}); // of 400: to compute 96, if these are loaded, or 400
  REQUIRE(served.of[10].error.code == "slo_not_keepable");
  std::int64_t unlooked = 0;
  for (std::size_t i = 11; i < 30; ++i) {
    CAPTURE(i);
    CHECK(served.of[i].error.message.find("a request for no more was refused") == std::string::npos);
    unlooked += served.of[i].error.code == "not_forecast" ? 1 : 0;
  }
  CHECK(unlooked > 5);
}

TEST_CASE("ForecastSlo refuses for a forecast's reason whom it cannot look at, if they ask for no less") {
  const Served served = serve_crowd(Tokens{0});
  const Became& looked = served.of[10];
  REQUIRE(looked.error.code == "slo_not_keepable");
  int same = 0, others = 0;
  bool other_looked = false; // one of those with short prompts was looked at
  for (std::size_t i = 11; i < 30; ++i) {
    CAPTURE(i);
    CHECK(!served.of[i].admitted);
    CHECK(served.of[i].retry_after_s > 0);
    const bool by_finding = served.of[i].error.message.find("a request for no more was refused") == 0;
    if (by_finding) {
      ++same;
      CHECK((i < 20 || other_looked)); // the others ask for less
      CHECK(served.of[i].error.code == "slo_not_keepable");
      CHECK(served.of[i].error.status == 429);
    } else if (served.of[i].error.code == "not_forecast") {
      ++others;
      CHECK(i >= 20);
    } else if (i >= 20) {
      other_looked = true;
    }
  }
  CHECK(same > 5);
  CHECK(metric(served, "forecast_unlooked_total{admitted=\"false\"}") == same + others);
}

TEST_CASE("a forecast's finding covers those who ask for no less, until a request leaves") {
  const detail::Finding finding{.slo = usual_slo, .prompt_tokens = 100, .most_tokens = 50, .have_left = 7};
  Generation same;
  same.slo = usual_slo;
  same.prompt.assign(100, 5);
  same.max_tokens = 50;
  CHECK(finding.covers(same, 7));
  CHECK(!finding.covers(same, 8));
  Generation more = same, less = same;
  more.prompt.resize(101);
  more.max_tokens = 51;
  more.slo = {Seconds{1}, Seconds{0.05}};
  CHECK(finding.covers(more, 7));
  more.on_host = Tokens{16}; // only 85 tokens to compute
  CHECK(!finding.covers(more, 7));
  more.prompt.resize(116);
  CHECK(finding.covers(more, 7));
  less.prompt.resize(99);
  CHECK(!finding.covers(less, 7));
  less = same;
  less.max_tokens = 49;
  CHECK(!finding.covers(less, 7));
  less = same;
  less.slo.ttft = Seconds{3};
  CHECK(!finding.covers(less, 7));
  less = same;
  less.slo.tbt = Slo{}.tbt;
  CHECK(!finding.covers(less, 7));
  less = same;
  less.priority = -1;
  CHECK(!finding.covers(less, 7));
}

namespace {

/// Forecasts that take time on the virtual clock: the starvation that they caused, and the bound.
template <class System>
void check_not_starved() {
  const Case rush = crowd<System>(300);
  const Served none = serve_clients<System>(rush, open_to_all());
  LettingIn gate;
  gate.gate.mode = ForecastMode::soft;
  const Served soft = serve_clients<System>(rush, gate);
  CHECK(soft.admitted() == 300);
  CHECK(metric(soft, "forecasts_total") > 5);
  CHECK(soft.end.count() <= 1.03 * none.end.count()); // the same tokens
  CHECK(soft.mean_ttft() <= 1.03 * none.mean_ttft());
  CHECK(metric(soft, "forecast_seconds_total") <= 0.005 * metric(soft, "busy_seconds_total") + 2 * gate.gate.most_s);

  LettingIn unbounded = gate;
  unbounded.gate.soft_share = std::numeric_limits<double>::infinity(); // 20 ms between any two steps
  const Served starved = serve_clients<System>(rush, unbounded);
  CHECK(starved.end.count() > 1.1 * none.end.count());
  CHECK(starved.mean_ttft() > 1.5 * none.mean_ttft());

  gate.gate.mode = ForecastMode::hard;
  const Served hard = serve_clients<System>(rush, gate);
  CHECK(metric(hard, "forecast_seconds_total") <= 0.05 * metric(hard, "busy_seconds_total") + 0.5 * hard.end.count());
  CHECK(hard.share_kept() >= 0.95);
  CHECK(hard.goodput() > none.goodput());
}

} // namespace

TEST_CASE("ForecastSlo leaves the engine its time, though each forecast costs time: VllmSwap") {
  check_not_starved<VllmSwap>();
}
TEST_CASE("ForecastSlo leaves the engine its time, though each forecast costs time: OrbitFlow") {
  check_not_starved<OrbitFlow>();
}

namespace {

/// The promises of docs/serving.md on the virtual clock, which charges forecasts what they cost: bench_promises with
/// fewer clients. The load is the same for all systems: twice what VllmSwap can serve.
/// `times`: by how much more the gate keeps per second than none.
template <class System>
void check_promises(double jitter, double times = 3, std::size_t count = 200) {
  const Server server = small_server();
  Case twice{server, 1, jitter, 1, clients(count, 2 * capacity<VllmSwap>(server, usual_slo), usual_slo, 3)};
  twice.charge_s = forecast_step_s;
  const Served none = serve_clients<System>(twice, open_to_all());
  LettingIn gate;
  gate.gate.mode = ForecastMode::soft;
  const Served soft = serve_clients<System>(twice, gate);
  CHECK(soft.admitted() == static_cast<std::int64_t>(count));
  CHECK(soft.end.count() <= 1.03 * none.end.count());
  CHECK(soft.mean_ttft() <= 1.03 * none.mean_ttft());
  gate.gate.mode = ForecastMode::hard;
  const Served hard = serve_clients<System>(twice, gate);
  CHECK(hard.share_kept() >= 0.97);
  CHECK(hard.goodput() >= times * none.goodput());
  CHECK(hard.kept() >= none.kept());
  for (const std::int64_t most : {2, 4, 8, 64}) {
    CAPTURE(most);
    LettingIn queue = open_to_all();
    queue.queue.most = most;
    CHECK(hard.kept() >= serve_clients<System>(twice, queue).kept());
  }
#if !defined(SLUICE_SANITIZED) // thirty times slower
  const Replayed replayed = replay_refusals<System>(twice, gate, hard, count / 66);
  CHECK(replayed.refusals >= 15);
  CHECK(10 * replayed.wrong <= replayed.refusals); // bench_promises, of ten times as many: one in a hundred
#endif
}

} // namespace

TEST_CASE("ForecastSlo, hard: 97 % kept, thrice the goodput, refusals right, forecasts charged: VllmSwap") {
  check_promises<VllmSwap>(0);
  check_promises<VllmSwap>(0.3);
}
TEST_CASE("ForecastSlo, hard: 97 % kept, thrice the goodput, refusals right, forecasts charged: OrbitFlow") {
  check_promises<OrbitFlow>(0);
  check_promises<OrbitFlow>(0.3);
}
TEST_CASE("ForecastSlo, hard: 97 % kept, thrice the goodput, refusals right, forecasts charged: SuperInfer") {
  check_promises<SuperInfer>(0);
}

TEST_CASE("ForecastSlo, hard, keeps as many as no gate with a system that serves the smallest first: Confluence") {
  check_promises<Confluence>(0, 1.5, 400);
  check_promises<Confluence>(0.3, 1.5, 400);
}

TEST_CASE("ForecastSlo refuses permanently an SLO that this engine can never meet") {
  Case one{small_server(), 1, 0, 1, clients(1, 1, {Seconds{0.001}, Seconds{0.1}}, 5)};
  const Served served = serve_clients<VllmSwap>(one, gate_of(ForecastMode::hard));
  CHECK(!served.of[0].admitted);
  CHECK(served.of[0].retry_after_s == 0);
  CHECK(served.of[0].error.status == 422); // clients retry a 429
  CHECK(served.of[0].error.code == "slo_never_keepable");
  CHECK(served.of[0].error.message.find("not keepable even with nobody else here") != std::string::npos);
}

namespace {

/// The gate of a loop, which the test may look into.
struct Seen {
  ForecastSlo* gate;

  template <class E>
  [[nodiscard]] GateAnswer answer(const Generation& newcomer, const Outlook<E>& outlook) const {
    return gate->answer(newcomer, outlook);
  }
  void left(const Hold& hold) const { gate->left(hold); }
};

/// Runs one request whose gaps between tokens no prompt may lengthen, so that the gate holds all newcomers.
struct HoldsAll {
  using E = With<VllmSwap, GenerationFeed>;
  struct Order final : GenerationListener {
    void happened(std::vector<GenerationEvent> events) override {
      for (const GenerationEvent& event : events)
        if (event.kind == GenerationEvent::Kind::accepted) accepted.push_back(static_cast<std::uint64_t>(event.id));
    }
    std::vector<std::uint64_t> accepted;
  };

  ForecastSlo gate;
  DrawnTokens tokens{{1, 2, 3}};
  Order told;
  EngineLoop<E, Seen> loop{tokens, told, Seen{&gate}};

  HoldsAll() {
    gate.mode = ForecastMode::hard;
    gate.clock = [] { return 0.0; };
    const Status made = loop.make([&](EventListener& feed) {
      E::Config config = configure<E>(small_server());
      config.observers = std::tuple{GenerationFeed{&feed}};
      return config;
    });
    REQUIRE(made.ok());
    enter(1, asking(50, 100, {Slo{}.ttft, Seconds{0.04}}));
    step(5);
    REQUIRE(told.accepted == std::vector<std::uint64_t>{1});
  }
  static Generation asking(std::size_t prompt, std::int64_t most, const Slo& slo) {
    Generation one;
    one.prompt.assign(prompt, 5);
    one.max_tokens = most;
    one.slo = slo;
    return one;
  }
  static Generation held(std::size_t prompt) { return asking(prompt, 20, {Seconds{10}, Seconds{0.2}}); }
  void enter(std::uint64_t id, const Generation& one) { loop.enter(GenerationId{id}, one); }
  /// It was refused before, and told to return now.
  void keep(const Generation& one) {
    (void)gate.room.keep(one, {.asks = WaitingRoom::digest_of(one), .work = 4, .due = loop.engine().now()});
  }
  void step(int times) {
    for (int i = 0; i < times; ++i) (void)loop.step();
    loop.tell(loop.engine().now());
  }
  double forecasts() { return metric({{}, {}, metrics_text(loop.figures())}, "forecasts_total"); }
};

} // namespace

TEST_CASE("ForecastSlo looks at no newcomer while one that has returned is held, and admits that one first") {
  HoldsAll of;
  const Generation small = HoldsAll::held(400), returns = HoldsAll::held(900), later = HoldsAll::held(300);
  of.enter(2, small);
  of.keep(returns);
  of.enter(3, returns);
  of.step(1);
  const double before = of.forecasts();
  of.enter(4, later);
  CHECK(of.forecasts() == before); // not looked at
  of.step(1);
  REQUIRE(of.told.accepted.size() == 1); // all three are held
  CHECK(of.gate.room.expected(WaitingRoom::after_all, of.loop.engine().now()).size() == 1);
  of.step(300);
  CHECK(of.told.accepted == std::vector<std::uint64_t>{1, 3, 4, 2}); // then the least work
  CHECK(of.gate.room.size() == 0);
}

TEST_CASE("ForecastSlo keeps the place of a held client that leaves, and looks at the next one") {
  HoldsAll of;
  const Generation returns = HoldsAll::held(900);
  of.keep(returns);
  of.enter(2, returns);
  of.step(1);
  of.enter(3, HoldsAll::held(300));
  const double before = of.forecasts();
  of.step(1);
  CHECK(of.gate.room.find(WaitingRoom::digest_of(returns), of.loop.engine().now()) == nullptr); // it is held
  CHECK(of.forecasts() == before);
  of.loop.leave(GenerationId{2});
  CHECK(of.gate.room.find(WaitingRoom::digest_of(returns), of.loop.engine().now()) != nullptr);
  CHECK(of.gate.room.expected(WaitingRoom::after_all, of.loop.engine().now()).empty());
  of.step(1);
  CHECK(of.forecasts() > before);
  of.step(300);
  CHECK(of.told.accepted == std::vector<std::uint64_t>{1, 3});
}
