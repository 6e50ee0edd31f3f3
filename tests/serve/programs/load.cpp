// SPDX-License-Identifier: Apache-2.0
// sluice-serve under sluice-load: nothing is lost, and clients that leave leak nothing.
#include "sluice/workload/nlohmann/load_result.hpp"

#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace {

using sluice_test::check_refused;
using sluice_test::needs_program;
using sluice_test::Ran;
using sluice_test::run_program;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;

struct Loaded {
  int code = -1;
  std::string out;
  nlohmann::json json;
};

Loaded load(const std::string& url, const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "load.json").string();
  const Ran ran = run_program("sluice-load", "--quiet --url " + url + " --json " + file + " " + arguments + " 2>&1");
  const std::string text = sluice_test::content(file);
  return {ran.code, ran.out, text.empty() ? nlohmann::json::object() : nlohmann::json::parse(text)};
}

std::string generated(int requests, int prompt, int output) {
  return "--generate even:rate=10000,requests=" + std::to_string(requests) + ",prompt=" + std::to_string(prompt) +
         ",output=" + std::to_string(output) + " ";
}

void check_nothing_held(const ServerProcess& server) {
  CHECK(ServerProcess::eventually([&] { return server.metric("vllm:num_requests_running") == 0; }));
  CHECK(ServerProcess::eventually([&] { return server.metric("vllm:num_requests_waiting") == 0; }));
  CHECK(ServerProcess::eventually([&] { return server.metric("vllm:kv_cache_usage_perc") == 0; }));
}

} // namespace

TEST_CASE("200 streams at once: nothing is lost, nothing is sent twice" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  const Loaded loaded = load(server.url(), generated(200, 16, 20) + "--temperature 1 --count-tokens");
  INFO(loaded.out);
  CHECK(loaded.code == 0);
  CHECK(loaded.json["completed"] == 200);
  CHECK(loaded.json["failed"] == 0);
  CHECK(loaded.json["total_input_tokens"] == 200 * 16);
  CHECK(loaded.json["total_output_tokens"] == 200 * 20);
  for (const auto& violation : loaded.json["violations"].items()) { // clang 14 captures no structured binding
    INFO(violation.key());
    CHECK(violation.value() == 0);
  }
  for (const char* name :
       {"mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "mean_itl_ms",
        "p99_itl_ms", "mean_e2el_ms", "p99_e2el_ms", "request_throughput", "output_throughput", "duration"}) {
    INFO(name);
    CHECK(loaded.json[name].is_number());
  }
  CHECK(loaded.json["slo_attainment"].is_null()); // no request had an SLO
  CHECK(server.metric("vllm:generation_tokens_total") == 200 * 20);
  CHECK(server.metric("vllm:prompt_tokens_total") == 200 * 16);
  check_nothing_held(server);
}

TEST_CASE("a few connections serve many requests, and SLO attainment is measured" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  const Loaded loaded = load(server.url(), generated(60, 8, 6) + "--concurrency 4 --slo-ttft 60 --slo-tbt 60");
  INFO(loaded.out);
  CHECK(loaded.code == 0);
  CHECK(loaded.json["completed"] == 60);
  CHECK(loaded.json["max_concurrent_requests"] == 4);
  CHECK(loaded.json["slo_attainment"] == 1);
  CHECK(loaded.json["ttft_attainment"] == 1);
  CHECK(loaded.json["tbt_attainment"] == 1);
  const Loaded missed = load(server.url(), generated(10, 8, 6) + "--slo-ttft 0.000001 --slo-tbt 60");
  CHECK(missed.json["slo_attainment"] == 0);
  CHECK(missed.json["goodput"] == 0);
}

