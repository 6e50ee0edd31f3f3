// SPDX-License-Identifier: Apache-2.0
#include "identity/eigen/real_run.hpp"

#include <bit>
#include <chrono>
#include <map>
#include <span>
#include <thread>

namespace sluice {
template class Machine<CpuDevice>;
}

namespace sluice::testing {

template Expected<std::unique_ptr<RealEngine>> make_real<Engine<>>(Observed<Engine<>>::Config);
template Expected<std::unique_ptr<RealEngine>> make_real<Chaos>(Observed<Chaos>::Config);

KvBlocks RealTrial::kept_blocks() const {
  const Bytes block{kv_block_floats(weights.config.shape, limits.block_tokens) * 4};
  return KvBlocks{*kv_groups_of(weights.config, limits.block_tokens, block), limits.block_tokens};
}

MachineSetup RealTrial::setup(const Decoder& decoder, std::int64_t kv_blocks) const {
  MachineSetup setup;
  setup.limits = limits;
  if (rows_to_rebuild) setup.rebuilt = limits.block_tokens * (all() / layers());
  if (room_for_hidden)
    setup.hidden_blocks =
        hidden_in_flight(kv_block_shape(weights.config.shape, limits.block_tokens, 4), setup.rows(), limits.batch);
  if (gives_back) {
    setup.gives_back = true;
    setup.hidden_blocks += KvReach{weights.config, limits.block_tokens}.while_computing(setup.rows(), limits.batch);
  }
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

RealTrial random_real_trial(Random& random) {
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

std::vector<RequestId> leaving_of(const View& view, Random& users, std::uint64_t each) {
  std::vector<RequestId> some;
  for (const RequestRow& row : view.rows)
    if (row.phase != Phase::ended && users.below(each) == 0) some.push_back(row.id);
  return some;
}

Expected<std::shared_ptr<CpuMachine>> OnCpu::make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                  const MachineSetup& setup, TokenListener listener) const {
  CHECK(device_kv_blocks(trial.weights, *decoder, setup).count() >= 0);
  return make_cpu_machine(trial.weights, std::move(decoder), setup, std::move(listener));
}

RealResult run_trial(const RealTrial& trial, std::int64_t kv_blocks, const MakeReal& make,
                     const std::vector<std::size_t>& only, const RealPlace& where) {
  const ModelShape& shape = trial.weights.config.shape;
  std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, trial.threads);
  const MachineSetup setup = where.setup(trial, *decoder, kv_blocks);
  const std::int64_t block = kv_block_floats(shape, trial.limits.block_tokens) * where.element_bytes();

  const KvLayers groups{trial.gives_back ? trial.kept_blocks() : KvBlocks{}, {}};
  Geometry geometry{shape.layers, Bytes{block}, trial.weights.layout.bytes,
                    Bytes{shape.hidden * where.element_bytes() * trial.limits.block_tokens.count()}};
  if (trial.gives_back) geometry.groups = &groups;

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
  const Expected<RealMachine> made = where.make(trial, std::move(decoder), setup, std::move(listener));
  REQUIRE(made);
  const std::shared_ptr<TokenWorld>& machine = made->world;
  SmallCost cost;
  cost.base = Seconds{1e-3};
  cost.rate = BytesPerSecond{trial.link.to_device_bytes_per_s > 0 ? trial.link.to_device_bytes_per_s : 1e9};
  Expected<std::unique_ptr<RealEngine>> of = make(RealConfig{.limits = trial.limits,
                                                             .geometry = geometry,
                                                             .device_blocks = LayerBlocks{kv_blocks},
                                                             .host_blocks = LayerBlocks{trial.host_blocks},
                                                             .cost = cost,
                                                             .backend = Cpu{machine}});
  REQUIRE(of);
  const std::unique_ptr<RealEngine> engine = *std::move(of);
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
        machine->forget(id);
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
      spec.priority = static_cast<std::int32_t>(i % 3);
      if (trial.sessions > 0) spec.session = static_cast<std::uint32_t>(1 + i % trial.sessions);
      TokenRequest request;
      request.tokens = trial.prompts[i];
      request.sequence = i;
      request.scores = trial.scores;
      request.rules = trial.rules;
      request.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
      const Expected<RequestId> id = engine->submit(spec, machine->find(request));
      if (!id) {
        result.outputs[i].refused = true;
        continue;
      }
      request_of[index(*id)] = i;
      live.push_back(*id);
      machine->enter(*id, std::move(request));
    }
    if (next == order.size() && engine->alive() == 0) break; // though it may be planning: it ends as it is
    const Stepped stepped = engine->step();
    if (stepped == Stepped::failed) FAIL(engine->status().error().line());
    if (trial.tier_blocks > 0) { // the host tier gets the KV of requests that have ended
      const View view = engine->view();
      std::erase_if(live, [&](RequestId id) {
        for (const RequestRow& row : view.rows)
          if (row.id == id && row.phase != Phase::ended) return false;
        machine->forget(id);
        return true;
      });
    }
    if (stepped == Stepped::idle) {
      if (next == order.size()) break;
      if (trial.tier_blocks > 0) { // what has ended reaches the tier before the next request looks
        const auto begun = std::chrono::steady_clock::now(); // only a failure takes five minutes
        while (made->keeps_moving() && std::chrono::steady_clock::now() - begun < std::chrono::minutes{5})
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        CHECK_FALSE(made->keeps_moving());
      }
      engine->idle_until(Seconds{trial.arrivals[order[next]]});
      continue;
    }
    int last = -1;
    for (const LinkTimes& times : machine->link_times()) {
      if (times.weights) continue;
      ++result.blocks;
      result.overtakings += times.layer < last;
      last = times.layer;
    }
  }
  CHECK_MESSAGE(engine->alive() == 0, "no request is lost");
  if (engine->view().ledger->device().used().count() > 0) { // pinned
    engine->idle_until(engine->now() + Seconds{60});
    CHECK(engine->step() == Stepped::idle);
  }
  CHECK(engine->view().ledger->device().used().count() == 0);
  result.moved = machine->moved();
  result.tier = machine->host_tier();
  result.graphs = machine->graphs();
  result.steps = engine->steps();
  const auto& records = engine->summary().requests;
  for (const auto& record : records) result.preempted += record.times_preempted;
  result.found_on_device.resize(trial.prompts.size());
  for (const auto& [id, i] : request_of)
    result.found_on_device[i] = (records[id].found - records[id].loaded).count();
  for (const auto& one : request_of)
    if (records[one.first].outcome == Outcome::refused) {
      result.outputs[one.second].refused = true;
      ++result.refused;
    }
  CHECK(machine->device_memory().peak() <= setup.device_memory);
  return result;
}

std::vector<RealOutput> alone(RealTrial trial) {
  trial.threads = 1;
  trial.link = {};
  trial.faults = {};
  trial.gives_back = false;
  std::vector<RealOutput> outputs(trial.prompts.size());
  for (std::size_t i = 0; i < trial.prompts.size(); ++i)
    outputs[i] = run_trial(trial, trial.all(), &real<Engine<>>, {i}).outputs[i];
  return outputs;
}

void check_identity(const RealResult& result, const std::vector<RealOutput>& expected) {
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
