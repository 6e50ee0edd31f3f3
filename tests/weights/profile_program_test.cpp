// SPDX-License-Identifier: Apache-2.0
// sluice-profile: what it records is read back and is what the cost model says, and one line and exit code 2 for wrong
// input.
#include "sluice/cost/device_link.hpp"
#include "sluice/cost/read_table_profile.hpp"
#include "sluice/cost/roofline.hpp"
#include "sluice/device/named.hpp"
#include "sluice/device/nlohmann/device_json.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/weights/nlohmann/interval_record_json.hpp"
#include "sluice/weights/record_intervals.hpp"

#include "support/program.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

using namespace sluice;
using sluice_test::Ran;

doctest::skip needs_program() { return sluice_test::needs_program("sluice-profile"); }
Ran run(const std::string& arguments) { return sluice_test::run_program("sluice-profile", arguments); }

} // namespace

TEST_CASE("sluice-profile records what the cost model says, and shows it again" * needs_program()) {
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
  CHECK(made.out.find(shown.out) == 0); // and where it was written
}

TEST_CASE("sluice-profile prints a layer's times" * needs_program()) {
  const Ran ran = run("--model opt-13b --device a10");
  CHECK(ran.code == 0);
  CHECK(ran.out.find("40 layers of 0.629 GB") != std::string::npos);
  CHECK(ran.out.find("24.0 GB/s to the device") != std::string::npos);
}

TEST_CASE("sluice-profile measures this machine into what sluice-compare reads" * needs_program()) {
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
  CHECK(device->host_to_device.count() > 0.3e9); // a busy machine misses its rate, and never exceeds it
  CHECK(device->host_to_device.count() < 1.05e9);
  const Expected<TableProfile> profile = read_table_profile(bundle, device_link(*device));
  REQUIRE_MESSAGE(profile.has_value(), profile.error().line());
  const auto step = [&](std::int64_t decodes, std::int64_t context) {
    Work work;
    work.decodes = work.samples = decodes;
    work.decode_context = Tokens{decodes * context};
    return profile->step(work).total(shape->layers);
  };
  CHECK(step(1, 16) > Seconds{1e-5});
  CHECK(step(1, 16) < Seconds{10});
  CHECK(step(16, 16) > step(1, 16)); // 16 times the arithmetic
  std::ifstream lines(said);
  std::string line;
  if (std::getline(lines, line)) CHECK(line.find("sluice-profile: this machine was busy: ") == 0);
  CHECK_FALSE(std::getline(lines, line));
}

TEST_CASE("what is wrong with a call of sluice-profile is said in one line, with exit code 2" * needs_program()) {
  const auto says = [](const std::string& arguments, const std::string& part) {
    sluice_test::check_refused("sluice-profile", arguments, part);
  };
  says("--record", "--record: there is no --out");
  says("--out x.json", "--out: nothing is written without --record");
  says("--max-batch 24", "powers of two");
  says("--least-length 512 --max-length 128", "they are 128, 512 and 128");
  says("--slo-max 0.001", "1 to 1000000 steps of --slo-step");
  says("--slo-max 0", "--slo-max");
  says("--model nothing", "there is no model 'nothing'");
  says("--show /nowhere/record.json", "cannot be opened");
  says("--threads 2", "they are of a measurement; expected --measure as well");
  says("--measure --link fast", "--link");
  if (run("--measure 2>&1").out.find("this build has no decoder") == std::string::npos) {
    says("--measure", "--measure: there is no --out");
    says("--measure --record --out record.json", "one thing at a time");
    says("--measure --out /dev/null/x", "--out: /dev/null/x is no folder and cannot be made");
    for (const char* flag : {"--device a10", "--slo-max 2", "--slo-step 0.1", "--max-batch 8", "--least-length 64",
                             "--max-length 64", "--slack 0.5", "--slo 0.1"})
      says(std::string{"--measure --out /dev/null/x "} + flag, "it says nothing of a measurement");
    says("--measure --model /nowhere --quiet --out .", "--model: there is no folder and no model '/nowhere'");
    says("--measure --backend gpu --out out", "--backend: it is 'gpu'; expected cpu or cuda");
    says("--measure --backend cuda --threads 2 --out out", "--threads: with --backend cuda a GPU computes");
    says("--measure --backend cuda --link 1GB/s --out out", "--link: with --backend cuda a GPU's link");
    says("--measure --products fast --out out", "--products: a processor has one way to multiply");
    says("--random-weights 1", "they are of a measurement");
    says("--backend cuda", "they are of a measurement; expected --measure as well");
  }
  // Nothing is made where there is no model to measure, and a model's own config.json stays what it is.
  const sluice_test::TemporaryFolder folder;
  const std::filesystem::path model = folder.path / "model", out = folder.path / "out";
  std::filesystem::create_directory(model);
  std::ofstream(model / "config.json") << "{}";
  if (run("--measure 2>&1").out.find("this build has no decoder") == std::string::npos) {
    says("--measure --model '" + model.string() + "' --out '" + model.string() + "/'",
         "has the config.json of --model");
    says("--measure --model '" + model.string() + "' --out '" + out.string() + "'", "model_type is missing");
    std::ofstream(model / "model.safetensors") << "";
    says("--measure --out '" + model.string() + "'", "has the config.json of model.safetensors");
  }
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(std::filesystem::file_size(model / "config.json") == 2);
  says("--record --out /nowhere/record.json --quiet --max-batch 1", "cannot be written");
}
