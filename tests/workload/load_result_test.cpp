// SPDX-License-Identifier: Apache-2.0
// load_result: what load generators write, and one line for each mistake in it.
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "support/program.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>

using namespace sluice;

namespace {

struct ResultFile {
  sluice_test::TemporaryFolder folder;
  std::string path = (folder.path / "result").string();
  explicit ResultFile(const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
};

LoadResult read_result(const std::string& text) {
  const ResultFile file(text);
  const Expected<LoadResult> result = read_load_result(file.path);
  CAPTURE((result ? std::string{} : result.error().line()));
  REQUIRE(result);
  return *result;
}
std::string refusal_of(const std::string& text) {
  const ResultFile file(text);
  const Expected<LoadResult> result = read_load_result(file.path);
  REQUIRE_FALSE(result);
  return result.error().line().substr(file.path.size());
}
void check_client(const ClientRecord& one, double due, double sent, double first, double last, int prompt, int output) {
  CHECK(one.due_s == doctest::Approx(due));
  CHECK(one.record.queued.count() == doctest::Approx(sent));
  CHECK(one.record.first_token.count() == doctest::Approx(first));
  CHECK(one.record.last_token.count() == doctest::Approx(last));
  CHECK(one.record.prompt == Tokens{prompt});
  CHECK(one.record.output == Tokens{output});
}

const std::string vllm_bench = R"({"model_id": "m", "input_lens": [7, 8, 9], "output_lens": [2, 0, 3],
  "ttfts": [0.5, 0.0, 0.25], "itls": [[0.125], [], [0.5, 0.25]], "start_times": [101.0, 100.5, 100.0],
  "errors": ["", "refused", ""]})";
const std::string guidellm = R"({"benchmarks": [{"requests": {"errored": [{}], "incomplete": [],
  "successful": [{"info": {"timings": {"request_start": 50.0}}, "prompt_tokens": 7, "output_tokens": 2,
                  "time_to_first_token_ms": 500.0, "request_latency": 0.75}]}}]})";
const std::string aiperf =
    R"({"metadata": {"request_start_ns": 2000000000}, "metrics": {"input_sequence_length": {"value": 7}, )"
    R"("output_sequence_length": {"value": 2}, "time_to_first_token": {"value": 500, "unit": "ms"}, )"
    R"("request_latency": {"value": 0.75, "unit": "sec"}}, "error": null})"
    "\n"
    R"({"metadata": {"request_start_ns": 1000000000}, "metrics": {"error_isl": {"value": 5}}, "error": {"code": 499}})"
    "\n";
const std::string blis = "request_id,output_tokens,server_input_tokens,arrival_time_us,send_time_us,"
                         "first_chunk_time_us,last_chunk_time_us,status\n"
                         "0,2,7,1500000,4000000000,4000500000,4000750000,ok\n"
                         "1,2,7,0,3000000000,0,0,error\n"
                         "2,3,8,500000,4100000000,4100500000,4101500000,ok\n";

} // namespace

TEST_CASE("vllm bench serve: lists with an entry per request, the failed one left out") {
  const LoadResult result = read_result(vllm_bench);
  CHECK(result.kind == "vllm bench serve");
  CHECK(result.failed == 1);
  REQUIRE(result.requests.size() == 2); // in the order of sending
  check_client(result.requests[0], 100, 100, 100.25, 101, 9, 3);
  check_client(result.requests[1], 101, 101, 101.5, 101.625, 7, 2);
}

TEST_CASE("GuideLLM, AIPerf and BLIS TraceV2 are told apart by their content") {
  const LoadResult guided = read_result(guidellm);
  CHECK(guided.kind == "GuideLLM");
  CHECK(guided.failed == 1);
  check_client(guided.requests.at(0), 50, 50, 50.5, 50.75, 7, 2);
  const LoadResult perf = read_result(aiperf);
  CHECK(perf.kind == "AIPerf");
  CHECK(perf.failed == 1);
  check_client(perf.requests.at(0), 2, 2, 2.5, 2.75, 7, 2);
  const LoadResult traced = read_result(blis);
  CHECK(traced.kind == "BLIS TraceV2");
  CHECK(traced.failed == 1);
  REQUIRE(traced.requests.size() == 2); // in the order in which they were due
  check_client(traced.requests[0], 0.5, 4100, 4100.5, 4101.5, 8, 3);
  check_client(traced.requests[1], 1.5, 4000, 4000.5, 4000.75, 7, 2);
}

