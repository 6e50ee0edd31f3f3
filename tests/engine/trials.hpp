// SPDX-License-Identifier: Apache-2.0
// Trials: random small worlds and traces, and what every engine must guarantee in them.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/policy/layout/layout.hpp"

#include "engine/audit.hpp"
#include "engine/time_audit.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::testing {

/// A world with a few layers and a slow link: everything happens within a few hundred steps.
struct SmallCost {
  using role = roles::Cost;
  struct State {};
  Seconds base{0.01};
  Seconds per_token{1e-5};
  BytesPerSecond rate{1e6};
  Lanes lanes = Lanes::shared;
  BytesPerSecond host_attention_rate{2e7};
  Seconds host_attention_launch{0};
  int host_attention_batches = 2;

  [[nodiscard]] StepTime step(const Work& work) const {
    const double tokens = static_cast<double>((work.tokens() + work.rebuilt.projected + work.rebuilt.passed).count()) +
                          0.1 * static_cast<double>(work.decode_context.count());
    return {Seconds{0.001}, base * 0.1 + per_token * tokens, Seconds{0.001}};
  }
  [[nodiscard]] LinkCost link() const {
    LinkCost link{rate, Seconds{1e-5}, lanes, rate, 0.3, Seconds{0}, host_attention_rate};
    link.host_attention_launch = host_attention_launch;
    link.host_attention_batches = host_attention_batches;
    return link;
  }
  [[nodiscard]] const SmallCost& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};

struct Trial {
  int layers;
  int batch;
  LayerBlocks device;
  LayerBlocks host;
  std::vector<RequestSpec> requests;
  KvLayers kv{}; ///< of layers that keep different amounts; empty: all are alike. The trial outlives its engines
};

inline Trial random_trial(Random& random) {
  Trial trial;
  trial.layers = 2 + static_cast<int>(random.below(9));
  trial.batch = 1 + static_cast<int>(random.below(6));
  trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(6 + random.below(30))};
  trial.host = LayerBlocks{random.below(4) == 0 ? static_cast<std::int64_t>(random.below(60)) : 100000};
  double now = 0;
  const auto count = 3 + random.below(20);
  for (std::uint64_t i = 0; i < count; ++i) {
    now += random.uniform() * 0.3;
    RequestSpec spec;
    spec.arrival = Seconds{now};
    spec.prompt = Tokens{static_cast<std::int64_t>(1 + random.below(120))};
    spec.output = Tokens{static_cast<std::int64_t>(1 + random.below(120))};
    spec.slo.tbt = Seconds{0.01 + 0.05 * random.uniform()};
    spec.priority = static_cast<std::int32_t>(i % 3);
    if (i % 5 == 0) spec.hints.ttl = spec.hints.prefetch = Seconds{0.5};
    if (i % 7 == 0) spec.hints.keep = 20;
    spec.hints.release = i % 3 == 1;
    trial.requests.push_back(spec);
  }
  return trial;
}

/// The same with more layers, which take proportionally longer.
inline Trial deepened(Trial trial, int layers) {
  const double longer = static_cast<double>(layers) / trial.layers;
  trial.device = LayerBlocks{trial.device.count() / trial.layers * layers};
  for (RequestSpec& spec : trial.requests) spec.slo.tbt = spec.slo.tbt * longer;
  trial.layers = layers;
  return trial;
}

/// The same for a model whose layers keep all tokens, fewer bytes of them, a window, entries per 32 tokens or a state;
/// some layers keep two of these, and some nothing.
inline Trial in_groups(Trial trial, Random& random) {
  const std::array<KvRule, 5> rules{
      KvRule{.entry = 256}, KvRule{.kind = KvKind::latent, .entry = 160},
      KvRule{.kind = KvKind::sliding, .entry = 256, .window = static_cast<std::int64_t>(10 + random.below(60))},
      KvRule{.kind = KvKind::compressed, .entry = 512, .stride = 32}, KvRule{.kind = KvKind::state, .entry = 6144}};
  KvGroups kv;
  for (int layer = 0; layer < trial.layers; ++layer) {
    const std::uint64_t first = random.below(5), count = layer == 0 ? 1 : random.below(3);
    if (count > 0) REQUIRE(kv.add(layer, rules[first]));
    if (count > 1) REQUIRE(kv.add(layer, rules[(first + 1 + random.below(4)) % 5]));
  }
  trial.kv = {KvBlocks(kv, Tokens{16}), ReadLimits{kv}};
  for (int layer = 0; layer < trial.layers; ++layer)
    if (layer < 2 || random.below(3) > 0) trial.kv.streamable.insert(layer);
  const std::int64_t blocks = trial.device.count() / trial.layers;
  trial.device = LayerBlocks{3 * trial.kv.blocks.room(2 + blocks / 3)}; // for about as many requests
  trial.host = LayerBlocks{trial.host.count() * 4096 / trial.kv.blocks.quantum().count()};
  return trial;
}

