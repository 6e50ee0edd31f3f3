// SPDX-License-Identifier: Apache-2.0
// sluice-serve's /whatif; its records, which sluice-compare reads and which replay to the same decisions.
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using sluice_test::check_refused;
using sluice_test::content;
using sluice_test::needs_program;
using sluice_test::Ran;
using sluice_test::run_program;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;

Ran load(const ServerProcess& server, const std::string& arguments) {
  return run_program("sluice-load", "--quiet --url " + server.url() + " " + arguments + " 2>&1");
}

json what_if(const ServerProcess& server) {
  json answer;
  CHECK(ServerProcess::eventually([&] {
    answer = json::parse(sluice_test::get(server.port(), "/whatif"), nullptr, false);
    return answer.is_object() && !answer["age_s"].is_null();
  }));
  return answer;
}

std::int64_t lines_of(const std::string& file) {
  const std::string text = content(file);
  return std::count(text.begin(), text.end(), '\n');
}

std::string joined(const std::vector<std::string>& flags) {
  std::string all;
  for (const std::string& flag : flags) all += flag + ' ';
  return all;
}

/// Three files in a folder, and the flags by which sluice-serve writes them.
struct Files {
  TemporaryFolder folder;
  std::string record = (folder.path / "record.jsonl").string(), clock = (folder.path / "clock.csv").string(),
              decisions = (folder.path / "decisions.txt").string(), again = (folder.path / "again.txt").string();
  [[nodiscard]] std::vector<std::string> flags(std::vector<std::string> more) const {
    for (const std::string& flag :
         {std::string{"--record"}, record, std::string{"--record-clock"}, clock, std::string{"--decisions"}, decisions})
      more.push_back(flag);
    return more;
  }
  [[nodiscard]] std::string replay() const {
    return "--replay " + record + " --replay-clock " + clock + " --decisions " + again + " ";
  }
};

const std::vector<std::string> simulated{"--model",   "llama3-8b", "--simulate", "h100",
                                         "--system",  "OrbitFlow", "--slo-ttft", "5",
                                         "--slo-tbt", "0.05",      "--what-if",  "VllmSwap,SuperInfer"};

} // namespace

TEST_CASE("/whatif has every configured system, with the attainment of the served requests" *
          needs_program("sluice-serve")) {
  const ServerProcess server(simulated);
  json answer = json::parse(sluice_test::get(server.port(), "/whatif"));
  CHECK(answer["said"] == "No request has ended yet.");
  const Ran loaded = load(server, "--generate even:rate=100,requests=30,prompt=64,output=20");
  INFO(loaded.out);
  CHECK(loaded.code == 0);
  answer = what_if(server);
  INFO(answer.dump(2));
  CHECK(answer["systems"] == json{"OrbitFlow", "VllmSwap", "SuperInfer"});
  CHECK(answer["served"]["requests"] == 30);
  CHECK(answer["served"]["promised"] == 30);
  REQUIRE(answer["simulated"].size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(answer["simulated"][i]["system"] == answer["systems"][i]);
    CHECK(answer["simulated"][i]["state"] == "done");
    CHECK(answer["simulated"][i]["requests"] == 30);
    CHECK(answer["simulated"][i]["slo_attainment"].is_number());
  }
  for (const char* system : {"OrbitFlow met ", "VllmSwap would have met ", "SuperInfer "})
    CHECK(answer["said"].get<std::string>().find(system) != std::string::npos);
}

TEST_CASE("/whatif without SLOs, and with --what-if none" * needs_program("sluice-serve")) {
  const ServerProcess free({"--model", "tiny"});
  CHECK(load(free, "--generate even:rate=100,requests=5,prompt=8,output=8").code == 0);
  const json answer = what_if(free);
  CHECK(answer["said"].get<std::string>().find("None of the 5 requests had an SLO") == 0);
  CHECK(answer["served"]["slo_attainment"].is_null());
  CHECK(answer["simulated"].empty());
  const ServerProcess none({"--model", "tiny", "--what-if", "none"});
  CHECK(sluice_test::get(none.port(), "/whatif").find("expected --what-if") != std::string::npos);
}

