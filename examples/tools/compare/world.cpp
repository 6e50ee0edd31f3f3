// SPDX-License-Identifier: Apache-2.0
// Reads model, device and profile.
#include "compare/world.hpp"

#include "sluice/core/text.hpp"
#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/cost/layered_roofline.hpp"
#include "sluice/policy/cost/nlohmann/orbitflow_profile.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/work.hpp"

#include "compare/comparison.hpp"
#include "compare/group.hpp"
#include "compare/kernel_shape.hpp"
#include "compare/same_hardware.hpp"
#include "shared/bundle_meta.hpp"
#include "shared/kv_dtype.hpp"
#include "shared/shipped.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

namespace compared {

using namespace sluice;

namespace {

/// Errors about an unknown name are attributed to the flag ("model"); errors in a file already contain the file's name.
Error of_flag(std::string_view flag, Error error) {
  if (error.where == flag.substr(2)) error.where = flag;
  return error;
}

/// The caution about the hardware of a profile, or an error if it is another than the device.
Expected<std::string> measured_on(const std::string& profile, const std::string& folder, const Device& device) {
  const Expected<BundleMeta> meta = read_bundle_meta(folder);
  if (!meta) return meta.error();
  const std::string& hardware = meta->gpu.empty() ? meta->device : meta->gpu;
  if (hardware.empty()) return std::string{"times measured on an unnamed GPU"};
  if (same_hardware(hardware, device)) return "times measured on " + hardware;
  const std::string named = devices_named_for(hardware);
  return flag_error("--device",
                    fmt::format("{} was measured on {}, not on {}", profile, excerpt(hardware), device.name),
                    named.empty() ? "a device file with that name" : named + ", or no --profile");
}

/// The world of a model whose layers differ.
Expected<World> layered_world(const MachineOptions& machine, SimulatedModel model, const Device& device) {
  const std::string differs = model.shape.name + " has layers that are not alike";
  const auto refuse = [&](const char* flag, const char* what) {
    return Error{ErrorCode::unsupported, flag, differs + what, "no such flag, or a model whose layers are alike"};
  };
  if (machine.tp > 1) return refuse("--tp", ": how a group divides them is not known");
  if (!machine.profile.empty()) return refuse("--profile", ": a profile has the times of one kind of layer");
  if (machine.host_attention > 0) return refuse("--host-attention", ": the host attends to K and V of equal layers");
  if (!KvBlocks::fits(model.layered->kv, Limits{}.block_tokens))
    return refuse("--model", ", and entries that no block of 16 tokens holds whole");
  World world{.shape = std::move(model.shape),
              .device = device,
              .cost = engines::CostChoice{LayeredRoofline{*model.layered, device}},
              .cost_name = "roofline of model and device, by kind of layer"};
  world.groups =
      std::make_shared<const KvLayers>(KvLayers{KvBlocks(model.layered->kv, Limits{}.block_tokens),
                                                ReadLimits{model.layered->kv}, model.layered->streamable().layers});
  world.layered = std::move(model.layered);
  return world;
}

} // namespace

Geometry World::geometry(Tokens block_tokens) const {
  if (!layered)
    return {shape.layers, shape.layer_block_bytes(block_tokens), shape.layer_weight_bytes(),
            shape.layer_hidden_bytes(block_tokens)};
  return {.layers = shape.layers,
          .layer_block_bytes = groups->blocks.quantum(),
          .layer_weight_bytes = layered->streamable().each,
          .layer_hidden_bytes = shape.layer_hidden_bytes(block_tokens),
          .groups = groups.get()};
}

Expected<World> world_of(const MachineOptions& machine) {
  const std::string profile = profile_at(machine.profile);
  const bool table = !profile.empty() && std::filesystem::is_directory(profile);
  // A folder of kernel times contains its model's configuration.
  const Expected<int> kv_bytes = read_kv_dtype(machine.kv_dtype);
  if (!kv_bytes) return kv_bytes.error();
  const std::string wanted = machine.model.value_or(table ? profile : std::string{default_model});
  Expected<SimulatedModel> model = find_or_read_simulated(wanted, *kv_bytes);
  if (!model) return of_flag("--model", model.error());
  const ModelShape* const shape = &model->shape;
  Expected<Device> device = find_or_read_device(machine.device);
  if (!device) return of_flag("--device", device.error());
  const Device stated = *device; // without the flags' changes
  if (machine.link > 0) device->host_to_device = device->device_to_host = BytesPerSecond{machine.link};
  if (machine.bandwidth_fraction && !machine.profile.empty())
    return flag_error("--bandwidth-fraction", "the profile has the times of its own kernels", "no --profile");
  if (machine.bandwidth_fraction.value_or(1) > 1)
    return flag_error("--bandwidth-fraction", fmt::format("it is {:g}", *machine.bandwidth_fraction),
                      "a share above 0, at most 1");
  if (machine.bandwidth_fraction) device->bandwidth_fraction = machine.bandwidth_fraction;
  device->half_precision_peak = device->half_precision_peak * machine.part;
  device->memory_bandwidth = device->memory_bandwidth * machine.part;
  if (machine.device_memory) device->memory = Bytes{*machine.device_memory};
  if (machine.host_memory) device->host_memory = Bytes{*machine.host_memory};
  if (machine.host_attention > 0) device->host_attention_rate = BytesPerSecond{machine.host_attention};
  if (model->layered) return layered_world(machine, *std::move(model), *device);
  if (machine.tp > 1) {
    Expected<Group> group = group_of(machine, *shape, *device);
    if (!group) return group.error();
    return World{.shape = group->shard,
                 .device = group->member,
                 .cost = group->cost,
                 .cost_name = group->cost_name,
                 .name = group->name,
                 .devices = machine.tp,
                 .group_note = group->note,
                 .whole_token = shape->kv_bytes_per_token()};
  }
  if (machine.gpus_per_link > 1) return flag_error("--gpus-per-link", "there is one device", "--tp as well");
  if (!machine.all_reduce.empty()) return flag_error("--all-reduce", "there is one device", "--tp as well");
  if (machine.profile.empty())
    return World{*shape, *device, engines::CostChoice{Roofline{*shape, *device}}, "roofline of model and device"};
  if (table) {
    const Expected<ModelShape> measured = read_hf_config(profile);
    if (!measured) return measured.error();
    if (kernel_shape(*measured) != kernel_shape(*shape))
      return flag_error("--profile",
                        fmt::format("{} was measured with another model than {}: {}; {} has {}", machine.profile,
                                    shape->name, kernel_shape(*measured), shape->name, kernel_shape(*shape)),
                        "kernel times of the same model, or no --model");
    Expected<TableProfile> times = read_table_profile(profile, device_link(*device));
    if (!times) return times.error();
    const Expected<std::string> on = measured_on(machine.profile, profile, stated);
    if (!on) return on.error();
    return World{.shape = *shape,
                 .device = *device,
                 .cost = engines::CostChoice{std::move(*times)},
                 .cost_name = fmt::format("measured kernels: {}; memory and link of {}", machine.profile, device->name),
                 .measured = *on};
  }
  if (machine.host_attention > 0)
    return flag_error("--host-attention", "an OrbitFlow profile states its own link, and no host that attends",
                      "a roofline or measured kernels");
  const FlopsPerSecond prefill = device->compute_rate(RooflineEfficiency{}.compute);
  Expected<LinearProfile> line = read_orbitflow_profile(machine.profile, *shape, prefill);
  if (!line) return line.error();
  return World{.shape = *shape,
               .device = *device,
               .cost = engines::CostChoice{std::move(*line)},
               .cost_name =
                   fmt::format("linear fits: {} (names no model: taken to be of {}), prefill at {:.0f} TFLOP/s",
                               machine.profile, shape->name, prefill.count() / 1e12),
               .measured = "times fitted on an unnamed GPU, to contexts that the profile does not state"};
}

Seconds full_budget_step(const World& world, TokenBlocks budget, Tokens block_tokens) {
  Work work;
  work.decodes = work.samples = 1;
  work.decode_context = Tokens{std::max<std::int64_t>(1, budget.count() * block_tokens.count())};
  return world.cost.step(work).total(world.shape.layers);
}

Seconds full_batch_step(const World& world, const WorkloadTotals& sum, int batch) {
  Work work;
  work.decodes = work.samples =
      static_cast<int>(std::min<std::int64_t>(batch, std::max<std::int64_t>(sum.requests, 1)));
  const double mean = (static_cast<double>(sum.prompt.count()) + 0.5 * static_cast<double>(sum.output.count())) /
                      static_cast<double>(std::max<std::int64_t>(sum.requests, 1));
  work.decode_context = Tokens{std::llround(mean * static_cast<double>(work.decodes))};
  return world.cost.step(work).total(world.shape.layers);
}

} // namespace compared
