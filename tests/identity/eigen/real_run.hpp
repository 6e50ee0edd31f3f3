// SPDX-License-Identifier: Apache-2.0
// RealRun: small random worlds for the Cpu backend, and what every engine must guarantee in them.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::testing {

/// Compiled separately: the kernels once, for all engines.
std::unique_ptr<Decoder> decoder_of(const ModelWeights& weights, Tokens block_tokens, int threads);

/// A model, a link and requests, all small.
struct RealTrial {
  ModelWeights weights;
  Limits limits;
  int threads = 1;
  LinkRates link;
  FaultPlan faults;
  std::int64_t host_blocks = 0;
  Seconds slo{0};
  Seconds ttft{std::numeric_limits<double>::infinity()}; ///< SLO of the first token
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::int64_t> outputs;
  std::vector<double> arrivals;
  bool loads = false;                      ///< weights are loaded before the first request
  std::uint64_t leaving = 0;               ///< after a step one in so many requests is cancelled; 0: none
  bool scores = false;                     ///< prompts get log-probabilities
  std::shared_ptr<const LogitRules> rules; ///< of every request
  bool rows_to_rebuild = true;             ///< the buffers have some for every request's tokens
  bool room_for_hidden = true;             ///< and so has the device, for hidden states in flight
  std::int64_t tier_blocks = 0;            ///< layer blocks of the host tier
  Replacement tier_evicts = Replacement::least_recent;
  std::shared_ptr<RecordStore> records; ///< below it
  std::function<Seconds()> disk_clock;  ///< times its reads; empty: the system's
  std::size_t sessions = 0;             ///< request i belongs to session i mod so many; 0: to none

  [[nodiscard]] int layers() const { return weights.config.shape.layers; }
  [[nodiscard]] std::int64_t blocks(std::size_t i) const {
    const auto tokens = static_cast<std::int64_t>(prompts[i].size()) + outputs[i] - 1;
    return blocks_for(Tokens{tokens}, limits.block_tokens).count();
  }
  /// Layer blocks of the largest request at its greatest length, and of all requests.
  [[nodiscard]] std::int64_t largest() const {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) most = std::max(most, blocks(i));
    return most * layers();
  }
  [[nodiscard]] std::int64_t all() const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) sum += blocks(i);
    return sum * layers();
  }
  /// A machine's setup, with memory for `kv_blocks` besides weights and buffers.
  [[nodiscard]] MachineSetup setup(const Decoder& decoder, std::int64_t kv_blocks) const {
    MachineSetup setup;
    setup.limits = limits;
    if (rows_to_rebuild) setup.rebuilt = limits.block_tokens * (all() / layers());
    if (room_for_hidden)
      setup.hidden_blocks =
          hidden_in_flight(kv_block_shape(weights.config.shape, limits.block_tokens, 4), setup.rows(), limits.batch);
    setup.link = link;
    setup.faults = faults;
    setup.skips_idle = true;
    setup.host_blocks = LayerBlocks{host_blocks};
    setup.tier_blocks = LayerBlocks{tier_blocks};
    setup.tier_evicts = tier_evicts;
    setup.records = records;
    setup.disk_clock = disk_clock;
    const std::int64_t block = kv_block_floats(weights.config.shape, limits.block_tokens) * 4;
    setup.device_memory = Bytes{(kv_blocks - device_kv_blocks(weights, decoder, setup).count()) * block};
    return setup;
  }
};

inline RealTrial random_real_trial(Random& random) {
  RealTrial trial;
  DecoderConfig config;
  config.shape.layers = 3 + static_cast<int>(random.below(4));
  config.shape.hidden = random.below(2) == 0 ? 32 : 80; // a half, a fifth or more than K and V
  config.shape.heads = 4;
  config.shape.kv_heads = random.below(2) == 0 ? 2 : 4;
  config.shape.head_dim = 16;
  config.shape.mlp = 48;
  config.shape.vocabulary = 64;
  trial.weights = random_weights(config, random.below(1000));
  trial.limits.block_tokens = Tokens{4};
  trial.limits.batch = 1 + static_cast<int>(random.below(5));
  trial.limits.batch_tokens = Tokens{static_cast<std::int64_t>(8 + random.below(40))};
  trial.threads = 1 + static_cast<int>(random.below(2));
  trial.link.each_way = random.below(2) == 0;
  const double rate = random.below(3) == 0 ? 0 : 20e6 * (1 + 9 * random.uniform());
  trial.link.to_device_bytes_per_s = trial.link.to_host_bytes_per_s = rate;
  trial.host_blocks = 1'000'000;
  trial.room_for_hidden = random.below(2) == 0;
  trial.slo = Seconds{random.below(2) == 0 ? 10 : 0.0005};
  const std::size_t count = 2 + random.below(5);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> prompt(1 + random.below(30));
    for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(random.below(64));
    trial.prompts.push_back(std::move(prompt));
    trial.outputs.push_back(static_cast<std::int64_t>(1 + random.below(14)));
    trial.arrivals.push_back(random.below(2) == 0 ? 0 : 0.01 * random.uniform());
  }
  return trial;
}

