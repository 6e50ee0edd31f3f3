// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include "workload/trace_text.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace sluice;
using sluice_test::azure_of;
using sluice_test::orbitflow_of;
using sluice_test::reader_of;

namespace {

/// The line of the error that stops `reader`.
template <class Reader>
std::string error_of(Reader reader) {
  const Expected<std::vector<RequestSpec>> requests = read_all(reader);
  if (requests) return "no error";
  const std::string line = requests.error().line();
  CHECK(line.find('\n') == std::string::npos);
  CHECK(!requests.error().what.empty());
  CHECK(!requests.error().expected.empty());
  return line;
}
std::string error_of(const Expected<OrbitFlowReader>& opened, const std::string& text) {
  if (opened) return error_of(*orbitflow_of(text));
  CHECK(opened.error().line().find('\n') == std::string::npos);
  CHECK(!opened.error().expected.empty());
  return opened.error().line();
}

struct BadText {
  std::string text;
  std::string line; ///< the error's beginning: the place, and the mistake
};

const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const std::string good_csv = "2023-11-16 18:15:46.6805900,374,44\n";
const std::string good_mooncake = R"({"timestamp": 5, "input_length": 10, "output_length": 3, "hash_ids": [1]})"
                                  "\n";

std::string run_line(double queued, double scheduled, double first, double last, int prompt = 10, int output = 5) {
  return R"({"request_id": "r", "input_toks": )" + std::to_string(prompt) + R"(, "output_toks": )" +
         std::to_string(output) + R"(, "arrival_time": 1e9, "queued_ts": )" + std::to_string(queued) +
         R"(, "scheduled_ts": )" + std::to_string(scheduled) + R"(, "first_token_ts": )" + std::to_string(first) +
         R"(, "last_token_ts": )" + std::to_string(last) + "}\n";
}

std::string orbitflow(const std::string& requests) {
  return R"({"batch_size": 4, "max_model_len": 32384, "num_gpu_blocks_override": 561, "peak_batch_blocks": 2435,
 "requests": {)" +
         requests + "}}";
}
const std::string good_orbitflow = R"("r0": {"input_length": 102, "output_length": 97, "arrival_time": 0})";

} // namespace

TEST_CASE("Azure CSV: times, columns and line ends in every form") {
  const std::string rows = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                           "2023-12-31 23:59:59.9999999Z,374,44\r\n"
                           "\r\n"
                           "2024-01-01 00:00:00+00:00,1,2\r\n"
                           "2024-01-01T00:00:01.5Z,3,4\n"
                           "2024-01-01 01:00:01.5+01:00,5,6"; // the same instant, an hour east, and no line end
  auto reader = azure_of(rows);
  const auto requests = read_all(reader);
  if (!requests) FAIL(requests.error().line());
  REQUIRE(requests->size() == 4);
  CHECK((*requests)[0] == RequestSpec{Seconds{0}, Tokens{374}, Tokens{44}, {}});
  CHECK((*requests)[1].arrival.count() == doctest::Approx(1e-7).epsilon(1e-9)); // a tick of the trace is kept
  CHECK((*requests)[2].arrival.count() == doctest::Approx(1.5000001));
  CHECK((*requests)[3].arrival == (*requests)[2].arrival);

  auto turned = azure_of("\xef\xbb\xbfGeneratedTokens,x,ContextTokens,TIMESTAMP\n"
                         "44,?,374,2023-11-16 18:15:46\n");
  const auto same = read_all(turned);
  REQUIRE(same);
  CHECK(same->front() == RequestSpec{Seconds{0}, Tokens{374}, Tokens{44}, {}});
}

TEST_CASE("Azure CSV: leap years have 366 days") {
  // A year of 365 days, and one of 366.
  for (const auto& [from, to, days] : {std::tuple{"2023", "2024", 365.0}, std::tuple{"2024", "2025", 366.0}}) {
    auto reader = azure_of(header + from + "-01-01 00:00:00,1,1\n" + to + "-01-01 00:00:00,1,1\n");
    const auto requests = read_all(reader);
    REQUIRE(requests);
    CHECK(requests->back().arrival.count() == days * 86400.0);
  }
}

