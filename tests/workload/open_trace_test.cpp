// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "support/program.hpp"
#include "support/shared_data.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

using namespace sluice;
using sluice_test::needs_shared;
using sluice_test::shared_path;

namespace {

std::vector<RequestSpec> read(const std::string& path, TraceFormat format, const ReadOptions& options = {},
                              std::optional<Seconds> step = std::nullopt) {
  Expected<Trace> trace = open_trace(path, format, options, step);
  if (!trace) FAIL(trace.error().line());
  const auto requests = read_all(*trace);
  if (!requests) FAIL(requests.error().line());
  for (std::size_t i = 0; i < requests->size(); ++i) {
    REQUIRE((*requests)[i].arrival >= (i == 0 ? Seconds{0} : (*requests)[i - 1].arrival));
  }
  REQUIRE(!requests->empty());
  CHECK(requests->front().arrival == Seconds{0});
  return *requests;
}

std::vector<std::string> lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) all.push_back(line);
  }
  return all;
}

} // namespace

TEST_CASE("the Azure traces agree with a plain split of their lines" *
          needs_shared({"data/traces/azure_llm_2023_conv.csv", "data/traces/azure_llm_2023_code.csv"})) {
  for (const char* file : {"data/traces/azure_llm_2023_conv.csv", "data/traces/azure_llm_2023_code.csv"}) {
    const auto rows = lines(shared_path(file));
    const auto requests = read(shared_path(file), TraceFormat::azure);
    REQUIRE(requests.size() == rows.size() - 1);
    const auto seconds_of_day = [](const std::string& row) {
      return std::stod(row.substr(11, 2)) * 3600.0 + std::stod(row.substr(14, 2)) * 60.0 + std::stod(row.substr(17));
    };
    const double start = seconds_of_day(rows[1]);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::string& row = rows[i + 1];
      const std::size_t comma = row.find(',');
      REQUIRE(requests[i].prompt.count() == std::stoll(row.substr(comma + 1)));
      REQUIRE(requests[i].output.count() == std::stoll(row.substr(row.find(',', comma + 1) + 1)));
      REQUIRE(std::fabs(requests[i].arrival.count() - (seconds_of_day(row) - start)) < 1e-7);
    }
  }
}

TEST_CASE("the Mooncake trace agrees with a whole parse of its lines" *
          needs_shared({"data/traces/mooncake_synthetic.jsonl"})) {
  const std::string path = shared_path("data/traces/mooncake_synthetic.jsonl");
  const auto rows = lines(path);
  const auto requests = read(path, TraceFormat::mooncake);
  REQUIRE(requests.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto object = nlohmann::json::parse(rows[i]);
    REQUIRE(requests[i].prompt.count() == object["input_length"].get<std::int64_t>());
    REQUIRE(requests[i].output.count() == object["output_length"].get<std::int64_t>());
    REQUIRE(requests[i].arrival.count() == doctest::Approx(object["timestamp"].get<double>() / 1000.0));
  }
}

TEST_CASE("the OrbitFlow traces agree with a whole parse" *
          needs_shared({"data/traces/orbitflow/32k_lambda1.0x_cv1.json",
                        "data/traces/orbitflow/32k_lambda2.0x_cv1.json"})) {
  for (const char* file :
       {"data/traces/orbitflow/32k_lambda1.0x_cv1.json", "data/traces/orbitflow/32k_lambda2.0x_cv1.json"}) {
    const std::string path = shared_path(file);
    std::ifstream stream(path);
    const auto whole = nlohmann::ordered_json::parse(stream);
    const auto header = read_orbitflow_header(path);
    REQUIRE(header);
    CHECK(header->batch_size == whole["batch_size"].get<std::int64_t>());
    CHECK(header->max_model_len.count() == whole["max_model_len"].get<std::int64_t>());
    CHECK(header->budget.count() == whole["num_gpu_blocks_override"].get<std::int64_t>());
    CHECK(header->peak_batch_blocks.count() == whole["peak_batch_blocks"].get<std::int64_t>());
    CHECK(header->requests == static_cast<std::int64_t>(whole["requests"].size()));
    const auto requests = read(path, TraceFormat::orbitflow, {}, Seconds{0.0589});
    REQUIRE(requests.size() == whole["requests"].size());
    std::size_t i = 0;
    for (const auto& request : whole["requests"]) {
      CHECK(requests[i].prompt.count() == request["input_length"].get<std::int64_t>());
      CHECK(requests[i].output.count() == request["output_length"].get<std::int64_t>());
      CHECK(requests[i].arrival.count() == doctest::Approx(request["arrival_time"].get<double>() * 0.0589));
      ++i;
    }
  }
}

