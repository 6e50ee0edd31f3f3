// SPDX-License-Identifier: Apache-2.0
// read_device: a device from a JSON file.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/device/device.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sluice {

/// The device that a JSON object describes, in bytes, seconds and FLOPs:
///
///     {"name": "my-card", "memory_bytes": 25769803776, "memory_bytes_per_s": 768e9,
///      "half_precision_flops_per_s": 111e12, "host_to_device_bytes_per_s": 24e9,
///      "device_to_host_bytes_per_s": 24e9, "host_memory_bytes": 256000000000}
///
/// Optional fields: `compute_fraction`, `bandwidth_fraction`, `lanes` ("shared" or "each-way", the default), `mix_loss`
/// (0), `segment_s` (0), `copies` ("batched", the default, or "each-segment") `host_attention_bytes_per_s` (0),
/// `host_attention_launch_s` (0.0008) and `host_attention_batches` (1 or 2, the default); for tensor parallelism
/// `peer_link` ("own" or "host") with `peer_bytes_per_s`, `peer_step_s` (0) and `peer_launch_s` (0). Any other field is
/// an error, except `made_by`, in which a measuring program leaves a note for people. `where` opens the error's line.
Expected<Device> device_from_json(const nlohmann::json& object, const std::string& where);

/// Reads a device from a JSON file.
Expected<Device> read_device(const std::string& path);

/// Accepts what `--device` takes: a name in `named_devices`, or a JSON file.
Expected<Device> find_or_read_device(const std::string& name_or_path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/device/nlohmann/device_json.inl.hpp"
#endif
