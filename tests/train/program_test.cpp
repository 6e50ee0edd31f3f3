// SPDX-License-Identifier: Apache-2.0
// sluice-train from a text to a model folder: the same folder again, on one thread or two, and one line for wrong
// input.
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace {

using sluice_test::content;
using sluice_test::Ran;
using sluice_test::TemporaryFolder;

doctest::skip needs_program() { return sluice_test::needs_program("sluice-train"); }

void write_text(const std::string& path, int paragraphs) {
  std::ofstream file(path);
  for (int i = 0; i < paragraphs; ++i)
    file << "\"Shall the water go to gate " << i % 7 << "?\" said the miller of the village.\n\n"
         << "\"Let it go where the gates let it go,\" said the keeper.\n\n";
}

constexpr const char* small = " --vocabulary 512 --hidden 32 --layers 2 --heads 2 --kv-heads 1 --head-size 16 --mlp 64"
                              " --window 32 --steps 300 --batch 3 --rate 0.01 2>&1";

} // namespace

TEST_CASE("a text becomes a model, the same on one thread and on two, that knows what it has not seen" *
          needs_program()) {
  const TemporaryFolder folder;
  const std::string text = (folder.path / "text").string(), one = (folder.path / "one").string(),
                    two = (folder.path / "two").string();
  write_text(text, 600);
  const Ran ran = sluice_test::run_program("sluice-train", "--text '" + text + "' --out '" + one + "'" + small);
  INFO(ran.out);
  REQUIRE(ran.code == 0);
  const std::string before = "held out: ";
  const std::size_t at = ran.out.rfind(before);
  REQUIRE(at != std::string::npos);
  CHECK(std::strtod(ran.out.c_str() + at + before.size(), nullptr) < 0.5); // bits a byte: seven lines, over and over
  CHECK(
      sluice_test::run_program("sluice-train", "--threads 2 --text '" + text + "' --out '" + two + "'" + small).code ==
      0);
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
    CAPTURE(file);
    CHECK(content(folder.path / "one" / file).size() > 100);
    CHECK(content(folder.path / "one" / file) == content(folder.path / "two" / file));
  }
}

TEST_CASE("what cannot be trained is refused in a line" * needs_program()) {
  const TemporaryFolder folder;
  const std::string text = (folder.path / "text").string(), out = " --out '" + (folder.path / "out").string() + "'";
  write_text(text, 30);
  const auto refused = [&](const std::string& arguments, const std::string& part) {
    sluice_test::check_refused("sluice-train", arguments, part);
  };
  refused("--text '" + text + "'" + out, "it has 60 paragraphs; expected over 512");
  refused("--text '" + text + ".none'" + out, "there is no file");
  refused("--text '" + text + "'" + out + " --kv-heads 3", "--kv-heads: 4 heads cannot share 3");
  refused("--text '" + text + "'" + out + " --head-size 15", "--head-size: it is odd");
  refused("--text '" + text + "' --out '" + text + "/folder'", "--out: ");
  refused(out, "--text: is missing; expected");
  refused("--text '" + text + "'", "--out: is missing; expected");
  refused("--text '" + text + "'" + out + " --steps 0", "--steps: it is '0'; expected a whole number from 1");
}