/// When an idle engine has something to do: the next arrival, or the end of a load that a request waits for.
template <class E>
Seconds next_event(const E& engine, const Trial& trial, std::size_t next) {
  const Seconds arrival = next < trial.requests.size() ? trial.requests[next].arrival : never_due;
  return std::min(arrival, engine.next_load());
}

/// Submits a trial's requests from number `next` on as they arrive, and serves them. `after()` is called after every
/// step. Rows of requests that have ended are used again.
template <class E, class After>
void serve_arrivals(E& engine, const Trial& trial, After&& after, std::size_t next = 0) {
  std::size_t most_alive = engine.view().rows.size();
  for (int guard = 0; guard < 200'000; ++guard) {
    while (next < trial.requests.size() && trial.requests[next].arrival <= engine.now())
      (void)engine.submit(trial.requests[next++]);
    most_alive = std::max(most_alive, static_cast<std::size_t>(engine.alive()));
    const Stepped stepped = engine.step();
    if (stepped == Stepped::failed) FAIL(engine.status().error().line());
    if (stepped == Stepped::idle) {
      const Seconds until = next_event(engine, trial, next);
      if (until == never_due) break;
      engine.idle_until(until);
    }
    after();
  }
  CHECK(engine.alive() == 0);
  CHECK(engine.view().rows.size() <= most_alive);
}
template <class E>
void serve_to_end(E& engine, const Trial& trial, std::size_t next = 0) {
  const auto after = [&] {
    if constexpr (requires { engine.ledger(); }) check_ledger(engine);
  };
  serve_arrivals(engine, trial, after, next);
}

/// The engine of a trial. `layer_weights`: bytes of a layer's weights.
template <class E>
typename E::Config trial_config(const Trial& trial, const SmallCost& world, Bytes layer_weights = Bytes{1 << 20},
                                const SmallCost& believed = {}) {
  return {.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
          .geometry = {.layers = trial.layers,
                       .layer_block_bytes = trial.kv.blocks.empty() ? Bytes{4096} : trial.kv.blocks.quantum(),
                       .layer_weight_bytes = layer_weights,
                       .layer_hidden_bytes = Bytes{3000},
                       .groups = trial.kv.blocks.empty() ? nullptr : &trial.kv},
          .device_blocks = trial.device,
          .host_blocks = trial.host,
          .tier = reached_by<typename E::caching_type>({.capacity = TokenBlocks{trial.host.count() / trial.layers}}),
          .cost = believed,
          .backend = BasicSimulated<SmallCost>{world},
          .lower_tiers = {{.capacity = TokenBlocks{25},
                           .read_rate = BytesPerSecond{1e6},
                           .write_rate = BytesPerSecond{5e5},
                           .latency = Seconds{0.02}},
                          {.capacity = TokenBlocks{60}, .replacement = Replacement::adaptive}}};
}

template <class E>
inline constexpr bool streams_weights = !std::is_same_v<typename E::weights_type, ResidentWeights>;

/// Whether the placement moves single layers.
template <class E>
bool moves_layers() {
  using P = typename E::placement_type;
  return P::places_layers || !P().least(8).all_resident();
}

/// Whether KV moves to the host and back. A placement that only rebuilds declares `fetches_nothing`.
template <class E>
bool moves_kv() {
  using P = typename E::placement_type;
  if constexpr (requires { P::fetches_nothing; })
    if (P::fetches_nothing) return false;
  return moves_layers<E>() || !(std::is_same_v<typename E::retention_type, Drop> || E::retention_type::finds_released);
}

/// Makes the weights of a trial small enough to stream, and in a third of the trials larger than the device. Returns
/// the bytes of a layer's weights.
inline Bytes streamed_weights(Trial& trial, Random& random) {
  const auto blocks = static_cast<std::int64_t>(1 + random.below(40)); // in a layer's weights
  const bool alike = trial.kv.blocks.empty();
  const std::int64_t streamed = alike ? trial.layers : trial.kv.streamable.count();
  const std::int64_t all = blocks * streamed * 4096 / (alike ? 4096 : trial.kv.blocks.quantum().count());
  if (random.below(3) == 0)
    trial.device -= LayerBlocks{static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(all)))};
  return Bytes{4096} * blocks;
}