TEST_CASE("load: SLO classes are sent with each request, and kept or missed by class" * needs_program("sluice-load")) {
  const ServerProcess server({"--model", "tiny"});
  const Loaded loaded = load(server.url(), "--generate even:rate=10000,requests=40,prompt=8,output=6 "
                                           "--slo-classes patient=0.5:600s/10s,hasty=0.5:1us/1us");
  const nlohmann::json& classes = loaded.json["slo_classes"];
  REQUIRE(classes.size() == 2);
  CHECK(classes[0]["name"] == "patient");
  CHECK(classes[0]["slo_attainment"] == 1);
  CHECK(classes[1]["slo_attainment"] == 0);
  CHECK(classes[0]["requests"].get<int>() + classes[1]["requests"].get<int>() == 40);
  CHECK(loaded.json["slo_attainment"] == classes[0]["requests"].get<double>() / 40);
  // The server has counted the same.
  const std::string answers = R"(sluice:slo_answers_total{model_name="tiny",engine="0",)";
  CHECK(server.metric(answers + R"(ttft="600",tbt="10",met="true"})") == classes[0]["requests"]);
  CHECK(server.metric(answers + R"(ttft="600",tbt="10",met="false"})") == 0);
  CHECK(server.metric(answers + R"(ttft="1e-06",tbt="1e-06",met="false"})") == classes[1]["requests"]);
  CHECK(loaded.out.find("attainment of hasty (") != std::string::npos);
  const Ran both = run_program("sluice-load", "--generate sharegpt:requests=1 --slo-ttft 1 --slo-classes 1:1s/1s 2>&1");
  CHECK(both.out.find("--slo-ttft: every request has the SLO of its class") != std::string::npos);
}

TEST_CASE("a closed loop sends a request when another has ended, whatever the arrival times" *
          needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "llama3-8b", "--simulate", "h100"});
  const TemporaryFolder folder;
  const std::string file = (folder.path / "load.json").string();
  const Ran ran = run_program("sluice-load", "--quiet --url " + server.url() + " --json " + file + // one every day
                                                 " --generate even:rate=0.00001,requests=12,prompt=8,output=5 "
                                                 "--closed-loop --concurrency 3 2>&1");
  INFO(ran.out);
  REQUIRE(ran.code == 0);
  const auto report = nlohmann::json::parse(sluice_test::content(file));
  CHECK(report["completed"] == 12);
  CHECK(report["max_concurrent_requests"] == 3);
}

TEST_CASE("load --out writes a recording: what the reader finds in it is what the table counts" *
          needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "llama3-8b", "--simulate", "h100"});
  const TemporaryFolder folder;
  const std::string trace = (folder.path / "trace.csv").string();
  // 20 requests, 5 ms apart, at most 2 at once.
  const Loaded loaded = load(server.url(), "--generate even:rate=200,requests=20,prompt=8,output=5 --concurrency 2 "
                                           "--out " +
                                               trace);
  INFO(loaded.out);
  REQUIRE(loaded.code == 0);
  const sluice::Expected<sluice::LoadResult> read = sluice::read_load_result(trace);
  REQUIRE(read);
  CHECK(read->kind == "BLIS TraceV2");
  CHECK(read->failed == 0);
  REQUIRE(read->requests.size() == loaded.json["completed"].get<std::size_t>());
  constexpr double rounding = 2e-6; // the file has whole microseconds
  double ttft = 0, latency = 0;
  for (std::size_t i = 0; i < read->requests.size(); ++i) {
    const sluice::ClientRecord& one = read->requests[i];
    CHECK(std::abs(one.due_s - 0.005 * static_cast<double>(i)) < rounding); // the workload's arrivals, in their order
    CHECK(one.record.queued.count() > one.due_s - rounding);
    CHECK(one.record.prompt == sluice::Tokens{8});
    CHECK(one.record.output == sluice::Tokens{5});
    ttft += (one.record.first_token - one.record.queued).count();
    latency += (one.record.last_token - one.record.queued).count();
  }
  const auto mean = [&](double sum) { return 1e3 * sum / static_cast<double>(read->requests.size()); };
  CHECK(std::abs(mean(ttft) - loaded.json["mean_ttft_ms"].get<double>()) < 1e3 * rounding);
  CHECK(std::abs(mean(latency) - loaded.json["mean_e2el_ms"].get<double>()) < 1e3 * rounding);
  // The recording is a workload, too.
  const Loaded again = load(server.url(), "--trace " + trace);
  INFO(again.out);
  CHECK(again.json["completed"] == 20);
  CHECK(again.json["total_output_tokens"] == loaded.json["total_output_tokens"]);

  // In a closed loop a request is due when it is sent.
  const Loaded closed = load(server.url(), generated(6, 8, 3) + "--closed-loop --concurrency 1 --out " + trace);
  REQUIRE(closed.code == 0);
  const sluice::Expected<sluice::LoadResult> in_turn = sluice::read_load_result(trace);
  REQUIRE(in_turn);
  REQUIRE(in_turn->requests.size() == 6);
  for (const sluice::ClientRecord& one : in_turn->requests) CHECK(one.due_s == one.record.queued.count());
  for (std::size_t i = 1; i < 6; ++i) // one after the other
    CHECK(in_turn->requests[i].record.queued.count() > in_turn->requests[i - 1].record.last_token.count() - rounding);
}

