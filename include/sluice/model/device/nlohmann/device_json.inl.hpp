// SPDX-License-Identifier: Apache-2.0
// read_device: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/device/nlohmann/device_json.hpp"

#include <cstdint>
#include <filesystem>
#include <system_error>

namespace sluice {

SLUICE_READERS_INLINE Expected<Device> device_from_json(const nlohmann::json& object, const std::string& where) {
  const JsonFields fields(object, where);
  if (Status status = fields.only({"name",
                                   "memory_bytes",
                                   "memory_bytes_per_s",
                                   "half_precision_flops_per_s",
                                   "host_to_device_bytes_per_s",
                                   "device_to_host_bytes_per_s",
                                   "host_memory_bytes",
                                   "compute_fraction",
                                   "bandwidth_fraction",
                                   "lanes",
                                   "mix_loss",
                                   "segment_s",
                                   "copies",
                                   "peer_link",
                                   "peer_bytes_per_s",
                                   "peer_step_s",
                                   "peer_launch_s",
                                   "host_attention_bytes_per_s",
                                   "host_attention_launch_s",
                                   "host_attention_batches",
                                   "made_by"});
      !status) {
    return status.error();
  }
  constexpr std::int64_t most_memory = std::int64_t{1} << 50;
  Device device;
  const Expected<std::string> name = fields.text("name", "a string");
  if (!name) return name.error();
  device.name = *name;
  const Expected<std::int64_t> memory = fields.whole("memory_bytes", 1, most_memory);
  if (!memory) return memory.error();
  device.memory = Bytes{*memory};
  const Expected<std::int64_t> host = fields.whole("host_memory_bytes", 0, most_memory);
  if (!host) return host.error();
  device.host_memory = Bytes{*host};

  double memory_rate = 0, peak = 0, to_device = 0, to_host = 0;
  const struct {
    const char* name;
    double* value;
  } rates[] = {{"memory_bytes_per_s", &memory_rate},
               {"half_precision_flops_per_s", &peak},
               {"host_to_device_bytes_per_s", &to_device},
               {"device_to_host_bytes_per_s", &to_host}};
  for (const auto& rate : rates) {
    const Expected<double> value = fields.number(rate.name, 1.0, 1e21, "a rate per second, at least 1");
    if (!value) return value.error();
    *rate.value = *value;
  }
  device.memory_bandwidth = BytesPerSecond{memory_rate};
  device.half_precision_peak = FlopsPerSecond{peak};
  device.host_to_device = BytesPerSecond{to_device};
  device.device_to_host = BytesPerSecond{to_host};

  const std::string share = "a share from 0 to 1";
  if (fields.has("compute_fraction")) {
    const Expected<double> value = fields.number("compute_fraction", 0.0, 1.0, share);
    if (!value) return value.error();
    device.compute_fraction = *value;
  }
  if (fields.has("bandwidth_fraction")) {
    const Expected<double> value = fields.number("bandwidth_fraction", 0.0, 1.0, share);
    if (!value) return value.error();
    device.bandwidth_fraction = *value;
  }
  if (fields.has("mix_loss")) {
    const Expected<double> value = fields.number("mix_loss", 0.0, 1.0, share);
    if (!value) return value.error();
    device.mix_loss = *value;
  }
  if (fields.has("segment_s")) {
    const Expected<double> value = fields.number("segment_s", 0.0, 1.0, "seconds from 0 to below 1");
    if (!value) return value.error();
    device.segment_cost = Seconds{*value};
  }
  if (fields.has("host_attention_bytes_per_s")) {
    const Expected<double> value = fields.number("host_attention_bytes_per_s", 0.0, 1e21, "a rate per second");
    if (!value) return value.error();
    device.host_attention_rate = BytesPerSecond{*value};
  }
  if (fields.has("host_attention_launch_s")) {
    const Expected<double> value = fields.number("host_attention_launch_s", 0.0, 1.0, "seconds from 0 to below 1");
    if (!value) return value.error();
    device.host_attention_launch = Seconds{*value};
  }
  if (fields.has("host_attention_batches")) {
    const Expected<std::int64_t> value = fields.whole("host_attention_batches", 1, 2);
    if (!value) return value.error();
    device.host_attention_batches = static_cast<int>(*value);
  }
  if (fields.has("lanes")) {
    const Expected<std::string> lanes = fields.text("lanes", "\"shared\" or \"each-way\"");
    if (!lanes) return lanes.error();
    if (*lanes != "shared" && *lanes != "each-way") {
      return Error{ErrorCode::bad_input, where, "lanes is '" + excerpt(*lanes) + "'", "\"shared\" or \"each-way\""};
    }
    device.lanes = *lanes == "shared" ? Lanes::shared : Lanes::each_way;
  }
  if (fields.has("copies")) {
    const Expected<std::string> copies = fields.text("copies", "\"batched\" or \"each-segment\"");
    if (!copies) return copies.error();
    if (*copies != "batched" && *copies != "each-segment") {
      return Error{ErrorCode::bad_input, where, "copies is '" + excerpt(*copies) + "'",
                   "\"batched\" or \"each-segment\""};
    }
    device.copies = *copies == "batched" ? Copies::batched : Copies::each_segment;
  }
  if (fields.has("peer_link")) {
    const Expected<std::string> path = fields.text("peer_link", "\"own\" or \"host\"");
    if (!path) return path.error();
    if (*path != "own" && *path != "host") {
      return Error{ErrorCode::bad_input, where, "peer_link is '" + excerpt(*path) + "'", "\"own\" or \"host\""};
    }
    const Expected<double> rate = fields.number("peer_bytes_per_s", 1.0, 1e21, "a rate per second, at least 1");
    if (!rate) return rate.error();
    PeerLink peer{*path == "own" ? PeerPath::own : PeerPath::host, BytesPerSecond{*rate}, Seconds{0}, Seconds{0}};
    const struct {
      const char* name;
      Seconds* value;
    } latencies[] = {{"peer_step_s", &peer.step}, {"peer_launch_s", &peer.launch}};
    for (const auto& latency : latencies) {
      if (!fields.has(latency.name)) continue;
      const Expected<double> value = fields.number(latency.name, 0.0, 1.0, "seconds from 0 to below 1");
      if (!value) return value.error();
      *latency.value = Seconds{*value};
    }
    device.peer = peer;
  } else {
    for (const char* field : {"peer_bytes_per_s", "peer_step_s", "peer_launch_s"})
      if (fields.has(field))
        return Error{ErrorCode::bad_input, where, std::string{field} + " is given without peer_link",
                     "\"own\" or \"host\" as peer_link"};
  }
  if (Status status = check(device, where); !status) return status.error();
  return device;
}

SLUICE_READERS_INLINE Expected<Device> read_device(const std::string& path) {
  const Expected<nlohmann::json> object = read_json_object(path);
  if (!object) return object.error();
  return device_from_json(*object, path);
}

SLUICE_READERS_INLINE Expected<Device> find_or_read_device(const std::string& name_or_path) {
  std::error_code ignored;
  Expected<Device> named = find_device(name_or_path);
  if (named || !std::filesystem::exists(name_or_path, ignored)) return named;
  return read_device(name_or_path);
}

} // namespace sluice