TEST_CASE("Azure CSV: each malformed line is reported in one line with its place") {
  const std::vector<BadText> rows = {
      {"", "trace: the file is empty"},
      {"\n\n", "trace: the file is empty"},
      {header, "trace: the trace holds no request"},
      {good_csv, "trace:1: there is no column 'TIMESTAMP'; expected --trace-columns with three of"},
      {"TIMESTAMP,ContextTokens\n", "trace:1: there is no column 'GeneratedTokens'"},
      {"TIMESTAMP,TIMESTAMP,ContextTokens,GeneratedTokens\n", "trace:1: the column 'TIMESTAMP' is there 2 times"},
      {header + good_csv + "2023-11-16 18:15:47,374\n", "trace:3: the line has 2 columns"},
      {header + good_csv + "\n\n2023-11-16 18:15:47,374,44,1\n", "trace:5: the line has 4 columns"},
      {header + "2023-11-16 18:15:46,374,-44\n", "trace:2: GeneratedTokens is '-44'"},
      {header + "2023-11-16 18:15:46,-1,44\n", "trace:2: ContextTokens is '-1'"},
      {header + "2023-11-16 18:15:46,nan,44\n", "trace:2: ContextTokens is 'nan'"},
      {header + "2023-11-16 18:15:46,1.5,44\n", "trace:2: ContextTokens is '1.5'"},
      {header + "2023-11-16 18:15:46,5 5,44\n", "trace:2: ContextTokens is '5 5'"},
      {header + "2023-11-16 18:15:46,,44\n", "trace:2: ContextTokens is ''"},
      {header + "2023-11-16 18:15:46,1,99999999999999999999\n", "trace:2: GeneratedTokens is '9999"},
      {header + "2023-11-16 18:15:46,1,268435457\n", "trace:2: GeneratedTokens is '268435457'"},
      {header + "2023-11-16,1,1\n", "trace:2: TIMESTAMP is '2023-11-16'"},
      {header + "nan,1,1\n", "trace:2: TIMESTAMP is 'nan'; expected a time such as 2023-11-16T18:15:46.68Z"},
      {header + "5,1,1\n", "trace:2: TIMESTAMP is '5'"},
      {header + good_csv + "5,1,1\n", "trace:3: TIMESTAMP is '5'"},
      {header + "2023-13-16 18:15:46,1,1\n", "trace:2: TIMESTAMP is"},
      {header + "2023-11-16 24:15:46,1,1\n", "trace:2: TIMESTAMP is"},
      {header + "2023-11-16 18:15:46.,1,1\n", "trace:2: TIMESTAMP is"},
      {header + "2023-11-16 18:15:46.1234567890,1,1\n", "trace:2: TIMESTAMP is"},
      {header + "2023-11-16 18:15:46 and more,1,1\n", "trace:2: TIMESTAMP is"},
      {header + "9999-11-16 18:15:46,1,1\n", "trace:2: TIMESTAMP is"},
      {header +
           std::string("20\0"
                       "3\x1b",
                       5) +
           ",1,1\n",
       "trace:2: TIMESTAMP is '20?3?'"},
      {header + good_csv + "2023-11-16 18:15:40,1,1\n", "trace:3: the request arrives 6.680590 s before"},
      {header + std::string(LineReader::longest_line + 1, '7'), "trace:2: the line is longer than 16 MiB"},
  };
  for (const BadText& row : rows) CHECK(error_of(azure_of(row.text)).substr(0, row.line.size()) == row.line);
}

TEST_CASE("Mooncake: milliseconds become seconds since the first request") {
  auto reader = reader_of<MooncakeReader>(good_mooncake +
                                          R"({"timestamp": 1505, "input_length": 7, "output_length": 1})" + "\n\n");
  const auto requests = read_all(reader);
  REQUIRE(requests);
  REQUIRE(requests->size() == 2);
  CHECK((*requests)[0] == RequestSpec{Seconds{0}, Tokens{10}, Tokens{3}, {}});
  CHECK((*requests)[1] == RequestSpec{Seconds{1.5}, Tokens{7}, Tokens{1}, {}});
}

TEST_CASE("Mooncake: hash_ids name the prompt's blocks of 512 tokens, the last one what is left") {
  auto reader = reader_of<MooncakeReader>(
      R"({"timestamp": 0, "input_length": 1030, "output_length": 3, "hash_ids": [4, 9, 18446744073709551615]})"
      "\n"
      R"({"timestamp": 1, "input_length": 7, "output_length": 3})");
  REQUIRE(reader.next());
  const std::vector<ContentPiece> content(reader.content().begin(), reader.content().end());
  CHECK(content == std::vector<ContentPiece>{{4, Tokens{512}}, {9, Tokens{512}}, {~std::uint64_t{0}, Tokens{6}}});
  REQUIRE(reader.next());
  CHECK(reader.content().empty());
}