/// After the last token nothing is left but what clients asked to keep for a time, and every request has been served or
/// refused.
template <class E>
void check_all_served(const E& engine, std::size_t requests) {
  CHECK_MESSAGE(engine.alive() == 0, "no request is lost");
  CHECK(engine.ledger().device().used() == engine.pinned());
  CHECK(engine.ledger().host().used().count() == 0);
  const auto& lives = engine.template observed<Audit>().lives;
  CHECK(lives.size() == requests);
  for (const auto& one : lives) { // no structured binding: clang 14 cannot capture one in a lambda such as CAPTURE's
    CAPTURE(index(one.first));
    CHECK(int{one.second.ended} + int{one.second.refused} + int{one.second.cancelled} == 1);
  }
}

/// What policies read of the past agrees with what an observer has counted.
template <class E>
void check_sums(const E& engine) {
  ServedSums counted;
  for (const RequestRecord& record : engine.template observed<Summary>().requests) {
    counted.missed += record.missed;
    counted.started += record.started() ? 1 : 0;
    counted.late_first += record.started() && !on_time(record.ttft(), record.slo_ttft, record.first) ? 1 : 0;
    counted.tokens += record.delivered.count();
  }
  const ServedSums& told = *engine.view().served;
  CHECK(told.missed == counted.missed);
  CHECK(told.started == counted.started);
  CHECK(told.late_first == counted.late_first);
  CHECK(told.tokens >= counted.tokens); // a cancelled request's deposit is never delivered
  for (const RequestRow& row : engine.view().rows)
    if (row.phase != Phase::ended && row.generated.count() > 0) {
      CHECK(row.first_token <= row.last_token);
      CHECK(row.missed_by(engine.now()) >= row.missed);
    }
}

/// The phases in which requests were cancelled.
struct Cancelled {
  std::int64_t waiting = 0, in_prefill = 0, in_decode = 0, preempted = 0, kept_on_host = 0, copied = 0;
};

/// Cancels each live request between two steps with probability 1 in `each`. Its memory is free at once.
template <class E>
void cancel_some(E& engine, Random& random, std::uint64_t each, Cancelled& counts) {
  std::vector<RequestId> leaving;
  for (const RequestRow& row : engine.view().rows)
    if (row.phase != Phase::ended && random.below(each) == 0) leaving.push_back(row.id);
  for (const RequestId id : leaving) {
    CAPTURE(index(id));
    const View view = engine.view();
    const auto row = std::find_if(view.rows.begin(), view.rows.end(),
                                  [id](const RequestRow& one) { return one.id == id && one.phase != Phase::ended; });
    REQUIRE(row != view.rows.end());
    counts.waiting += row->phase == Phase::waiting;
    counts.in_prefill += row->phase == Phase::running && row->computed.count() > 0 && row->pending().count() > 1;
    counts.in_decode += row->phase == Phase::running && row->pending().count() == 1;
    counts.preempted += row->phase == Phase::preempted;
    counts.kept_on_host += !row->holding.host.empty() && row->blocks.count() > 0;
    counts.copied += row->holding.copied.count() > 0;
    const Footprint held = row->phase == Phase::waiting ? Footprint{} : held_by<E>(view, *row);
    const LayerBlocks device = engine.ledger().device().used(), host = engine.ledger().host().used();
    const std::int64_t alive = engine.alive();
    const Status status = engine.cancel(id);
    CHECK_MESSAGE(status.ok(), status.error().line());
    CHECK(engine.alive() == alive - 1);
    CHECK_MESSAGE(engine.ledger().device().used() == device - held.device, "its device blocks are free at once");
    CHECK_MESSAGE(engine.ledger().host().used() == host - held.host, "and so are those on the host");
    CHECK_MESSAGE(!engine.cancel(id).ok(), "once");
    check_ledger(engine);
  }
}

/// What the trials exercised: a property about events that never happened would be empty.
struct Exercised {
  double blocks_moved = 0, weights_moved = 0;
  std::int64_t moving = 0, exactly = 0;

  template <class E>
  void add(const E& engine) {
    const Reckoning& reckoning = engine.template observed<Audit>().reckoning;
    blocks_moved += reckoning.blocks_moved;
    weights_moved += reckoning.weights_moved;
    moving += reckoning.moving;
    exactly += reckoning.exactly;
  }
};

