// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/device/nlohmann/device_json.hpp"

#include "fuzz/fuzz_support.hpp"

SLUICE_FUZZ_TARGET(device_json) {
  const auto object = sluice::parse_json_object(sluice_test::text_of(data, size), "device.json");
  if (!object) {
    sluice_test::require_one_line(object.error());
    return 0;
  }
  const auto device = sluice::device_from_json(*object, "device.json");
  if (!device) {
    sluice_test::require_one_line(device.error());
    return 0;
  }
  sluice_test::require(sluice::check(*device, "device.json").ok(), "a device that was read is valid");
  return 0;
}
