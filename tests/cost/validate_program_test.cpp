// SPDX-License-Identifier: Apache-2.0
// sluice-validate: the recorded run, compared as the program prints it, and one line and exit code 2 for wrong input.
#include "support/shared_data.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

fs::path program() {
  const char* folder = std::getenv("SLUICE_BIN");
  return folder == nullptr ? fs::path{} : fs::path{folder} / "sluice-validate";
}

struct Ran {
  int code = -1;
  std::string out;
};
Ran run(const std::string& arguments) {
  Ran ran;
  std::FILE* pipe = popen(("'" + program().string() + "' " + arguments).c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.out.append(buffer, n);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

doctest::skip needs_program() {
  std::error_code ignored;
  const bool there = !program().empty() && fs::exists(program(), ignored);
  if (!there)
    std::fputs("skipped: a test needs sluice-validate (set SLUICE_BIN to the folder that holds it)\n", stderr);
  return doctest::skip(!there);
}

const char* const run_folder = "data/runs/RTX4090-Llama-3.1-8B-vllm";
const char* const profile_folder = "data/profiles/RTX4090-Llama-3.1-8B";
const char* const dataset = "data/runs/RTX4090-Llama-3.1-8B-vllm/sharegpt-llama-3.1-8b-300-sps10.jsonl";

std::string on_the_run() {
  return "--run '" + sluice_test::shared_path(run_folder) + "' --profile '" + sluice_test::shared_path(profile_folder) +
         "' --json 2>/dev/null";
}

double difference(const nlohmann::json& report, const char* metric, const char* figure) {
  const nlohmann::json& both = report.at(metric).at(figure);
  return both.at("simulated").get<double>() / both.at("measured").get<double>() - 1.0;
}

/// One line that holds `piece`, and exit code 2.
void refuses(const std::string& arguments, const char* piece) {
  const Ran ran = run(arguments + " 2>&1");
  CAPTURE(ran.out);
  CHECK(ran.code == 2);
  CHECK(ran.out.find(piece) != std::string::npos);
  CHECK(ran.out.find('\n') == ran.out.size() - 1);
}

} // namespace

TEST_CASE("what was measured is what the recording says" * needs_program() *
          sluice_test::needs_shared({run_folder, profile_folder})) {
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

TEST_CASE("the recorded run without its prompts: every mean within 2 %" * needs_program() *
          sluice_test::needs_shared({run_folder, profile_folder})) {
  const Ran ran = run(on_the_run());
  REQUIRE(ran.code == 0);
  const nlohmann::json report = nlohmann::json::parse(ran.out);
  for (const char* metric : {"ttft", "tpot", "latency"}) {
    CAPTURE(metric);
    CHECK(std::abs(difference(report, metric, "mean")) < 0.02);
    CHECK(std::abs(difference(report, metric, "p99")) < 0.02);
  }
}

TEST_CASE("the recorded run with its prompts: every figure within 2 %" * needs_program() *
          sluice_test::needs_shared({run_folder, profile_folder, dataset})) {
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

TEST_CASE("wrong input is one line and exit code 2" * needs_program()) {
  std::string name = (fs::temp_directory_path() / "sluice-run-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  const auto meta = [&](const char* text) { std::ofstream(folder / "meta.json") << text; };
  const std::string arguments = "--run '" + folder.string() + "' --profile '" + folder.string() + "'";
  refuses(arguments, "meta.json: the file cannot be opened");
  meta("{\"engine_kwargs\": ");
  refuses(arguments, "meta.json:1");
  meta(R"({"engine_kwargs": {"max_num_seqs": -1, "max_num_batched_tokens": 2048}})");
  refuses(arguments, "max_num_seqs is -1");
  meta(R"({"engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 2048}})");
  refuses(arguments, "num_gpu_blocks is missing");
  refuses(arguments + " --kv-blocks 100", "no config.json");
  meta(R"({"engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 2048, "data_parallel_size": 2}})");
  refuses(arguments, "data_parallel_size is 2");
  meta(R"({"engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 2048},
           "resolved_config": {"scheduler_config": {"policy": "priority"}}})");
  refuses(arguments, "policy is 'priority'");
  fs::remove_all(folder);
}
