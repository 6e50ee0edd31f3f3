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
       "here: a group's score is the sum of 2 of its 1 experts' scores; expected 1 or 2, and no more than it has"},
      {{.score = RouterScore::sigmoid, .group_scores = 3},
       "here: a group's score is the sum of 3 of its 8 experts' scores; expected 1 or 2, and no more than it has"},
      {{.corrected = true},
       "here: scores by softmax have a correction, or are added in groups; expected sigmoid scores for either"},
      {{.groups = 4, .groups_per_token = 2, .group_scores = 2},
       "here: scores by softmax have a correction, or are added in groups; expected sigmoid scores for either"},
      {{.scale = 0}, "here: the experts' weights are scaled by 0.000000; expected a positive number"},
  };
  for (const auto& row : rows) {
    DecoderConfig config = decoder_of(mixtral_8x7b());
    config.routing = row.routing;
    const Status status = check(config, "here");
    CHECK((status ? std::string{} : status.error().line()) == row.line);
  }
}

TEST_CASE("experts, dense layers beside them and gates of shared ones are refused where there are none") {
  const auto error = [](const DecoderConfig& config) {
    const Status status = check(config, "here");
    return status ? std::string{} : status.error().line();
  };
  DecoderConfig none = decoder_of(llama3_8b());
  none.mlp = MlpKind::experts;
  CHECK(error(none) == "here: its MLPs are experts, and there are none; expected a number of experts");
  DecoderConfig dense = decoder_of(llama3_8b());
  dense.shape.dense.insert(0);
  CHECK(error(dense) ==
        "here: some layers have a dense MLP beside layers of experts, and none has; expected experts, or "
        "no such layers");
  DecoderConfig gated = decoder_of(mixtral_8x7b());
  gated.gated_shared_experts = true;
  CHECK(error(gated) == "here: shared experts have a gate, and there are none; expected shared experts, or no gate");
  gated.shape.shared_intermediate = 64;
  gated.shape.dense.insert(0);
  CHECK(error(gated).empty());
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