TEST_CASE("arrivals of an OrbitFlow trace may stay in steps; no other format's may") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "steps.json").string();
  std::ofstream{path} << R"({"batch_size": 1, "max_model_len": 9, "num_gpu_blocks_override": 1, "peak_batch_blocks": 1,
    "requests": {"a": {"input_length": 1, "output_length": 1, "arrival_time": 0},
                 "b": {"input_length": 1, "output_length": 1, "arrival_time": 30}}})";
  const auto arrives = [&](const ReadOptions& options, std::optional<Seconds> step) {
    return read(path, TraceFormat::orbitflow, options, step).back().arrival.count();
  };
  CHECK(arrives({}, Seconds{0.5}) == 15);
  CHECK(arrives({.arrivals_in_steps = true}, Seconds{0.5}) == 30);
  CHECK(arrives({.rate_scale = 2, .arrivals_in_steps = true}, std::nullopt) == 15);
  Expected<Trace> in_steps = open_trace(path, TraceFormat::orbitflow, {.arrivals_in_steps = true});
  REQUIRE(!!in_steps);
  CHECK(arrivals_in_steps(*in_steps));
  CHECK(!in_steps->workload().step_time.has_value());

  const std::string other = (folder.path / "other.csv").string();
  std::ofstream{other} << "arrival,prompt,output\n0,1,1\n";
  for (const Expected<Trace>& wrong : {open_trace(other, TraceFormat::csv, {.arrivals_in_steps = true}),
                                       open_generator("demo", 1, {.arrivals_in_steps = true})}) {
    REQUIRE(!wrong);
    CHECK(wrong.error().what == "its arrivals are seconds, and should count engine steps");
  }
}

TEST_CASE("the recorded vLLM run agrees with a whole parse" *
          needs_shared({"data/runs/RTX4090-Llama-3.1-8B-vllm/requests.jsonl"})) {
  const std::string path = shared_path("data/runs/RTX4090-Llama-3.1-8B-vllm/requests.jsonl");
  const auto rows = lines(path);
  const auto records = read_vllm_run(path);
  REQUIRE(records);
  REQUIRE(records->size() == rows.size());
  std::multimap<double, nlohmann::json> sorted;
  for (const std::string& row : rows) {
    auto object = nlohmann::json::parse(row);
    const double queued = object["queued_ts"].get<double>();
    sorted.emplace(queued, std::move(object));
  }
  const auto requests = read(path, TraceFormat::vllm);
  std::size_t i = 0;
  for (const auto& [queued, object] : sorted) {
    const VllmRunRecord& record = (*records)[i];
    CHECK(record.id == object["request_id"].get<std::string>());
    CHECK(record.first_token.count() == object["first_token_ts"].get<double>());
    CHECK(record.last_token.count() == object["last_token_ts"].get<double>());
    CHECK(requests[i].arrival.count() == queued - sorted.begin()->first);
    CHECK(requests[i].prompt.count() == object["input_toks"].get<std::int64_t>());
    CHECK(requests[i].output.count() == object["output_toks"].get<std::int64_t>());
    ++i;
  }
}

TEST_CASE("options: limit, rate scale and SLO apply to files and generators alike") {
  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / "sluice_open_trace_test.jsonl";
  {
    std::ofstream out(file);
    for (int i = 0; i < 100; ++i) {
      out << R"({"timestamp": )" << i * i << R"(, "input_length": )" << i + 1 << R"(, "output_length": 2})" << '\n';
    }
  }
  const Slo slo{Seconds{5.0}, Seconds{0.1}};
  const auto open = [&](bool generated, const ReadOptions& options) {
    Expected<Trace> trace =
        generated ? open_generator("demo", 3, options) : open_trace(file.string(), TraceFormat::mooncake, options);
    REQUIRE(trace);
    const auto requests = read_all(*trace);
    REQUIRE(requests);
    CHECK(trace->workload().options == options);
    return *requests;
  };
  for (const bool generated : {false, true}) {
    const auto plain = open(generated, {});
    const auto shaped = open(generated, {.limit = 40, .rate_scale = 2.5, .slo = slo});
    REQUIRE(plain.size() > 40);
    REQUIRE(shaped.size() == 40);
    for (std::size_t i = 0; i < shaped.size(); ++i) {
      CHECK(shaped[i].arrival.count() == doctest::Approx(plain[i].arrival.count() / 2.5));
      CHECK(shaped[i].prompt == plain[i].prompt);
      CHECK(shaped[i].output == plain[i].output);
      CHECK(shaped[i].slo == slo);
      CHECK(plain[i].slo == Slo{});
    }
    CHECK(totals(shaped).rate == doctest::Approx(2.5 * totals(std::span{plain}.first(40)).rate));
  }
  fs::remove(file);
}

