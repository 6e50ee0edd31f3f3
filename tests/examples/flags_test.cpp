// SPDX-License-Identifier: Apache-2.0
// Flags: every program suggests the nearest flag or name for a misspelt one, reads traces in the same way, and uses
// shared flags with the same kind, unit and range.
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
using sluice_test::check_refused;
using sluice_test::needs_program;
using sluice_test::Ran;
using sluice_test::run_program;
using sluice_test::TemporaryFolder;

bool built(const std::string& program) { // false if a library for it is missing
  std::error_code ignored;
  return fs::exists(sluice_test::program_path(program), ignored);
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

/// The same four requests in three formats, half a second apart.
const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                          "2023-11-16 18:15:46.5,200,20\n2023-11-16 18:15:47.0,300,30\n"
                          "2023-11-16 18:15:47.5,100,40\n2023-11-16 18:15:48.0,250,10\n";
const std::string mooncake = R"({"timestamp": 0, "input_length": 200, "output_length": 20}
{"timestamp": 500, "input_length": 300, "output_length": 30}
{"timestamp": 1000, "input_length": 100, "output_length": 40}
{"timestamp": 1500, "input_length": 250, "output_length": 10}
)";
const std::string table = "id;in;out;\"when; in ms\"\n\"a;\"\"b\";200;20;1700158546500\nc;300;30.0;1700158547000\n"
                          "d;100;40;1700158547500\ne;250;10;1700158548000\n";
const std::string mapping = " --trace-columns 'arrival=when; in ms,prompt=in,output=out,unit=ms'";

/// The kind of a flag's value in --help, such as "SIZE", and the first unit outside parentheses.
struct Told {
  std::string kind, unit;
  bool operator==(const Told&) const = default;
};
std::map<std::string, Told> told(const std::string& program) {
  const std::size_t column = 30; // where CLI11 begins a flag's text; for longer names the text is in the next line
  std::istringstream help(run_program(program, "--help").out);
  std::map<std::string, Told> flags;
  std::string* unit = nullptr; // of the flag whose text is in the next line
  const auto unit_of = [](std::string text) {
    static const std::regex aside(R"(\([^()]*\))"),
        units(R"(\b(bytes per second|token blocks|blocks|bytes|seconds|milliseconds|tokens|[kMGT]i?B(/s)?)(?!\w))");
    text = std::regex_replace(text, aside, "");
    std::smatch found;
    return std::regex_search(text, found, units) ? found[1].str() : std::string{};
  };
  for (std::string line; std::getline(help, line);) {
    if (unit != nullptr) *unit = unit_of(line);
    unit = nullptr;
    static const std::regex named(R"(^  (--[a-z-]+) ([A-Z]+)(.*)$)");
    std::smatch found;
    if (!std::regex_match(line, found, named)) continue;
    Told& flag = flags[found[1]] = {found[2], line.size() > column ? unit_of(line.substr(column)) : ""};
    const std::size_t words = line.find_last_not_of(' ');
    if (words == std::string::npos || words < column || line[column - 1] != ' ') unit = &flag.unit;
  }
  return flags;
}

} // namespace

TEST_CASE("every program suggests the flag for a misspelt one" * needs_program("sluice-compare")) {
  for (const auto& [program, typed, meant] :
       std::vector<std::array<std::string, 3>>{{"sluice-compare", "--kvblocks 3", "--kv-blocks"},
                                               {"sluice-compare", "--kv_blocks=3", "--kv-blocks"},
                                               {"sluice-explore", "--kvblocks 3", "--kv-blocks"},
                                               {"sluice-fleet", "--enginse 3", "--engines"},
                                               {"sluice-load", "--genrate demo", "--generate"},
                                               {"sluice-plan", "--explian", "--explain"},
                                               {"sluice-profile", "--modle tiny", "--model"},
                                               {"sluice-run", "--pormpt hello", "--prompt"},
                                               {"sluice-run", "--systems OrbitFlow --prompt a", "--system"},
                                               {"sluice-serve", "--prot 1", "--port"},
                                               {"sluice-tiers", "--bloks 3", "--blocks"},
                                               {"sluice-train", "--text a --out b --setps 3", "--steps"},
                                               {"sluice-train", "--txt a --out b", "--text"},
                                               {"sluice-validate", "--porfile x", "--profile"}}) {
    if (!built(program)) continue;
    check_refused(program, typed,
                  ": there is no such flag (did you mean " + meant + "?); expected the flags that --help");
  }
  check_refused("sluice-compare", "--frobnicate", "--frobnicate: there is no such flag; expected");
  check_refused("sluice-compare", "OrbitFlow", "command line: there is a word too many, 'OrbitFlow'");
}

