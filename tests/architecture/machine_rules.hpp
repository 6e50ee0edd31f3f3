// SPDX-License-Identifier: Apache-2.0
// machine_faults: what a header of the machine, of a device with streams and of the host tier may know about devices
// and addresses.
#pragma once

#include "architecture/include_graph.hpp"

#include <regex>
#include <string>
#include <vector>

namespace architecture {

inline const std::vector<std::string>& machine_folders() {
  static const std::vector<std::string> folders{"sluice/world/machine/", "sluice/world/host_tier/",
                                                "sluice/world/link/", "sluice/world/stream/", "sluice/world/real/"};
  return folders;
}

/// The machine decides in numbers of blocks. Only a lane gives out a block's address, and makes the caller wait for the
/// block's last use. No other code may know where an arena begins, and only code that passes addresses on may name
/// bytes. Memory beside the blocks belongs to a runner: no transfer touches it while anything runs, so there is nothing
/// to wait for, and one header tells the runner where it is (beside.hpp says why). Timers (measure_*.hpp) have a device
/// without a machine to themselves.
inline std::vector<std::string> machine_faults(const Header& header) {
  static const std::string stream = "sluice/world/stream/", machine = "sluice/world/machine/";
  static const std::vector<std::string> lanes{stream + "memory_device.hpp", stream + "stream_lane.hpp"};
  static const std::vector<std::string> beside_lanes{stream + "memory_device.hpp", stream + "beside.hpp"};
  static const std::vector<std::string> with_bytes{"sluice/world/link/copy.hpp", machine + "device.hpp",
                                                   machine + "layers.hpp",       stream + "memory_device.hpp",
                                                   stream + "stream_lane.hpp",   stream + "stream_link.hpp",
                                                   stream + "stream_device.hpp", stream + "beside.hpp"};
  std::vector<std::string> faults;
  if (!among(header.path, machine_folders())) return faults;
  static const std::regex device(R"(#include [<"](sluice/world/(cpu|cuda)/|kernels/|cuda|cublas|cub/))");
  if (std::regex_search(header.text, device))
    faults.push_back(header.path + ": includes a device's header; a device is a template parameter here");
  if (header.path.rfind(stream + "measure_", 0) == 0) return faults;
  const std::string code = code_of(header.text);
  static const std::regex arena(R"(\b(device|host)_arena\b)");
  if (!among(header.path, lanes) && std::regex_search(code, arena))
    faults.push_back(header.path + ": knows where an arena begins; ask a lane for an address");
  static const std::regex beside(R"(\bbeside_arena\b)");
  if (!among(header.path, beside_lanes) && std::regex_search(code, beside))
    faults.push_back(header.path + ": knows where a runner's memory begins; only beside.hpp hands it out");
  static const std::regex bytes(R"(\bbyte\s*\*|\bvoid\s*\*\s*(block|entry|kv))");
  if (!among(header.path, with_bytes) && std::regex_search(code, bytes))
    faults.push_back(header.path + ": has an address of bytes; decide by places (DevicePlace)");
  return faults;
}

} // namespace architecture