TEST_CASE("a workload can be made again from its description") {
  Expected<Trace> trace = open_generator("sharegpt:requests=20", 77, {.limit = 10, .rate_scale = 2.0, .slo = {}});
  REQUIRE(trace);
  const Workload workload = trace->workload();
  CHECK(workload.name == "sharegpt");
  CHECK(workload.format == "generated");
  Expected<Trace> again = open_generator(workload.source, workload.seed, workload.options);
  REQUIRE(again);
  CHECK(*read_all(*trace) == *read_all(*again));
}

TEST_CASE("an option out of range is reported with its flag") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    ReadOptions options;
    const char* flag;
  } rows[] = {
      {{.limit = 0, .rate_scale = 1.0, .slo = {}}, "--limit: "},
      {{.limit = -3, .rate_scale = 1.0, .slo = {}}, "--limit: "},
      {{.limit = {}, .rate_scale = 0.0, .slo = {}}, "--rate-scale: "},
      {{.limit = {}, .rate_scale = -1.0, .slo = {}}, "--rate-scale: "},
      {{.limit = {}, .rate_scale = nan, .slo = {}}, "--rate-scale: "},
      {{.limit = {}, .rate_scale = 1.0, .slo = {Seconds{-1.0}, Seconds{1.0}}}, "--slo-ttft: "},
      {{.limit = {}, .rate_scale = 1.0, .slo = {Seconds{1.0}, Seconds{nan}}}, "--slo-tbt: "},
  };
  for (const auto& row : rows) {
    const Expected<Trace> trace = open_generator("demo", 1, row.options);
    REQUIRE(!trace);
    CHECK(trace.error().line().rfind(row.flag, 0) == 0);
    CHECK(!open_trace("nowhere", TraceFormat::azure, row.options));
  }
}

TEST_CASE("an unreadable file is reported in one line, in every format") {
  const std::string folder = std::filesystem::temp_directory_path().string();
  for (const char* text : {"azure", "mooncake", "orbitflow", "vllm", "tokens", "csv"}) {
    const Expected<TraceFormat> format = find_format(text);
    REQUIRE(format);
    CHECK(name(*format) == text);
    Expected<Trace> trace = open_trace("no/such/file", *format, {}, Seconds{1.0});
    REQUIRE(!trace);
    CHECK(trace.error().line().rfind("no/such/file: the file cannot be opened", 0) == 0);
    trace = open_trace(folder, *format, {}, Seconds{1.0});
    REQUIRE(!trace);
    CHECK(trace.error().line().find("this is a folder") != std::string::npos);
  }
  const Expected<TraceFormat> unknown = find_format("cvs");
  REQUIRE(!unknown);
  CHECK(unknown.error().line() ==
        "--format: there is no format 'cvs' (did you mean csv?); expected azure, burstgpt, mooncake, bailian, aiperf, "
        "orbitflow, vllm, load, tokens, agents or csv");
  const Expected<Trace> steps = open_trace("trace.json", TraceFormat::orbitflow, {});
  REQUIRE(!steps);
  CHECK(steps.error().line().find("engine steps") != std::string::npos);
}