namespace {

/// Serves requests, some of whose clients leave, then replays them with `more` flags. Another system must diverge from
/// the record.
void check_replayed(const std::vector<std::string>& flags, const std::string& more = "") {
  const Files files;
  ServerProcess server(files.flags(flags));
  const Ran loaded = load(server, "--generate 'poisson:rate=200,requests=40,prompt=uniform(8,40),"
                                  "output=uniform(10,40)' --temperature 1 --leave 0.3");
  INFO(loaded.out);
  CHECK(loaded.code == 0);
  CHECK(ServerProcess::eventually([&] { return lines_of(files.record) == 40; })); // while the server still runs
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  CHECK(lines_of(files.record) == 40);
  const std::string decisions = content(files.decisions);
  CHECK(std::count(decisions.begin(), decisions.end(), '\n') > 40);

  const Ran replayed = run_program("sluice-serve", joined(flags) + more + files.replay() + "2>&1");
  INFO(replayed.out);
  CHECK(replayed.code == 0);
  CHECK(replayed.out.find("40 requests replayed") == 0);
  CHECK(content(files.again) == decisions);
  std::vector<std::string> other = flags;
  *std::find(other.begin(), other.end(), "OrbitFlow") = "OneAtATime";
  check_refused("sluice-serve", joined(other) + files.replay(), "--replay-clock: step ");
}

} // namespace

TEST_CASE("--record writes each request's line at once, and the recorded clock replays to the same decisions" *
          needs_program("sluice-serve")) {
  check_replayed(simulated);
}

TEST_CASE("a recorded run with real tokens replays to the same decisions" * needs_program("sluice-profile")) {
  const TemporaryFolder folder;
  const std::string profile = (folder.path / "here").string();
  const Ran measured = run_program("sluice-profile", "--measure --seconds 0.1 --link 1GB/s --quiet --out " + profile);
  REQUIRE(measured.code == 0);
  check_replayed({"--model", "tiny", "--profile", profile, "--system", "OrbitFlow", "--kv-memory", "1MiB", "--link",
                  "1GB/s", "--slo-ttft", "5", "--slo-tbt", "0.01"});
}

TEST_CASE("a recorded run of a server on a GPU replays to the same decisions on a machine without one" *
          needs_program("sluice-profile")) {
  const TemporaryFolder
      folder; // an engine does not see its device: a record of this machine with the same KV size stands for a GPU's
  const std::string profile = (folder.path / "here").string();
  REQUIRE(run_program("sluice-profile", "--measure --seconds 0.1 --quiet --out " + profile).code == 0);
  check_replayed({"--model", "tiny", "--profile", profile, "--system", "OrbitFlow", "--kv-memory", "1MiB", "--slo-ttft",
                  "5", "--slo-tbt", "0.01", "--lanes", "each-way"},
                 "--backend cuda ");
}

TEST_CASE("a recorded run in which --gate hard held a request replays to the same decisions" *
          needs_program("sluice-serve")) {
  // A prompt of 16,000 tokens takes a step longer than the TBT of 2 s, so it is held while another request runs. That
  // one would run for 40 s, unless it is closed: no pause of this machine's matters that is shorter.
  const std::vector<std::string> flags{"--model",    "llama3-8b", "--simulate", "a5000",     "--system",
                                       "VllmSwap",   "--gate",    "hard",       "--context", "32768",
                                       "--slo-ttft", "600",       "--slo-tbt",  "2",         "--max-batch-tokens",
                                       "16384"};
  const Files files;
  ServerProcess server(files.flags(flags));
  const auto ask = [&](int prompt, int most, const char* more) {
    json body{
        {"prompt", std::vector<int>(static_cast<std::size_t>(prompt), 5)}, {"max_tokens", most}, {"stream", true}};
    return sluice_test::asked(server.port(), "/v1/completions", body.dump(), more);
  };
  auto first = ask(20, 2000, "");
  CHECK(first.read_until("data: "));
  auto held = ask(16000, 5, "");
  auto refused = ask(16000, 5, "x-slo-ttft-ms: 8000\r\n");
  CHECK(refused.response().status == 429);
  first.close();
  CHECK(held.rest().find("[DONE]") != std::string::npos);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  const std::string record = content(files.record);
  CHECK(std::count(record.begin(), record.end(), '\n') == 2);
  const std::size_t at = record.find("\"submitted_ts\"");
  REQUIRE(at != std::string::npos);

  const auto replayed = [&] { return run_program("sluice-serve", joined(flags) + files.replay() + "2>&1"); };
  const Ran same = replayed();
  INFO(same.out);
  CHECK(same.code == 0);
  CHECK(same.out.find("2 requests replayed") == 0);
  CHECK(content(files.again) == content(files.decisions));
  // On its arrival it would have run at once.
  const std::size_t end = record.find_first_of(",}", at);
  std::ofstream(files.record) << record.substr(0, at) << "\"ignored\": 0" << record.substr(end);
  CHECK(replayed().out.find("--replay-clock: step ") != std::string::npos);
}

