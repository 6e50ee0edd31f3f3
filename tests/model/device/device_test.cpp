// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/device/named.hpp"
#include "sluice/model/device/nlohmann/device_json.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

using namespace sluice;
using nlohmann::json;

namespace {

json to_json(const Device& device) {
  json object = {{"name", device.name},
                 {"memory_bytes", device.memory.count()},
                 {"memory_bytes_per_s", device.memory_bandwidth.count()},
                 {"half_precision_flops_per_s", device.half_precision_peak.count()},
                 {"host_to_device_bytes_per_s", device.host_to_device.count()},
                 {"device_to_host_bytes_per_s", device.device_to_host.count()},
                 {"host_memory_bytes", device.host_memory.count()},
                 {"lanes", device.lanes == Lanes::shared ? "shared" : "each-way"},
                 {"mix_loss", device.mix_loss},
                 {"segment_s", device.segment_cost.count()},
                 {"host_attention_bytes_per_s", device.host_attention_rate.count()},
                 {"host_attention_launch_s", device.host_attention_launch.count()},
                 {"host_attention_batches", device.host_attention_batches},
                 {"copies", device.copies == Copies::batched ? "batched" : "each-segment"}};
  if (device.compute_fraction) object["compute_fraction"] = *device.compute_fraction;
  if (device.bandwidth_fraction) object["bandwidth_fraction"] = *device.bandwidth_fraction;
  if (device.peer) {
    object["peer_link"] = device.peer->path == PeerPath::own ? "own" : "host";
    object["peer_bytes_per_s"] = device.peer->rate.count();
    object["peer_step_s"] = device.peer->step.count();
    object["peer_launch_s"] = device.peer->launch.count();
  }
  return object;
}

} // namespace

TEST_CASE("every named device is found, under its own name, and is valid") {
  for (const NamedDevice& named : named_devices) {
    CAPTURE(named.name);
    const Expected<Device> found = find_device(named.name);
    REQUIRE(found);
    CHECK(*found == named.device());
    CHECK(found->name == named.name);
    CHECK(check(*found, "test").ok());
    // No device's host link is faster than its own memory, and no peak is below 10 or above 5,000 TFLOP/s.
    CHECK(found->host_to_device < found->memory_bandwidth);
    CHECK(found->half_precision_peak.count() > 10e12);
    CHECK(found->half_precision_peak.count() < 5e15);
    // Over the host's link peers reach no more than the host does; over their own link they reach more.
    if (found->peer) CHECK((found->peer->rate < found->host_to_device) == (found->peer->path == PeerPath::host));
  }
  const Expected<Device> missing = find_device("v100");
  REQUIRE(!missing);
  for (const NamedDevice& named : named_devices) {
    CHECK(missing.error().line().find(named.name) != std::string::npos);
  }
}

TEST_CASE("named devices have the papers' measured links") {
  // MIRAGE: 427 GB/s of reads, 366 when reads and writes mix on the one lane.
  CHECK(gh200_96().host_to_device.count() * (1.0 - gh200_96().mix_loss) == doctest::Approx(366e9));
  CHECK(gh200_96().lanes == Lanes::shared);
  // SuperInfer: 181 + 179 GB/s both ways at once.
  CHECK(gh200_144().host_to_device.count() * (1.0 - gh200_144().mix_loss) == doctest::Approx(180e9));
  CHECK(gh200_144().lanes == Lanes::each_way);
  // OrbitFlow's prefill: 65 TFLOP/s, stated, so no cost model's assumption is involved.
  CHECK(a5000().compute_rate(0.1).count() == doctest::Approx(65e12));
  CHECK(a10().compute_rate(0.5).count() == doctest::Approx(62.5e12));
}

TEST_CASE("a device survives a round trip through JSON") {
  for (const NamedDevice& named : named_devices) {
    const Device device = named.device();
    const Expected<Device> read = device_from_json(json::parse(to_json(device).dump()), "device.json");
    if (!read) FAIL(read.error().line());
    CHECK(*read == device);
  }
}

