// SPDX-License-Identifier: Apache-2.0
#include "run/costs.hpp"

#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/work.hpp"

#include "compare/kernel_shape.hpp"
#include "engines/host_rate.hpp"
#include "run/machine.hpp"
#include "shared/progress.hpp"
#include "shared/sizes.hpp"
#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace running {

using namespace sluice;

namespace {

Costs roofline_of(const LinkRates& link, const ModelShape& shape, const LocalRates& rates) {
  Device device = measured_device(rates, link);
  return {engines::CostChoice{Roofline{shape, device}}, device,
          fmt::format("measured in {}: {} GB/s of weights read by one row, {} GFLOP/s by many, {} GB/s copied{}",
                      time_text(rates.took.count()), short_text(rates.reading.count() / 1e9),
                      short_text(rates.computing.count() / 1e9), short_text(rates.copying.count() / 1e9),
                      rates.attending.count() > 0 ? fmt::format(", {} GB/s of KV attended by the host",
                                                                short_text(rates.attending.count() / 1e9))
                                                  : "")};
}

Error of_profile(Error error) {
  error.where = "--profile: " + error.where;
  return error;
}

Expected<Costs> profile_of(const Options& options, const LinkRates& link, const ModelShape& shape) {
  std::error_code wrong;
  if (!std::filesystem::is_directory(options.profile, wrong))
    return flag_error("--profile", "there is no folder '" + excerpt(options.profile, 200) + "'",
                      "a folder that sluice-profile --measure wrote");
  const Expected<ModelShape> measured = read_hf_config(options.profile);
  if (!measured) return of_profile(measured.error());
  if (compared::kernel_shape(*measured) != compared::kernel_shape(shape))
    return flag_error("--profile",
                      fmt::format("{} was measured with another model: {}; this one has {}", options.profile,
                                  compared::kernel_shape(*measured), compared::kernel_shape(shape)),
                      "kernel times of the same model");
  Expected<Device> device = read_device((std::filesystem::path{options.profile} / "device.json").string());
  if (!device) return of_profile(device.error());
  const BytesPerSecond to_host = device->device_to_host;
  set_link(*device, link, device->host_to_device);
  if (link.to_host_bytes_per_s <= 0) device->device_to_host = to_host; // a GPU has another rate in this direction
  Expected<TableProfile> times = read_table_profile(options.profile, device_link(*device));
  if (!times) return of_profile(times.error());
  return Costs{engines::CostChoice{std::move(*times)}, *device,
               fmt::format("measured kernels of {} ({})", options.profile, device->name)};
}

} // namespace

Expected<Costs> costs_of(const Options& options, const ModelWeights& weights, Decoder& decoder,
                         const MachineSetup& setup) {
  return costs_of(options, weights.config.shape, setup.link,
                  [&]() -> Expected<LocalRates> { return rates_of(weights, decoder, setup.limits); });
}

Expected<Costs> costs_of(const Options& options, const ModelShape& shape, const LinkRates& link,
                         const std::function<Expected<LocalRates>()>& measure) {
  if (!options.profile.empty()) return profile_of(options, link, shape);
  const Expected<LocalRates> rates = measure();
  if (!rates) return rates.error();
  return roofline_of(link, shape, *rates);
}

Status check_host_attends(const engines::System& system, const Options& options) {
  if (!system.host_attends || options.backend != "cuda") return {};
  return flag_error("--system", fmt::format("{} needs a host that attends KV, and only the CPU has one", system.name),
                    "--backend cpu, or another system that --list names");
}

Status check_host_rate(const engines::System& system, const Options& options, const Device& device) {
  if (system.host_attends && options.profile.empty() && device.host_attention_rate.count() <= 0)
    return flag_error("--system",
                      fmt::format("{} needs a host that attends KV, and none attends this model's states", system.name),
                      "a model without states, or another system that --list names");
  return engines::check_host_rate(
      system, device, "--profile", options.profile,
      "a device.json with host_attention_bytes_per_s, which sluice-profile --measure writes");
}

} // namespace running
