// SPDX-License-Identifier: Apache-2.0
// Runs fleets: each router is a type, and each has its fleets of one and of two pools.
#include "fleet/run.hpp"

#include "sluice/fleet/by_forecast.hpp"
#include "sluice/fleet/by_session.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/random_router.hpp"
#include "sluice/fleet/round_robin.hpp"
#include "sluice/fleet/scorers.hpp"
#include "sluice/fleet/weighted_scorers.hpp"
#include "sluice/report/observer/measure.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

namespace fleets {

using namespace sluice;

namespace {

/// Notes what became of every request.
struct Notes {
  std::vector<Seconds> arrivals{}, ends{};
  std::vector<Fate>* fates = nullptr; ///< null: only ends are counted
  std::vector<Stay>* stays = nullptr;
  std::atomic<std::int64_t>* ended = nullptr;
  std::vector<std::int32_t> waiting{}; ///< by engine, as reported when the window began
  std::size_t known = 0;               ///< engines whose reports the router reads

  void operator()(const FleetWindow& window) {
    if (fates == nullptr || window.reports.empty()) return;
    const std::size_t end = window.first_engine + window.reports.size();
    if (waiting.size() < end) waiting.resize(end);
    known = std::max(known, end);
    for (std::size_t i = 0; i < window.reports.size(); ++i)
      waiting[window.first_engine + i] = window.reports[i].waiting + window.reports[i].preempted;
  }
  void operator()(const FleetChoice& choice) {
    if (fates == nullptr) return;
    const auto at = static_cast<std::size_t>(choice.number);
    if (fates->size() <= at) fates->resize(at + 1);
    Fate& fate = (*fates)[at];
    stays->push_back({choice.number, choice.engine, choice.now.count()});
    if (fate.routed >= 0) return; // handed over, or returned by a dead engine
    fate.number = choice.number;
    fate.engine = choice.engine;
    fate.routed = choice.now.count();
    fate.age = static_cast<float>(choice.age.count());
    fate.seen = choice.engine < known ? waiting[choice.engine] : -1;
  }
  void operator()(const FleetEnd& end) {
    if (ended != nullptr) ended->fetch_add(1, std::memory_order_relaxed);
    arrivals.push_back(end.spec.arrival);
    ends.push_back(end.outcome == Outcome::served ? end.last : end.spec.arrival);
    if (fates == nullptr) return;
    Fate& fate = (*fates)[static_cast<std::size_t>(end.number)];
    fate.served = end.outcome == Outcome::served;
    fate.sent = end.spec.arrival.count();
    fate.first = fate.served ? end.first.count() : end.last.count();
    fate.last = end.last.count();
    fate.prompt = end.spec.prompt.count();
    fate.found = end.found.count();
    fate.tokens = end.generated.count();
    fate.session = end.spec.session;
  }
};

template <class R>
R made(const Fleets& of) {
  R router;
  router.every = of.every;
  if constexpr (requires { router.seed; }) router.seed = of.seed;
  return router;
}

/// Gives a router's scorers the user's weights.
template <class R>
void weigh(const Fleets& of, R& router) {
  if (of.weights.empty()) return;
  std::apply([at = of.weights.begin()](auto&... scorer) mutable { ((scorer.weight = *at++), ...); }, router.scorers);
}

template <class F, class R>
Expected<Ran> run_on(const Fleets& of, const R& router, Clients& clients) {
  std::deque<Told> told; // a deque: engines have their addresses
  typename F::Config config;
  config.routers.fill(router);
  config.settings = of.settings;
  const auto fill = [&](auto& pool, const engines::System* system, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      pool.push_back({system,
                      of.setup,
                      of.slo,
                      of.deposit,
                      of.setup->limits,
                      of.setup->geometry,
                      of.tells ? &told.emplace_back() : nullptr,
                      of.copies,
                      {}});
  };
  fill(std::get<0>(config.engines), of.system, of.engines);
  if constexpr (F::pools == 2) fill(std::get<1>(config.engines), of.decoder, of.decoders);
  Expected<F> fleet = F::make(std::move(config), of.ranks);
  if (!fleet) return fleet.error();
  Ran ran;
  if (Status status = agree(of.ranks, clients.start()); !status) return status.error();
  if constexpr (F::pools == 2) ran.last_pool = of.engines;
  Notes notes{.fates = of.notes ? &ran.fates : nullptr, .stays = &ran.stays, .ended = of.ended};
  if (Status status = fleet->run_clients(clients, notes); !status) return status.error();
  ran.queue_grows = queue_grows(std::move(notes.arrivals), std::move(notes.ends));
  ran.summary = fleet->summary();
  const auto note_refusal = [&ran](const auto& pool) {
    for (std::size_t i = 0; i < pool.size() && ran.refusal.empty(); ++i) ran.refusal = pool.engine(i).refusal();
  };
  note_refusal(fleet->template pool<0>());
  if constexpr (F::pools == 2) note_refusal(fleet->template pool<1>());
  for (std::size_t engine = 0; engine < told.size(); ++engine) {
    const Told& one = told[engine];
    if (ran.tokens.size() < one.tokens.size()) ran.tokens.resize(one.tokens.size());
    for (std::size_t i = 0; i < one.tokens.size(); ++i) ran.tokens[i] += one.tokens[i];
    if (engine >= of.engines) ran.second_firsts.insert(ran.second_firsts.end(), one.firsts.begin(), one.firsts.end());
  }
  return ran;
}

template <class R>
Expected<Ran> run_router(const Fleets& of, Clients& clients, R router) {
  if (of.decoder != nullptr) return run_on<Fleet<R, FleetEngine, FleetEngine>>(of, router, clients);
  return run_on<Fleet<R, FleetEngine>>(of, router, clients);
}
template <class R>
Expected<Ran> run_plain(const Fleets& of, Clients& clients) {
  R router = made<R>(of);
  if constexpr (requires { router.scorers; }) weigh(of, router);
  return run_router(of, clients, router);
}

// llm-d's routers, with the weights of its published configurations.
using Load = WeightedScorers<QueueScorer, KvScorer>;
using Estimated = WeightedScorers<QueueScorer, KvScorer, SentScorer>;
using Precise = WeightedScorers<QueueScorer, KvScorer, FoundScorer>;

Expected<Ran> run_precise(const Fleets& of, Clients& clients) {
  auto router = made<Precise>(of);
  router.scorers = {QueueScorer{2}, KvScorer{2}, FoundScorer{3}};
  weigh(of, router);
  return run_router(of, clients, router);
}

constexpr std::array<RouterRow, 8> rows{{
    {"precise", "scores queue 2, free KV 2 and the prefixes that engines report 3 (llm-d)", 3, &run_precise},
    {"estimated", "scores queue, free KV and the prefixes that it sent before, 1 each (llm-d)", 3,
     &run_plain<Estimated>},
    {"forecast", "the soonest first token, by the engines' cost models and prefixes", 0, &run_plain<ByForecast>},
    {"load", "scores queue and free KV, 1 each (llm-d)", 2, &run_plain<Load>},
    {"least-loaded", "the lowest of 4 x waiting + running (vLLM's front end)", 0, &run_plain<LeastLoaded>},
    {"session", "a session's requests to one engine; others at random", 0, &run_plain<BySession>},
    {"round-robin", "each engine in turn", 0, &run_plain<RoundRobin>},
    {"random", "any engine", 0, &run_plain<RandomRouter>},
}};

} // namespace

double Ran::imbalance() const {
  double most = 0, sum = 0;
  const auto pool = std::span(summary.engines).subspan(last_pool);
  for (const EnginePart& one : pool) {
    const auto tokens = static_cast<double>(one.generated.count());
    most = std::max(most, tokens);
    sum += tokens;
  }
  return sum > 0 ? most * static_cast<double>(pool.size()) / sum : std::numeric_limits<double>::quiet_NaN();
}

std::span<const RouterRow> routers() { return rows; }

} // namespace fleets
