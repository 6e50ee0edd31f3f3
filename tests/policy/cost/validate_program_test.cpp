// SPDX-License-Identifier: Apache-2.0
// sluice-validate: the recorded run, compared as the program prints it.
#include "support/program.hpp"
#include "support/shared_data.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

namespace {

namespace fs = std::filesystem;
using sluice_test::Ran;
using sluice_test::TemporaryFolder;

doctest::skip needs_program(std::initializer_list<const char*> files = {}) {
  return sluice_test::needs_program("sluice-validate", files);
}
Ran run(const std::string& arguments) { return sluice_test::run_program("sluice-validate", arguments); }

const char* const run_folder = "data/runs/RTX4090-Llama-3.1-8B-vllm";
const char* const profile_folder = "data/profiles/RTX4090-Llama-3.1-8B";
const char* const dataset = "data/runs/RTX4090-Llama-3.1-8B-vllm/sharegpt-llama-3.1-8b-300-sps10.jsonl";

std::string on(const std::string& folder) {
  return "--run '" + folder + "' --profile '" + sluice_test::shared_path(profile_folder) + "' --json 2>/dev/null";
}
std::string on_the_run() { return on(sluice_test::shared_path(run_folder)); }

/// The recorded run with its meta.json changed by `edit`.
template <class Edit>
void copy_run(const fs::path& to, Edit edit) {
  const fs::path from = sluice_test::shared_path(run_folder);
  fs::copy_file(from / "requests.jsonl", to / "requests.jsonl");
  nlohmann::json meta = nlohmann::json::parse(std::ifstream(from / "meta.json"));
  edit(meta);
  std::ofstream(to / "meta.json") << meta;
}

double difference(const nlohmann::json& report, const char* metric, const char* figure) {
  const nlohmann::json& both = report.at(metric).at(figure);
  return both.at("simulated").get<double>() / both.at("measured").get<double>() - 1.0;
}

} // namespace

TEST_CASE("measured times are those of the recording" * needs_program({run_folder, profile_folder})) {
  const Ran ran = run(on_the_run());
  REQUIRE(ran.code == 0);
  const nlohmann::json report = nlohmann::json::parse(ran.out);
  double ttft = 0.0;
  int requests = 0;
  std::ifstream file(sluice_test::shared_path(std::string{run_folder} + "/requests.jsonl"));
  for (std::string line; std::getline(file, line); ++requests) {
    const nlohmann::json request = nlohmann::json::parse(line);
    ttft += request.at("first_token_ts").get<double>() - request.at("queued_ts").get<double>();
  }
  REQUIRE(requests > 0);
  CHECK(report.at("ttft").at("mean").at("measured").get<double>() == doctest::Approx(ttft / requests));
}

TEST_CASE("the recorded run: every figure within 2 %" * needs_program({run_folder, profile_folder})) {
  const Ran ran = run(on_the_run());
  REQUIRE(ran.code == 0);
  const nlohmann::json report = nlohmann::json::parse(ran.out);
  for (const char* metric : {"ttft", "tpot", "latency"}) {
    for (const char* figure : {"mean", "median", "p90", "p95", "p99"}) {
      CAPTURE(metric);
      CAPTURE(figure);
      CHECK(std::abs(difference(report, metric, figure)) < 0.02);
    }
  }
}

TEST_CASE("the known facts of the recorded run's dataset agree with its prompts" *
          needs_program({run_folder, profile_folder, dataset})) {
  const Ran with_prompts = run(on_the_run()); // found by name
  const TemporaryFolder folder;
  copy_run(folder.path, [](nlohmann::json&) {});
  const Ran by_hash = run(on(folder.path.string()));
  REQUIRE(by_hash.code == 0);
  CHECK(by_hash.out == with_prompts.out);
}

TEST_CASE("a known dataset is found by its hash, or by its name if the recording has no hash" *
          needs_program({run_folder, profile_folder})) {
  const auto replay = [](auto edit) {
    const TemporaryFolder folder;
    copy_run(folder.path, edit);
    const Ran ran = run(on(folder.path.string()));
    REQUIRE(ran.code == 0);
    return ran.out;
  };
  const std::string by_hash = replay([](nlohmann::json& meta) { meta.erase("dataset_path"); });
  CHECK(replay([](nlohmann::json& meta) { meta.erase("dataset_hash"); }) == by_hash);
  const std::string unknown = replay([](nlohmann::json& meta) { meta["dataset_hash"] = "0"; });
  CHECK(unknown != by_hash); // another file of that name is another dataset

  const nlohmann::json report = nlohmann::json::parse(unknown);
  for (const char* metric : {"ttft", "tpot", "latency"}) {
    CAPTURE(metric);
    CHECK(std::abs(difference(report, metric, "mean")) < 0.02);
    CHECK(std::abs(difference(report, metric, "p99")) < 0.02);
  }
}

TEST_CASE("a recording without its KV memory is served with enough memory" *
          needs_program({run_folder, profile_folder})) {
  const TemporaryFolder folder;
  copy_run(folder.path, [](nlohmann::json& meta) { meta["kv_cache"].erase("num_gpu_blocks"); });
  const Ran unsaid = run(on(folder.path.string()));
  REQUIRE(unsaid.code == 0);
  CHECK(unsaid.out == run(on(folder.path.string()) + " --kv-blocks 1000000").out);
  const nlohmann::json report = nlohmann::json::parse(unsaid.out);
  CHECK(difference(report, "ttft", "mean") < -0.5); // this run's queue depended on its memory
  CHECK(run(on(folder.path.string()) + " --kv-blocks 2588").out != unsaid.out);
}
