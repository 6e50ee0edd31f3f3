// SPDX-License-Identifier: Apache-2.0
// Each family's logits, compared with torch's from the same numbers (tests/reference).
#include "sluice/model/decoder/eigen/make_decoder.hpp"

#include "model/decoder/made_sequence.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::testing;

struct Golden {
  int position = 0;
  int argmax = 0;
  double magnitude = 0; ///< of the largest logit, positive or negative
  std::vector<double> first;
};

std::vector<Golden> goldens(const std::string& family) {
  std::ifstream file{"tests/reference/decoder_goldens.txt"};
  std::vector<Golden> found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line};
    std::string name;
    Golden golden;
    words >> name;
    if (name != family) continue;
    words >> golden.position >> golden.argmax >> golden.magnitude;
    for (double value = 0; words >> value;) golden.first.push_back(value);
    found.push_back(golden);
  }
  return found;
}

} // namespace

TEST_CASE("logits agree with torch to 1e-4 of the largest, in one piece, in chunks and token by token") {
  for (const char* const family : families) {
    const DecoderConfig config = family_config(family);
    const MadeModel model{config, ElementType::f32};
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 53; ++i) tokens.push_back((7 * i * i + 13 * i + 5) % config.shape.vocabulary);
    const std::vector<Golden> expected = goldens(family);
    REQUIRE(expected.size() == 8);
    for (const int chunk : {53, 19, 1}) {
      CAPTURE(config.shape.name);
      CAPTURE(chunk);
      const auto decoder = make_decoder(model.weights, Tokens{block_tokens}, 1);
      SequenceKv kv{config, static_cast<int>(tokens.size())};
      std::vector<std::vector<float>> logits;
      for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(chunk)) {
        const std::size_t count = std::min(static_cast<std::size_t>(chunk), tokens.size() - at);
        for (auto& row : pass(*decoder, model, kv, std::span{tokens}.subspan(at, count), static_cast<int>(at)))
          logits.push_back(std::move(row));
      }
      double worst = 0;
      for (const Golden& golden : expected) {
        const std::vector<float>& row = logits[static_cast<std::size_t>(golden.position)];
        REQUIRE(golden.first.size() == 10);
        const auto best = std::max_element(row.begin(), row.end());
        CHECK(best - row.begin() == golden.argmax);
        double magnitude = 0;
        for (const float value : row) magnitude = std::max(magnitude, std::abs(static_cast<double>(value)));
        worst = std::max(worst, std::abs(magnitude - golden.magnitude) / golden.magnitude);
        for (std::size_t i = 0; i < golden.first.size(); ++i) {
          const double off = std::abs(static_cast<double>(row[i]) - golden.first[i]) / golden.magnitude;
          worst = off <= worst ? worst : off; // a NaN is the worst error
        }
      }
      CHECK(worst <= 1e-4);
    }
  }
}