TEST_CASE("a file's first line reveals its format, even if its requests are wrong") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "trace").string();
  const struct {
    const char* text;
    std::optional<TraceFormat> format;
    const char* error; ///< of that format's reader
  } files[] = {
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n", TraceFormat::azure, "the trace holds no request"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,5,0\n", TraceFormat::azure,
       "the trace holds no request, 1 failed request of 0 tokens left out; expected at least one request"},
      {"\xEF\xBB\xBF\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n\"2023-11-16 18:15:46\",\"5\",\"-1\"\n",
       TraceFormat::azure, ":2: GeneratedTokens is '-1'"},
      {"TIMESTAMP,ContextTokens,x\n", std::nullopt, ""}, // two of Azure's three columns: another log
      {"arrival,prompt,output,TIMESTAMP\n0,5,x,1\n", TraceFormat::csv, ":2: output is 'x'"},
      {"Arrival;Prompt;Output\n0;5;-1\n", TraceFormat::csv, ":2: output is '-1'"},
      {"arrival,prompt,output\r0,5,-1\r", TraceFormat::csv, ":2: output is '-1'"},
      {"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": -1}\n", TraceFormat::mooncake,
       "output_length is -1"},
      {"{\"queued_ts\": 1, \"input_toks\": -1}\n", TraceFormat::vllm, "input_toks is -1"},
      {"{\"requests\": {\"a\": 1}}\n", TraceFormat::orbitflow, "batch_size is missing"},
      {"{\n\"requests\": {}}\n", TraceFormat::orbitflow, "the trace holds no request"},
      {"{\"requests\": \n", TraceFormat::orbitflow, "expected"},
      {"{}\n", std::nullopt, ""},
      {"id,output,prompt,arrival\n1,5,-1,7\n", TraceFormat::csv, ":2: prompt is '-1'"},
      {"a,b,c\n", std::nullopt, ""},
      {"", std::nullopt, ""},
  };
  for (const auto& file : files) {
    std::ofstream(path) << file.text;
    INFO(file.text);
    const Expected<const TraceKind*> told = recognise(path);
    REQUIRE(told);
    CHECK((*told != nullptr ? std::optional{(*told)->format} : std::nullopt) == file.format);
    if (!file.format) continue;
    Expected<Trace> trace = open_trace(path, *file.format, {}, Seconds{1});
    const Status status = trace ? Status{read_all(*trace).error()} : Status{trace.error()};
    CHECK(status.error().line().find(file.error) != std::string::npos);
  }
  CHECK_FALSE(recognise(path + "nowhere"));
  CHECK_FALSE(recognise(folder.path.string()));
}

