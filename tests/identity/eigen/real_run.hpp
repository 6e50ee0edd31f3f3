// SPDX-License-Identifier: Apache-2.0
// RealRun: small random worlds for real backends, and what every engine must guarantee in them. Nothing here depends on
// an engine's type but make_real, so that a program compiles each engine once and everything else in real_run.cpp.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/real/token_world.hpp"

#include "engine/trials.hpp"
#include "support/chaos.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {
extern template class Machine<CpuDevice>;
}

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
  bool gives_back = false;              ///< windows and states give blocks back, and the engine has groups
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
  /// What layers keep, if they give blocks back.
  [[nodiscard]] KvBlocks kept_blocks() const;
  /// A machine's setup, with memory for `kv_blocks` besides weights and buffers.
  [[nodiscard]] MachineSetup setup(const Decoder& decoder, std::int64_t kv_blocks) const;
};

RealTrial random_real_trial(Random& random);

/// A trial's decoder with latent attention instead: per token an entry of 28 numbers.
inline DecoderConfig with_latents(DecoderConfig config) {
  config.shape.kv_heads = 1;
  config.shape.latent = {.rank = 24, .rotated = 4, .value = 8, .query_rank = 12};
  config.neighbours_rotate = true;
  return config;
}

/// A trial's decoder with experts behind a dense layer, chosen as in DeepSeek-V3 or as in V2, and shared ones. A dense
/// layer is smaller than the others, and takes as much room.
inline DecoderConfig with_experts(DecoderConfig config, bool third) {
  config.mlp = MlpKind::experts;
  config.shape.dense.insert(0);
  config.shape.experts = 6;
  config.shape.experts_per_token = 2;
  config.shape.moe_intermediate = 16;
  config.shape.shared_intermediate = 32;
  config.routing.normalised = third;
  config.routing.scale = third ? 2.5 : 1;
  config.routing.groups = 3;
  config.routing.groups_per_token = 2;
  if (third) {
    config.routing.score = RouterScore::sigmoid;
    config.routing.corrected = true;
    config.routing.group_scores = 2;
  }
  return config;
}

/// A trial's decoder with the gated delta rule in two of three layers, in every other model with the joint projections
/// and the experts of Qwen3-Next. A state has 268 to 344 numbers, more than a block's K and V have with 2 KV heads
/// (256), and less than with 4.
inline DecoderConfig with_states(DecoderConfig config) {
  config.shape.rotated = 8;
  config.joint_states = config.shape.hidden > 40;
  config.shape.delta = {.key_heads = config.joint_states ? 2 : 1,
                        .value_heads = 2,
                        .key_dim = 8,
                        .value_dim = 14,
                        .kernel = 2 + config.shape.layers % 2};
  for (int layer = 0; layer < config.shape.layers; ++layer)
    if (layer % 3 != 2) config.shape.delta.layers.insert(layer);
  config.norm = NormKind::rms_offset;
  config.query_key_norm = config.gated_heads = true;
  if (!config.joint_states) return config;
  config.mlp = MlpKind::experts;
  config.shape.dense.insert(1);
  config.shape.experts = 5;
  config.shape.experts_per_token = 2;
  config.shape.moe_intermediate = 16;
  config.shape.shared_intermediate = 24;
  config.gated_shared_experts = true;
  return config;
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
  std::vector<std::int64_t> found_on_device; ///< by request: tokens of its prompt, when it first joined
};

/// Of the live requests about one in `each`.
std::vector<RequestId> leaving_of(const View& view, Random& users, std::uint64_t each);

/// A machine of any device, as a trial drives it.
struct RealMachine {
  std::shared_ptr<TokenWorld> world;
  std::function<bool()> keeps_moving; ///< KV of ended requests to the host tier
};

/// Where a trial runs: one of the structs that make a device's machine, such as OnCpu, which must outlive it.
class RealPlace {
 public:
  template <class Where>
    requires(!std::is_same_v<Where, RealPlace>)
  RealPlace(const Where& where) // NOLINT(google-explicit-constructor)
      : where_(&where), element_bytes_(where.element_bytes()), setup_(&setup_of<Where>), make_(&make_of<Where>) {}

  [[nodiscard]] std::int64_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    return setup_(where_, trial, decoder, kv_blocks);
  }
  [[nodiscard]] Expected<RealMachine> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                           const MachineSetup& setup, TokenListener listener) const {
    return make_(where_, trial, std::move(decoder), setup, std::move(listener));
  }

 private:
  template <class Where>
  static MachineSetup setup_of(const void* where, const RealTrial& trial, const Decoder& decoder,
                               std::int64_t kv_blocks) {
    return static_cast<const Where*>(where)->setup(trial, decoder, kv_blocks);
  }
  template <class Where>
  static Expected<RealMachine> make_of(const void* where, const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                       const MachineSetup& setup, TokenListener listener) {
    auto machine = static_cast<const Where*>(where)->make(trial, std::move(decoder), setup, std::move(listener));
    if (!machine) return machine.error();
    return RealMachine{*machine, [one = machine->get()] { return one->keeps_moving(); }};
  }

  const void* where_;
  std::int64_t element_bytes_;
  MachineSetup (*setup_)(const void*, const RealTrial&, const Decoder&, std::int64_t);
  Expected<RealMachine> (*make_)(const void*, const RealTrial&, std::unique_ptr<Decoder>, const MachineSetup&,
                                 TokenListener);
};

