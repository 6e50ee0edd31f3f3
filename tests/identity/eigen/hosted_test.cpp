// SPDX-License-Identifier: Apache-2.0
// Decodes that the host attends on a real machine, over KV in its own memory (NEO).
#include "sluice/engine/systems/neo.hpp"
#include "sluice/model/decoder/decoder_runner.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "identity/eigen/trials.hpp"
#include "support/all_on_host.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::testing {

namespace {

using Hosting = Engine<ChaosHosting, EveryStep, ChaosRelief, ChaosRetention>;

/// What the layers of a run were given.
struct HostedRows {
  std::int64_t hosted = 0, others = 0;     ///< rows of the layers, by who attends them
  int opened = 0;                          ///< calls that start the lane
  std::set<const std::byte*> host, device; ///< the blocks of each
};

/// Counts the rows that the host attends, and where the blocks of all rows lie.
class HostedRunner final : public ForwardingRunner {
 public:
  HostedRunner(std::unique_ptr<ModelRunner> runner, Tokens block_tokens, std::shared_ptr<HostedRows> seen, bool lane)
      : runner_(std::move(runner)),
        block_tokens_(static_cast<int>(block_tokens.count())),
        seen_(std::move(seen)),
        lane_(lane) {
    forward_to(*runner_);
  }
  [[nodiscard]] bool has_host_lane() const override { return lane_ && ForwardingRunner::has_host_lane(); }
  void open_host_lane() override {
    ++seen_->opened;
    ForwardingRunner::open_host_lane();
  }
  void launch_layer(int layer, const LayerWeights& weights, std::span<const SequenceRows> sequences, int rows,
                    int stored_rows, std::span<const HiddenRows> kept) override {
    for (const SequenceRows& sequence : sequences) {
      (sequence.on_host ? seen_->hosted : seen_->others) += sequence.rows;
      const int blocks = (sequence.position + sequence.rows + block_tokens_ - 1) / block_tokens_;
      for (int block = 0; block < blocks; ++block)
        (sequence.on_host ? seen_->host : seen_->device).insert(sequence.blocks[block]);
    }
    ForwardingRunner::launch_layer(layer, weights, sequences, rows, stored_rows, kept);
  }

 private:
  std::unique_ptr<ModelRunner> runner_;
  int block_tokens_;
  std::shared_ptr<HostedRows> seen_;
  bool lane_;
};

/// A trial on this machine whose rows are looked at.
struct OnLookedAtCpu : OnCpu {
  std::shared_ptr<HostedRows> seen = std::make_shared<HostedRows>();
  bool lane = true;

  [[nodiscard]] Expected<std::shared_ptr<CpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto runner = std::make_unique<DecoderRunner>(std::move(decoder));
    return CpuMachine::make(trial.weights,
                            std::make_unique<HostedRunner>(std::move(runner), trial.limits.block_tokens, seen, lane),
                            setup, std::move(listener));
  }
};

/// An engine on a machine with room for `kv` blocks, and the trial's requests in its queue.
template <class E>
struct Served {
  using Real = With<E, Cpu, SmallCost>;
  std::shared_ptr<CpuMachine> machine;
  std::optional<Real> engine;

  Served(const RealTrial& trial, std::int64_t kv, const OnLookedAtCpu& where) {
    std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, trial.threads);
    const MachineSetup setup = trial.setup(*decoder, kv);
    auto made = where.make(trial, std::move(decoder), setup, {});
    REQUIRE(made);
    machine = *std::move(made);
    const ModelShape& shape = trial.weights.config.shape;
    auto made_engine =
        Real::make({.limits = trial.limits,
                    .geometry = {shape.layers, Bytes{kv_block_floats(shape, trial.limits.block_tokens) * 4},
                                 trial.weights.layout.bytes, shape.layer_hidden_bytes(trial.limits.block_tokens)},
                    .device_blocks = LayerBlocks{kv},
                    .host_blocks = LayerBlocks{trial.host_blocks},
                    .cost = SmallCost{},
                    .backend = Cpu{machine}});
    REQUIRE(made_engine);
    engine.emplace(*std::move(made_engine));
    REQUIRE(engine->load().ok());
    for (std::size_t i = 0; i < trial.prompts.size(); ++i) {
      RequestSpec spec;
      spec.prompt = Tokens{static_cast<std::int64_t>(trial.prompts[i].size())};
      spec.output = Tokens{trial.outputs[i]};
      const Expected<RequestId> id = engine->submit(spec);
      REQUIRE(id);
      TokenRequest request;
      request.tokens = trial.prompts[i];
      machine->enter(*id, std::move(request));
    }
  }
};

