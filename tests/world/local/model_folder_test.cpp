// SPDX-License-Identifier: Apache-2.0
#include "sluice/world/local/nlohmann/model_folder.hpp"

#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <string>

using namespace sluice;
using sluice_test::TemporaryFolder;

TEST_CASE("the tiny model has a name, weights and a tokenizer of bytes") {
  const LocalModel model = tiny_model();
  CHECK(model.name == "tiny");
  CHECK(model.weights.config.shape.layers == 8);
  REQUIRE(model.tokenizer != nullptr);
  CHECK(model.tokenizer->decode(*model.tokenizer->encode("as it is")).find("as it is") != std::string::npos);
}

TEST_CASE("a missing folder is reported in one line") {
  const Expected<LocalModel> model = read_model("no/such/folder");
  REQUIRE(!model);
  CHECK(model.error().code == ErrorCode::not_found);
  CHECK(model.error().line() ==
        "the model: there is no folder 'no/such/folder'; expected a folder with config.json and *.safetensors");
}

TEST_CASE("errors within a folder come from the reader of the file") {
  const TemporaryFolder folder;
  const Expected<LocalModel> model = read_model(folder.path.string());
  REQUIRE(!model);
  CHECK(model.error().line().find("config.json") != std::string::npos);
}

TEST_CASE("without ICU a folder's tokens are bytes, unless it has a tokenizer file") {
  const TemporaryFolder folder;
  const Expected<std::unique_ptr<Tokenizer>> bytes = read_byte_tokenizer(folder.path.string());
  REQUIRE(bytes);
  CHECK((*bytes)->encode("abc")->size() >= 3);
  testing::write_file(folder.path / "vocab.json", "{}");
  const Expected<std::unique_ptr<Tokenizer>> refused = read_byte_tokenizer(folder.path.string());
  REQUIRE(!refused);
  CHECK(refused.error().line() == folder.path.string() + ": its vocab.json needs ICU, which this build is without; "
                                                         "expected token ids, or a build with ICU");
}