TEST_CASE("every program says in one line what CLI11 refuses" * needs_program("sluice-compare")) {
  const std::string wrong = "--version: it is 'x'; expected no value, or true or false";
  for (const std::string program :
       {"sluice-compare", "sluice-explore", "sluice-fleet", "sluice-load", "sluice-plan", "sluice-profile",
        "sluice-run", "sluice-serve", "sluice-tiers", "sluice-train", "sluice-validate"})
    if (built(program)) check_refused(program, "--version=x", wrong);
  if (built("bench_distances")) { // it has types and lists of CLI11's
    check_refused(
        "bench_distances", "--thread 3",
        "bench_distances: --thread: there is no such flag (did you mean --threads?); expected the flags that");
    check_refused("bench_distances", "--threads x", "bench_distances: --threads: it is 'x'; expected a whole number");
    check_refused("bench_distances", "--batches 1,x",
                  "--batches: it is '1,x'; expected a whole number, or several with commas");
    check_refused("bench_distances", "--seeds", "--seeds: it has no value; expected --seeds TEXT");
  }
}

TEST_CASE("programs suggest the name for a misspelt one" * needs_program("sluice-compare")) {
  for (const std::string program : {"sluice-compare", "sluice-explore", "sluice-profile"}) {
    if (!built(program)) continue;
    check_refused(program, "--model llama3-8",
                  "there is no model 'llama3-8' (did you mean llama3-8b?); expected one of");
    check_refused(program, "--device a500", "there is no device 'a500' (did you mean a5000?); expected one of");
  }
  for (const std::string program : {"sluice-compare", "sluice-explore"}) {
    if (!built(program)) continue;
    check_refused(program, "--systems OrbitFlo", "there is no system 'OrbitFlo' (did you mean OrbitFlow?)");
    check_refused(program, "--generate sharegtp", "there is no generator 'sharegtp' (did you mean sharegpt?)");
    check_refused(program, "--generate demo:request=3", "there is no key 'request' (did you mean requests?)");
  }
  check_refused("sluice-compare", "--preset mirag", "there is no preset 'mirag' (did you mean mirage?)");
  check_refused("sluice-compare", "--transfer fairshare", "there is no rule 'fairshare' (did you mean fair-share?)");
  check_refused("sluice-compare", "--seeds 1,2 --baseline VllmSwa",
                "'VllmSwa' is not among the systems (did you mean VllmSwap?)");
  check_refused("sluice-compare", "--table md --columns tokns", "there is no column 'tokns' (did you mean tokens?)");
  if (built("sluice-run"))
    check_refused("sluice-run", "--system orbitflw --prompt a", "there is no system 'orbitflw'; expected OrbitFlow,");
}

