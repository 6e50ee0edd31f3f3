// SPDX-License-Identifier: Apache-2.0
// sluice-run --json for a GPU; without one, programs can only show their errors.
#include "run/results.hpp"

#include "sluice/world/local/model.hpp"

#include "run/options.hpp"
#include "run/workload.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

TEST_CASE("sluice-run --json reports how a GPU launched its layers, and nothing for a processor") {
  const running::Options options;
  const sluice::LocalModel model{};
  running::Results results;
  const auto printed = [&] { return nlohmann::json::parse(running::json_text(options, model, {}, results)); };
  CHECK_FALSE(printed().contains("graphs"));
  results.graphs = sluice::GraphCounts{.made = 3, .replayed = 40, .launched = 7, .refused = "cuda: \"no memory\""};
  CHECK(printed().at("graphs") ==
        nlohmann::json{{"made", 3}, {"replayed", 40}, {"launched", 7}, {"refused", "cuda: \"no memory\""}});
}