TEST_CASE("GuideLLM: a request is due when its scheduler targeted it, which may be before it was sent") {
  const LoadResult result = read_result(
      R"({"benchmarks": [{"requests": {"errored": [], "incomplete": [], "successful": [
        {"info": {"timings": {"targeted_start": 49.5, "request_start": 50.0}}, "prompt_tokens": 7, "output_tokens": 2,
         "time_to_first_token_ms": 500.0, "request_latency": 0.75},
        {"info": {"timings": {"targeted_start": null, "request_start": 49.0}}, "prompt_tokens": 8, "output_tokens": 2,
         "time_to_first_token_ms": 500.0, "request_latency": 0.75}]}}]})");
  REQUIRE(result.requests.size() == 2);
  check_client(result.requests[0], 49, 49, 49.5, 49.75, 8, 2);
  check_client(result.requests[1], 49.5, 50, 50.5, 50.75, 7, 2);
}

TEST_CASE("AIPerf's first versions had other names for a request's start and its TTFT") {
  const LoadResult perf = read_result(
      R"({"metadata": {"x_request_id": "a", "turn_index": 0, "timestamp_ns": 1000000000, "credit_phase": "profiling"}, )"
      R"("metrics": {"error_request_count": {"value": 1, "unit": "requests"}}, "error": {"code": 499}})"
      "\n"
      R"({"metadata": {"x_request_id": "b", "turn_index": 0, "timestamp_ns": 3000000000, "credit_phase": "profiling"}, )"
      R"("metrics": {"input_sequence_length": {"value": 550, "unit": "tokens"}, "ttft": {"value": 1500, "unit": "ms"}, )"
      R"("request_latency": {"value": 8000, "unit": "ms"}, "output_token_count": {"value": 61, "unit": "tokens"}, )"
      R"("reasoning_token_count": {"value": 132, "unit": "tokens"}, )"
      R"("output_sequence_length": {"value": 193, "unit": "tokens"}}, "error": null})"
      "\n");
  CHECK(perf.kind == "AIPerf");
  CHECK(perf.failed == 1);
  check_client(perf.requests.at(0), 3, 3, 4.5, 11, 550, 193);
}

TEST_CASE("AIPerf without streaming: no time of a first token, which is said") {
  const std::string text =
      R"({"metadata": {"request_start_ns": 3000000000}, "metrics": {"input_sequence_length": {"value": 7}, )"
      R"("output_sequence_length": {"value": 9}, "request_latency": {"value": 250, "unit": "ms"}}, "error": null})"
      "\n";
  const LoadResult result = read_result(text);
  CHECK(result.without_first == 1);
  check_client(result.requests.at(0), 3, 3, 3.25, 3.25, 7, 9);
  const ResultFile file(text);
  const Expected<Trace> trace = open_trace(*find_trace(file.path), {});
  REQUIRE(trace);
  CHECK(trace->workload().remark == "no time of a first token (no streaming)");
  CHECK(whole_trace(read_result(text + aiperf), "t")->remark ==
        "1 failed request left out, 1 without a time of a first token"); // the other one streamed
}

TEST_CASE("a report of several benchmarks: one is chosen, or the refusal says how") {
  const auto benchmark = [](double start) {
    return R"({"requests": {"successful": [{"info": {"timings": {"request_start": )" + std::to_string(start) +
           R"(}}, "prompt_tokens": 7, "output_tokens": 2, "time_to_first_token_ms": 500.0, "request_latency": 0.75}]}})";
  };
  const ResultFile file(R"({"benchmarks": [)" + benchmark(50) + "," + benchmark(80) + "]}");
  CHECK(read_load_result(file.path, 2)->requests.at(0).due_s == 80);
  CHECK(read_load_result(file.path, 1)->requests.at(0).due_s == 50);
  CHECK(read_load_result(file.path).error().line() ==
        file.path +
            ": GuideLLM's report has 2 benchmarks; expected --benchmark N for one of them, or in sluice-compare "
            "--benchmark 1,2 for all as a sweep");
  CHECK(read_load_result(file.path, 3)
            .error()
            .line()
            .find(": GuideLLM's report has 2 benchmarks, and 3 is chosen; expected") != std::string::npos);
  const ResultFile one(aiperf);
  CHECK(read_load_result(one.path, 1).error().line() ==
        "--benchmark: a result of AIPerf (`profile_export.jsonl`) is one benchmark; expected no such flag, or a report "
        "of several (GuideLLM, "
        "vllm bench serve, SGLang bench_serving)");
}

