// SPDX-License-Identifier: Apache-2.0
// Errors of sluice-run beyond its flags: outputs that would replace something, shortages of memory and their messages,
// names with control characters, a system that refuses threads or memory; and the error that docs/running.md quotes.
#include "sluice/model/checkpoint/tiny.hpp"

#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"
#include "support/small_decoders.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using sluice_test::Ran;
using sluice_test::TemporaryFolder;

doctest::skip needs_program() { return sluice_test::needs_program("sluice-run"); }
Ran run(const std::string& arguments, const std::string& before = "") {
  return sluice_test::run_program("sluice-run", arguments, before);
}

void says(const std::string& arguments, const std::string& part, const std::string& before = "") {
  sluice_test::check_refused("sluice-run", arguments, part, before);
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

/// The JSON answer and the error line.
Json refused(const std::string& arguments, const fs::path& errors) {
  const Ran ran = run("--json " + arguments + " 2>" + quoted(errors));
  INFO(arguments);
  const Json json = Json::parse(ran.out, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

std::int64_t number_behind(const std::string& text, std::string_view before) {
  const std::size_t at = text.find(before);
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return std::stoll(text.substr(at + before.size()));
}

constexpr std::int64_t block = 16384;
constexpr int layers = 8;

/// The blocks of a request with so many tokens if nothing leaves the device: the last token has no KV, because none
/// follows it.
std::int64_t blocks_of(std::int64_t tokens) { return (tokens - 1 + 15) / 16 * layers; }

/// Words of one letter after U+2581, and the letters: 50 tokens.
Json sentencepiece() {
  const std::string space = "\xE2\x96\x81";
  Json file{{"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", space}, {"prepend_scheme", "always"}}},
            {"decoder", {{"type", "Metaspace"}, {"replacement", space}, {"prepend_scheme", "always"}}}};
  Json& model = file["model"] = {{"type", "BPE"}, {"merges", Json::array()}};
  model["vocab"][space] = 0;
  for (int i = 0; i < 24; ++i) {
    const std::string letter(1, static_cast<char>('a' + i));
    model["vocab"][letter] = 1 + i;
    model["vocab"][space + letter] = 25 + i;
    model["merges"].push_back(space + " " + letter);
  }
  model["vocab"]["z"] = 49;
  model["unk_token"] = "z";
  return file;
}

} // namespace

TEST_CASE("an answer keeps its leading space" * needs_program()) {
  const TemporaryFolder folder;
  sluice::testing::write_checkpoint(folder.path, sluice::random_weights(sluice::testing::small_llama(), 7));
  std::ofstream(folder.path / "tokenizer.json") << sentencepiece().dump();
  std::string prompts;
  for (char letter = 'a'; letter < 'y'; ++letter) prompts += std::string{" --prompt "} + letter;
  const Ran ran = run("--json --max-tokens 4 --ignore-end --model " + quoted(folder.path) + prompts + " 2>&1");
  if (ran.out.find("needs ICU") != std::string::npos) return; // a build without ICU reads no tokenizer.json
  const Json json = Json::parse(ran.out, nullptr, false);
  REQUIRE_MESSAGE(!json.is_discarded(), ran.out);
  int spaces = 0;
  for (const Json& request : json["requests"]) {
    std::string text;
    for (const int token : request["tokens"].get<std::vector<int>>()) {
      if (token == 0 || (token >= 25 && token < 49)) text += ' ';
      if (token > 0) text += token == 49 ? 'z' : static_cast<char>('a' + (token - 1) % 24);
    }
    CHECK(request["text"].get<std::string>() == text);
    spaces += text.front() == ' ' ? 1 : 0;
  }
  CHECK(spaces > 0);
}

