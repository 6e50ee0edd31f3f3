// SPDX-License-Identifier: Apache-2.0
// A real run's timeline: it shows transfers with their requests, and planning times.
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace {

using Json = nlohmann::ordered_json;

/// The number of slices in a timeline whose name has this part, with any duration above 0.
int slices(const Json& timeline, const std::string& part) {
  int count = 0;
  for (const Json& event : timeline["traceEvents"]) {
    if (event.value("ph", "") != "X" || event.value("dur", 0.0) <= 0) continue;
    count += event["name"].get<std::string>().find(part) != std::string::npos ? 1 : 0;
  }
  return count;
}

Json timeline_of(const std::string& arguments) {
  const sluice_test::TemporaryFolder folder;
  const std::string file = (folder.path / "timeline.json").string();
  const sluice_test::Ran ran = sluice_test::run_program(
      "sluice-run", "--json --max-tokens 30 --ignore-end --link 1GB/s " + arguments + " --timeline '" + file + "'");
  CHECK(ran.code == 0);
  const Json run = Json::parse(ran.out, nullptr, false);
  REQUIRE_FALSE(run.is_discarded());
  CHECK(run["bytes_to_device"].get<std::int64_t>() > 0);
  Json timeline = Json::parse(sluice_test::content(file), nullptr, false);
  REQUIRE_FALSE(timeline.is_discarded());
  return timeline;
}

} // namespace

TEST_CASE("a timeline of a real run shows each transfer and its request" * sluice_test::needs_program("sluice-run")) {
  const std::string two =
      "--prompt abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrst --prompt zyxwvutsrqponmlkjihgfedcba ";
  // Together they need 8 layers of 5 and 4 blocks of 16 KiB.
  const Json kv = timeline_of(two + "--system FlexGen --kv-memory 800KiB");
  CHECK(slices(kv, "r0, layer") > 0);
  CHECK(slices(kv, "weights, layer") == 0);
  const Json weights = timeline_of(two + "--system DeepSpeedWeights");
  CHECK(slices(weights, "weights, layer") > 0);
  CHECK(slices(weights, "r0, layer") == 0);
  const Json planned = timeline_of(two + "--system OrbitFlow --kv-memory 800KiB");
  CHECK(slices(planned, "plan") > 0);
}