TEST_CASE("vllm bench serve --append-result: a line per run, of which one is chosen") {
  std::string line = vllm_bench;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::string later = line;
  later.replace(later.find("100.0"), 5, "300.0");
  const ResultFile file(line + "\n" + later);
  CHECK(read_load_result(file.path, 1)->requests.at(0).due_s == 100);
  CHECK(read_load_result(file.path, 2)->requests.at(1).due_s == 300);
  CHECK(refusal_of(line + "\n" + later).find(": vllm bench serve's report has 2 benchmarks; expected") == 0);
  CHECK(read_result(line).requests.size() == 2);
  const ResultFile broken("\n" + line + "\n \n\n{\"input_lens\": [1,}\n"); // of line 5; empty lines count
  CHECK(read_load_result(broken.path, 1)->requests.at(0).due_s == 100);
  CHECK(read_load_result(broken.path, 2).error().line().find(broken.path + ":5:") == 0);
  CHECK(refusal_of(R"({"num_prompts": 5, "burstiness": 1.0, "completed": 5})")
            .find(": it is a result of vllm bench serve, and input_lens is missing; expected a result of "
                  "--save-detailed") == 0);
}

TEST_CASE("AIPerf: requests of the warm-up and cancelled ones are left out and counted") {
  const auto with = [](const std::string& metadata) {
    std::string line = aiperf.substr(0, aiperf.find('\n') + 1);
    return line.replace(line.find("{\"request"), 1, "{" + metadata + ", ");
  };
  const std::string text = with(R"("benchmark_phase": "warmup")") + with(R"("benchmark_phase": "profiling")") +
                           with(R"("was_cancelled": true)") + aiperf;
  const LoadResult result = read_result(text);
  CHECK(result.requests.size() == 2);
  CHECK(result.warm_up == 1);
  CHECK(result.failed == 2);
  CHECK(whole_trace(result, "t")->remark == "2 failed requests left out, 1 warm-up request left out");
  const std::string warm = with(R"("benchmark_phase": "warmup")");
  CHECK(refusal_of(warm + warm) ==
        ": it is a result of AIPerf without requests: 2 of the warm-up, 0 failed; expected requests that got their "
        "tokens");
}

TEST_CASE("SGLang: a line per run, refused by name without the times of sending") {
  const std::string run =
      R"({"backend": "sglang", "sharegpt_output_len": null, "input_lens": [7], "output_lens": [2], "ttfts": [0.5], )"
      R"("itls": [[0.25]])";
  CHECK(
      refusal_of(run + "}\n").find(": it is a result of SGLang bench_serving, and start_times is missing; expected") ==
      0);
  CHECK(refusal_of(R"({"sharegpt_output_len": null, "duration": 3})"
                   "\n") ==
        ": it is a result of SGLang bench_serving, and input_lens is missing; expected a result of --output-details");
  CHECK(refusal_of(run + "}\n" + run + "}\n").find(": it is a result of SGLang bench_serving, and start_times") == 0);
  const std::string timed = run + R"(, "start_times": [3.0]})"
                                  "\n";
  CHECK(refusal_of(timed + timed).find(": SGLang bench_serving's report has 2 benchmarks; expected") == 0);
  const LoadResult result = read_result(run + R"(, "start_times": [3.0]})"
                                              "\n");
  CHECK(result.kind == "SGLang bench_serving");
  check_client(result.requests.at(0), 3, 3, 3.5, 3.75, 7, 2);
}

