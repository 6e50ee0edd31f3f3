// SPDX-License-Identifier: Apache-2.0
// Planning problems from JSON: all fields are read, and every error is reported in one line that names it.
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/state/plan/nlohmann/problem_json.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

constexpr const char* example = R"({"layers":9,"layer_compute_s":1.0,"link_blocks_per_s":3.0,"device_blocks":70,
  "requests":[{"id":"r1","blocks_per_layer":3},{"id":"r2","tokens":81,"deposit":4}],"transfer":"fair-share","space":"even",
  "buffer":"paper","iterations":2,"slo_s":12.5,"alpha":0,"window":[2,5],"deadline_us":500,"placement":{"r2":[3,6,9]}})";

Expected<PlanningProblem> read(const std::string& text) {
  const Expected<nlohmann::json> object = parse_json_object(text, "here");
  if (!object) return object.error();
  return read_problem(*object, "here");
}

TEST_CASE("all fields of a planning problem are read") {
  const Expected<PlanningProblem> problem = read(example);
  REQUIRE(problem.has_value());
  const Instance& instance = problem->instance;
  CHECK(instance.layer_compute_s == std::vector<double>(9, 1.0));
  CHECK(instance.device_blocks == LayerBlocks{70});
  REQUIRE(instance.requests.size() == 2);
  CHECK(instance.blocks_at(0, 0) == 3);
  CHECK(instance.blocks_at(0, 100) == 3);
  CHECK(instance.blocks_at(1, 0) == 6); // 81 tokens, 16 per block
  CHECK(instance.blocks_at(1, 15) == 6);
  CHECK(instance.blocks_at(1, 16) == 7);
  CHECK(instance.requests[1].deposit == 4);
  CHECK(instance.requests[0].slo_s == 12.5);
  CHECK(instance.alpha == 0);
  CHECK(instance.window_min == 2);
  CHECK(instance.window_max == 5);
  CHECK(instance.iterations == 2);
  CHECK(instance.deadline_s == doctest::Approx(500e-6));
  CHECK(problem->transfer == TransferKind::fair_share);
  CHECK(problem->space == SpaceKind::even);
  CHECK(problem->buffer == BufferKind::paper);
  CHECK(problem->ids == std::vector<std::string>{"r1", "r2"});
  REQUIRE(problem->placement.has_value());
  CHECK((*problem->placement)[0].empty());
  CHECK((*problem->placement)[1] == LayerSet{}.insert(2).insert(5).insert(8));
}

TEST_CASE("every error in a problem is reported in one line that names it") {
  const auto refused = [](std::string from, const std::string& to, const std::string& names) {
    std::string text = example;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    INFO(text);
    const Expected<PlanningProblem> problem = read(text);
    REQUIRE(!problem.has_value());
    const std::string line = problem.error().line();
    INFO(line);
    CHECK(line.find(names) != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.rfind("here", 0) == 0);
  };
  refused("\"layers\":9", "\"layers\":0", "layers");
  refused("\"layers\":9", "\"layers\":1000", "layers");
  refused("\"layers\":9,", "", "layers");
  refused("\"layer_compute_s\":1.0", "\"layer_compute_s\":[1,1]", "layer_compute_s");
  refused("\"layer_compute_s\":1.0", "\"layer_compute_s\":-1", "layer_compute_s");
  refused("\"layer_compute_s\":1.0", "\"layer_compute_s\":NaN", "not JSON");
  refused("\"link_blocks_per_s\":3.0", "\"link_blocks_per_s\":0", "link_blocks_per_s");
  refused("\"device_blocks\":70", "\"device_blocks\":-70", "device_blocks");
  refused("\"device_blocks\":70", "\"device_blocks\":\"70\"", "device_blocks");
  refused("\"blocks_per_layer\":3", "\"blocks_per_layer\":-3", "blocks_per_layer");
  refused("\"blocks_per_layer\":3", "\"blocks\":3", "'blocks'");
  refused("\"tokens\":81", "\"tokens\":81,\"blocks_per_layer\":9", "blocks_per_layer");
  refused("\"id\":\"r2\"", "\"id\":\"r1\"", "'r1'");
  refused("\"requests\":[", "\"requests\":[7,", "requests[0]");
  refused("\"transfer\":\"fair-share\"", "\"transfer\":\"fairest\"", "transfer");
  refused("\"space\":\"even\"", "\"spaces\":\"even\"", "'spaces'");
  refused("\"alpha\":0", "\"alpha\":-1", "alpha");
  refused("\"window\":[2,5]", "\"window\":[5,2]", "window");
  refused("\"window\":[2,5]", "\"window\":5", "window");
  refused("\"iterations\":2", "\"iterations\":2.5", "iterations");
  refused("\"deadline_us\":500", "\"deadline_us\":-1", "deadline_us");
  refused("\"r2\":[3,6,9]", "\"r3\":[3,6,9]", "'r3'");
  refused("\"r2\":[3,6,9]", "\"r2\":[3,6,10]", "10");
  refused("\"r2\":[3,6,9]", "\"r2\":[3,3]", "twice");
}

/// The reader's answer to the example with one text replaced by another.
std::string said_of(const std::string& from, const std::string& to) {
  std::string text = example;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  const Expected<PlanningProblem> problem = read(text.replace(at, from.size(), to));
  REQUIRE(!problem.has_value());
  return problem.error().line();
}

/// The names that the line lists before `before`.
std::vector<std::string> listed(const std::string& line, const std::string& before) {
  std::vector<std::string> names;
  const std::size_t at = line.find(before);
  REQUIRE(at != std::string::npos);
  std::istringstream rest(line.substr(at + before.size()));
  for (std::string name; std::getline(rest >> std::ws, name, ',');) names.push_back(name);
  return names;
}

TEST_CASE("a misspelt field or value is answered with the right one, for every wrong letter") {
  // Every place with names of its own: its text in the example, and the text before the names in an error.
  const struct {
    std::string from, open, close, before;
  } places[] = {
      {"\"layers\":9,", "\"layers\":9,\"", "\":1,", "expected one of "},
      {"\"blocks_per_layer\":3", "\"", "\":3", "expected one of "},
      {"\"buffer\":\"paper\"", "\"weights\":{\"", "\":1}", "expected one of "},
      {"\"fair-share\"", "\"", "\"", "expected "},
      {"\"even\"", "\"", "\"", "expected "},
      {"\"paper\"", "\"", "\"", "expected "},
  };
  for (const auto& [from, open, close, before] : places) {
    const std::string unlike = said_of(from, open + "qqqqqqqqqq" + close);
    CHECK(unlike.find("did you mean") == std::string::npos);
    const std::vector<std::string> names = listed(unlike, before);
    CHECK(names.size() >= 2);
    for (const std::string& name : names)
      for (std::size_t letter = 0; letter < name.size(); ++letter) {
        std::string typed = name;
        typed.insert(letter, 1, 'q');
        const std::string line = said_of(from, open + typed + close);
        CAPTURE(line);
        CHECK(line.find("'" + typed + "' (did you mean " + name + "?); expected ") != std::string::npos);
      }
  }
}

TEST_CASE("a field name as long as a file gives a short line without a suggestion") {
  const std::string line = said_of("\"alpha\"", "\"" + std::string(1 << 20, 'a') + "\"");
  CHECK(line.find("there is no field 'aaaa") != std::string::npos);
  CHECK(line.find("did you mean") == std::string::npos);
  CHECK(line.size() < 500);
}

} // namespace
} // namespace sluice::test