TEST_CASE("Mooncake: timestamps in another unit, where the user says so") {
  MooncakeFormat format;
  format.set_unit(0);
  MooncakeReader reader(sluice_test::lines_of(R"({"timestamp": 3, "input_length": 7, "output_length": 3})"
                                              "\n"
                                              R"({"timestamp": 4.5, "input_length": 7, "output_length": 3})",
                                              "trace"),
                        format);
  REQUIRE(reader.next());
  CHECK((*reader.next())->arrival == Seconds{1.5});
}

TEST_CASE("Mooncake: each malformed line is reported in one line with its place") {
  const std::vector<BadText> rows = {
      {"", "trace: the trace holds no request"},
      {good_mooncake + "{\"timestamp\": 6, \"inp", "trace:2: the JSON ends too early"},
      {"{\n \"timestamp\": 3}", "trace:1: the JSON ends too early; expected a JSON object on one line"},
      {"{\"timestamp\": 3},", "trace:1: this is not JSON: ',' in column 17"},
      {good_mooncake + "{\"timestamp\": NaN}", "trace:2: timestamp is missing"},
      {good_mooncake + "[1]", "trace:2: this is a JSON array"},
      {good_mooncake + "{}", "trace:2: timestamp is missing"},
      {R"({"timestamp": -1, "input_length": 7, "output_length": 1})", "trace:1: timestamp is -1"},
      {R"({"timestamp": 1e16, "input_length": 7, "output_length": 1})", "trace:1: timestamp is 1e+16"},
      {R"({"timestamp": 1e999, "input_length": 7, "output_length": 1})", "trace:1: "},
      {R"({"timestamp": "0", "input_length": 7, "output_length": 1})", "trace:1: timestamp is \"0\""},
      {R"({"timestamp": 0, "input_length": -7, "output_length": 1})", "trace:1: input_length is -7"},
      {R"({"timestamp": 0, "input_length": 7.5, "output_length": 1})", "trace:1: input_length is 7.5"},
      {R"({"timestamp": 0, "input_length": 7, "output_length": -1})", "trace:1: output_length is -1"},
      {R"({"timestamp": 0, "input_length": 7, "output_length": null})", "trace:1: output_length is missing"},
      {R"({"timestamp": 0, "input_length": 99999999999999999999, "output_length": 1})",
       "trace:1: input_length is 1e+20"},
      {good_mooncake + R"({"timestamp": 4, "input_length": 7, "output_length": 1})", "trace:2: the request arrives"},
      {good_mooncake + std::string("\xff\xfe\x00", 3), "trace:2: this is not JSON"},
      {good_mooncake + R"({"timestamp": 6, "input_length": 7, "output_length": 1, "hash_ids": 3})",
       "trace:2: hash_ids is no list"},
      {good_mooncake + R"({"timestamp": 6, "input_length": 513, "output_length": 1, "hash_ids": [1, 2, 3]})",
       "trace:2: hash_ids has 3 numbers for 513 prompt tokens"},
      {good_mooncake + R"({"timestamp": 6, "input_length": 7, "output_length": 1, "hash_ids": [1.5]})",
       "trace:2: hash_ids holds something else"},
      {good_mooncake + R"({"timestamp": 6, "input_length": 7, "output_length": 1, "hash_ids": [-1]})",
       "trace:2: hash_ids holds something else"},
  };
  for (const BadText& row : rows)
    CHECK(error_of(reader_of<MooncakeReader>(row.text)).substr(0, row.line.size()) == row.line);
}

TEST_CASE("vLLM run: sorted by queue time, relative to the first") {
  // Submitted in one order, queued in another; two with the same time keep the order of their lines.
  const std::string text = run_line(100.5, 101, 102, 103, 1) + run_line(100.25, 101, 102, 103, 2) +
                           run_line(100.5, 101, 102, 103, 3) + run_line(100.0, 101, 102, 103, 4);
  auto reader = reader_of<VllmRunReader>(text);
  const auto requests = read_all(reader);
  REQUIRE(requests);
  std::vector<std::pair<double, std::int64_t>> seen;
  for (const RequestSpec& request : *requests) seen.emplace_back(request.arrival.count(), request.prompt.count());
  CHECK(seen == std::vector<std::pair<double, std::int64_t>>{{0.0, 4}, {0.25, 2}, {0.5, 1}, {0.5, 3}});

  auto records = reader_of<VllmRunReader>(text);
  const auto first = records.next_record();
  REQUIRE(first);
  REQUIRE(*first);
  CHECK((*first)->queued == Seconds{100.0}); // as in the file
  CHECK((*first)->id == "r");
  CHECK((*first)->last_token == Seconds{103.0});
}