/// Moves all arrivals before the first step. No clock then decides which requests run together, nor which are
/// preempted.
inline RealTrial at_once(RealTrial trial) {
  trial.arrivals.assign(trial.arrivals.size(), 0);
  return trial;
}

/// A request's results: its tokens, and the bits of all logits that they were chosen from.
struct RealOutput {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> logits;
  std::vector<std::int32_t> scored;         ///< tokens of the prompt, if the trial scores them
  std::vector<std::uint32_t> scored_logits; ///< bits of the logits that precede them
  bool refused = false;
  bool cancelled = false;

  friend bool operator==(const RealOutput&, const RealOutput&) = default;
};

struct RealResult {
  std::vector<RealOutput> outputs; ///< by request
  CopyTotals moved;
  std::optional<GraphCounts> graphs;
  std::int64_t preempted = 0;
  std::int64_t steps = 0;
  std::int64_t refused = 0;
  std::int64_t cancelled = 0;
  std::int64_t blocks = 0;      ///< that arrived during iterations
  std::int64_t overtakings = 0; ///< of them, directly after one of a later layer
  HostTierCounts tier;
};

inline std::vector<RequestId> leaving_of(const View& view, Random& users, std::uint64_t each) {
  std::vector<RequestId> some;
  for (const RequestRow& row : view.rows)
    if (row.phase != Phase::ended && users.below(each) == 0) some.push_back(row.id);
  return some;
}

/// A trial on this machine.
struct OnCpu {
  [[nodiscard]] static std::int64_t element_bytes() { return 4; }
  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    return trial.setup(decoder, kv_blocks);
  }
  [[nodiscard]] Expected<std::shared_ptr<CpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const {
    CHECK(device_kv_blocks(trial.weights, *decoder, setup).count() >= 0);
    return make_cpu_machine(trial.weights, std::move(decoder), setup, std::move(listener));
  }
};

