// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/named.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

using namespace sluice;

TEST_CASE("choices of experts that no token could make are refused in one line") {
  const struct {
    ExpertRouting routing;
    const char* line; ///< empty: valid
  } rows[] = {
      {{}, ""},
      {{.normalised = false, .scale = 16, .groups = 4, .groups_per_token = 1}, ""},
      {{.score = RouterScore::sigmoid, .corrected = true, .groups = 4, .groups_per_token = 2, .group_scores = 2}, ""},
      {{.groups = 3}, "here: 8 experts are in 3 groups; expected a number of groups that divides the experts"},
      {{.groups = 0}, "here: 8 experts are in 0 groups; expected a number of groups that divides the experts"},
      {{.groups = 4, .groups_per_token = 5}, "here: 5 groups of a token; expected 1 to all 4 groups"},
      {{.groups = 8}, "here: a token has 2 experts; expected at most the 1 of its groups"},
      {{.score = RouterScore::sigmoid, .groups = 8, .groups_per_token = 2, .group_scores = 2},
       "here: a group is judged by 2 experts of 1; expected 1 or 2, and no more than it has"},
      {{.score = RouterScore::sigmoid, .group_scores = 3},
       "here: a group is judged by 3 experts of 8; expected 1 or 2, and no more than it has"},
      {{.corrected = true}, "here: softmax scores are corrected or added; expected sigmoid for those"},
      {{.groups = 4, .groups_per_token = 2, .group_scores = 2},
       "here: softmax scores are corrected or added; expected sigmoid for those"},
      {{.scale = 0}, "here: the experts' weights are scaled by 0.000000; expected a positive number"},
  };
  for (const auto& row : rows) {
    DecoderConfig config = decoder_of(mixtral_8x7b());
    config.routing = row.routing;
    const Status status = check(config, "here");
    CHECK((status ? std::string{} : status.error().line()) == row.line);
  }
}

TEST_CASE("layers are of one kind each, and a kind's number names it") {
  DecoderConfig config = decoder_of(mixtral_8x7b());
  config.shape.dense.insert(0).insert(1);
  config.shape.delta.layers.insert(1).insert(2);
  CHECK(config.kind(0) == LayerKind{.dense = true});
  CHECK(config.kind(1) == LayerKind{.state = true, .dense = true});
  CHECK(config.kind(2) == LayerKind{.state = true});
  CHECK(config.kind(3) == LayerKind{});
  for (std::size_t number = 0; number < LayerKind::count; ++number) CHECK(LayerKind::of(number).number() == number);
}
