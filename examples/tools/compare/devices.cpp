// SPDX-License-Identifier: Apache-2.0
#include "compare/devices.hpp"

#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/report/number_text.hpp"

#include "compare/drawn_table.hpp"
#include <fmt/format.h>

#include <string>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

constexpr Tokens block_tokens{16};

std::string gigabytes(double bytes) { return short_text(bytes / 1e9); }

std::vector<std::string> row_of(const NamedDevice& named) {
  const Device device = named.device();
  const double peak = device.half_precision_peak.count() / 1e12;
  const bool shared = device.lanes == Lanes::shared;
  return {std::string{named.name},
          fmt::format("{} GiB", device.memory.count() >> 30),
          gigabytes(device.memory_bandwidth.count()),
          short_text(peak),
          device.compute_fraction ? short_text(peak * *device.compute_fraction) : "-",
          gigabytes(device.host_to_device.count()) + (shared ? ", one lane" : ""),
          gigabytes((shared ? 1.0 : 2.0) * device.host_to_device.count() * (1 - device.mix_loss)),
          gigabytes(static_cast<double>(device.host_memory.count())),
          device.peer
              ? gigabytes(device.peer->rate.count()) + (device.peer->path == PeerPath::own ? "" : ", host's bus")
              : "-",
          std::string{named.source}};
}

std::vector<std::string> row_of(const NamedModel& named) {
  const ModelShape shape = named.shape();
  return {std::string{named.name}, std::to_string(shape.layers),
          gigabytes(static_cast<double>(shape.weight_bytes().count())),
          std::to_string(shape.token_block_bytes(block_tokens).count() / block_tokens.count()),
          std::string{named.source}};
}

} // namespace

std::string devices_table() {
  std::vector<std::vector<std::string>> devices, models;
  for (const NamedDevice& named : named_devices) devices.push_back(row_of(named));
  for (const NamedModel& named : named_models) models.push_back(row_of(named));
  return drawn_table("md",
                     {"--device", "memory", "GB/s of it", "peak, TFLOP/s", "achieved", "link, GB/s each way",
                      "both ways at once", "host, GB", "to a peer, GB/s", "sources"},
                     devices, {true, false, false, false, false, false, false, false, false, true}) +
         drawn_table("md", {"--model", "layers", "weights, GB", "bytes of KV a token", "config.json of"}, models,
                     {true, false, false, false, true});
}

} // namespace compared