/// Trials under `E`: the tokens of each request alone, and no block in both memories' rows. `tight`: the host has room
/// for the longest request, and for little more. `batches`: those of the device that the planner counts on; beside one,
/// a launch takes longer than what the device attends.
template <class E>
void check_hosting(std::uint64_t seed, int rounds, double share, std::uint64_t leaving = 0, bool tight = false,
                   int batches = 2) {
  Random random(seed);
  std::int64_t hosted = 0, others = 0, preempted = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    if (round % 3 == 2) trial.weights = random_weights(with_latents(trial.weights.config), seed);
    if (tight || round % 2 == 1) trial = at_once(std::move(trial)); // no clock decides whether any is preempted
    const std::vector<RealOutput> expected = alone(trial);
    trial.leaving = leaving;
    if (tight) trial.host_blocks = trial.largest() + static_cast<std::int64_t>(random.below(2)) * trial.layers();
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const OnLookedAtCpu where;
    const MakeReal make = [batches](RealConfig config) {
      config.cost.host_attention_rate = BytesPerSecond{1e10}; // NEO's choice is worth it
      config.cost.host_attention_batches = batches;
      if (batches == 1) config.cost.host_attention_launch = Seconds{2e-4};
      return real<E>(config);
    };
    const RealResult result = run_trial(trial, kv, make, {}, where);
    CHECK(result.refused == 0);
    check_identity(result, expected);
    hosted += where.seen->hosted;
    others += where.seen->others;
    preempted += result.preempted;
    std::vector<const std::byte*> both;
    std::set_intersection(where.seen->host.begin(), where.seen->host.end(), where.seen->device.begin(),
                          where.seen->device.end(), std::back_inserter(both));
    CHECK_MESSAGE(both.empty(), "no address is a block of both memories");
  }
  CHECK(hosted > 0);
  CHECK(others > 0);
  if (tight && !E::composition::lookahead_type::ahead) CHECK(preempted > 0); // beside an iteration, a clock decides
}

/// All KV on the host, and decodes that both memories have no room for are dropped, the newest first.
using Crowded = Engine<AllOnHost, EveryStep, PreemptWhereShort, MoveToHost>;

} // namespace

TEST_CASE("decodes that the host attends at random change no token and no logit") {
  check_hosting<Hosting>(61, 16, 0.8);
  check_hosting<With<Hosting, NextLayer>>(62, 8, 1.1);
  check_hosting<With<Hosting, FairShare, ChaosSwap>>(63, 8, 1.1);
  check_hosting<With<Hosting, OneStepAhead>>(64, 8, 0.9);
  check_hosting<With<Hosting, LargestVirtualLagFirst, EagerCopy>>(65, 8, 1.1);
  check_hosting<With<Hosting, ChaosWeights>>(66, 8, 1.1);
  check_hosting<With<Hosting, ChaosHidden, FairShare>>(67, 8, 1.1);
}

TEST_CASE("requests that the host attends may be cancelled in any state") {
  check_hosting<Hosting>(68, 8, 0.8, 25);
  check_hosting<With<Hosting, OneStepAhead>>(69, 8, 0.9, 25);
}

TEST_CASE("NEO on this machine changes no token and no logit") {
  check_hosting<Neo>(70, 16, 1.0);
  check_hosting<With<Neo, OneStepAhead>>(71, 8, 1.0);
  check_hosting<Neo>(82, 16, 1.0, 0, false, 1);
}

TEST_CASE("requests that the host has no room for are preempted, and their tokens stay the same") {
  check_hosting<Crowded>(77, 16, 1.1, 0, true);
  check_hosting<Hosting>(78, 16, 0.9, 0, true);
  check_hosting<Hosting>(79, 8, 0.9, 25, true);
  check_hosting<With<Hosting, OneStepAhead>>(80, 8, 0.9, 0, true);
  check_hosting<Neo>(81, 16, 1.0, 0, true);
}