TEST_CASE("no output replaces another, or an input of the run" * needs_program()) {
  const TemporaryFolder folder;
  const fs::path model = folder.path / "model";
  fs::create_directory(model);
  sluice::testing::write_checkpoint(model, sluice::random_weights(sluice::testing::small_llama(), 7));
  std::ofstream(folder.path / "t.csv") << "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0000000,20,4\n";
  fs::create_symlink(model / "config.json", folder.path / "link");
  const std::string before = sluice_test::content(model / "config.json");
  const std::string prompt = "--prompt-ids 1,2 --max-tokens 2 --model " + quoted(model);
  const std::string same = quoted(folder.path / "x"), other = quoted(folder.path / "model/../x");
  says(prompt + " --logits " + same + " --timeline " + other, "--timeline: ");
  says(prompt + " --timeline " + same + " --decisions " + other, "is the file of --timeline; expected another name");
  says(prompt + " --logits " + quoted(model / "config.json"), "is the file of --model's config.json");
  says(prompt + " --decisions " + quoted(folder.path / "link"), "--decisions: ");
  for (const fs::directory_entry& entry : fs::directory_iterator(model))
    if (entry.path().extension() == ".safetensors")
      says(prompt + " --timeline " + quoted(entry.path()), "--timeline: ");
  says("--trace " + quoted(folder.path / "t.csv") + " --decisions " + other + "/../t.csv", "--decisions: ");
  says("--trace " + quoted(folder.path / "t.csv") + " --logits " + quoted(folder.path / "t.csv"), "of --trace");
  says(prompt + " --out " + other + " --timeline " + quoted(folder.path / "x" / "report.json"),
       "report.json is the file of --timeline; expected another name");
  CHECK(sluice_test::content(model / "config.json") == before);
  CHECK_FALSE(fs::exists(folder.path / "x"));
  // Another file in the model's folder may be written, and a link is followed.
  fs::create_symlink("target.npy", folder.path / "link.npy");
  CHECK(
      run(prompt + " --json --timeline " + quoted(model / "run.json") + " --logits " + quoted(folder.path / "link.npy"))
          .code == 0);
  CHECK(fs::is_symlink(folder.path / "link.npy"));
  CHECK(fs::file_size(folder.path / "target.npy") == 128 + 2 * 50 * 4);
  CHECK(fs::exists(model / "run.json"));
}

TEST_CASE("every refused request of a long trace names enough memory, and the error line names the longest's" *
          needs_program()) {
  const TemporaryFolder folder;
  const fs::path trace = folder.path / "t.csv", errors = folder.path / "errors";
  constexpr int requests = 1000, longest = 12004;
  {
    std::ofstream file(trace);
    file << "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    for (int i = 0; i < requests; ++i) file << "2023-11-16 18:00:00.0000000," << longest - 4 - 3 * i << ",4\n";
  }
  const std::string arguments = "--trace " + quoted(trace) + " --no-wait ";
  for (const std::int64_t kv : {std::int64_t{4096}, std::int64_t{5} * layers * block}) {
    const Json json = refused(arguments + "--kv-memory " + std::to_string(kv), errors);
    for (int i = 0; i < requests; ++i) {
      const Json& request = json["requests"][static_cast<std::size_t>(i)];
      const std::string reason = request["reason"];
      CHECK(request["status"] == "refused");
      CHECK(reason.find("alone it needs at ") == 0);
      // Exact, or sufficient: at least its own need and at most the longest's.
      const std::int64_t said = number_behind(reason, "of which "), own = blocks_of(longest - 3 * i);
      if (reason.find("at least") != std::string::npos)
        CHECK(said == own);
      else
        CHECK(said >= own);
      CHECK(said <= blocks_of(longest));
    }
    const std::string line = sluice_test::content(errors);
    CHECK(line.find("sluice-run: --kv-memory: " + std::to_string(kv) + " bytes") == 0);
    CHECK(line.find("to run request 0 alone; expected at least " + std::to_string(blocks_of(longest) * block)) !=
          std::string::npos);
  }
  // A system for which a second is enough for only some searches.
  const Json json = refused(arguments + "--kv-memory 4096 --system OrbitFlow", errors);
  for (const Json& request : json["requests"])
    CHECK(request["reason"].get<std::string>().find("alone it needs at ") == 0);
  const std::int64_t most = number_behind(json["requests"][0]["reason"], "of which ") * block;
  CHECK(number_behind(sluice_test::content(errors), "expected at least ") == most);
}

