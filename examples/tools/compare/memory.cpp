// SPDX-License-Identifier: Apache-2.0
// Computes the KV budget, and checks it against the device's memory.
#include "compare/memory.hpp"

#include "sluice/engine/serve.hpp"
#include "sluice/engine/submit.hpp"
#include "sluice/workload/generator.hpp"

#include "shared/sizes.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace compared {

using namespace sluice;

namespace {

/// Returns the token blocks that fit into `share` of the device in addition to the weights. `larger`: the model may be
/// larger than the device, and the result may be negative.
Expected<TokenBlocks> budget_of(const World& world, Tokens block_tokens, bool larger, double share) {
  const TokenBlocks blocks = kv_blocks_beside_weights(world.shape, world.device, block_tokens, share);
  if (blocks < TokenBlocks{1} && !larger) {
    return flag_error("--model",
                      fmt::format("the {:.1f} GB of weights of {} do not fit {:g} of the {:.1f} GB of {}",
                                  static_cast<double>(world.shape.weight_bytes().count()) / 1e9, world.shape.name,
                                  share, static_cast<double>(world.device.memory.count()) / 1e9, world.device.name),
                      "a smaller model, a larger device, --kv-blocks for a device that holds the weights elsewhere, or "
                      "--slo-tbt and only systems that stream weights (DeepSpeedWeights, FlexGenWeights, SelectN)");
  }
  return blocks;
}

/// Returns the budget that `flag` asks for, if the device's memory holds it with the weights, or without them if all
/// systems stream weights.
Expected<TokenBlocks> fitting(const World& world, TokenBlocks budget, Bytes block, bool all_stream, const char* flag) {
  const auto gb = [](double bytes) { return fmt::format("{:.3g} GB", bytes / 1e9); };
  const double kv = static_cast<double>(budget.count()) * static_cast<double>(block.count());
  const double weights = all_stream ? 0 : static_cast<double>(world.shape.weight_bytes().count());
  const auto memory = static_cast<double>(world.device.memory.count());
  if (kv + weights <= memory) return budget;
  const auto most = static_cast<std::int64_t>((memory - weights) / static_cast<double>(block.count()));
  return flag_error(flag,
                    fmt::format("{} token blocks put {} of KV{} on the {} of {}", budget.count(), gb(kv),
                                all_stream ? "" : " and " + gb(weights) + " of weights", gb(memory), world.device.name),
                    (most > 0 ? fmt::format("at most {} token blocks, or ", most) : "a smaller model, or ") +
                        "--device-memory for a card of another size");
}

/// The budget of a model whose layers differ: bytes, since its token blocks have no one size.
Expected<Budget> layered_budget(const Options& options, const Source& source, const World& world, Tokens block_tokens) {
  const Geometry geometry = world.geometry(block_tokens);
  const auto gb = [](Bytes bytes) { return fmt::format("{:.3g} GB", static_cast<double>(bytes.count()) / 1e9); };
  const auto room_in = [&](Bytes bytes) { return LayerBlocks{bytes / geometry.layer_block_bytes}; };
  const Bytes first = geometry.layer_block_bytes * geometry.kv_of(TokenBlocks{1}).count();
  if (options.machine.kv_blocks)
    return flag_error(
        "--kv-blocks",
        fmt::format("a token block of {} has no size: {}", world.shape.name, in_words(geometry.kv(), geometry.layers)),
        "--kv-memory, such as 8GB");
  const auto usable =
      static_cast<std::int64_t>(options.machine.memory_share * static_cast<double>(world.device.memory.count()));
  const LayerBlocks beside = room_in(std::max(Bytes{0}, Bytes{usable} - world.weight_bytes()));
  // A budget in token blocks, a trace's or the demo's, is meant for a full batch.
  const auto of_batch = [&](TokenBlocks blocks, int batch) {
    return geometry.kv_of(TokenBlocks{(blocks.count() + batch - 1) / batch}) * batch;
  };
  LayerBlocks room = beside;
  const char* flag = "--model";
  if (options.machine.kv_memory) {
    room = room_in(Bytes{*options.machine.kv_memory});
    flag = "--kv-memory";
  } else if (source.header) {
    room = of_batch(source.header->budget, limits_of(options.machine, source).batch);
    flag = "--trace";
  } else if (source.demo) {
    room = std::min(beside, of_batch(demo_budget, demo_batch));
  }
  const Bytes kv = geometry.layer_block_bytes * room.count();
  if (kv + world.weight_bytes() > world.device.memory || kv < first)
    return flag_error(flag,
                      fmt::format("{} of KV and the {} of weights of {} on the {} of {}", gb(kv),
                                  gb(world.weight_bytes()), world.shape.name, gb(world.device.memory),
                                  world.device.name),
                      "at least " + exact_bytes(first.count()) +
                          " of KV, which a request's first token takes, beside the weights; or --device-memory");
  std::int64_t fits = 1, fails = std::int64_t{1} << 26; // token blocks of a single request
  while (fails - fits > 1) {
    const std::int64_t middle = fits + (fails - fits) / 2;
    (geometry.kv_of(TokenBlocks{middle}) <= room ? fits : fails) = middle;
  }
  return Budget{TokenBlocks{fits}, room};
}

} // namespace

Limits limits_of(const MachineOptions& machine, const Source& source) {
  Limits limits;
  limits.batch = static_cast<int>(machine.batch.value_or(source.header ? source.header->batch_size
                                                         : source.demo ? demo_batch
                                                                       : 256));
  limits.batch_tokens = Tokens{machine.batch_tokens.value_or(source.header ? source.header->max_model_len.count()
                                                             : source.demo ? 32768
                                                                           : 2048)};
  return limits;
}