TEST_CASE("failed requests, of 0 tokens, are left out and counted in every format") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "trace").string();
  const std::string vllm = R"("scheduled_ts": 9, "first_token_ts": 9, "last_token_ts": 9})"
                           "\n";
  // The first and the third request failed: one has no prompt, the other no answer.
  const std::pair<const char*, std::string> files[] = {
      {"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,0,4\n2023-11-16 18:15:47,5,3\n"
                "2023-11-16 18:15:48,5,0\n2023-11-16 18:15:49,6,3\n"},
      {"burstgpt", "Timestamp,Model,Request tokens,Response tokens\n1,x,0,4\n2,x,5,3\n3,x,5,0\n4,x,6,3\n"},
      {"csv", "arrival;prompt;output\n1;0;4\n2;5;3\n3;5;0,0\n4;6;3\n"},
      {"mooncake", R"({"timestamp": 1000, "input_length": 0, "output_length": 4, "hash_ids": []}
{"timestamp": 2000, "input_length": 5, "output_length": 3, "hash_ids": [1]}
{"timestamp": 3000, "input_length": 5, "output_length": 0, "hash_ids": [1]}
{"timestamp": 4000, "input_length": 6, "output_length": 3, "hash_ids": [1]})"},
      {"bailian", R"({"chat_id": 1, "timestamp": 1, "input_length": 0, "output_length": 4, "hash_ids": [1]}
{"chat_id": 2, "parent_chat_id": 1, "timestamp": 2, "input_length": 5, "output_length": 3, "hash_ids": [1]}
{"chat_id": 3, "parent_chat_id": 2, "timestamp": 3, "input_length": 5, "output_length": 0, "hash_ids": [1]}
{"chat_id": 4, "parent_chat_id": 3, "timestamp": 4, "input_length": 6, "output_length": 3, "hash_ids": [1]})"},
      {"aiperf", R"({"session_id": "a", "timestamp": 1000, "input_length": 0, "output_length": 4}
{"session_id": "a", "delay": 1000, "input_length": 5, "output_length": 3}
{"session_id": "a", "delay": 1500, "input_length": 5, "output_length": 0}
{"session_id": "a", "delay": 500, "input_length": 6, "output_length": 3})"},
      {"tokens", R"({"session_id": 1, "arrival_time_ns": 1e9, "sub_requests": [
{"input_toks": 0, "output_toks": 4, "tool_duration_ns": 1e9}, {"input_toks": 5, "output_toks": 3, "tool_duration_ns": 1e9},
{"input_toks": 5, "output_toks": 0, "tool_duration_ns": 1e9}, {"input_toks": 6, "output_toks": 3}]})"},
      {"vllm", R"({"queued_ts": 1, "input_toks": 0, "output_toks": 4}
{"queued_ts": 2, "input_toks": 5, "output_toks": 3, )" +
                   vllm + R"({"queued_ts": 3, "input_toks": 5, "output_toks": 0, "first_token_ts": null}
{"queued_ts": 4, "input_toks": 6, "output_toks": 3, )" +
                   vllm},
      {"orbitflow", R"({"batch_size": 4, "max_model_len": 32, "num_gpu_blocks_override": 5, "peak_batch_blocks": 2,
"requests": {"r0": {"input_length": 0, "output_length": 4, "arrival_time": 1},
"r1": {"input_length": 5, "output_length": 3, "arrival_time": 2},
"r2": {"input_length": 5, "output_length": 0, "arrival_time": 3},
"r3": {"input_length": 6, "output_length": 3, "arrival_time": 4}}})"}};
  for (const auto& file : files) {
    const std::string_view format = file.first;
    INFO(format);
    std::string text = file.second;
    if (format == "tokens") std::erase(text, '\n');
    std::ofstream(path) << text;
    Expected<Trace> trace = open_trace(path, *find_format(format), {}, Seconds{1});
    REQUIRE(trace);
    const Expected<std::vector<RequestSpec>> requests = read_all(*trace);
    REQUIRE_MESSAGE(requests, requests.error().line());
    REQUIRE(requests->size() == 2);
    CHECK((*requests)[0].arrival == Seconds{0});
    CHECK((*requests)[0].prompt == Tokens{5});
    CHECK((*requests)[1].prompt == Tokens{6});
    const RequestSpec& last = (*requests)[1]; // of a session: after the delays behind and before the failed turn
    CHECK((last.follows ? last.delay : last.arrival) == Seconds{2});
    CHECK(taken_for_text(trace->workload(), *requests) == "2 failed requests of 0 tokens left out");
  }
  std::ofstream(path) << R"({"queued_ts": 1, "input_toks": 0, "output_toks": 4})";
  CHECK(read_vllm_run(path).error().line() ==
        path + ": the trace holds no request, 1 failed request of 0 tokens left out; expected at least one request");
  std::ofstream(path) << files[7].second;
  CHECK(read_vllm_run(path).error().line() ==
        path + ": input_toks or output_toks is 0 in 2 lines; expected 1 token or more");
}

TEST_CASE("a file that is no text is refused by its name in every format") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "trace.gz").string();
  std::ofstream(path, std::ios::binary) << "\x1F\x8B\x08 whatever";
  for (std::size_t i = 0; i <= static_cast<std::size_t>(TraceFormat::csv); ++i) {
    const Expected<Trace> trace = open_trace(path, static_cast<TraceFormat>(i), {}, Seconds{1});
    REQUIRE(!trace);
    CHECK(trace.error().line() == path + ": it is compressed (gzip); expected the file itself, unpacked");
  }
}

TEST_CASE("NaN and Infinity, which Python writes, are read as missing fields") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "trace").string();
  const auto read = [&](const char* format, const std::string& line) -> std::string {
    std::ofstream(path) << line;
    Expected<Trace> trace = open_trace(path, *find_format(format), {}, Seconds{1});
    if (!trace) return trace.error().what;
    const Expected<std::vector<RequestSpec>> all = read_all(*trace);
    return all ? std::to_string(all->size()) : all.error().what;
  };
  const std::string mooncake = R"({"timestamp": 0, "input_length": 5, "output_length": 3, )";
  CHECK(read("mooncake", mooncake + R"("x": NaN, "y": [-Infinity, "a \" NaN"], "slo_ttft_s": Infinity})") == "1");
  CHECK(read("mooncake", R"({"timestamp": NaN, "input_length": 5, "output_length": 3})") == "timestamp is missing");
  CHECK(read("aiperf", mooncake + R"("session_id": NaN})") == "1"); // pandas' empty cell
  CHECK(read("mooncake", R"({"timestamp": 0.0, "input_length": 5.0, "output_length": 3.0})") == "1"); // beside one
  CHECK(read("mooncake", R"({"timestamp": 0, "input_length": 5.5, "output_length": 3})") == "input_length is 5.5");
  CHECK(read("bailian", mooncake + R"("chat_id": 7, "parent_chat_id": NaN})") == "1");
  CHECK(read("vllm", R"({"queued_ts": NaN, "input_toks": 5, "output_toks": 3})") == "queued_ts is missing");
  for (const std::string wrong : {"nan", "NaNa", "1e999"}) {
    const std::string line = mooncake + R"("x": NaN, "y": [-Infinity, Infinity], "z": )" + wrong + "}";
    CHECK(read("mooncake", line) ==
          "this is not JSON: '" + wrong + "' in column " + std::to_string(line.find(wrong + "}") + 1));
  }
}