TEST_CASE("inference-perf: a list of requests, with and without streaming, and as older versions wrote it") {
  const auto one = [](double start, const std::string& info, const char* error = "null") {
    return R"({"start_time": )" + std::to_string(start) + R"(, "end_time": )" + std::to_string(start + 2) +
           R"(, "request": "{}", "response": "a", "info": {)" + info + R"(}, "error": )" + error + "}";
  };
  const std::string prompt = R"("request_metrics": {"text": {"input_tokens": 30}}, "input_tokens": 30)";
  const LoadResult result = read_result(
      "[\n" +
      one(101,
          prompt +
              R"(, "response_metrics": {"output_tokens": 4, "output_token_times": [101.5, 102.5], "chunk_times": []})") +
      "," + one(100, prompt + R"(, "response_metrics": null)", R"({"error_type": "x", "error_msg": "y"})") + "," +
      one(99,
          prompt +
              R"(, "response_metrics": {"output_tokens": 9, "server_usage": {"prompt_tokens": 33, "completion_tokens": 8}})") +
      "," + one(98, R"("input_tokens": 5, "output_tokens": 3, "output_token_times": [98.25, 99])") + "\n]\n");
  CHECK(result.kind == "inference-perf");
  CHECK(result.failed == 1);
  CHECK(result.without_first == 1);
  REQUIRE(result.requests.size() == 3);
  check_client(result.requests[0], 98, 98, 98.25, 100, 5, 3);
  check_client(result.requests[1], 99, 99, 101, 101, 33, 8);
  check_client(result.requests[2], 101, 101, 101.5, 103, 30, 4);
  CHECK(refusal_of("[{\"start_time\": 3, \"end_time\": 5, \"info\": {}}, ").find(":1: the JSON ends too early") == 0);
  CHECK(refusal_of("[{\"start_time\": 3, \"end_time\": 5, \"info\": 3}]") ==
        ": request 0: info is missing or no object; expected a request of inference-perf");
  CHECK(refusal_of("[{\"start_time\": 3, \"end_time\": 5, \"info\": {}}]") ==
        ": request 0: inference-perf's input_tokens is missing or no number; expected tokens, 1 or more");
}

TEST_CASE("numbers that are not finite, as Python writes them, are numbers that a file has not") {
  // SGLang's request rate is Infinity unless one is given; a mean over no requests is NaN.
  CHECK(read_result(R"({"request_rate": Infinity, "std_ttft_ms": NaN, "slo": -Infinity, "text": "NaN \" Infinity", )"
                    R"("sharegpt_output_len": null, "input_lens": [7], "output_lens": [2], "ttfts": [0.5], )"
                    R"("itls": [[0.25]], "start_times": [3.0]})"
                    "\n")
            .requests.size() == 1);
  // json.dump(..., indent=2) writes each element of a list on a line of its own.
  for (const std::string end : {"\n", "\r\n"})
    CHECK(read_result("{" + end + R"(  "rates": [)" + end + "    NaN," + end + "    1.0," + end + "    -Infinity" +
                      end + "  ]," + end + R"(  "std_ttft_ms":)" + end + "    Infinity," + end +
                      R"(  "input_lens": [7], "output_lens": [2], "ttfts": [0.5], "itls": [[0.25]],)" + end +
                      R"(  "start_times": [3.0]})" + end)
              .requests.size() == 1);
  std::string vllm = vllm_bench;
  CHECK(read_result(vllm.replace(1, 0, R"("request_rate": Infinity, )")).requests.size() == 2);
  std::string guided = guidellm;
  CHECK(read_result(guided.insert(1, R"("x": NaN, )")).requests.size() == 1);
  CHECK(refusal_of(guided.replace(guided.find("0.75"), 4, "NaN"))
            .find("GuideLLM's request_latency is missing or no number") != std::string::npos);
}

TEST_CASE("AIPerf: null and NaN are harmless in what is not read, and named in what is") {
  std::string text = aiperf;
  text.insert(text.rfind("{\"metadata\"") + 1, R"("x": NaN, "y": [-Infinity, null], "z": "NaN", )");
  CHECK(read_result(text).requests.size() == 1);
  const std::string tokens = R"("output_sequence_length": {"value": 2)";
  for (const char* const none : {"null", "NaN"}) {
    std::string wrong = aiperf;
    wrong.replace(wrong.find(tokens), tokens.size(), R"("output_sequence_length": {"value": )" + std::string{none});
    CHECK(refusal_of(wrong) ==
          ":1: AIPerf's output_sequence_length is missing or no number; expected tokens, 1 or more");
  }
  CHECK(refusal_of("{\"metadata\": null, \"metrics\": null, \"error\": null}\n") ==
        ":1: AIPerf's request_start_ns is missing or no number; expected seconds, 0 or more");
}

TEST_CASE("a request without generated tokens counts as failed, whichever program wrote it") {
  std::string zero = aiperf.substr(0, aiperf.find('\n') + 1);
  zero.replace(zero.find(R"("output_sequence_length": {"value": 2)"), 37, R"("output_sequence_length": {"value": 0)");
  const LoadResult result = read_result(zero + aiperf);
  CHECK(result.requests.size() == 1);
  CHECK(result.failed == 2);
  std::string unit = aiperf;
  CHECK(refusal_of(unit.replace(unit.find("\"ms\""), 4, "\"min\"")) ==
        ":1: AIPerf's time_to_first_token is in min; expected ns, us, ms, sec or s");
}

