// SPDX-License-Identifier: Apache-2.0
// A request's priority in every format that has a place for it, and in classes.
#include "sluice/workload/csv.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"
#include "sluice/workload/nlohmann/whole_trace.hpp"
#include "sluice/workload/slo_classes.hpp"

#include "workload/trace_text.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using sluice_test::lines_of;

namespace {

/// Reads two requests, the first with `more` in its line, and returns the priorities, or the error.
struct Read {
  std::vector<std::int32_t> priorities;
  std::string error;

  template <class Reader>
  explicit Read(Expected<Reader> reader) {
    if (reader)
      keep(read_all(*reader));
    else
      error = reader.error().line();
  }

 private:
  void keep(const Expected<std::vector<RequestSpec>>& all) {
    if (!all) {
      error = all.error().line();
      return;
    }
    for (const RequestSpec& one : *all) priorities.push_back(one.priority);
  }
};
using Format = std::pair<const char*, std::function<Read(const std::string& more)>>;

std::string two(const std::string& fields, const std::string& more) {
  return "{" + fields + more + "}\n{" + fields + "}\n";
}

const std::vector<Format> formats{
    {"mooncake",
     [](const std::string& more) {
       return Read(Expected<MooncakeReader>{
           MooncakeReader{lines_of(two(R"("timestamp": 0, "input_length": 5, "output_length": 2)", more), "trace")}});
     }},
    {"tokens",
     [](const std::string& more) {
       return Read(read_token_ids(lines_of(
           two(R"("arrival_time_ns": 0, "input_toks": 1, "output_toks": 2, "input_tok_ids": [3])", more), "trace")));
     }},
    {"aiperf",
     [](const std::string& more) {
       return Read(read_aiperf_sessions(lines_of(
           two(R"("session_id": "a", "timestamp": 5, "input_length": 5, "output_length": 2)", more), "trace")));
     }},
    {"bailian",
     [](const std::string& more) {
       const std::string fields = R"("timestamp": 5, "input_length": 5, "output_length": 2, "chat_id": )";
       return Read(read_bailian(lines_of("{" + fields + "1" + more + "}\n{" + fields + "2}\n", "trace")));
     }},
    {"vllm", [](const std::string& more) {
       return Read(Expected<VllmRunReader>{VllmRunReader{
           lines_of(two(R"("input_toks": 5, "output_toks": 2, "queued_ts": 1, "scheduled_ts": 1, "first_token_ts": 2, )"
                        R"("last_token_ts": 3)",
                        more),
                    "trace")}});
     }}};

Read csv(const std::string& text, const CsvColumns& columns = {}) {
  return Read(Expected<CsvReader>{CsvReader{lines_of(text, "trace"), columns}});
}

} // namespace

TEST_CASE("priority: JSON lines of every format may have one") {
  for (const Format& format : formats) {
    CAPTURE(format.first);
    const auto& read = format.second;
    CHECK(read("").priorities == std::vector<std::int32_t>{0, 0});
    CHECK(read(R"(, "priority": -3)").priorities == std::vector<std::int32_t>{-3, 0});
    CHECK(read(R"(, "priority": null)").priorities == std::vector<std::int32_t>{0, 0});
    for (const char* wrong : {"\"high\"", "1.5", "2147483648", "[1]"}) {
      const std::string error = read(std::string{", \"priority\": "} + wrong).error;
      CAPTURE(error);
      CHECK(error.starts_with("trace:1: priority"));
      CHECK(error.find("a whole number from -2147483648 to 2147483647") != std::string::npos);
    }
  }
}

TEST_CASE("priority: a CSV may have the column, under this or another name") {
  CHECK(csv("arrival,prompt,output,priority\n0,1,2,-3\n1,1,2,\n2,1,2,4.0\n").priorities ==
        std::vector<std::int32_t>{-3, 0, 4});
  CHECK(csv("arrival;prompt;output;Priority\n0;1;2;5\n").priorities == std::vector<std::int32_t>{5});
  const Expected<CsvColumns> named = parse_csv_columns("priority=rank");
  REQUIRE(named);
  CHECK(csv("arrival,prompt,output,rank,priority\n0,1,2,5,6\n", *named).priorities == std::vector<std::int32_t>{5});
  CHECK(csv("arrival,prompt,output\n0,1,2\n", *named).error.find("there is no column 'rank'") != std::string::npos);
  for (const char* wrong : {"high", "1.5", "1e10", "nan"}) {
    const std::string error = csv(std::string{"arrival,prompt,output,priority\n0,1,2,"} + wrong + "\n").error;
    CAPTURE(error);
    CHECK(error.starts_with("trace:2: the priority is '" + std::string{wrong} + "'; expected a whole number"));
  }
  CHECK_FALSE(parse_csv_columns("priority=prompt"));
}

TEST_CASE("priority: a class gives its requests one, unless they have their own; several in a trace are classes") {
  const std::string text = "arrival,prompt,output,priority\n0,1,2,\n1,1,2,3\n2,1,2,0\n3,1,2,3\n";
  const auto shaped = read_all(
      Shaped<CsvReader>{CsvReader{lines_of(text, "trace"), {}}, {.slo_classes = *parse_slo_classes("1:2s/50ms:-1")}});
  REQUIRE(shaped);
  CHECK((*shaped)[0].priority == -1);
  CHECK((*shaped)[1].priority == 3);
  CHECK((*shaped)[2].priority == -1); // a 0 is none of its own, written or not
  CHECK((*shaped)[3].priority == 3);
  const auto plain = read_all(CsvReader{lines_of(text, "trace"), {}});
  REQUIRE(plain);
  const auto classes = slo_classes_of(*plain);
  REQUIRE(classes);
  REQUIRE(classes->size() == 2);
  CHECK((*classes)[0] == SloClass{"none/none", 0.5, {}, 0});
  CHECK((*classes)[1] == SloClass{"priority 3", 0.5, {}, 3});
  CHECK((*classes)[1].has(Slo{}, 3));
  CHECK_FALSE((*classes)[1].has(Slo{}, 0));
}