TEST_CASE("vLLM run: a line within the window is sorted, one beyond it is an error") {
  const auto shifted = [](std::size_t lines) {
    std::string text;
    for (std::size_t i = 0; i < lines; ++i) text += run_line(static_cast<double>(i + 1), 1e6, 1e6, 1e6);
    return text + run_line(0.5, 1e6, 1e6, 1e6);
  };
  auto within = reader_of<VllmRunReader>(shifted(VllmRunReader::window - 1));
  const auto requests = read_all(within);
  REQUIRE(requests);
  CHECK(requests->size() == VllmRunReader::window);
  CHECK(std::is_sorted(requests->begin(), requests->end(),
                       [](const RequestSpec& a, const RequestSpec& b) { return a.arrival < b.arrival; }));
  CHECK(error_of(reader_of<VllmRunReader>(shifted(VllmRunReader::window + 1)))
            .rfind("trace:" + std::to_string(VllmRunReader::window + 2) + ": the request arrives", 0) == 0);
}

TEST_CASE("vLLM run: a request's SLO in the file takes precedence over the options'") {
  const std::string plain = run_line(1, 2, 3, 4);
  std::string promised = run_line(2, 3, 4, 5);
  promised.insert(promised.rfind('}'), ", \"slo_ttft_s\": 0.25");
  ReadOptions options;
  options.slo = {Seconds{5}, Seconds{0.1}};
  Shaped<VllmRunReader> shaped(reader_of<VllmRunReader>(plain + promised), options);
  const auto requests = read_all(shaped);
  REQUIRE(requests);
  REQUIRE(requests->size() == 2);
  CHECK((*requests)[0].slo == Slo{Seconds{5}, Seconds{0.1}});
  CHECK((*requests)[1].slo == Slo{Seconds{0.25}, Seconds{0.1}});
  promised.replace(promised.find("0.25"), 4, "0");
  CHECK(error_of(reader_of<VllmRunReader>(promised)).find("trace:1: slo_ttft_s is 0") == 0);
}

TEST_CASE("vLLM run: each malformed line is reported in one line with its place") {
  const std::string good = run_line(1, 2, 3, 4);
  const std::vector<BadText> rows = {
      {"", "trace: the trace holds no request"},
      {good + "{", "trace:2: the JSON ends too early"},
      {good + "null\n", "trace:2: this is a JSON null"},
      {good + "{\"input_toks\": 1, \"output_toks\": 1}\n", "trace:2: queued_ts is missing"},
      {run_line(1, 2, 3, 4, -1), "trace:1: input_toks is -1"},
      {run_line(1, 2, 3, 4, 1, -1), "trace:1: output_toks is -1"},
      {run_line(-1, 2, 3, 4), "trace:1: queued_ts is -1"},
      {run_line(2, 1, 3, 4), "trace:1: scheduled_ts is before queued_ts"},
      {run_line(1, 3, 2, 4), "trace:1: first_token_ts is before scheduled_ts"},
      {good + run_line(1, 2, 4, 3), "trace:2: last_token_ts is before first_token_ts"},
      {R"({"request_id": 7, "input_toks": 1})", "trace:1: request_id is 7"},
      {R"({"input_toks": 1, "output_toks": 1, "queued_ts": NaN})", "trace:1: queued_ts is missing"},
  };
  for (const BadText& row : rows)
    CHECK(error_of(reader_of<VllmRunReader>(row.text)).substr(0, row.line.size()) == row.line);
}

TEST_CASE("OrbitFlow: the header, and steps converted to seconds") {
  const std::string two = good_orbitflow + R"(, "r1": {"category": "a \"quoted\" } one", "input_length": 1,
    "output_length": 2, "arrival_time": 2292})";
  Expected<OrbitFlowReader> reader = orbitflow_of(orbitflow(two), 0.05);
  if (!reader) FAIL(reader.error().line());
  CHECK(reader->header() == OrbitFlowHeader{4, Tokens{32384}, TokenBlocks{561}, TokenBlocks{2435}, 2});
  const auto requests = read_all(*reader);
  if (!requests) FAIL(requests.error().line());
  REQUIRE(requests->size() == 2);
  CHECK((*requests)[0] == RequestSpec{Seconds{0}, Tokens{102}, Tokens{97}, {}});
  CHECK((*requests)[1].arrival.count() == doctest::Approx(2292 * 0.05));
}