/// Under a sanitizer at -O0 a round takes thirty times as long, so only the first rounds run there, at least one of
/// each kind; other builds run all rounds and check what they exercise together.
#if defined(SLUICE_SANITIZED)
inline constexpr bool all_rounds = false;
#else
inline constexpr bool all_rounds = true;
#endif

/// What the KV of a trial's model is like.
enum class KvOf { equal_layers, groups };

/// `least_host`: the smallest host. `cancels`: requests are cancelled at any time, and counted.
template <class System>
void run_trials(const char* name, int rounds, LayerBlocks least_host = LayerBlocks{0}, Cancelled* cancels = nullptr,
                KvOf kv = KvOf::equal_layers) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Audit, Summary, Why, TimeAudit>;
  INFO(std::string{name});
  Random random(7);
  Random users(11);
  Exercised exercised;
  for (int round = 0; round < (all_rounds ? rounds : std::max(4, rounds / 5)); ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    if (round % 4 == 3) trial = deepened(std::move(trial), 16 + static_cast<int>(random.below(9))); // eLLM's kind
    trial.host = std::max(trial.host, least_host);
    if (kv == KvOf::groups) trial = in_groups(std::move(trial), random);
    SmallCost world;
    world.rate = BytesPerSecond{5e5 + 5e6 * random.uniform()};
    if (round % 2 == 1) world.lanes = Lanes::each_way;
    SmallCost believed;
    if (round % 4 >= 2) { // any link, and a planner that knows it: some policies move only what computing hides
      world.rate = BytesPerSecond{5e5 * std::pow(1000, random.uniform())};
      believed = world;
    }
    Bytes layer_weights{1 << 20};
    if constexpr (streams_weights<E>) layer_weights = streamed_weights(trial, random);
    auto made = E::make(trial_config<E>(trial, world, layer_weights, believed));
    if (kv == KvOf::groups && moves_layers<E>() && trial.kv.blocks.movable().empty()) {
      CHECK_MESSAGE(!made, "no layer can move alone");
      continue;
    }
    REQUIRE(made.has_value());
    E& engine = *made;
    const std::uint64_t each = 20 + users.below(100);
    serve_arrivals(engine, trial, [&] {
      check_ledger(engine);
      if (engine.steps() % 16 == 0) check_sums(engine);
      if (cancels != nullptr) cancel_some(engine, users, each, *cancels);
      CHECK(engine.view().running.size() <= static_cast<std::size_t>(trial.batch));
    });
    // Submission checks the least residency; a placement that chooses more on a small host is responsible for that.
    if (E::relief_type::parting == Parting::preempt && trial.host.count() >= 100000)
      CHECK_MESSAGE(engine.template observed<Audit>().broken_promises == 0, "an accepted request is served");
    check_all_served(engine, trial.requests.size());
    check_times(engine);
    check_sums(engine);
    CHECK_MESSAGE(engine.template observed<Audit>().reckoning.overwritten == 0, "no other engine has its memory");
    exercised.add(engine);
  }
  if (!all_rounds || cancels != nullptr) return;
  CHECK((exercised.weights_moved > 0) == streams_weights<E>);
  CHECK((exercised.blocks_moved > 0) == moves_kv<E>());
  CHECK(20 * exercised.exactly >= exercised.moving); // or its bounds say little
}

/// The same for a system whose requests are cancelled in any phase. Returns their phases.
template <class System>
Cancelled run_cancelled(const char* name, int rounds, LayerBlocks least_host = LayerBlocks{0}) {
  Cancelled counts;
  run_trials<System>(name, rounds, least_host, &counts);
  if (all_rounds) CHECK(counts.waiting * counts.in_decode > 0);
  return counts;
}

} // namespace sluice::testing

/// The same of models with KV in groups.
#define SLUICE_CONSERVES_GROUPS(System)                                                                                \
  TEST_CASE("conservation with KV in groups: " #System) {                                                              \
    using namespace sluice;                                                                                            \
    testing::Cancelled cancels;                                                                                        \
    testing::run_trials<System>(#System, 40, LayerBlocks{0}, nullptr, testing::KvOf::groups);                          \
    testing::run_trials<System>(#System, 12, LayerBlocks{0}, &cancels, testing::KvOf::groups);                         \
  }
#define SLUICE_CONSERVES(System)                                                                                       \
  TEST_CASE("conservation: " #System) { sluice::testing::run_trials<System>(#System, 40); }                            \
  TEST_CASE("conservation with cancellations: " #System) { sluice::testing::run_cancelled<System>(#System, 12); }
