// SPDX-License-Identifier: Apache-2.0
// sluice-run: the same tokens and logits under every system and budget, although bytes move and requests are preempted;
// its JSON; the error for a budget that is too small names the needed memory.
#include "sluice/core/random.hpp"
#include "sluice/model/checkpoint/tiny.hpp"

#include "report/read_csv.hpp"
#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"
#include "support/small_decoders.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice_test::generating {

using Json = nlohmann::ordered_json;

doctest::skip needs_program() { return sluice_test::needs_program("sluice-run"); }
Ran run(const std::string& arguments) { return run_program("sluice-run", arguments); }

Json json_of(const std::string& arguments) {
  const Ran ran = run("--json " + arguments);
  INFO(arguments);
  CHECK(ran.code == 0);
  const Json json = Json::parse(ran.out, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

std::vector<std::string> listed_systems() {
  std::vector<std::string> names;
  std::istringstream lines(run("--list").out);
  for (std::string line; std::getline(lines, line) && !line.empty();) names.push_back(line.substr(0, line.find(' ')));
  return names;
}

std::string random_prompt(std::uint64_t seed, int tokens) {
  sluice::Random random(seed);
  std::string text = "--prompt-ids ";
  for (int i = 0; i < tokens; ++i) text += (i > 0 ? "," : "") + std::to_string(random.below(256));
  return text + " ";
}

/// Three requests of up to four blocks per layer, of which two fit at the same time at their beginning.
const std::string three =
    random_prompt(1, 30) + random_prompt(2, 25) + random_prompt(3, 28) + "--max-tokens 24 --ignore-end ";
/// The memory of the largest of them.
constexpr std::int64_t block = 16384, largest = std::int64_t{4} * 8 * block;

std::vector<std::vector<int>> tokens_of(const Json& json) {
  std::vector<std::vector<int>> tokens;
  for (const Json& request : json["requests"]) tokens.push_back(request["tokens"].get<std::vector<int>>());
  return tokens;
}

/// The number after "at least" in an error line.
std::int64_t needed_by(const std::string& line) {
  const std::string_view before = "at least ";
  const std::size_t at = line.find(before, line.find("expected"));
  REQUIRE_MESSAGE(at != std::string::npos, line);
  return std::stoll(line.substr(at + before.size()));
}

TEST_CASE("every system generates the same tokens and logits when memory is short" * needs_program()) {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "logits.npy").string();
  const Json alone = json_of(three + "--logits '" + file + "'");
  const std::string logits = content(file);
  REQUIRE(logits.size() == 128 + std::size_t{3} * 24 * 260 * 4);
  const auto tokens = tokens_of(alone);
  CHECK(tokens[0].size() == 24);
  CHECK(tokens[0] != tokens[1]);

  const std::vector<std::string> names = listed_systems();
  CHECK(names.size() >= 28);
  CHECK(names.front() == "AllResident");
  // Each with one thread and with two, with another budget, link and batch.
  for (std::size_t number = 0; number < 2 * names.size(); ++number) {
    const std::string& name = names[number / 2];
    INFO(name);
    std::filesystem::remove(file);
    const std::string memory = " --kv-memory " + std::to_string(largest + static_cast<int>(number % 3) * 2 * block);
    const std::string how = number % 2 == 0 ? " --threads 2" : " --lanes each-way --link 1GB/s --max-batch-tokens 32";
    const Json json = json_of(three + "--system " + name + memory + how + " --logits '" + file + "'");
    CHECK(tokens_of(json) == tokens);
    CHECK(content(file) == logits);
    CHECK(json["peak_device_bytes"].get<std::int64_t>() <= json["device_memory_bytes"].get<std::int64_t>());
    // These two admit only requests that will surely fit.
    if (name == "OneAtATime" || name == "FutureMemory") continue;
    CHECK(json["bytes_moved"].get<std::int64_t>() + json["preemptions"].get<std::int64_t>() > 0);
  }
}

TEST_CASE("the memory that the error for a small budget names is enough" * needs_program()) {
  const TemporaryFolder folder;
  const std::string prompts = random_prompt(4, 40) + "--max-tokens 20 --ignore-end ";
  const auto tokens = tokens_of(json_of(prompts));
  for (const char* name : {"AllResident", "DeepSpeedInference", "FlexGen", "Pie", "OrbitFlow", "DeepSpeedWeights"}) {
    INFO(name);
    const std::string system = "--system " + std::string{name} + " ";
    const std::string errors = (folder.path / "errors").string();
    const Ran ran = run(prompts + system + "--device-memory 4KiB --json 2>'" + errors + "'");
    CHECK(ran.code == 2);
    const Json refused = Json::parse(ran.out, nullptr, false);
    REQUIRE_FALSE(refused.is_discarded());
    CHECK(refused["requests"][0]["status"] == "refused");
    CHECK(refused["requests"][0]["reason"].get<std::string>().find("at least") != std::string::npos);
    const std::string line = content(errors);
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    CHECK(line.find("sluice-run: --device-memory: 4096 bytes (4.00 KiB) is too little for " + std::string{name}) == 0);
    const std::int64_t needed = needed_by(line);
    CHECK(tokens_of(json_of(prompts + system + "--device-memory " + std::to_string(needed))) == tokens);
    CHECK(run(prompts + system + "--device-memory " + std::to_string(needed - 1) + " 2>&1").code == 2);
  }
}

TEST_CASE("a request that does not fit is refused with a reason, and the others are served" * needs_program()) {
  const std::string prompts = random_prompt(5, 20) + random_prompt(6, 90) + random_prompt(7, 10) + "--max-tokens 8 ";
  const Json json = json_of(prompts + "--kv-memory " + std::to_string(2 * 8 * block));
  CHECK(json["requests"][0]["status"] == "done");
  CHECK(json["requests"][2]["status"] == "done");
  const Json& large = json["requests"][1];
  CHECK(large["status"] == "refused");
  CHECK(large["tokens"].empty());
  CHECK(large["ttft_s"].is_null());
  CHECK(large["reason"].get<std::string>().find("alone it needs at least ") == 0);
  // With the host's memory full, requests that need it are refused, and the others are served.
  const Json host =
      json_of(random_prompt(5, 90) + random_prompt(6, 20) +
              "--max-tokens 8 --system DeepSpeedInference --host-memory " + std::to_string(2 * 8 * block));
  CHECK(host["requests"][0]["status"] == "refused");
  CHECK(host["requests"][0]["reason"].get<std::string>().find("host memory") != std::string::npos);
  CHECK(host["requests"][1]["status"] == "done");
}

TEST_CASE("the JSON has the documented fields in their order, and nothing else is printed" * needs_program()) {
  const Json json = json_of("--prompt abc --max-tokens 5 --system OrbitFlow");
  const std::vector<std::string> promised{"made_by",     "system", "requests", "bytes_moved",
                                          "preemptions", "plans",  "stall_s",  "peak_device_bytes"};
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  REQUIRE(keys.size() >= promised.size());
  CHECK(std::equal(promised.begin(), promised.end(), keys.begin()));
  CHECK(json["system"] == "OrbitFlow");
  for (const char* count : {"bytes_moved", "preemptions", "plans", "peak_device_bytes"})
    CHECK(json[count].is_number_integer());
  CHECK(json["plans"] > 0);
  CHECK(json["peak_device_bytes"] > 24'000'000);
  CHECK(json["stall_s"].is_number());
  REQUIRE(json["requests"].size() == 1);
  const Json& request = json["requests"][0];
  keys.clear();
  for (const auto& [key, value] : request.items()) keys.push_back(key);
  const std::vector<std::string> fields{"id", "tokens", "ttft_s", "status", "reason"};
  REQUIRE(keys.size() >= fields.size());
  CHECK(std::equal(fields.begin(), fields.end(), keys.begin()));
  CHECK(request["id"] == 0);
  CHECK(request["tokens"].size() == 5);
  CHECK(request["ttft_s"].get<double>() > 0);
  CHECK(request["status"] == "done");
  CHECK(request["reason"] == "");
  // A text gives the same result as its tokens.
  CHECK(tokens_of(json) == tokens_of(json_of("--prompt-ids 256,97,98,99 --max-tokens 5")));
}

TEST_CASE("samples depend on the seed, not on other requests in the batch" * needs_program()) {
  const std::string sampling = " --max-tokens 12 --temperature 1 --top-k 50 --top-p 0.9 --seed ";
  const std::string first = random_prompt(8, 12), second = random_prompt(9, 12);
  const auto alone = tokens_of(json_of(first + sampling + "3"));
  const auto both = tokens_of(json_of(first + second + sampling + "3 --system VllmSwap"));
  CHECK(alone[0] == both[0]);
  CHECK(tokens_of(json_of(first + sampling + "4"))[0] != alone[0]);
  CHECK(tokens_of(json_of(first + " --max-tokens 12"))[0] != alone[0]);
}

TEST_CASE("a trace is served by its lengths and arrivals, with random prompts of the seed" * needs_program()) {
  const TemporaryFolder folder;
  const std::string trace = (folder.path / "trace.csv").string();
  std::ofstream(trace) << "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                          "2023-11-16 18:00:00.0000000,20,4\n"
                          "2023-11-16 18:00:00.2000000,35,6\n"
                          "2023-11-16 19:00:00.0000000,10,5\n";
  const std::string timeline = (folder.path / "timeline.json").string();
  const std::string decisions = (folder.path / "decisions.txt").string();
  const std::string files = " --timeline '" + timeline + "' --decisions '" + decisions + "'";
  const std::string served =
      "--trace '" + trace + "' --no-wait --kv-memory " + std::to_string(3 * 8 * block) + " --seed ";
  const Json json = json_of(served + "1 --system OrbitFlow" + files);
  REQUIRE(json["requests"].size() == 3);
  CHECK(json["requests"][0]["tokens"].size() == 4);
  CHECK(json["requests"][1]["tokens"].size() == 6);
  CHECK(json["requests"][2]["tokens"].size() == 5);
  CHECK(json["requests"][1]["prompt_tokens"] == 35);
  CHECK(json["metrics"]["end_s"].get<double>() > 3600);
  CHECK(tokens_of(json) == tokens_of(json_of(served + "1 --format azure --system AllResident")));
  CHECK(tokens_of(json) != tokens_of(json_of(served + "2 --limit 3 --rate-scale 2")));
  CHECK(json_of(served + "1 --limit 2")["requests"].size() == 2);
  const Json events = Json::parse(content(timeline), nullptr, false);
  REQUIRE_FALSE(events.is_discarded());
  CHECK(events["traceEvents"].size() > 10);
  CHECK(content(decisions).find("plan: ") != std::string::npos);
}

TEST_CASE("a model folder is served from where it is" * needs_program()) {
  const TemporaryFolder folder;
  sluice::testing::write_checkpoint(folder.path, sluice::random_weights(sluice::testing::small_llama(), 7));
  const std::string model =
      "--model '" + folder.path.string() + "' --prompt-ids 1,2,3,4,5 --prompt-ids 9,8 --max-tokens 30 ";
  const auto tokens = tokens_of(json_of(model));
  CHECK(tokens.size() == 2);
  // A block of 16 tokens of one layer has 1536 bytes; a request needs three for each of the two layers.
  for (const char* system : {"VllmSwap", "DynamicHeuristic", "DeepSpeedWeights"})
    CHECK(tokens_of(json_of(model + "--kv-memory 9216 --system " + system)) == tokens);
}

TEST_CASE("on a screen: the text as it comes, then a table" * needs_program()) {
  const Ran one = run("--prompt-ids 1,2,3 --max-tokens 6");
  CHECK(one.code == 0);
  for (const char* row : {"TTFT", "TBT", "stalls", "moved", "plans", "preemptions", "device peak"})
    CHECK(one.out.find(std::string{"\n"} + row) != std::string::npos);
  const std::string tokens = one.out.substr(0, one.out.find('\n'));
  CHECK(std::count(tokens.begin(), tokens.end(), ',') == 5);
  const Ran two = run("--prompt-ids 1,2,3 --prompt-ids 4,5 --max-tokens 6");
  CHECK(two.out.find("0: " + tokens + "\n1: ") == 0);
  const Ran list = run("--list");
  CHECK(list.out.find("8 layers, 4 KV heads of 32") != std::string::npos);
  CHECK(list.out.find("16384 bytes") != std::string::npos);
}

TEST_CASE("the process uses weights, the two memories, and at most 64 MiB more" * needs_program()) {
  const auto check = [](const std::string& arguments, std::int64_t weights_beside) {
    INFO(arguments);
    const Json json = json_of(arguments);
    REQUIRE(json.contains("peak_resident_bytes"));
    const auto of = [&json](const char* name) { return json[name].get<std::int64_t>(); };
    CHECK(of("peak_resident_bytes") > of("peak_device_bytes"));
    CHECK(of("peak_resident_bytes") <= weights_beside + of("peak_device_bytes") + of("peak_host_bytes") + (64 << 20));
  };
  const std::string long_ones = random_prompt(10, 900) + random_prompt(11, 700) + "--max-tokens 4 --threads 2 ";
  for (const char* system : {"AllResident", "VllmSwap", "OrbitFlow", "Ellm", "DeepSpeedWeights"}) {
    const std::string memory = "--kv-memory " + std::to_string(60 * 8 * block) + " --system ";
    check(long_ones + memory + system, json_of(long_ones)["weight_bytes"].get<std::int64_t>());
  }
  // With a model folder, weights on the device are not kept twice; if layers stream, the folder's pages may stay.
  const TemporaryFolder folder;
  sluice::DecoderConfig large = sluice::testing::small_llama();
  large.shape.layers = 3;
  large.shape.hidden = 1024;
  large.shape.mlp = 3072;
  const auto weights = sluice::random_weights(large, 1);
  const std::int64_t layers = weights.layout.bytes.count() * large.shape.layers;
  REQUIRE(layers > 100 << 20);
  sluice::testing::write_checkpoint(folder.path, weights);
  const std::string model = "--model '" + folder.path.string() + "' --prompt-ids 1,2,3,4,5 --max-tokens 3 ";
  check(model, 0);
  check(model + "--system DeepSpeedWeights", layers);
}

TEST_CASE("a run's clock replayed makes the same decisions, and computes nothing" * needs_program()) {
  const TemporaryFolder folder;
  const auto at = [&folder](const char* name) { return "'" + (folder.path / name).string() + "'"; };
  const Ran measured =
      run_program("sluice-profile", "--measure --seconds 0.1 --link 1GB/s --quiet --out " + at("here"));
  REQUIRE(measured.code == 0);
  const std::string profile = "--profile " + at("here") + " ";
  for (const char* system : {"OrbitFlow", "VllmSwap", "SuperInfer", "Ellm", "Confluence"}) {
    INFO(system);
    const std::string job = three + profile + "--link 1GB/s --slo-tbt 0.02 --kv-memory " +
                            std::to_string(largest + 2 * 8 * block) + " --system " + system + " ";
    const Json real =
        json_of(job + "--decisions " + at("real") + " --record-clock " + at("clock") + " --out " + at("left"));
    const Json again =
        json_of(job + "--decisions " + at("again") + " --replay-clock " + at("clock") + " --out " + at("replayed"));
    // VllmSwap preempts whenever memory is full; the others may wait instead, as the measured speed suggests.
    if (std::string_view{system} == "VllmSwap")
      CHECK(real["bytes_moved"].get<std::int64_t>() + real["preemptions"].get<std::int64_t>() > 0);
    CHECK(content(folder.path / "real").size() > 100);
    CHECK(content(folder.path / "real") == content(folder.path / "again"));
    CHECK(again["metrics"]["iterations"] == real["metrics"]["iterations"]);
    CHECK(again["stall_s"] == real["stall_s"]);
    CHECK(again["plans"] == real["plans"]);
    CHECK(again["requests"][0]["tokens"].empty());
    const auto figures = [&folder](const char* run) {
      return read_csv(content(folder.path / run / "systems.csv")).at(0);
    };
    for (const auto& [name, cell] : figures("left"))
      if (name != "planning_s" && name != "planning_p99_us") // it plans again
        CHECK(figures("replayed").at(name) == cell);
    for (const char* table : {"requests.csv", "series.csv", "iterations.csv"}) {
      INFO(table);
      const std::string left = content(folder.path / "left" / table);
      CHECK(std::count(left.begin(), left.end(), '\n') > 1);
      CHECK((left == content(folder.path / "replayed" / table))); // no page in the log
    }
    // Another run's record: the error names the step where the run differs from it.
    const Ran other = run(random_prompt(2, 9) + job + "--replay-clock " + at("clock") + " 2>&1 >/dev/null");
    CHECK(other.code == 2);
    CHECK(other.out.find("sluice-run: --replay-clock: step ") == 0);
    CHECK(std::count(other.out.begin(), other.out.end(), '\n') == 1);
  }
}

TEST_CASE("planners learn from layers' times, unless --calibrate is off" * needs_program()) {
  const auto told = [](const std::string& arguments) {
    const Ran ran = run(arguments + " --verbose --prompt-ids 1,2,3 --max-tokens 40 --ignore-end 2>&1 >/dev/null");
    CHECK(ran.code == 0);
    CHECK(ran.out.find("planners use: ") != std::string::npos);
    constexpr std::string_view says = "planners have learned from ";
    const std::size_t at = ran.out.find(says);
    return at == std::string::npos ? 0 : std::stoi(ran.out.substr(at + says.size()));
  };
  CHECK(told("") >= 30); // of forty iterations; a median waits for five
  CHECK(told("--system VllmSwap --calibrate on") >= 30);
  CHECK(told("--calibrate off") == 0);
}

TEST_CASE("a model runs from its config, with random weights" * needs_program()) {
  const TemporaryFolder folder;
  const std::string job = " --prompt-ids 1,2,3,4,5 --max-tokens 4 --ignore-end ";
  CHECK(tokens_of(json_of(job + "--random-weights 20260118")) == tokens_of(json_of(job))); // tiny's own seed
  CHECK(tokens_of(json_of(job + "--random-weights 1")) != tokens_of(json_of(job)));
  // The same config, named llama: the numbers that a folder with those weights has.
  sluice::ModelWeights weights = sluice::random_weights(sluice::testing::small_llama(), 5, sluice::ElementType::bf16);
  sluice::testing::write_checkpoint(folder.path, weights);
  const std::string model = "--model '" + folder.path.string() + "'";
  const auto expected = tokens_of(json_of(model + job));
  for (const auto& file : std::filesystem::directory_iterator(folder.path))
    if (file.path().extension() == ".safetensors") std::filesystem::remove(file.path());
  CHECK(tokens_of(json_of(model + job + "--random-weights 5")) == expected);
  CHECK(tokens_of(json_of(model + job + "--random-weights 6")) != expected);
}

TEST_CASE("a record from a GPU replays without one" * needs_program()) {
  // An engine depends on its memory and its clock, not on the hardware: with KV of the same element type and the same
  // number of blocks, this machine's record is like a GPU's.
  const TemporaryFolder folder;
  const auto at = [&folder](const char* name) { return "'" + (folder.path / name).string() + "'"; };
  REQUIRE(run_program("sluice-profile", "--measure --seconds 0.1 --quiet --out " + at("here")).code == 0);
  const std::string job = three + "--profile " + at("here") +
                          " --slo-tbt 0.02 --lanes each-way --system OrbitFlow --kv-memory " +
                          std::to_string(largest + 2 * 8 * block) + " --host-memory 64MiB ";
  const Json real = json_of(job + "--decisions " + at("real") + " --record-clock " + at("clock"));
  CHECK(real["bytes_moved"].get<std::int64_t>() + real["preemptions"].get<std::int64_t>() > 0);
  const Json again = json_of(job + "--backend cuda --decisions " + at("again") + " --replay-clock " + at("clock"));
  CHECK(content(folder.path / "real").size() > 100);
  CHECK(content(folder.path / "real") == content(folder.path / "again"));
  CHECK(again["metrics"]["iterations"] == real["metrics"]["iterations"]);
  CHECK(again["requests"][0]["tokens"].empty());
}

TEST_CASE("a killed run leaves no files" * needs_program()) {
  const TemporaryFolder folder;
  const std::string at = "'" + folder.path.string();
  const Ran ran = run_program("sluice-run",
                              "--prompt a --max-tokens 60000 --ignore-end --json --logits " + at +
                                  "/l.npy' --timeline " + at + "/t' --decisions " + at + "/d' --out " + at + "'",
                              "timeout -s KILL 1 ");
  CHECK(ran.code != 0);
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a file that cannot be written ends the run in one line, and is removed" * needs_program()) {
  // Files are limited to a kilobyte.
  const Ran full = run_program("sluice-run", "--prompt a --json --logits logits-without-room.npy 2>&1 >/dev/null",
                               "trap '' XFSZ; ulimit -f 1; ");
  CHECK(full.code == 2);
  CHECK(full.out.find("sluice-run: --logits: logits-without-room.npy") == 0);
  CHECK_FALSE(std::filesystem::exists("logits-without-room.npy"));
}

} // namespace sluice_test::generating