TEST_CASE("a trace file is opened in the format of the command line, or else in its own") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "trace").string();
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  const auto error_of = [&](const char* format, const char* columns) {
    const Expected<TraceFile> file = find_trace(path, {.format = format, .columns = columns});
    return file ? std::string{name(file->format)} : file.error().line();
  };
  const auto begins = [](const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; };

  write("ts,in,out\n0.5,7,3\n2,1,1\n");
  CHECK(error_of("csv", "") == "csv"); // used, and refused by its reader
  CHECK(begins(error_of("", ""), "--trace: '" + path + "' is a trace in no known format, and its columns are ts, " +
                                     "in, out; expected --trace-columns arrival=NAME,prompt=NAME,output=NAME"));
  CHECK(begins(error_of("azure", "arrival=ts"), "--trace-columns: the format is 'azure'; expected --format csv"));
  CHECK(
      begins(error_of("", "arival=ts"), "--trace-columns: there is no 'arival' of a request (did you mean arrival?)"));
  const Expected<TraceFile> mapped = find_trace(path, {.columns = "arrival=ts,prompt=in,output=out"});
  REQUIRE(mapped);
  Expected<Trace> trace = open_trace(*mapped, {.limit = 2});
  REQUIRE(trace);
  CHECK(trace->workload().format == "csv");
  const Expected<std::vector<RequestSpec>> requests = read_all(*trace);
  REQUIRE(requests);
  REQUIRE(requests->size() == 2);
  CHECK((*requests)[1].arrival == Seconds{1.5});
  CHECK((*requests)[0].prompt == Tokens{7});

  write(
      "{\n\"batch_size\": 4, \"max_model_len\": 32384, \"num_gpu_blocks_override\": 561, \"peak_batch_blocks\": 2435,\n"
      "\"requests\": {\"r0\": {\"input_length\": 102, \"output_length\": 97, \"arrival_time\": 0}}}\n");
  CHECK(error_of("", "") == "orbitflow");                             // its first line shows no format
  write("TIMESTAMP,tokens in,tokens out\n2023-11-16 18:15:46,1,2\n"); // not Azure's, in spite of its first column
  CHECK(error_of("", "").find(
            "its columns are TIMESTAMP, tokens in, tokens out; expected --trace-columns arrival=NAME") !=
        std::string::npos);
  CHECK(error_of("", "arrival=TIMESTAMP,prompt=tokens in,output=tokens out") == "csv");
  write("arrival;prompt;output\n2023-11-16T18:15:46Z;1;2\n");
  CHECK(error_of("", "") == "csv");
  write("nothing of the kind\n");
  CHECK(begins(error_of("", ""),
               "--trace: '" + path +
                   "' is a trace in no known format, and its first line is 'nothing of the kind'; expected"));
  CHECK(begins(find_trace(path + "nowhere").error().line(), path + "nowhere: the file cannot be opened"));
  CHECK(find_trace(folder.path.string()).error().line().find("this is a folder") != std::string::npos);
}

