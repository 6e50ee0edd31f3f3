// SPDX-License-Identifier: Apache-2.0
// sluice-profile: its records are read back and equal the cost model's times.
#include "sluice/model/device/named.hpp"
#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/cost/device_link.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/weights/nlohmann/interval_record_json.hpp"
#include "sluice/policy/weights/record_intervals.hpp"

#include "support/program.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>

namespace {

using namespace sluice;
using sluice_test::Ran;

doctest::skip needs_program() { return sluice_test::needs_program("sluice-profile"); }
Ran run(const std::string& arguments) { return sluice_test::run_program("sluice-profile", arguments); }

} // namespace

TEST_CASE("sluice-profile records the cost model's predictions, and shows them again" * needs_program()) {
  const sluice_test::TemporaryFolder folder;
  const std::string file = (folder.path / "record.json").string();
  const Ran made =
      run("--record --model opt-6.7b --device a10 --max-batch 8 --least-length 64 --max-length 256 --slo-max "
          "0.3 --slo 0.1 --quiet --out '" +
          file + "'");
  CHECK(made.code == 0);
  const Expected<IntervalRecord> record = read_interval_record(file);
  REQUIRE_MESSAGE(record.has_value(), record.error().line());
  const ModelShape model = opt_6_7b();
  const Geometry geometry{model.layers, model.layer_block_bytes(Tokens{16}), model.layer_weight_bytes(), Bytes{0}};
  const IntervalGrid grid{.max_batch = 8,
                          .least_length = Tokens{64},
                          .max_length = Tokens{256},
                          .slo_step = Seconds{0.002},
                          .slo_steps = 150};
  const IntervalRecord expected =
      record_intervals(Roofline{model, a10()}, geometry, record->heading(), grid, [](std::int64_t, std::int64_t) {});
  CHECK(interval_record_text(*record) == interval_record_text(expected));
  CHECK(record->heading().device == "a10");
  const Ran shown = run("--slo 0.1 --show '" + file + "'");
  CHECK(shown.code == 0);
  CHECK(made.out.find(shown.out) == 0); // followed by the folder that was written
}

TEST_CASE("sluice-profile measures this machine into a bundle that sluice-compare reads" * needs_program()) {
  const sluice_test::TemporaryFolder folder;
  const std::string bundle = (folder.path / "here").string();
  const std::string said = (folder.path / "said").string();
  const Ran ran = run("--measure --seconds 0.1 --link 1GB/s --quiet --out '" + bundle + "' 2>'" + said + "'");
  if (ran.out.find("this build has no decoder") != std::string::npos) return;
  REQUIRE_MESSAGE(ran.code == 0, ran.out);
  const Expected<ModelShape> shape = read_hf_config(bundle);
  REQUIRE_MESSAGE(shape.has_value(), shape.error().line());
  CHECK(shape->name == "tiny");
  CHECK(shape->layer_block_bytes(Tokens{16}) == Bytes{16384});
  const Expected<Device> device = find_or_read_device(bundle + "/device.json");
  REQUIRE_MESSAGE(device.has_value(), device.error().line());
  CHECK(device->host_to_device.count() > 0);
  CHECK(device->host_to_device.count() < 1.05e9); // other load lowers the rate, and never raises it
  const Expected<TableProfile> profile = read_table_profile(bundle, device_link(*device));
  REQUIRE_MESSAGE(profile.has_value(), profile.error().line());
  const auto step = [&](std::int64_t decodes, std::int64_t context) {
    Work work;
    work.decodes = work.samples = decodes;
    work.decode_context = Tokens{decodes * context};
    return profile->step(work).total(shape->layers);
  };
  for (const std::int64_t decodes : {1, 16}) {
    CHECK(step(decodes, 16) > Seconds{1e-5}); // what no processor is faster than; other load has no upper bound
    CHECK(std::isfinite(step(decodes, 16).count()));
  }
  std::ifstream lines(said);
  std::string line;
  if (std::getline(lines, line)) CHECK(line.find("sluice-profile: this machine was busy: ") == 0);
  CHECK_FALSE(std::getline(lines, line));
}