TEST_CASE("every program that reads traces detects their format" * needs_program("sluice-compare")) {
  const TemporaryFolder folder;
  const std::string path = (folder.path / "trace").string(), trace = "--trace '" + path + "'";
  // The output does not depend on the format.
  const auto served = [&](const std::string& flags) {
    const Ran ran =
        run_program("sluice-compare", trace + flags +
                                          " --systems VllmSwap --batch 2 --kv-blocks 40 --quiet --table csv "
                                          "--columns system,served,tokens,e2e,p99-ttft 2>&1");
    CAPTURE(ran.out);
    CHECK(ran.code == 0);
    return ran.out;
  };
  write(path, azure);
  const std::string wanted = served(" --format azure");
  CHECK(wanted.find("VllmSwap,off,4,") != std::string::npos);
  CHECK(served("") == wanted);
  write(path, mooncake);
  CHECK(served("") == wanted);
  write(path, table);
  CHECK(served(mapping) == wanted);

  const std::string unknown = "is a trace in no known format, and its columns are id, in, out, when; in ms; "
                              "expected --trace-columns arrival=NAME,prompt=NAME,output=NAME";
  const std::string misspelt = " --trace-columns arrival=whn,prompt=in,output=out";
  for (const auto& [program, more] : {std::pair<std::string, std::string>{"sluice-compare", ""},
                                      {"sluice-explore", ""},
                                      {"sluice-run", " --model tiny"},
                                      {"sluice-load", ""}}) {
    if (!built(program)) continue;
    check_refused(program, trace + more, unknown);
    check_refused(program, trace + more + misspelt, ":1: there is no column 'whn'");
    check_refused(program, trace + more + " --trace-columns arival=when", "did you mean arrival?");
    check_refused(program, trace + more + " --format cvs", "there is no format 'cvs' (did you mean csv?)");
  }
  if (built("sluice-run")) {
    const Ran ran = run_program("sluice-run", trace + mapping + " --model tiny --max-tokens 2 --no-wait --json");
    REQUIRE(ran.code == 0);
    CHECK(nlohmann::json::parse(ran.out)["requests"].size() == 4);
  }
}

TEST_CASE("a flag of several programs has one kind and one unit" * needs_program("sluice-compare")) {
  // Only flags with a value: a switch with the same name (--batch of sluice-plan) is another flag.
  std::map<std::string, std::pair<std::string, Told>> first;
  std::size_t shared = 0;
  for (const std::string program :
       {"sluice-compare", "sluice-explore", "sluice-fleet", "sluice-load", "sluice-plan", "sluice-profile",
        "sluice-run", "sluice-serve", "sluice-tiers", "sluice-train", "sluice-validate"}) {
    if (!built(program)) continue;
    const std::map<std::string, Told> flags = told(program);
    CHECK_FALSE(flags.empty());
    for (const auto& told_here : flags) {
      const std::string& flag = told_here.first;
      const Told& here = told_here.second;
      const auto [there, is_first] = first.try_emplace(flag, program, here);
      if (is_first) continue;
      ++shared;
      const std::string& other = there->second.first;
      const Told& as_told = there->second.second;
      CAPTURE(program);
      CAPTURE(other);
      CAPTURE(flag);
      CHECK(here.kind == as_told.kind);
      if (here.kind != "TEXT") CHECK(here.unit == as_told.unit);
    }
  }
  CHECK(first.at("--link").second == Told{"RATE", "bytes per second"}); // the help was parsed
  CHECK(first.at("--host-memory").second.kind == "SIZE");
  if (built("sluice-explore")) CHECK(shared > 10);
}

TEST_CASE("every program reads sizes and rates in the same way" * needs_program("sluice-compare")) {
  const std::string rate = "expected a rate of at least 1B/s, with its unit, such as 2GB/s",
                    size = "expected a size such as 64MiB, 1.5GB or 65536";
  for (const std::string program : {"sluice-compare", "sluice-profile", "sluice-run", "sluice-serve"}) {
    if (!built(program)) continue;
    for (const std::string wrong : {"2", "2e9", "2GB", "0B/s", "-1GB/s", "1e30GB/s", "fast"})
      check_refused(program, "--link=" + wrong, "--link: it is '" + wrong + "'; " + rate + ", or unlimited");
    if (program == "sluice-profile") continue;
    for (const std::string wrong : {"64Mb", "-1", "1e30GB", "much"})
      check_refused(program, "--host-memory=" + wrong, "--host-memory: it is '" + wrong + "'; " + size);
  }
  check_refused("sluice-compare", "--bus 25", "--bus: it is '25'; " + rate);
  // A number without a unit is bytes, not gigabytes.
  check_refused("sluice-compare", "--host-memory 40", "--host-memory: 40 bytes is less than one block of one layer");
  check_refused("sluice-compare", "--host-memory 1GB,1000MB", "value 2 of '1GB,1000MB' is '1000MB' once more");
  check_refused("sluice-compare", "--link 1GB/s,unlimited",
                "value 2 of '1GB/s,unlimited' is 'unlimited', which is not a number; expected only numbers "
                "in a list, and --link unlimited by itself");
}