TEST_CASE("KV that the host attends takes no device memory") {
  Random random(73);
  int looked = 0;
  std::int64_t waited = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    trial.room_for_hidden = false;
    for (std::int64_t& output : trial.outputs) output += 1; // no request ends with its prompt, in device memory
    const OnLookedAtCpu where;
    Served<Engine<AllOnHost, EveryStep>> served(trial, trial.all(), where);
    const Bytes empty = served.machine->device_memory().used();
    for (;;) {
      const Stepped stepped = served.engine->step();
      REQUIRE(stepped != Stepped::failed);
      if (stepped != Stepped::ran) break;
      const View view = served.engine->view();
      bool all = !view.running.empty(); // and none has a prompt whose KV is still on its way out
      for (const Slot slot : view.running) all = all && view.row(slot).holding.attended_on_host;
      if (!all) continue;
      ++looked;
      // The device has nothing to attend, so its layers wait for the host, and say so.
      const std::span<const LayerTimes> times = served.machine->layer_times();
      waited += std::count_if(times.begin(), times.end(), [](const LayerTimes& layer) {
        return layer.cause == StallCause::host && layer.stall_s > 0;
      });
      for (const LayerTimes& layer : times) CHECK(layer.end_s >= layer.start_s);
      for (const double seconds : served.machine->computed_layers()) CHECK(seconds >= 0);
      CHECK(served.machine->device_memory().used() == empty);
      CHECK(served.engine->ledger().device().used() == LayerBlocks{0});
    }
    CHECK(served.engine->alive() == 0);
  }
  CHECK(looked > 0);
  CHECK(waited > 0);
}

TEST_CASE("a plan that has the host attend is refused on a machine without a lane for it") {
  Random random(74);
  const RealTrial trial = random_real_trial(random);
  OnLookedAtCpu where;
  where.lane = false;
  Served<Engine<AllOnHost, EveryStep>> served(trial, trial.all(), where);
  Stepped stepped = Stepped::ran;
  while (stepped == Stepped::ran) stepped = served.engine->step();
  CHECK(stepped == Stepped::failed);
  const std::string line = served.engine->status().error().line();
  CHECK_MESSAGE(line.find("has the host attend") != line.npos, line);
  CHECK_MESSAGE(line.find("a backend whose host attends") != line.npos, line);
  CHECK(where.seen->hosted == 0);
}

TEST_CASE("an engine whose plans host nothing starts no lane, whatever its device states") {
  Random random(76);
  const RealTrial trial = random_real_trial(random);
  const OnLookedAtCpu where;
  Served<Engine<AllResident, EveryStep>> served(trial, trial.all(), where);
  while (served.engine->step() == Stepped::ran) {
  }
  CHECK(served.engine->alive() == 0);
  CHECK(where.seen->others > 0);
  CHECK(where.seen->opened == 0);
}

TEST_CASE("the host attends KV that it kept of ended requests") {
  Random random(75);
  std::int64_t hosted = 0, loaded = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    trial.tier_blocks = 100 * trial.layers();
    for (std::size_t i = 0; i < trial.prompts.size(); ++i) { // one text, of which each has a part
      trial.prompts[i].resize(4 * (1 + random.below(6)) + random.below(2));
      for (std::size_t token = 0; token < trial.prompts[i].size(); ++token)
        trial.prompts[i][token] = static_cast<std::int32_t>(token * 7 % 64);
      trial.arrivals[i] = static_cast<double>(i / 2);
    }
    const std::vector<RealOutput> expected = alone(trial);
    const OnLookedAtCpu where;
    const RealResult result = run_trial(trial, trial.largest() + 2 * trial.layers() + 8, &real<Hosting>, {}, where);
    check_identity(result, expected);
    hosted += where.seen->hosted;
    loaded += result.tier.loaded;
  }
  CHECK(hosted > 0);
  CHECK(loaded > 0);
}

TEST_CASE("copies of KV for the host that fail twice fail only their requests") {
  // No host attends states, which a trial of the device may have.
  check_faults(
      &real<Hosting>, 72, 10, [](FaultPlan& faults) { faults.failing = 0.15; }, true, &random_real_trial);
}

} // namespace sluice::testing