TEST_CASE("clients that leave in every phase leak nothing" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny", "--queue", "1000"});
  const Loaded loaded = load(server.url(), generated(150, 16, 60) + "--temperature 1 --leave 0.5");
  INFO(loaded.out);
  CHECK(loaded.code == 0);
  const int waiting = loaded.json["left_waiting"], prefill = loaded.json["left_prefill"],
            decode = loaded.json["left_decode"], completed = loaded.json["completed"];
  CHECK(waiting > 0);
  CHECK(prefill > 0);
  CHECK(decode > 0);
  CHECK(completed > 0);
  CHECK(waiting + prefill + decode + completed == 150);
  check_nothing_held(server);
  CHECK(server.metric("sluice:cancelled_total") > 0);
}

TEST_CASE("clients that read slowly or never do not delay the others" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  const Loaded loaded = load(server.url(), generated(40, 8, 20) + "--temperature 1 --slow 0.25");
  INFO(loaded.out);
  CHECK(loaded.code == 0);
  CHECK(loaded.json["completed"].get<int>() + loaded.json["slow_cut"].get<int>() == 40);
  CHECK(loaded.json["slow"].get<int>() + loaded.json["slow_cut"].get<int>() > 0);
  check_nothing_held(server);
}

TEST_CASE("a full queue is reported by its status and is not a violation" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny", "--queue", "5", "--batch", "2"});
  const Loaded loaded = load(server.url(), generated(80, 8, 40));
  INFO(loaded.out);
  CHECK(loaded.code == 0);
  CHECK(loaded.json["errors"]["429"].get<int>() > 0);
  CHECK(loaded.json["errors"]["429"].get<int>() + loaded.json["completed"].get<int>() == 80);
  CHECK(loaded.out.find("429: ") != std::string::npos);
}

TEST_CASE("sluice-serve: a port in use, a missing model" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  check_refused("sluice-serve", "--model tiny --port " + std::to_string(server.port()), "--port: ");
  check_refused("sluice-serve", "--model /nowhere --port 0", "--model: ");
}

TEST_CASE("sluice-serve: --set names a policy of a system that the command line names" *
          needs_program("sluice-serve")) {
  const std::string lag = "--model /nowhere --port 0 --system VllmSwap --set LargestVirtualLagFirst.alpha=1 ";
  check_refused("sluice-serve", lag, "--set: no policy of these systems is called 'LargestVirtualLagFirst'");
  check_refused("sluice-serve", lag + "--tee VllmRecompute --what-if OrbitFlow", "--set: no policy of these systems");
  for (const char* more :
       {"--tee SuperInfer", "--what-if SuperInfer", "--what-if OrbitFlow,SuperInfer"}) // --set passes
    check_refused("sluice-serve", lag + more, "--model: ");
}

TEST_CASE("sluice-load: mistakes are reported in one line" * needs_program("sluice-load")) {
  const std::string some = generated(1, 1, 1);
  check_refused("sluice-load", "", "there is nothing to ask for; expected --generate or --trace");
  check_refused("sluice-load", some + "--url 127.0.0.1:80", "--url: ");
  check_refused("sluice-load", some + "--url http://127.0.0.1:99999", "--url: its port is '99999'");
  check_refused("sluice-load", some + "--url http://127.0.0.1:1", "there is no server");
  check_refused("sluice-load", some + "--url ftp://127.0.0.1", "does not begin with http:// or https://");
  check_refused("sluice-load", some + "--closed-loop", "--closed-loop: it does not say how many at once");
  check_refused("sluice-load", some + "--insecure", "--insecure: --url is plain HTTP");
  check_refused("sluice-load", some + "--endpoint talk", "--endpoint: it is 'talk'; expected chat or completions");
  check_refused("sluice-load", some + "--leave 1.5", "--leave: ");
  check_refused("sluice-load", some + "--leave 0.6 --slow 0.6", "--slow: ");
  check_refused("sluice-load", some + "--concurrency 0", "--concurrency: ");
  check_refused("sluice-load", some + "--trace README.md", "not both");
  check_refused("sluice-load", "--trace README.md", "--trace: ");
  check_refused("sluice-load", "--generate nothing", "--generate: ");
  check_refused("sluice-load", "--nothing", "--help");
}
