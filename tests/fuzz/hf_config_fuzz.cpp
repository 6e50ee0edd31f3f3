// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/nlohmann/hf_description.hpp"

#include "fuzz/fuzz_support.hpp"

SLUICE_FUZZ_TARGET(hf_config) {
  const auto config = sluice::parse_json_object(sluice_test::text_of(data, size), "config.json");
  if (!config) {
    sluice_test::require_one_line(config.error());
    return 0;
  }
  const auto side = config->find("hf_quant_config"); // instead of the file beside it
  const auto model =
      sluice::describe_hf_config(*config, side != config->end() && side->is_object() ? &*side : nullptr, "config.json");
  if (!model) {
    sluice_test::require_one_line(model.error());
  } else {
    sluice_test::require(model->parameters() >= model->active_parameters(), "no token passes more than all weights");
    sluice_test::require(model->weight_bytes().count() > 0, "described weights overflow nothing");
    sluice_test::require(model->kv.bytes(sluice::Tokens{1 << 20}).count() >= 0, "described KV overflows nothing");
  }
  const auto shape = sluice::shape_from_hf_config(*config, "config.json");
  if (!shape) {
    sluice_test::require_one_line(shape.error());
    return 0;
  }
  sluice_test::require(sluice::check(*shape, "config.json").ok(), "a shape that was read is valid");
  sluice_test::require(shape->weight_bytes().count() > 0, "the weights overflow nothing");
  sluice_test::require(shape->token_block_bytes(sluice::Tokens{16}).count() > 0, "a block overflows nothing");
  const auto decoder = sluice::decoder_from_hf_config(*config, "config.json");
  if (!decoder) {
    sluice_test::require_one_line(decoder.error());
    return 0;
  }
  sluice_test::require(decoder->max_positions > 0 && decoder->norm_epsilon > 0, "a decoder that was read is valid");
  for (const int token : decoder->end_tokens)
    sluice_test::require(token >= 0 && token < shape->vocabulary, "a text ends with a token of the vocabulary");
  return 0;
}
