// SPDX-License-Identifier: Apache-2.0
// group_member: a group's devices share the host.
#include "sluice/model/device/device.hpp"
#include "sluice/model/device/named.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sluice;

TEST_CASE("a group's devices share the host's memory, and its links as configured") {
  for (const NamedDevice& named : named_devices) {
    const Device device = named.device();
    REQUIRE(*group_member(device, 1, 1, "--tp") == device);
    if (!device.peer) continue;
    for (const int per_link : {1, 2, 4, 8}) {
      const Expected<Device> member = group_member(device, 8, per_link, "--tp");
      REQUIRE(member);
      const double links = 8.0 / per_link;
      CHECK(member->host_to_device.count() * 8 == doctest::Approx(device.host_to_device.count() * links));
      CHECK(member->device_to_host.count() * 8 == doctest::Approx(device.device_to_host.count() * links));
      CHECK(member->host_memory * 8 <= device.host_memory);
      CHECK((member->host_memory + Bytes{1}) * 8 > device.host_memory);
      CHECK(member->memory == device.memory);
      CHECK(member->peer == device.peer);
    }
  }
}

TEST_CASE("a group with uneven links or unconnected devices is refused in one line") {
  const std::string shared = group_member(h100(), 8, 3, "--tp").error().line();
  CHECK(shared.find("8 devices cannot share links 3 by 3") != std::string::npos);
  CHECK(!group_member(h100(), 8, 0, "--tp"));
  const std::string alone = group_member(gh200_96(), 2, 1, "--tp").error().line();
  CHECK(alone.rfind("--tp: ", 0) == 0);
  CHECK(alone.find("how fast gh200-96 reaches its peers") != std::string::npos);
  CHECK(alone.find('\n') == std::string::npos);
}