TEST_CASE("totals") {
  const std::vector<RequestSpec> requests = {{Seconds{0}, Tokens{5}, Tokens{1}, {}},
                                             {Seconds{1}, Tokens{7}, Tokens{2}, {}},
                                             {Seconds{4}, Tokens{1}, Tokens{3}, {}}};
  const WorkloadTotals sum = totals(requests);
  CHECK(sum.requests == 3);
  CHECK(sum.prompt == Tokens{13});
  CHECK(sum.output == Tokens{6});
  CHECK(sum.longest == Tokens{9});
  CHECK(sum.span == Seconds{4});
  CHECK(sum.rate == doctest::Approx(0.5));
  CHECK(sum.gap_cv == doctest::Approx(0.5)); // gaps 1 and 3: mean 2, deviation 1
  CHECK(totals({}).requests == 0);
  CHECK(totals(std::span{requests}.first(1)).rate == 0.0);
}

TEST_CASE("a folder of sessions: requests follow each other, hashes are a session's own, and answers are known") {
  const sluice_test::TemporaryFolder folder;
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(folder.path / file) << text; };
  const std::string one = R"({"block_size": 64, "hash_id_scope": "local", "requests": [
    {"t": 5, "in": 100, "out": 40, "api_time": 2.5, "hash_ids": [1, 2]},
    {"t": 10, "in": 200, "out": 0, "api_time": 1, "hash_ids": [1, 3, 4, 5]},
    {"t": 500, "in": 70, "out": 5}]})";
  write("b.json", one);
  write("a.json", one);
  write("ignored.txt", "x");
  const auto file = find_trace(folder.path.string());
  REQUIRE(file);
  CHECK(file->format == TraceFormat::agents);
  auto trace = open_trace(*file, {});
  REQUIRE(trace);
  std::vector<RequestSpec> requests;
  std::vector<std::vector<ContentPiece>> contents;
  REQUIRE(read_all_with_content(*trace, requests, contents));
  REQUIRE(requests.size() == 6);
  CHECK(requests[0].arrival == Seconds{0});
  CHECK_FALSE(requests[0].follows);
  CHECK(requests[1].delay == Seconds{2.5}); // 10 - (5 + 2.5)
  CHECK(requests[2].delay == Seconds{60});  // at most
  CHECK(requests[1].output == Tokens{1});
  CHECK(requests[3].arrival == Seconds{10}); // the second session
  CHECK(requests[3].session == 2);
  // The full block of the prompt, then the next prompt from there on to the end of the answer.
  REQUIRE(contents[0].size() == 3);
  CHECK(contents[0][0] == contents[1][0]);
  CHECK(contents[0][1] == contents[1][1]);
  CHECK(contents[0][2] == ContentPiece{contents[1][2].id, Tokens{12}});
  CHECK(contents[2].empty());
  CHECK(contents[3][0].id != contents[0][0].id);
  // The same sessions in one file, one a line.
  std::string lines;
  for (const char character : one) lines += character == '\n' ? ' ' : character;
  std::ofstream(folder.path / "lines.jsonl") << lines << "\n" << lines << "\n";
  auto in_lines = open_trace(*find_trace((folder.path / "lines.jsonl").string()), {});
  REQUIRE(in_lines);
  CHECK(*read_all(*in_lines) == requests);
  // A subagent's requests count from its start, or from the session's, and are in the session's order of time. The one
  // before its subagent's start decides for all, also for those that would be behind it either way.
  for (const auto& t : {std::pair{"1", "40"}, {"21", "60"}}) {
    CAPTURE(t.first);
    std::ofstream(folder.path / "nested.jsonl")
        << R"({"block_size": 64, "requests": [
    {"t": 5, "in": 100, "out": 40}, {"t": 20, "type": "subagent", "requests": [{"t": )"
        << t.first << R"(, "in": 7, "out": 1}, {"t": )" << t.second << R"(, "in": 8, "out": 1}]},
    {"t": 50, "in": 200, "out": 4}, {"t": 50, "type": "subagent", "requests": []}]})";
    auto nested = open_trace(*find_trace((folder.path / "nested.jsonl").string()), {});
    REQUIRE(nested);
    const auto of = read_all(*nested);
    REQUIRE(of);
    REQUIRE(of->size() == 4);
    CHECK((*of)[1].prompt == Tokens{7});
    CHECK((*of)[1].arrival == Seconds{16});
    CHECK((*of)[2].prompt == Tokens{200});
    CHECK((*of)[3].prompt == Tokens{8});
    CHECK((*of)[3].arrival == Seconds{55});
  }
  write("a.json", R"({"block_size": 64, "requests": [{"t": 5, "in": 0, "out": 1}]})");
  const auto wrong = open_trace(*file, {});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().line().find("a.json: request 1: in") != std::string::npos);
}