TEST_CASE("programs that read a trace find the format themselves") {
  for (const std::string& text : {vllm_bench, guidellm, aiperf, blis}) {
    const ResultFile file(text);
    const Expected<TraceFile> found = find_trace(file.path);
    REQUIRE(found);
    CHECK(found->format == TraceFormat::load);
    Expected<Trace> trace = open_trace(*found, {});
    REQUIRE(trace);
    const Expected<std::vector<RequestSpec>> requests = read_all(*trace);
    REQUIRE(requests);
    CHECK(requests->front().arrival == Seconds{0});
  }
}

TEST_CASE("a result that cannot be used is reported in one line") {
  CHECK(refusal_of("{}").find(
            ": it is no load generator's result that is known, and its first object has no fields; expected") == 0);
  CHECK(refusal_of(R"({"input_lens": [1], "output_lens": [1], "ttfts": [1], "itls": [[]]})") ==
        ": it is a result of vllm bench serve, and start_times is missing; expected a result of --save-detailed "
        "(start_times since vLLM 0.11)");
  CHECK(refusal_of(R"({"input_lens": [1, 2], "output_lens": [1], "ttfts": [], "itls": [], "start_times": []})") ==
        ": output_lens has 1 entries; expected 2, as input_lens");
  CHECK(refusal_of(R"({"input_lens": [1], "output_lens": [1], "ttfts": [-1], "itls": [[]], "start_times": [5]})") ==
        ": request 0: vllm bench serve's ttfts and itls are not in order; expected sent <= first <= last token");
  CHECK(refusal_of(R"({"input_lens": [0.5], "output_lens": [1], "ttfts": [1], "itls": [[]], "start_times": [5]})") ==
        ": request 0: vllm bench serve's input_lens is no whole number of tokens; expected tokens, 1 or more");
  CHECK(refusal_of(R"({"input_lens": [1], "output_lens": [1], "ttfts": ["a"], "itls": [[]], "start_times": [5]})") ==
        ": request 0: vllm bench serve's ttfts is missing or no number; expected seconds, 0 or more");
  CHECK(refusal_of(R"({"input_lens": [], "output_lens": [], "ttfts": [], "itls": [], "start_times": []})") ==
        ": it is a result of vllm bench serve without requests; expected requests that got their tokens");
  CHECK(refusal_of(R"({"benchmarks": []})") == ": GuideLLM's report has 0 benchmarks; expected at least one");
  CHECK(refusal_of(R"({"benchmarks": [3]})").find(": requests.successful is missing") == 0);
  CHECK(refusal_of(R"({"benchmarks": [{"requests": {"successful": [{"request_start_time": 5, "prompt_tokens": 7,
    "output_tokens": null, "time_to_first_token_ms": 500.0, "request_latency": 0.75}]}}]})") ==
        ": request 0: GuideLLM's output_tokens is missing or no number; expected tokens, 1 or more");
  const auto what = [](const std::string& text) {
    const std::string line = refusal_of(text);
    return line.substr(0, line.find(';'));
  };
  const std::string unknown = ": it is no load generator's result that is known, and it is ";
  CHECK(what("") == unknown + "empty");
  CHECK(what("\n \n") == unknown + "empty");
  CHECK(what(std::string("\x1F\x8B\x08\0rest", 8)) == unknown + "compressed (gzip)");
  CHECK(what("PAR1\x15") == unknown + "a Parquet table");
  CHECK(what(std::string("\xFF\xFE"
                         "a\0,\0",
                         6)) == unknown + "in UTF-16, not in UTF-8");
  CHECK(what(R"([ {"ttft_s": 1, "in": {"x": 2}}, {}])") ==
        unknown + "one JSON list of objects with the fields ttft_s, in");
  CHECK(what("[1, 2]") == unknown + "one JSON list");
  CHECK(refusal_of("a,b,c\n1,2,3\n")
            .find(": it is no load generator's result that is known, and its columns are a, b, c; expected") == 0);
  CHECK(refusal_of("arrival_time_us,server_input_tokens,send_time_us\n1,2,3\n") ==
        ":1: the header has no column 'status'; expected a trace.csv of blis observe");
  CHECK(refusal_of(blis + "3,2\n") == ":5: the line has 2 columns; expected 8, as in the header");
  CHECK(refusal_of(aiperf + R"({"metadata": {}, "metrics": {}, "error": null})"
                            "\n") ==
        ":3: AIPerf's request_start_ns is missing or no number; expected seconds, 0 or more");
}