TEST_CASE("--record writes a trace that sluice-compare reads, with the same number of requests" *
          needs_program("sluice-compare")) {
  const Files files;
  ServerProcess server(files.flags(simulated));
  CHECK(load(server, "--generate even:rate=100,requests=25,prompt=64,output=20").code == 0);
  CHECK(ServerProcess::eventually([&] { return lines_of(files.record) == 25; }));
  server.signal(SIGKILL); // without a chance to end cleanly
  CHECK(server.wait() == 128 + SIGKILL);
  const std::string table = (files.folder.path / "table.json").string();
  const Ran compared = run_program("sluice-compare", "--trace " + files.record +
                                                         " --format vllm --model llama3-8b --device h100 --systems "
                                                         "VllmSwap,OrbitFlow 2>&1"); // with the SLOs of the record
  INFO(compared.out);
  CHECK(compared.code == 0);
  CHECK(compared.out.find("25 requests") != std::string::npos);
}

TEST_CASE("a full disk does not stop the server" * needs_program("sluice-serve")) {
  std::vector<std::string> flags = simulated;
  for (const char* flag : {"--record", "/dev/full", "--record-clock", "/dev/full"}) flags.emplace_back(flag);
  ServerProcess server(flags);
  CHECK(load(server, "--generate even:rate=100,requests=5,prompt=8,output=8").code == 0);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("invalid flags for recording and replaying are refused at the start in one line" *
          needs_program("sluice-serve")) {
  const std::string tiny = "--model tiny --port 0 ";
  check_refused("sluice-serve", tiny + "--record /nowhere/record", "--record: '/nowhere/record' cannot be written");
  check_refused("sluice-serve", "--model llama3-8b --simulate h100 --port 0 --record-clock /nowhere/clock",
                "cannot be written");
  check_refused("sluice-serve", tiny + "--decisions /nowhere/decisions", "--decisions: ");
  for (const char* twice :
       {"--record a --record-clock a", "--record a --decisions a", "--decisions ./a --record-clock a",
        "--replay a --decisions a --replay-clock b", "--api-key-file a --decisions a", "--api-key-file a --record a"})
    check_refused("sluice-serve", tiny + "--profile docs " + twice, "is the file of --");
  check_refused("sluice-serve", tiny + "--drain 1e300", "--drain: it is above a day; expected at most 86400 seconds");
  check_refused("sluice-serve", tiny + "--what-if VllmSwap,Orbitflow", "--what-if: there is no system 'Orbitflow'");
  check_refused("sluice-serve", tiny + "--replay README.md", "--replay: it stands alone");
  check_refused("sluice-serve", tiny + "--replay README.md --replay-clock README.md",
                "--replay: without a profile every run measures");
  check_refused("sluice-serve", "--model llama3-8b --simulate h100 --replay README.md --replay-clock README.md",
                "--replay: README.md:1: ");
  check_refused("sluice-serve", tiny + "--backend cuda --profile docs --record-clock a",
                "--record-clock: the free memory of a GPU differs between runs");
  check_refused("sluice-serve", "--model llama3-8b --simulate h100 --backend cuda",
                "--backend: with --simulate nothing computes");
}