TEST_CASE("OrbitFlow: the header may follow the requests") {
  const std::string text = R"({"other": [1, {"x": "}"}], "requests": {)" + good_orbitflow +
                           R"(}, "vocab": [200, 30000], "peak_batch_blocks": 9, "batch_size": 4,
    "max_model_len": 5, "num_gpu_blocks_override": 7})";
  Expected<OrbitFlowReader> reader = orbitflow_of(text);
  if (!reader) FAIL(reader.error().line());
  CHECK(reader->header().budget == TokenBlocks{7});
  const auto requests = read_all(*reader);
  REQUIRE(requests);
  CHECK(requests->size() == 1);
}

TEST_CASE("OrbitFlow: malformed text is reported in one line with its place") {
  const std::vector<BadText> rows = {
      {"", "trace:1: the JSON ends too early"},
      {"[]", "trace:1: this is not an object"},
      {"{}", "trace: requests is missing"},
      {"{} x", "trace:1: there is text behind the object"},
      {R"({"requests": {}})", "trace: the trace holds no request"},
      {R"({"requests": {)" + good_orbitflow + "}}", "trace: batch_size is missing"},
      {R"({"requests": [1]})", "trace:1: requests is no object, as in OrbitFlow's traces"},
      {R"({"requests": {)" + good_orbitflow + R"(}, "requests": {}})", "trace:1: requests appears twice"},
      {R"({"batch_size": -4, "requests": {)" + good_orbitflow + "}}", "trace: batch_size is -4"},
      {R"({"batch_size": NaN, "requests": {)" + good_orbitflow + "}}", "trace:1: this is not JSON: NaN"},
      {R"({"batch_size": , "requests": {}})", "trace:1: there is no value"},
      {R"({"batch_size" 4})", "trace:1: this is not JSON"},
      {R"({"a": 1 "b": 2})", "trace:1: this is not JSON"},
      {"{\n\"batch_size\": 4,\n\"requests\": {\"r0\": {\"input_length\": 102, ", "trace:3: the JSON ends too early"},
      {"{\n\"batch_size\": \"4\n", "trace:2: the string does not end on its line"},
      {"{\"a\": " + std::string(JsonMembers::deepest + 1, '[') + "]", "trace:1: the value is nested too deep"},
      {R"({"a": {"b": 1]})", "trace:1: the brackets do not match"},
      {orbitflow(R"("r0": 7)"), "trace:2: r0 is a JSON number"},
      {orbitflow(R"("r0": {"input_length": 1, "output_length": 1})"), "trace:2: arrival_time is missing"},
      {orbitflow(R"("r0": {"input_length": -1, "output_length": 1, "arrival_time": 0})"),
       "trace:2: input_length is -1"},
      {orbitflow(R"("r0": {"input_length": 1, "output_length": -5, "arrival_time": 0})"),
       "trace:2: output_length is -5"},
      {orbitflow(R"("r0": {"input_length": 1, "output_length": 1, "arrival_time": -1})"),
       "trace:2: arrival_time is -1"},
      {orbitflow(
           R"("r0": {"input_length": 1, "output_length": 1, "arrival_time": 9}, "r1": {"input_length": 1, "output_length": 1, "arrival_time": 8})"),
       "trace:2: the request arrives"},
      {orbitflow(good_orbitflow + R"(, "r1": {"input_length": 1, "output_length": 1, "arrival_time": 1]})"),
       "trace:2: the brackets do not match"},
      {orbitflow(R"("r0": ")" + std::string(JsonMembers::longest_value, 'x') + "\""), "trace:2: the value is longer"},
  };
  for (const BadText& row : rows)
    CHECK(error_of(orbitflow_of(row.text), row.text).substr(0, row.line.size()) == row.line);
  for (const double step :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto reader = orbitflow_of(orbitflow(good_orbitflow), step);
    REQUIRE(!reader);
    CHECK(reader.error().line().find("step time") != std::string::npos);
  }
}

