// SPDX-License-Identifier: Apache-2.0
// sluice-run --random-weights: a model runs from its config, with the numbers that a folder with those weights has.
#include "sluice/model/checkpoint/tiny.hpp"

#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"
#include "support/small_decoders.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

TEST_CASE("a model runs from its config, with random weights" * sluice_test::needs_program("sluice-run")) {
  const auto tokens = [](const std::string& flags) {
    const sluice_test::Ran ran = sluice_test::run_program(
        "sluice-run", "--json --prompt-ids 1,2,3,4,5 --max-tokens 4 --ignore-end --random-weights " + flags);
    CAPTURE(flags);
    REQUIRE(ran.code == 0);
    return nlohmann::json::parse(ran.out)["requests"][0]["tokens"];
  };
  const sluice_test::TemporaryFolder folder;
  sluice::ModelWeights weights = sluice::random_weights(sluice::testing::small_llama(), 5, sluice::ElementType::bf16);
  sluice::testing::write_checkpoint(folder.path, weights);
  const std::string model = " --model '" + folder.path.string() + "'";
  const sluice_test::Ran ran =
      sluice_test::run_program("sluice-run", "--json --prompt-ids 1,2,3,4,5 --max-tokens 4 --ignore-end" + model);
  REQUIRE(ran.code == 0);
  REQUIRE(std::filesystem::remove(folder.path / "model.safetensors"));
  CHECK(tokens("5" + model) == nlohmann::json::parse(ran.out)["requests"][0]["tokens"]);
  CHECK(tokens("6" + model) != tokens("5" + model));
}