/// A trial on this machine.
struct OnCpu {
  [[nodiscard]] static std::int64_t element_bytes() { return 4; }
  [[nodiscard]] MachineSetup setup(const RealTrial& trial, const Decoder& decoder, std::int64_t kv_blocks) const {
    return trial.setup(decoder, kv_blocks);
  }
  [[nodiscard]] Expected<std::shared_ptr<CpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const;
};

/// An engine of any type, as a trial steps it.
class RealEngine {
 public:
  RealEngine() = default;
  RealEngine(const RealEngine&) = delete;
  RealEngine& operator=(const RealEngine&) = delete;
  virtual ~RealEngine() = default;

  virtual Status load() = 0;
  virtual Expected<RequestId> submit(const RequestSpec& spec, Tokens on_host) = 0;
  virtual Status cancel(RequestId id) = 0;
  virtual Stepped step() = 0;
  virtual void idle_until(Seconds when) = 0;
  [[nodiscard]] virtual Seconds now() const = 0;
  [[nodiscard]] virtual View view() const = 0;
  [[nodiscard]] virtual std::int64_t alive() const = 0;
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  [[nodiscard]] virtual const Status& status() const = 0;
  [[nodiscard]] virtual const Summary::State& summary() const = 0;
};

/// What a trial sets of each engine's configuration.
struct RealConfig {
  Limits limits;
  Geometry geometry;
  LayerBlocks device_blocks{0}, host_blocks{0};
  SmallCost cost;
  Cpu backend;
};
using MakeReal = std::function<Expected<std::unique_ptr<RealEngine>>(const RealConfig&)>;

/// `E` as trials run it, on whichever device: `Cpu` hides it.
template <class E>
using Observed = With<E, Cpu, SmallCost, Summary>;

template <class E>
Expected<std::unique_ptr<RealEngine>> make_real(typename Observed<E>::Config config) {
  class Model final : public RealEngine {
   public:
    Model(typename Observed<E>::Checked checked, typename Observed<E>::Config&& config)
        : engine_(checked, std::move(config)) {}

    Status load() override { return engine_.load(); }
    Expected<RequestId> submit(const RequestSpec& spec, Tokens on_host) override {
      return engine_.submit(spec, {}, on_host);
    }
    Status cancel(RequestId id) override { return engine_.cancel(id); }
    Stepped step() override { return engine_.step(); }
    void idle_until(Seconds when) override { engine_.idle_until(when); }
    [[nodiscard]] Seconds now() const override { return engine_.now(); }
    [[nodiscard]] View view() const override { return engine_.view(); }
    [[nodiscard]] std::int64_t alive() const override { return engine_.alive(); }
    [[nodiscard]] std::int64_t steps() const override { return engine_.steps(); }
    [[nodiscard]] const Status& status() const override { return engine_.status(); }
    [[nodiscard]] const Summary::State& summary() const override { return engine_.template observed<Summary>(); }

   private:
    Observed<E> engine_;
  };
  struct Holder {
    Holder(typename Observed<E>::Checked checked, typename Observed<E>::Config&& from)
        : engine(std::make_unique<Model>(checked, std::move(from))) {}
    std::unique_ptr<Model> engine;
  };
  Expected<Holder> made = Observed<E>::template make_in<Holder>(std::move(config));
  if (!made) return made.error();
  return std::unique_ptr<RealEngine>(std::move(made->engine));
}

template <class E>
typename Observed<E>::Config real_config(const RealConfig& config) {
  return {.limits = config.limits,
          .geometry = config.geometry,
          .device_blocks = config.device_blocks,
          .host_blocks = config.host_blocks,
          .cost = config.cost,
          .backend = config.backend};
}

/// `E` as the trial configures it.
template <class E>
Expected<std::unique_ptr<RealEngine>> real(const RealConfig& config) {
  return make_real<E>(real_config<E>(config));
}

using Chaos = Engine<ChaosPlacement, EveryStep, ChaosRelief, ChaosRetention>;

/// Those that several programs run, in real_run.cpp.
extern template Expected<std::unique_ptr<RealEngine>> make_real<Engine<>>(Observed<Engine<>>::Config);
extern template Expected<std::unique_ptr<RealEngine>> make_real<Chaos>(Observed<Chaos>::Config);

/// Runs a trial's requests through the engine that `make` makes, whose device has `kv_blocks` for KV besides all
/// weights. Only the requests in `only` are submitted; `where` makes the machine.
RealResult run_trial(const RealTrial& trial, std::int64_t kv_blocks, const MakeReal& make,
                     const std::vector<std::size_t>& only = {}, const RealPlace& where = OnCpu{});

/// The same for an engine of the type `E`, in whose configuration `change(config)` sets what the trial leaves open.
template <class E, class Change>
RealResult run_real(const RealTrial& trial, std::int64_t kv_blocks, Change&& change,
                    const std::vector<std::size_t>& only = {}, const RealPlace& where = OnCpu{}) {
  return run_trial(
      trial, kv_blocks,
      [&change](const RealConfig& common) {
        typename Observed<E>::Config config = real_config<E>(common);
        change(config);
        return make_real<E>(std::move(config));
      },
      only, where);
}
template <class E>
RealResult run_real(const RealTrial& trial, std::int64_t kv_blocks, const std::vector<std::size_t>& only = {}) {
  return run_trial(trial, kv_blocks, &real<E>, only);
}

/// The results of each request when it is served alone, all resident, on one thread.
std::vector<RealOutput> alone(RealTrial trial);

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
void check_identity(const RealResult& result, const std::vector<RealOutput>& expected);

} // namespace sluice::testing