/// Runs a trial's requests through an engine whose device has `kv_blocks` for KV besides all weights. `change(config)`
/// sets what the trial leaves open; only the requests in `only` are submitted; `where` makes the machine.
template <class E, class Change, class Where = OnCpu>
RealResult run_real(const RealTrial& trial, std::int64_t kv_blocks, Change&& change,
                    const std::vector<std::size_t>& only = {}, Where&& where = {}) {
  using Observed = With<E, Cpu, SmallCost, Summary>;
  const ModelShape& shape = trial.weights.config.shape;
  std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, trial.threads);
  const MachineSetup setup = where.setup(trial, *decoder, kv_blocks);
  const std::int64_t block = kv_block_floats(shape, trial.limits.block_tokens) * where.element_bytes();

  RealResult result;
  result.outputs.resize(trial.prompts.size());
  std::map<std::uint32_t, std::size_t> request_of;
  TokenListener listener;
  listener.token = [&](RequestId id, std::int32_t token) {
    result.outputs[request_of.at(index(id))].tokens.push_back(token);
  };
  listener.logits = [&](RequestId id, std::int64_t, std::span<const float> logits) {
    for (const float logit : logits)
      result.outputs[request_of.at(index(id))].logits.push_back(std::bit_cast<std::uint32_t>(logit));
  };
  listener.scored = [&](RequestId id, std::int32_t token, std::span<const float> logits) {
    RealOutput& output = result.outputs[request_of.at(index(id))];
    output.scored.push_back(token);
    for (const float logit : logits) output.scored_logits.push_back(std::bit_cast<std::uint32_t>(logit));
  };
  auto machine = where.make(trial, std::move(decoder), setup, std::move(listener));
  REQUIRE(machine);
  SmallCost cost;
  cost.base = Seconds{1e-3};
  cost.rate = BytesPerSecond{trial.link.to_device_bytes_per_s > 0 ? trial.link.to_device_bytes_per_s : 1e9};
  typename Observed::Config config{
      .limits = trial.limits,
      .geometry = {shape.layers, Bytes{block}, trial.weights.layout.bytes,
                   Bytes{shape.hidden * where.element_bytes() * trial.limits.block_tokens.count()}},
      .device_blocks = LayerBlocks{kv_blocks},
      .host_blocks = LayerBlocks{trial.host_blocks},
      .cost = cost,
      .backend = Cpu{*machine}};
  change(config);
  Expected<Observed> engine = Observed::make(std::move(config));
  REQUIRE(engine);
  if (trial.loads) REQUIRE(engine->load().ok());

  std::vector<std::size_t> order = only;
  if (order.empty())
    for (std::size_t i = 0; i < trial.prompts.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return trial.arrivals[a] < trial.arrivals[b]; });
  std::vector<RequestId> live;
  std::size_t next = 0;
  Random users(trial.leaving);
  for (;;) {
    if (trial.leaving > 0)
      for (std::vector<RequestId> some = leaving_of(engine->view(), users, trial.leaving); const RequestId id : some) {
        const Status status = engine->cancel(id);
        CHECK_MESSAGE(status.ok(), status.error().line());
        (*machine)->forget(id);
        std::erase(live, id);
        result.outputs[request_of.at(index(id))].cancelled = true;
        ++result.cancelled;
      }
    while (next < order.size() && trial.arrivals[order[next]] <= engine->now().count()) {
      const std::size_t i = order[next++];
      RequestSpec spec;
      spec.arrival = Seconds{trial.arrivals[i]};
      spec.prompt = Tokens{static_cast<std::int64_t>(trial.prompts[i].size())};
      spec.output = Tokens{trial.outputs[i]};
      spec.slo = {trial.ttft, trial.slo};
      if (trial.sessions > 0) spec.session = static_cast<std::uint32_t>(1 + i % trial.sessions);
      TokenRequest request;
      request.tokens = trial.prompts[i];
      request.sequence = i;
      request.scores = trial.scores;
      request.rules = trial.rules;
      request.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
      const Expected<RequestId> id = engine->submit(spec, {}, (*machine)->find(request));
      if (!id) {
        result.outputs[i].refused = true;
        continue;
      }
      request_of[index(*id)] = i;
      live.push_back(*id);
      (*machine)->enter(*id, std::move(request));
    }
    if (next == order.size() && engine->alive() == 0) break; // though it may be planning: it ends as it is
    const Stepped stepped = engine->step();
    if (stepped == Stepped::failed) FAIL(engine->status().error().line());
    if (trial.tier_blocks > 0) { // the host tier gets the KV of requests that have ended
      const View view = engine->view();
      std::erase_if(live, [&](RequestId id) {
        for (const RequestRow& row : view.rows)
          if (row.id == id && row.phase != Phase::ended) return false;
        (*machine)->forget(id);
        return true;
      });
    }
    if (stepped == Stepped::idle) {
      if (next == order.size()) break;
      if (trial.tier_blocks > 0) { // what has ended reaches the tier before the next request looks
        const auto begun = std::chrono::steady_clock::now(); // only a failure takes five minutes
        while ((*machine)->keeps_moving() && std::chrono::steady_clock::now() - begun < std::chrono::minutes{5})
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        CHECK_FALSE((*machine)->keeps_moving());
      }
      engine->idle_until(Seconds{trial.arrivals[order[next]]});
      continue;
    }
    int last = -1;
    for (const LinkTimes& times : (*machine)->link_times()) {
      if (times.weights) continue;
      ++result.blocks;
      result.overtakings += times.layer < last;
      last = times.layer;
    }
  }
  CHECK_MESSAGE(engine->alive() == 0, "no request is lost");
  CHECK(engine->ledger().device().used().count() == 0);
  result.moved = (*machine)->moved();
  result.tier = (*machine)->host_tier();
  result.graphs = (*machine)->graphs();
  result.steps = engine->steps();
  const auto& records = engine->template observed<Summary>().requests;
  for (const auto& record : records) result.preempted += record.times_preempted;
  for (const auto& one : request_of)
    if (records[one.first].outcome == Outcome::refused) {
      result.outputs[one.second].refused = true;
      ++result.refused;
    }
  CHECK((*machine)->device_memory().peak() <= setup.device_memory);
  return result;
}

template <class E>
RealResult run_real(const RealTrial& trial, std::int64_t kv_blocks, const std::vector<std::size_t>& only = {}) {
  return run_real<E>(
      trial, kv_blocks, [](auto&) {}, only);
}

/// The results of each request when it is served alone, all resident, on one thread.
inline std::vector<RealOutput> alone(RealTrial trial) {
  trial.threads = 1;
  trial.link = {};
  trial.faults = {};
  std::vector<RealOutput> outputs(trial.prompts.size());
  for (std::size_t i = 0; i < trial.prompts.size(); ++i)
    outputs[i] = run_real<Engine<>>(trial, trial.all(), {i}).outputs[i];
  return outputs;
}

/// What trials exercised: a property about events that never happened would be empty.
struct RealExercise {
  std::int64_t bytes = 0, preempted = 0, trials = 0;
  void add(const RealResult& result) {
    bytes += (result.moved.to_device.bytes + result.moved.to_host.bytes).count();
    preempted += result.preempted;
    ++trials;
  }
};

/// The same tokens from the same logits, bit for bit, as for each request alone; refused requests are excepted.
inline void check_identity(const RealResult& result, const std::vector<RealOutput>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    if (result.outputs[i].refused) continue;
    if (result.outputs[i].cancelled) { // what arrived until then
      const auto begins = [](const auto& part, const auto& whole) {
        return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
      };
      CHECK(begins(result.outputs[i].tokens, expected[i].tokens));
      CHECK(begins(result.outputs[i].logits, expected[i].logits));
      continue;
    }
    CHECK(result.outputs[i].tokens == expected[i].tokens);
    CHECK_MESSAGE(result.outputs[i].logits == expected[i].logits, "bit-identical logits");
  }
}

} // namespace sluice::testing
