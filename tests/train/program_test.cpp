// SPDX-License-Identifier: Apache-2.0
// sluice-train from a text to a model folder: the same folder on one thread and on two.
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

TEST_CASE("a text becomes a model, the same on one thread and on two, that predicts held-out text" * needs_program()) {
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
  CHECK(std::strtod(ran.out.c_str() + at + before.size(), nullptr) < 0.5); // bits per byte: seven lines, repeated
  CHECK(
      sluice_test::run_program("sluice-train", "--threads 2 --text '" + text + "' --out '" + two + "'" + small).code ==
      0);
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
    CAPTURE(file);
    CHECK(content(folder.path / "one" / file).size() > 100);
    CHECK(content(folder.path / "one" / file) == content(folder.path / "two" / file));
  }
}
