// SPDX-License-Identifier: Apache-2.0
// Sets up the model and the engine of a server.
#include "serve/system.hpp"

#include "sluice/engine/serve.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/serve/cpu_tokens.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/real/paced.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include "engines/host_rate.hpp"
#include "engines/numbers.hpp"
#include "engines/system.hpp"
#include "run/computer.hpp"
#include "run/costs.hpp"
#include "run/engine_setup.hpp"
#include "run/model.hpp"
#include "run/tiers.hpp"
#include "shared/default_machine.hpp"
#include "shared/sizes.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serving {

using namespace sluice;

namespace {

constexpr std::int64_t longest_by_default = 4096; // tokens: memory for a batch of the longest requests is reserved

/// Copies of an engine that look ahead run with the planner's cost model.
running::WorldsAhead worlds_ahead(const engines::CostChoice& cost) {
  return [cost](Seconds start, const Correction& correction) {
    const auto length = [share = correction.length_share](const RequestRow& row) {
      return MeasuredLengths::expected(row, share);
    };
    return world_of(EndsAt{BasicSimulated{cost, start}, length});
  };
}

std::string name_of(const Options& options) {
  if (!options.name.empty()) return options.name;
  const std::filesystem::path path = std::filesystem::path{options.run.model}.lexically_normal();
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return name.empty() ? options.run.model : name;
}

Limits limits_of(const Options& options, std::int64_t context) {
  Limits limits;
  limits.batch = options.run.batch;
  limits.batch_tokens = Tokens{options.run.batch_tokens};
  limits.max_context = Tokens{context};
  return limits;
}

/// Sets up real tokens on this machine; for a replay, everything except the machine.
Expected<Served> on_machine(const Options& options, const engines::System& system) {
  if (Status status = running::check_host_attends(system, options.run); !status) return status.error();
  const bool replays = !options.replay.empty();
  Expected<running::Computer> computer = running::Computer::open(options.run, replays); // first: a GPU may be missing
  if (!computer) return computer.error();
  Expected<LocalModel> model =
      running::open_model(options.run.model, true, {}, {.by_name = "--simulate", .without_icu = "a build with ICU"});
  if (!model) return model.error();
  const ModelWeights& weights = model->weights;
  const ModelShape shape = weights.config.shape;
  const std::string digest = weights_digest(weights);
  const std::int64_t most = weights.config.max_positions;
  if (options.context && *options.context > most)
    return running::flag_error("--context", fmt::format("the model has {} positions", most),
                               fmt::format("at most {}", most));
  const std::int64_t context = options.context.value_or(std::min(most, longest_by_default));
  MachineSetup setup;
  setup.limits = limits_of(options, context);
  setup.link = {options.run.link, options.run.link, options.run.lanes == "each-way"};
  setup.products = running::products_of(options.run);
  setup.graphs = !options.run.no_graphs;
  if (Status status = computer->take(model->weights, setup); !status) return status.error();
  Expected<running::Costs> costs =
      running::costs_of(options.run, shape, setup.link, [&] { return computer->rates(setup, system.host_attends); });
  if (!costs) return costs.error();
  if (Status status = running::check_host_rate(system, options.run, costs->device); !status) return status.error();
  // The longest requests that may arrive: as many as run at once.
  const RequestSpec longest{.arrival = Seconds{0}, .prompt = Tokens{context - 1}, .output = Tokens{1}, .slo = {}};
  const std::vector<RequestSpec> batch(static_cast<std::size_t>(options.run.batch), longest);
  running::rebuild(setup, system, weights.config.shape,
                   longest_batch(batch, setup.limits.block_tokens, 1, batch.size()));
  const running::KvKeeping kv = running::keep_kv(options.run, system, weights, setup);
  const LocalMemory memory = divide_memory(computer->needs(setup), shape.layers, batch,
                                           running::wanted_memory(options.run), setup, kv.blocks());
  if (memory.kv.count() < 0)
    return running::flag_error(
        options.run.device_memory ? "--device-memory" : "--kv-memory",
        fmt::format("weights and buffers alone take {}", exact_bytes((memory.weights + memory.buffers).count())),
        "more, or a system that streams weights");
  if (!options.api_keys.empty() || !options.api_key_file.empty()) setup.tier_pin_share = 0.5; // others may come
  if (Status status = running::add_tiers(options.run, weights, memory, setup); !status) return status.error();
  engines::Setup engine = running::engine_setup(options.run, setup, weights, batch, memory, *costs, kv);
  auto tokens = std::make_unique<CpuTokens>();
  const std::string gpu = computer->gpu_name();
  const std::string what =
      fmt::format("{}; {} {}, KV {} layer blocks; host {} layer blocks", costs->text, gpu.empty() ? "device" : gpu,
                  exact_bytes(memory.device.count()), memory.kv.count(), memory.host.count());
  std::shared_ptr<TokenWorld> machine;
  if (!replays) {
    auto made = computer->make_machine(setup, tokens->listener());
    if (!made) return made.error();
    machine = *std::move(made);
    tokens->attach(machine);
  }
  auto ahead = worlds_ahead(engine.cost);
  return Served{name_of(options),
                std::move(model->tokenizer),
                shape.vocabulary,
                context,
                std::move(engine),
                std::move(machine),
                std::move(ahead),
                std::move(tokens),
                what,
                kv.text,
                digest};
}

/// Sets up the same system on a simulated device.
Expected<Served> simulated(const Options& options, const engines::System& system) {
  Expected<Device> device = find_or_read_device(options.simulate);
  if (!device) {
    Error error = device.error();
    error.where = "--simulate";
    return error;
  }
  if (Status states = engines::check_host_rate(system, *device, "--simulate", options.simulate,
                                               "a device file with host_attention_bytes_per_s");
      !states)
    return states.error();
  const std::string wanted = options.run.model == "tiny" ? std::string{default_model} : options.run.model;
  std::error_code ignored;
  Expected<ModelShape> shape = std::filesystem::exists(wanted, ignored) ? read_hf_config(wanted) : find_model(wanted);
  if (!shape) return shape.error();
  auto tokenizer = std::make_unique<ByteTokenizer>();
  const std::int64_t context = options.context.value_or(longest_by_default);
  const Limits limits = limits_of(options, context);
  const Roofline cost{*shape, *device};
  const TokenBlocks kv =
      options.run.kv_memory
          ? TokenBlocks{*options.run.kv_memory / shape->token_block_bytes(limits.block_tokens).count()}
          : kv_blocks_beside_weights(*shape, *device, limits.block_tokens);
  const Bytes block = shape->layer_block_bytes(limits.block_tokens);
  engines::Setup engine{
      .limits = limits,
      .geometry = {shape->layers, block, shape->layer_weight_bytes(), shape->layer_hidden_bytes(limits.block_tokens)},
      .device_blocks = across_layers(kv, shape->layers),
      .host_blocks = LayerBlocks{device->host_memory / block},
      .cost = engines::CostChoice{cost},
      .model = *shape,
      .device = *device};
  engine.worst_batch = TokenBlocks{blocks_for(Tokens{context}, limits.block_tokens).count() *
                                   static_cast<std::int64_t>(options.run.batch)};
  const auto world = world_of(Paced{BasicSimulated{engine.cost}});
  const int vocabulary = static_cast<int>(tokenizer->vocabulary().size());
  auto ahead = worlds_ahead(engine.cost);
  auto tokens = std::make_unique<DrawnTokens>(letters_to_draw(*tokenizer));
  return Served{options.name.empty() && options.run.model == "tiny" ? wanted : name_of(options),
                std::move(tokenizer),
                vocabulary,
                context,
                std::move(engine),
                world,
                std::move(ahead),
                std::move(tokens),
                fmt::format("simulated on {}: KV {} token blocks", device->name, kv.count()),
                {},
                "simulated"};
}

/// Returns the systems that the command line names, whose policies --set may name. /whatif's default systems are not
/// included: a number that only they have does not affect serving.
std::vector<engines::System> named_systems(const Options& options, const engines::System& system) {
  std::vector<engines::System> all{system};
  const auto add = [&all](std::string_view name) {
    if (const Expected<const engines::System*> found = running::find_system(name)) all.push_back(**found);
  };
  add(options.tee);
  for (std::string_view names = options.what_if; !names.empty();) {
    const std::size_t end = std::min(names.find(','), names.size());
    add(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return all;
}

} // namespace

Expected<Served> set_up(const Options& options, const engines::System& system) {
  Expected<std::vector<engines::NumberSetting>> numbers =
      engines::read_settings(options.run.set, named_systems(options, system));
  if (!numbers) return numbers.error();
  Expected<Served> served = options.simulate.empty() ? on_machine(options, system) : simulated(options, system);
  if (served) served->setup.numbers = *std::move(numbers);
  return served;
}

} // namespace serving
