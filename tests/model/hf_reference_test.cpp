// SPDX-License-Identifier: Apache-2.0
// Published configurations against figures of an independent script.
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/nlohmann/hf_description.hpp"

#include "support/shared_data.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace sluice;

namespace hf_reference_test {

/// The cells of a line of CSV, of which some are quoted.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

using Row = std::map<std::string, std::string>; ///< by column
std::vector<Row> reference_rows(const std::string& folder) {
  std::ifstream file(folder + "/reference.csv");
  std::string line;
  REQUIRE(std::getline(file, line));
  const std::vector<std::string> heads = cells_of(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    REQUIRE(cells.size() == heads.size());
    Row& row = rows.emplace_back();
    for (std::size_t c = 0; c < heads.size(); ++c) row[heads[c]] = cells[c];
  }
  return rows;
}

TEST_CASE("published models have the parameters, weights and KV of the reference" *
          sluice_test::needs_shared({"data/models/reference.csv"})) {
  const std::string folder = sluice_test::shared_path("data/models");
  int rows = 0;
  for (Row& row : reference_rows(folder)) {
    CAPTURE(row["model"]);
    const Expected<ModelDescription> model = read_hf_description(folder + "/" + row["model"]);
    CHECK_MESSAGE(model, (model ? std::string{} : model.error().line()));
    if (!model) continue;
    ++rows;
    CHECK(model->parameters() == std::stoll(row["parameters_text"]));
    CHECK(model->active_parameters() == std::stoll(row["parameters_active"]));
    CHECK(model->weight_bytes().count() == std::stoll(row["weight_bytes_text"]));
    for (const std::int64_t tokens : {1024, 8192, 32768, 131072, 1048576})
      CHECK(model->kv.bytes(Tokens{tokens}).count() == std::stoll(row["kv_bytes_" + std::to_string(tokens)]));
    CHECK(model->kv.growth_bytes_per_token() == doctest::Approx(std::stod(row["kv_bytes_per_token_slope"])));
  }
  CHECK(rows >= 54);
}

TEST_CASE("a request's room in blocks is within 3 % of its KV at 8k tokens, for every published model" *
          sluice_test::needs_shared({"data/models/reference.csv"})) {
  const std::string folder = sluice_test::shared_path("data/models");
  int rows = 0;
  for (Row& row : reference_rows(folder)) {
    CAPTURE(row["model"]);
    const Expected<SimulatedModel> model = find_or_read_simulated(folder + "/" + row["model"]);
    CHECK_MESSAGE(model, (model ? std::string{} : model.error().line()));
    if (!model) continue;
    ++rows;
    const Tokens block{16};
    const double exact = std::stod(row["kv_bytes_8192"]);
    double room = static_cast<double>(model->shape.token_block_bytes(block).count()) * 512;
    if (model->layered) {
      REQUIRE(KvBlocks::fits(model->layered->kv, block));
      const KvBlocks blocks(model->layered->kv, block);
      room = static_cast<double>(blocks.room(512)) * static_cast<double>(blocks.quantum().count());
    }
    CHECK(room >= exact);
    CHECK(room <= 1.03 * exact);
  }
  CHECK(rows >= 54);
}

} // namespace hf_reference_test