TEST_CASE("the error of a shortage names its flag and enough bytes" * needs_program()) {
  const TemporaryFolder folder;
  const fs::path errors = folder.path / "errors";
  const std::string job = "--prompt-ids 1,2,3 --max-tokens 40 --system DeepSpeedInference --host-memory ";
  const Json json = refused(job + "1000", errors);
  const std::string line = sluice_test::content(errors);
  CHECK(line.find("sluice-run: --host-memory: 1000 bytes is too little for DeepSpeedInference to run request 0 alone; "
                  "expected at least ") == 0);
  CHECK(json["requests"][0]["reason"].get<std::string>().find("of host memory") != std::string::npos);
  const std::int64_t needed = number_behind(line, "at least ");
  CHECK(run(job + std::to_string(needed)).code == 0);
  CHECK(run(job + std::to_string(needed - 1) + " 2>&1").code == 2);
  for (const std::string flag : {"--device-memory", "--kv-memory", "--host-memory"}) {
    says("--prompt a " + flag + " 4096TiB", flag + ": the system has no address space for 4503599627370496 bytes");
    const std::string said = run("--prompt a " + flag + " 4096TiB 2>&1").out;
    CHECK(run("--prompt a " + flag + " " + std::to_string(number_behind(said, "can use at most "))).code == 0);
  }
}

TEST_CASE("no name adds a second line or controls the terminal" * needs_program()) {
  const TemporaryFolder folder;
  says("--trace 'x\ny'", "x?y");
  says("--prompt a --logits '/nonex\nist/a.npy'", "/nonex?ist/a.npy");
  const fs::path model = folder.path / "a\nb";
  fs::create_directory(model);
  says("--prompt-ids 1 --model " + quoted(model), "a?b");
  sluice::testing::write_checkpoint(model, sluice::random_weights(sluice::testing::small_llama(), 7));
  Json config = Json::parse(sluice_test::content(model / "config.json"));
  config["_name_or_path"] = "c\nd\x1b[31m\xC2\x9B";
  std::ofstream(model / "config.json") << config.dump();
  const Ran ran = run("--prompt-ids 1 --max-tokens 2 --model " + quoted(model));
  CHECK(ran.code == 0);
  CHECK(ran.out.find('\x1b') == std::string::npos);
  CHECK(ran.out.find("\xC2\x9B") == std::string::npos);
  CHECK(ran.out.find("on c?d?[31m?") != std::string::npos);
}

TEST_CASE("if the system refuses threads, memory or disk space, the run ends with one line" * needs_program()) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they need terabytes of addresses
  says("--threads 1024 --prompt a", "--threads: 1024 need 3 more", "ulimit -v 300000; ");
  says("--threads 1024 --prompt a --system Neo", "--threads: 1024 need 4 more", "ulimit -v 300000; ");
  says("--prompt a --max-tokens 4", "memory: the system refuses", "ulimit -v 60000; ");
#endif
  for (const std::string printing : {"--list", "--json --prompt a"}) {
    const Ran full = run(printing + " 2>&1 >/dev/full");
    CHECK(full.code == 2);
    CHECK(full.out == "sluice-run: standard output: it cannot be written; expected room for it\n");
  }
}

TEST_CASE("a flag without effect is refused, and a missing system's error says why" * needs_program()) {
  for (const std::string flag : {"--top-k 5", "--top-p 0.5", "--seed 1"})
    says("--prompt a " + flag, flag.substr(0, flag.find(' ')) + ": at temperature 0");
  says("--prompt a --rate-scale 2", "--rate-scale: no trace is given");
  says("--prompt a --no-wait", "--no-wait: no trace is given");
  says("--prompt a --system SwappedFirst", "SwappedFirst is not available: it is another name of VllmSwap");
  for (const std::string name :
       {"OrbitFlowPause", "OrbitFlowSrtf", "OrbitFlowPauseShortest", "OrbitFlowPauseRandom", "OrbitFlowEven"})
    says("--prompt a --system " + name, name + " is not available: it is ");
}

TEST_CASE("sluice-run prints the refusal that docs/running.md quotes" * needs_program()) {
  const std::string page = sluice_test::content("docs/running.md");
  const std::string_view prompt = "\n$ build/release/bin/sluice-run ";
  const std::size_t answer = page.find("\nsluice-run: ");
  REQUIRE(answer != std::string::npos);
  const std::size_t command = page.rfind(prompt, answer) + prompt.size();
  const Ran ran = run(page.substr(command, answer - command) + " 2>&1");
  CHECK(ran.code == 2);
  CHECK(ran.out == page.substr(answer + 1, page.find('\n', answer + 1) - answer));
}
