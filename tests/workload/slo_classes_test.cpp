// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/csv.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/slo_classes.hpp"

#include "workload/trace_text.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace sluice;

namespace {

const std::string two = "chat=0.25:2s/50ms,0.75:30s/200ms";

std::string classes_error(const std::string& text) {
  const Expected<std::vector<SloClass>> classes = parse_slo_classes(text);
  return classes ? "no error" : classes.error().line();
}

std::vector<RequestSpec> drawn(const ReadOptions& options, std::int64_t count = 4000) {
  GeneratorSpec spec = demo_workload();
  spec.requests = count;
  const Expected<std::vector<RequestSpec>> all = read_all(Shaped<Generator>{Generator{spec, 3}, options});
  REQUIRE(all);
  return *all;
}

Expected<std::vector<RequestSpec>> read_csv(const std::string& text, const CsvColumns& columns = {}) {
  return read_all(CsvReader{sluice_test::lines_of(text, "trace"), columns});
}

} // namespace

TEST_CASE("slo classes: a text's shares, times and names") {
  const Expected<std::vector<SloClass>> classes = parse_slo_classes(two);
  REQUIRE(classes);
  CHECK(*classes == std::vector<SloClass>{{"chat", 0.25, {Seconds{2}, Seconds{0.05}}},
                                          {"30s/200ms", 0.75, {Seconds{30}, Seconds{0.2}}}});
  CHECK(slo_name({Seconds{0.5}, Seconds{0.0333}}) == "500ms/33.3ms");
  CHECK(slo_name({}) == "none/none");
  const Expected<std::vector<SloClass>> urgent = parse_slo_classes("chat=0.5:2s/50ms:-1,0.25:2s/50ms,0.25:2s/50ms:7");
  REQUIRE(urgent);
  CHECK((*urgent)[0] == SloClass{"chat", 0.5, {Seconds{2}, Seconds{0.05}}, -1});
  CHECK((*urgent)[1] == SloClass{"2s/50ms", 0.25, {Seconds{2}, Seconds{0.05}}});
  CHECK((*urgent)[2] == SloClass{"2s/50ms priority 7", 0.25, {Seconds{2}, Seconds{0.05}}, 7});
}

TEST_CASE("slo classes: each mistake is a sentence") {
  const std::pair<const char*, const char*> mistakes[] = {
      {"", "'' is no class"},
      {"0.5", "'0.5' is no class"},
      {"=1:2s/50ms", "is no class"},
      {"1:50ms", "is no class"},
      {"0.5:2s/50ms", "the shares sum to 0.5"},
      {"0:2s/50ms,1:1s/50ms", "the share of '0:2s/50ms' is '0'"},
      {"x:2s/50ms", "is 'x'"},
      {"1:2/50ms", "'2' is no time"},
      {"1:2s/50", "'50' is no time; expected a number above 0 with s or ms"},
      {"1:-2s/50ms", "'-2s' is no time"},
      {"1:2s/50s", "50s per token; expected TTFT first, then TBT"},
      {"0.5:2s/50ms,0.5:2s/50ms", "two classes have the SLO 2s/50ms"},
      {"0.5:2s/50ms:1,0.5:2s/50ms:1", "two classes have the SLO 2s/50ms priority 1"},
      {"1:2s/50ms:high", "the priority of '1:2s/50ms:high' is 'high'; expected a whole number"},
      {"1:2s/50ms:", "the priority of '1:2s/50ms:' is ''"},
      {"1:2s/50ms:1.5", "is '1.5'"},
      {"1:2s/50ms:3000000000", "is '3000000000'"},
      {"a=0.5:2s/50ms,a=0.5:3s/50ms", "two classes are named a"},
      {".1:1s/1s,.1:2s/1s,.1:3s/1s,.1:4s/1s,.1:5s/1s,.1:6s/1s,.1:7s/1s,.1:8s/1s,.2:9s/1s", "there are 9"}};
  for (const auto& [text, says] : mistakes) {
    const std::string line = classes_error(text);
    CAPTURE(line);
    CHECK(line.starts_with("--slo-classes: "));
    CHECK(line.find(says) != std::string::npos);
  }
}