TEST_CASE("lines after the limit are never read") {
  const std::string text = header + good_csv + good_csv + "this line is broken\n";
  const ReadOptions two{.limit = 2, .rate_scale = 1.0, .slo = {}};
  Shaped<CsvReader> reader(azure_of(text), two);
  const auto requests = read_all(reader);
  REQUIRE(requests);
  CHECK(requests->size() == 2);
  Shaped<CsvReader> three(azure_of(text), {.limit = 3, .rate_scale = 1.0, .slo = {}});
  CHECK(!read_all(three));
}

namespace {

/// Mooncake's format, each line by JSON's parser.
struct MooncakeByJson {
  JsonlNames names = MooncakeFormat{}.names;
  static Status read_content(const nlohmann::json& object, Tokens prompt, Tokens output, const std::string& where,
                             std::vector<ContentPiece>& content) {
    return MooncakeFormat{}.read_content(object, prompt, output, where, content);
  }
};

/// What a reader makes of a text: its requests with their content, and its error.
template <class Reader>
std::string read_text(const std::string& text) {
  auto reader = reader_of<Reader>(text);
  std::string out;
  for (;;) {
    const Expected<std::optional<RequestSpec>> next = reader.next();
    if (!next) return out + next.error().line();
    if (!*next) return out;
    const RequestSpec& spec = **next;
    CHECK(spec == RequestSpec{spec.arrival, spec.prompt, spec.output, spec.slo});
    out += std::to_string(spec.arrival.count()) + " " + std::to_string(spec.prompt.count()) + " " +
           std::to_string(spec.output.count()) + " " + std::to_string(spec.slo.ttft.count()) + ":";
    for (const ContentPiece& piece : reader.content())
      out += " " + std::to_string(piece.id) + "x" + std::to_string(piece.tokens.count());
    out += "\n";
  }
}

} // namespace

TEST_CASE("a Mooncake line that is read as plain text gives what JSON's parser makes of it, wrong lines included") {
  const std::vector<std::string> lines{
      R"({"timestamp": 5, "input_length": 1100, "output_length": 3, "hash_ids": [1, 20, 300]})",
      R"({"hash_ids":[],"output_length":7,"input_length":1,"timestamp":0})",
      R"({"timestamp": 12, "input_length": 600, "output_length": 3})",
      R"({"timestamp": 5.5, "input_length": 1100, "output_length": 3, "slo_ttft_s": 2})"};
  const std::string letters = "0123456789 ,:.-e[]{}\"\\tihos";
  Random random(7);
  int right = 0, wrong = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string line = lines[random.below(lines.size())];
    for (std::uint64_t edits = random.below(4); edits > 0; --edits) {
      const std::size_t at = random.below(line.size());
      if (const std::uint64_t kind = random.below(3); kind == 0)
        line[at] = letters[random.below(letters.size())];
      else if (kind == 1)
        line.insert(at, 1, letters[random.below(letters.size())]);
      else
        line.erase(at, 1);
    }
    const std::string text = lines[1] + "\n" + line + "\n";
    const std::string plain = read_text<MooncakeReader>(text);
    INFO(line);
    REQUIRE(plain == read_text<JsonlReader<MooncakeByJson>>(text));
    if (plain.find("expected") != plain.npos)
      ++wrong;
    else
      ++right;
  }
  CHECK(wrong > 1000);
  CHECK(right > 1000);
}

TEST_CASE("a Mooncake line is read as plain text only if it is the release's") {
  const auto reads = [](std::string_view line) {
    PlainLine numbers;
    std::vector<ContentPiece> content;
    return MooncakeFormat{}.read_plain(line, numbers, content);
  };
  CHECK(reads(R"({"timestamp": 5, "input_length": 1100, "output_length": 3, "hash_ids": [1, 20, 300]})"));
  CHECK(reads(R"({"output_length":3,"timestamp":5,"input_length":1100} )"));
  for (const char* other : {R"({"timestamp": 5, "input_length": 1100})",
                            R"({"timestamp": 5, "timestamp": 5, "input_length": 1, "output_length": 3})",
                            R"({"timestamp": 5e0, "input_length": 1100, "output_length": 3})",
                            R"({"timestamp": 5, "input_length": 0, "output_length": 3})",
                            R"({"timestamp": 5, "input_length": 512, "output_length": 3, "hash_ids": [1, 2]})",
                            R"({"timestamp": 5, "input_length": 512, "output_length": 3, "priority": 1})"})
    CHECK_FALSE(reads(other));
}