TEST_CASE("each wrong field of a device file is reported by name in one line") {
  const struct {
    const char* says;
    void (*spoil)(json&);
  } rows[] = {
      {"name is missing", [](json& d) { d.erase("name"); }},
      {"memory_bytes is missing", [](json& d) { d.erase("memory_bytes"); }},
      {"memory_bytes is -1", [](json& d) { d["memory_bytes"] = -1; }},
      {"memory_bytes is 0", [](json& d) { d["memory_bytes"] = 0; }},
      {"memory_bytes is 24000000000.0", [](json& d) { d["memory_bytes"] = 24e9; }},
      {"memory_bytes_per_s is 0", [](json& d) { d["memory_bytes_per_s"] = 0; }},
      {"half_precision_flops_per_s is \"fast\"", [](json& d) { d["half_precision_flops_per_s"] = "fast"; }},
      {"host_to_device_bytes_per_s is -24", [](json& d) { d["host_to_device_bytes_per_s"] = -24e9; }},
      {"device_to_host_bytes_per_s is 1e+300", [](json& d) { d["device_to_host_bytes_per_s"] = 1e300; }},
      {"host_memory_bytes is missing", [](json& d) { d.erase("host_memory_bytes"); }},
      {"compute_fraction is 1.5", [](json& d) { d["compute_fraction"] = 1.5; }},
      {"achieved share of the compute peak is 0", [](json& d) { d["compute_fraction"] = 0.0; }},
      {"bandwidth_fraction is -0.5", [](json& d) { d["bandwidth_fraction"] = -0.5; }},
      {"both directions mix", [](json& d) { d["mix_loss"] = 1.0; }},
      {"lanes is 'two'", [](json& d) { d["lanes"] = "two"; }},
      {"copies is 'some'", [](json& d) { d["copies"] = "some"; }},
      {"peer_link is 'usb'", [](json& d) { d["peer_link"] = "usb"; }},
      {"peer_bytes_per_s is missing", [](json& d) { d.erase("peer_bytes_per_s"); }},
      {"peer_bytes_per_s is 0", [](json& d) { d["peer_bytes_per_s"] = 0; }},
      {"peer_step_s is 2", [](json& d) { d["peer_step_s"] = 2; }},
      {"without peer_link", [](json& d) { d.erase("peer_link"); }},
      {"segment_s is -1", [](json& d) { d["segment_s"] = -1.0; }},
      {"host_attention_batches is 3", [](json& d) { d["host_attention_batches"] = 3; }},
      {"no field 'memory_gb'", [](json& d) { d["memory_gb"] = 24; }},
  };
  for (const auto& row : rows) {
    json object = to_json(a5000());
    row.spoil(object);
    const Expected<Device> device = device_from_json(object, "device.json");
    REQUIRE(!device);
    const std::string line = device.error().line();
    CAPTURE(line);
    CHECK(line.rfind("device.json: ", 0) == 0);
    CHECK(line.find(row.says) != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(!device.error().expected.empty());
  }
}

TEST_CASE("a device whose numbers are not numbers is refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Device device = a5000();
  device.memory_bandwidth = BytesPerSecond{nan};
  CHECK(!check(device, "test").ok());
  device = a5000();
  device.host_attention_batches = 0;
  CHECK(!check(device, "test").ok());
  device = a5000();
  device.mix_loss = nan;
  CHECK(!check(device, "test").ok());
  device = a5000();
  device.compute_fraction = nan;
  CHECK(!check(device, "test").ok());
  device = a5000();
  device.segment_cost = Seconds{nan};
  CHECK(!check(device, "test").ok());
  device = a5000();
  device.peer->rate = BytesPerSecond{nan};
  CHECK(!check(device, "test").ok());
  device = a5000();
  device.peer->launch = Seconds{nan};
  CHECK(!check(device, "test").ok());
}

TEST_CASE("an unreadable device file is reported in one line") {
  const Expected<Device> missing = find_or_read_device("no-such-device");
  REQUIRE(!missing);
  CHECK(missing.error().line().find("a5000") != std::string::npos);

  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / "sluice_device_test.json";
  std::ofstream(file) << to_json(h200()).dump(2);
  const Expected<Device> read = find_or_read_device(file.string());
  REQUIRE(read);
  CHECK(*read == h200());
  std::ofstream(file) << "{\n\"name\": nan";
  const Expected<Device> broken = find_or_read_device(file.string());
  REQUIRE(!broken);
  CHECK(broken.error().line().rfind(file.string() + ":2: ", 0) == 0);
  fs::remove(file);
  CHECK(!find_or_read_device(fs::temp_directory_path().string()));
}