std::string leave_out_whole_weights(const Options& options, const World& world, const Limits& limits,
                                    std::vector<const System*>& systems) {
  const MachineOptions& machine = options.machine;
  if (world.layered || options.systems != "all" || !(machine.kv_blocks || machine.kv_memory)) return {};
  const Bytes block = world.shape.token_block_bytes(limits.block_tokens);
  const Bytes kv = machine.kv_blocks ? block * *machine.kv_blocks : Bytes{*machine.kv_memory} / world.devices;
  if (kv > world.device.memory || kv + world.shape.weight_bytes() <= world.device.memory) return {};
  const std::size_t left_out = std::erase_if(systems, [](const System* system) { return !system->streams_weights; });
  return fmt::format("{} systems left out: {} does not hold this KV and all weights", left_out, world.device.name);
}

Expected<std::string> leave_out_equal_layers(const Options& options, const World& world,
                                             std::vector<const System*>& systems) {
  if (!world.layered) return std::string{};
  const Geometry geometry = world.geometry(Limits{}.block_tokens);
  const auto needs = [&](const System* system) {
    return geometry.movable().empty() ? system->movable_layers : system->equal_layers;
  };
  for (const System* system : systems)
    if (needs(system) != nullptr && options.systems != "all")
      return Error{
          ErrorCode::unsupported, "--systems",
          fmt::format("{} serves no model whose layers differ ({}), and {} has such: {} of a request", system->name,
                      needs(system), world.shape.name, in_words(geometry.kv(), geometry.layers)),
          "systems that move whole requests or layers that only grow, such as VllmSwap and OrbitFlow; all leaves the "
          "others out"};
  const std::size_t left_out = std::erase_if(systems, [&](const System* system) { return needs(system) != nullptr; });
  if (left_out == 0) return std::string{};
  return fmt::format("{} systems left out, which serve only models whose layers are alike", left_out);
}

namespace {

Expected<TokenBlocks> token_budget(const Options& options, const Source& source, const World& world,
                                   const std::vector<const System*>& systems, const Limits& limits) {
  const bool all_stream =
      std::all_of(systems.begin(), systems.end(), [](const System* system) { return system->streams_weights; });
  const Bytes block = world.shape.token_block_bytes(limits.block_tokens);
  if (options.machine.kv_blocks)
    return fitting(world, TokenBlocks{*options.machine.kv_blocks}, block, all_stream, "--kv-blocks");
  if (options.machine.kv_memory) {
    const TokenBlocks blocks{*options.machine.kv_memory / (block.count() * world.devices)};
    if (blocks < TokenBlocks{1})
      return flag_error("--kv-memory", exact_bytes(*options.machine.kv_memory) + " is less than a token block",
                        "at least " + exact_bytes(block.count() * world.devices) + ", such as 4GB");
    return fitting(world, blocks, block, all_stream, "--kv-memory");
  }
  const Expected<TokenBlocks> held =
      budget_of(world, limits.block_tokens, all_stream && options.slo_tbt.has_value(), options.machine.memory_share);
  if (!held) return held.error();
  // A trace's budget is part of its experiment, which may be on another device; the demo's budget is small on purpose.
  if (source.header) return fitting(world, source.header->budget, block, all_stream, "--trace");
  return source.demo ? std::min(demo_budget, *held) : *held;
}

} // namespace

Expected<Budget> kv_budget(const Options& options, const Source& source, const World& world,
                           const std::vector<const System*>& systems, const Limits& limits) {
  if (world.layered) return layered_budget(options, source, world, limits.block_tokens);
  const Expected<TokenBlocks> blocks = token_budget(options, source, world, systems, limits);
  if (!blocks) return blocks.error();
  return Budget{*blocks, across_layers(*blocks, world.shape.layers)};
}

Status set_memories(const Options& options, const World& world, const Budget& budget, Comparison& c) {
  const ModelShape& shape = world.shape;
  c.setup.geometry = world.geometry(c.setup.limits.block_tokens);
  c.setup.groups = world.groups;
  c.setup.device_blocks = budget.room;
  for (const LowerTier& tier : options.machine.lower_tiers) {
    const Bytes token_block = c.setup.geometry.layer_block_bytes * (shape.layers * world.devices);
    const BytesPerSecond rate{tier.rate / world.devices}; // a device's part of the group
    c.setup.lower_tiers.push_back({.capacity = TokenBlocks{Bytes{tier.bytes} / token_block},
                                   .read_rate = rate,
                                   .write_rate = rate,
                                   .latency = Seconds{tier.latency_s}});
    c.workload.notes.emplace_back(
        "Tier below the host",
        fmt::format("{}, {:g} GB/s each way, {:g} us", exact_bytes(tier.bytes), tier.rate / 1e9, tier.latency_s * 1e6));
  }
  c.setup.host_blocks = LayerBlocks{world.device.host_memory.count() / c.setup.geometry.layer_block_bytes.count()};
  // A number without a unit means bytes, so "64" cannot mean gigabytes: report it.
  if (options.machine.host_memory.value_or(0) > 0 && c.setup.host_blocks.count() == 0)
    return flag_error(
        "--host-memory", exact_bytes(*options.machine.host_memory) + " is less than one block of one layer",
        "0, or at least " + exact_bytes(c.setup.geometry.layer_block_bytes.count() * world.devices) + ", such as 64GB");
  return {};
}

} // namespace compared