TEST_CASE("slo classes: requests are drawn by the shares, and by the seed alone") {
  const std::vector<SloClass> classes = *parse_slo_classes(two);
  const std::vector<RequestSpec> all = drawn({.slo_classes = classes, .class_seed = 7});
  const auto of = [&](const Slo& slo) {
    return std::count_if(all.begin(), all.end(), [&](const RequestSpec& request) { return request.slo == slo; });
  };
  const auto chats = static_cast<double>(of(classes[0].slo));
  CHECK(chats + static_cast<double>(of(classes[1].slo)) == 4000);
  CHECK(std::fabs(chats - 1000) < 4 * std::sqrt(4000 * 0.25 * 0.75)); // of a fixed seed
  const std::vector<RequestSpec> faster = drawn({.rate_scale = 3, .slo_classes = classes, .class_seed = 7}, 2000);
  for (std::size_t i = 0; i < faster.size(); ++i) REQUIRE(faster[i].slo == all[i].slo);
  CHECK(drawn({.slo_classes = classes, .class_seed = 8}) != all);
  // The draws take nothing from the generator's: without classes, arrivals and lengths are the same.
  std::vector<RequestSpec> none = drawn({});
  for (std::size_t i = 0; i < none.size(); ++i) none[i].slo = all[i].slo;
  CHECK(none == all);
}

TEST_CASE("slo classes: a trace's own SLOs come first, and are the classes without the flag") {
  const Expected<std::vector<RequestSpec>> own = read_csv("arrival,prompt,output,slo_ttft_s,slo_tbt_s\n"
                                                          "0,1,2,5,0.1\n1,1,2,,0.2\n2,1,2,1,\n3,1,2,,\n4,1,2,5,0.1\n");
  REQUIRE(own);
  CHECK((*own)[0].slo == Slo{Seconds{5}, Seconds{0.1}});
  CHECK((*own)[1].slo == Slo{.tbt = Seconds{0.2}});
  CHECK((*own)[2].slo == Slo{.ttft = Seconds{1}});
  CHECK((*own)[3].slo == Slo{});
  const auto classes = slo_classes_of(*own);
  REQUIRE(classes);
  REQUIRE(classes->size() == 4);
  CHECK(classes->front() == SloClass{"1s/none", 0.2, {.ttft = Seconds{1}}});
  CHECK((*classes)[1] == SloClass{"5s/100ms", 0.4, {Seconds{5}, Seconds{0.1}}});

  const auto shaped = read_all(Shaped<CsvReader>{
      CsvReader{sluice_test::lines_of("arrival,prompt,output,slo_tbt_s\n0,1,2,0.3\n1,1,2,\n", "trace"), {}},
      {.slo_classes = *parse_slo_classes("1:2s/50ms")}});
  REQUIRE(shaped);
  CHECK((*shaped)[0].slo == Slo{Seconds{2}, Seconds{0.3}});
  CHECK((*shaped)[1].slo == Slo{Seconds{2}, Seconds{0.05}});

  std::vector<RequestSpec> many(9);
  for (std::size_t i = 0; i < many.size(); ++i) many[i].slo.ttft = Seconds{1.0 + static_cast<double>(i)};
  CHECK_FALSE(slo_classes_of(many));
}

TEST_CASE("slo columns: other names, missing columns and values that are no SLO") {
  const Expected<CsvColumns> named = parse_csv_columns("slo-ttft=first,slo-tbt=next");
  REQUIRE(named);
  const auto read = read_csv("arrival,prompt,output,first,next\n0,1,2,5,0.1\n", *named);
  REQUIRE(read);
  CHECK(read->front().slo == Slo{Seconds{5}, Seconds{0.1}});
  const auto missing = read_csv("arrival,prompt,output,first\n0,1,2,5\n", *named);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().line().find("there is no column 'next'") != std::string::npos);
  for (const auto& [row, says] :
       {std::pair{"0,1,2,0,0.1", "the TTFT SLO is '0'; expected seconds above 0, at most 1e9 s, or an empty cell"},
        {"0,1,2,x,0.1", "the TTFT SLO is 'x'"},
        {"0,1,2,5,50", "the TBT SLO is '50'; expected seconds above 0, at most 10s, or an empty cell"}}) {
    const auto wrong = read_csv(std::string{"arrival,prompt,output,slo_ttft_s,slo_tbt_s\n"} + row + "\n");
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().line().find(says) != std::string::npos);
    CHECK(wrong.error().line().starts_with("trace:2: "));
  }
  CHECK_FALSE(parse_csv_columns("slo-ttft=a,slo-tbt=a"));
}

TEST_CASE("slo fields: a Mooncake line may have a request's own SLO") {
  const auto read = [](const std::string& more) {
    return read_all(MooncakeReader{
        sluice_test::lines_of("{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 2" + more + "}\n", "trace")});
  };
  CHECK(read("")->front().slo == Slo{});
  CHECK(read(", \"slo_ttft_s\": 2, \"slo_tbt_s\": 0.05")->front().slo == Slo{Seconds{2}, Seconds{0.05}});
  CHECK(read(", \"slo_ttft_s\": 0").error().line().find("slo_ttft_s is 0") != std::string::npos);
}
