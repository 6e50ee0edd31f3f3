// SPDX-License-Identifier: Apache-2.0
// The machine knows no device, and only lanes give out a block's address.
#include "architecture/machine_rules.hpp"
#include <doctest/doctest.h>

using namespace architecture;

TEST_CASE("the check of the machine reports a device's header, an arena and an address") {
  const std::string steps = "sluice/world/machine/block_steps.hpp";
  CHECK(machine_faults({steps, "#include \"sluice/world/cpu/copy_engine.hpp\"\n"}).size() == 1);
  CHECK(machine_faults({steps, "#include <cuda_runtime.h>\n"}).size() == 1);
  CHECK(machine_faults({"sluice/world/real/world.hpp", "#include <cuda_runtime.h>\n"}).size() == 1);
  CHECK(machine_faults({steps, "auto* at = memory.device_arena();"}).size() == 1);
  CHECK(machine_faults({steps, "std::byte* at = nullptr;"}).size() == 1);
  CHECK(machine_faults({steps, "// std::byte* of device_arena()\nDevicePlace at;"}).empty());
  CHECK(machine_faults({"sluice/world/stream/stream_lane.hpp", "std::byte* at = memory.device_arena();"}).empty());
  CHECK(machine_faults({"sluice/world/stream/stream_link.hpp", "auto* at = memory.host_arena();"}).size() == 1);
  const std::string beside = "sluice/world/stream/beside.hpp";
  CHECK(machine_faults({beside, "std::byte* at = memory.beside_arena();"}).empty());
  CHECK(machine_faults({beside, "auto* at = memory.device_arena();"}).size() == 1);
  CHECK(machine_faults({"sluice/world/stream/stream_link.hpp", "auto* at = memory.beside_arena();"}).size() == 1);
  const std::string timer = "sluice/world/stream/measure_runner.hpp";
  CHECK(machine_faults({timer, "std::byte* at = memory.device_arena();"}).empty());
  CHECK(machine_faults({timer, "#include <cuda_runtime.h>\n"}).size() == 1);
  CHECK(machine_faults({"sluice/world/cpu/cpu_memory.hpp", "std::byte* at = nullptr;"}).empty());
}

TEST_CASE("no machine header knows a device, and only the lanes know an arena") {
  int machine = 0;
  for (const Header& each : read_headers("include")) {
    machine += among(each.path, machine_folders()) ? 1 : 0;
    for (const std::string& fault : machine_faults(each)) FAIL_CHECK(fault);
  }
  CHECK(machine > 20);
}
