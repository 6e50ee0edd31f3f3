// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/nlohmann/hf_description.hpp"

#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"
#include "support/small_decoders.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace sluice;
using nlohmann::json;

namespace {

DecoderConfig decoder_of(const json& config) {
  Expected<DecoderConfig> decoder = decoder_from_hf_config(config, "config.json");
  if (!decoder) FAIL(decoder.error().line());
  return *decoder;
}

std::string error_of(const json& config) {
  const Expected<DecoderConfig> decoder = decoder_from_hf_config(config, "config.json");
  return decoder ? "none" : decoder.error().line();
}

/// A config with some fields replaced.
json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

json config_of_family(const std::string& name) {
  for (const DecoderConfig& config : testing::small_decoders())
    if (config.shape.name == name) return testing::hf_config_of(config);
  FAIL("no family " << name);
  return {};
}

} // namespace

TEST_CASE("Llama 3.1's own config is read as in its paper") {
  const DecoderConfig decoder = decoder_of(json::parse(R"({"architectures": ["LlamaForCausalLM"],
    "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009],
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
    "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 128256})"));
  CHECK(decoder.norm == NormKind::rms);
  CHECK(decoder.norm_epsilon == 1e-5F);
  CHECK(decoder.position == PositionKind::rotary);
  CHECK(decoder.rope_theta == 500000);
  CHECK(decoder.rope_scaling == RopeScaling{8, 1, 4, 8192});
  CHECK(decoder.max_positions == 131072);
  CHECK(decoder.mlp == MlpKind::gated_silu);
  CHECK_FALSE(decoder.qkv_bias);
  CHECK_FALSE(decoder.output_bias);
  CHECK(decoder.end_tokens == std::vector<int>{128001, 128008, 128009});
  CHECK(decoder.begin_token == 128000);
  CHECK(decoder.shape.weight_element_bytes == 2);
  CHECK(decoder.shape.kv_element_bytes == 4);
}

TEST_CASE("each family's config is read back") {
  for (const DecoderConfig& config : testing::small_decoders()) {
    CAPTURE(config.shape.name);
    DecoderConfig expected = config;
    DecoderConfig found = decoder_of(testing::hf_config_of(config));
    if (config.position == PositionKind::learned)
      expected.rope_theta = found.rope_theta;                  // an OPT config has no rotations
    expected.shape.max_context = Tokens{config.max_positions}; // a config file states it, the test's decoder does not
    if (config.shape.experts == 0) found.shape.moe_intermediate = expected.shape.moe_intermediate;
    CHECK(found == expected);
  }
  json mistral = with(config_of_family("llama"), {{"model_type", "mistral"}, {"sliding_window", nullptr}});
  mistral.erase("_name_or_path");
  DecoderConfig expected = testing::small_llama();
  expected.shape.name = "mistral";
  expected.shape.max_context = Tokens{expected.max_positions};
  CHECK(decoder_of(mistral) == expected);
}

TEST_CASE("absent fields have Hugging Face's defaults") {
  json llama = config_of_family("llama");
  for (const char* field : {"rope_theta", "rope_scaling", "hidden_act", "eos_token_id", "bos_token_id"})
    llama.erase(field);
  const DecoderConfig decoder = decoder_of(llama);
  CHECK(decoder.rope_theta == 10000);
  CHECK(decoder.end_tokens.empty());
  CHECK(decoder.begin_token == -1);
  json mixtral = config_of_family("mixtral");
  mixtral.erase("rope_theta");
  CHECK(decoder_of(mixtral).rope_theta == 1e6);
  CHECK(decoder_of(with(llama, {{"eos_token_id", 7}})).end_tokens == std::vector<int>{7});
  const DecoderConfig biased = decoder_of(with(llama, {{"attention_bias", true}}));
  CHECK(biased.qkv_bias);
  CHECK(biased.output_bias);
  CHECK(decoder_of(with(llama, {{"rope_scaling", {{"type", "default"}}}})).rope_scaling == RopeScaling{});
  const DecoderConfig newer =
      decoder_of(with(llama, {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}}));
  CHECK(newer.rope_theta == 5e5);
  CHECK(decoder_of(with(llama, {{"sliding_window", 128}})).max_positions == 128);
  CHECK(decoder_of(with(config_of_family("qwen2"), {{"use_sliding_window", false}, {"sliding_window", 64}})).qkv_bias);
}

TEST_CASE("DeepSeek-V2-Lite's sizes, experts and YaRN are read as its own code reads them") {
  const json lite = json::parse(R"({"attention_bias": false, "bos_token_id": 100000, "eos_token_id": 100001,
    "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 10944,
    "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v2",
    "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2,
    "norm_topk_prob": false, "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27,
    "num_key_value_heads": 16, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000, "tie_word_embeddings": false,
    "routed_scaling_factor": 1.0, "scoring_func": "softmax", "topk_group": 1, "topk_method": "greedy",
    "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 102400})");
  const DecoderConfig whole = decoder_of(lite);
  CHECK(whole.mlp == MlpKind::experts);
  CHECK(whole.shape.dense == LayerSet::all(1));
  CHECK(whole.shape.experts == 64);
  CHECK(whole.shape.experts_per_token == 6);
  CHECK(whole.shape.moe_intermediate == 1408);
  CHECK(whole.shape.shared_intermediate == 2816);
  CHECK(whole.routing == ExpertRouting{.normalised = false});
  json types = json::array({"dense"});
  for (int layer = 1; layer < 27; ++layer) types.push_back("sparse");
  CHECK(decoder_of(with(lite, {{"mlp_layer_types", types}})) == whole);
  json all = with(lite, {{"first_k_dense_replace", 0}});
  all.erase("intermediate_size"); // of dense layers alone
  CHECK(decoder_of(all).shape.dense.empty());
  // The other published sizes: DeepSeek-V2, and V3's routing.
  const json limited{{"topk_method", "group_limited_greedy"}, {"n_group", 8}, {"topk_group", 3}};
  CHECK(decoder_of(with(lite, limited)).routing ==
        ExpertRouting{.normalised = false, .groups = 8, .groups_per_token = 3});
  const json third{{"model_type", "deepseek_v3"},
                   {"topk_method", "noaux_tc"},
                   {"scoring_func", "sigmoid"},
                   {"norm_topk_prob", true},
                   {"routed_scaling_factor", 2.5},
                   {"n_group", 8},
                   {"topk_group", 4}};
  CHECK(decoder_of(with(lite, third)).routing == ExpertRouting{.score = RouterScore::sigmoid,
                                                               .corrected = true,
                                                               .normalised = true,
                                                               .scale = 2.5,
                                                               .groups = 8,
                                                               .groups_per_token = 4,
                                                               .group_scores = 2});
  CHECK(decoder_of(with(lite, {{"n_shared_experts", nullptr}})).shape.shared_intermediate == 0);
  for (const json& dense : {json{{"n_routed_experts", nullptr}}, json{{"first_k_dense_replace", 27}}}) {
    const DecoderConfig decoder = decoder_of(with(lite, dense));
    const ModelShape& shape = decoder.shape;
    CHECK(shape.latent == LatentAttention{512, 64, 128, 0});
    CHECK(shape.heads == 16);
    CHECK(shape.kv_heads == 1);
    CHECK(shape.head_dim == 192);
    CHECK(shape.mlp == 10944);
    CHECK(shape.experts == 0);
    CHECK(shape.kv_bytes_per_token_per_layer() == Bytes{576 * 4});
    CHECK(decoder.neighbours_rotate);
    const RopeScaling& scaling = decoder.rope_scaling;
    CHECK(scaling.kind == RopeScalingKind::yarn);
    CHECK(scaling.factor == 40);
    CHECK(scaling.original_positions == 4096);
    CHECK(scaling.rotated_factor == 1);                                    // both mscales are equal
    CHECK(scaling.score_factor == doctest::Approx(1.58962).epsilon(1e-5)); // (0.0707 ln 40 + 1)^2
  }
}

TEST_CASE("Kimi-K2's config is read as DeepSeek-V3's, whose layout it has") {
  const json kimi = json::parse(R"({"attention_bias": false, "bos_token_id": 163584, "eos_token_id": 163585,
    "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432,
    "kv_lora_rank": 512, "max_position_embeddings": 131072, "model_type": "kimi_k2", "moe_intermediate_size": 2048,
    "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 384, "n_shared_experts": 1, "norm_topk_prob": true,
    "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 64,
    "num_nextn_predict_layers": 0, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "rms_norm_eps": 1e-06, "rope_theta": 50000.0, "routed_scaling_factor": 2.827,
    "rope_scaling": {"beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096, "type": "yarn"}, "scoring_func": "sigmoid", "tie_word_embeddings": false,
    "topk_group": 1, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 163840})");
  const DecoderConfig decoder = decoder_of(kimi);
  json third = with(kimi, {{"model_type", "deepseek_v3"}, {"_name_or_path", "kimi_k2"}});
  CHECK(decoder == decoder_of(third));
  CHECK(decoder.shape.experts == 384);
  CHECK(decoder.shape.shared_intermediate == 2048);
  CHECK(decoder.shape.dense == LayerSet::all(1));
  CHECK(decoder.routing ==
        ExpertRouting{
            .score = RouterScore::sigmoid, .corrected = true, .normalised = true, .scale = 2.827, .group_scores = 2});
  // Both betas are 1, which turns once within 4,096 tokens: pairs before that one stay, those behind it are stretched.
  CHECK(rotary_frequency(decoder, 19) == doctest::Approx(std::pow(50000, -38.0 / 64)));
  CHECK(rotary_frequency(decoder, 20) == doctest::Approx(std::pow(50000, -40.0 / 64) / 32));
}

TEST_CASE("GLM-4.5's config is read as its class reads it") {
  const json glm = json::parse(R"({"attention_bias": true, "eos_token_id": [151329, 151336, 151338],
    "first_k_dense_replace": 3, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "intermediate_size": 12288,
    "max_position_embeddings": 131072, "model_type": "glm4_moe", "moe_intermediate_size": 1536, "n_group": 1,
    "n_routed_experts": 160, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 96,
    "num_experts_per_tok": 8, "num_hidden_layers": 92, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
    "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
    "routed_scaling_factor": 2.5, "tie_word_embeddings": false, "topk_group": 1, "torch_dtype": "bfloat16",
    "use_qk_norm": true, "vocab_size": 151552})");
  const DecoderConfig decoder = decoder_of(glm);
  const ModelShape& shape = decoder.shape;
  CHECK(shape.kv_heads == 8);
  CHECK(shape.head_dim == 128);
  CHECK(shape.rotated == 64);
  CHECK(shape.mlp == 12288);
  CHECK(shape.experts == 160);
  CHECK(shape.experts_per_token == 8);
  CHECK(shape.moe_intermediate == 1536);
  CHECK(shape.shared_intermediate == 1536);
  CHECK(shape.dense == LayerSet::all(3));
  CHECK(decoder.norm == NormKind::rms);
  CHECK(decoder.qkv_bias);
  CHECK_FALSE(decoder.output_bias);
  CHECK(decoder.query_key_norm);
  CHECK_FALSE(decoder.neighbours_rotate);
  CHECK_FALSE(decoder.gated_shared_experts);
  CHECK(decoder.routing ==
        ExpertRouting{
            .score = RouterScore::sigmoid, .corrected = true, .normalised = true, .scale = 2.5, .group_scores = 2});
  json plain = glm; // the class's defaults
  for (const char* field : {"attention_bias", "use_qk_norm", "partial_rotary_factor"}) plain.erase(field);
  CHECK(decoder_of(plain).shape.rotated == 64);
  CHECK_FALSE(decoder_of(plain).qkv_bias);
  CHECK_FALSE(decoder_of(plain).query_key_norm); // GLM-4.5-Air
  CHECK(decoder_of(with(glm, {{"partial_rotary_factor", 1}})).shape.rotated == 128);
  CHECK(error_of(with(glm, {{"scoring_func", "softmax"}})) ==
        "config.json: scoring_func is 'softmax'; expected sigmoid");
  CHECK(error_of(with(glm, {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}})) ==
        "config.json: rope_scaling: the rotation's kind is 'yarn'; expected default");
  CHECK(error_of(with(glm, {{"head_dim", nullptr}})) ==
        "config.json: head_dim is missing; expected a whole number from 1 to 262144");
}

TEST_CASE("Qwen3.5 with experts has them in every layer, and Qwen3.5's other parts") {
  json config = config_of_family("qwen3_5_moe_text");
  const DecoderConfig decoder = decoder_of(config);
  CHECK(decoder.gated_shared_experts);
  CHECK_FALSE(decoder.joint_states);
  config.erase("intermediate_size");
  CHECK(error_of(config) == "none");
  CHECK(error_of(with(config, {{"mlp_only_layers", {1}}})) ==
        "config.json: 1 layers have no experts; expected experts in every layer, as the class of qwen3_5_moe_text has "
        "them");
  CHECK(error_of(with(config, {{"num_experts", 0}})) ==
        "config.json: num_experts is 0; expected a whole number from 1 to 4096");
  CHECK(error_of(with(config, {{"norm_topk_prob", false}})) == "config.json: norm_topk_prob is false; expected true");
  config.erase("norm_topk_prob");
  CHECK(decoder_of(config).routing == ExpertRouting{});
}

TEST_CASE("a model of more layers than an engine counts is refused in one line, by each reader") {
  for (const char* family : {"llama", "deepseek_v3", "glm4_moe", "qwen3_next"}) {
    json config = with(config_of_family(family), {{"num_hidden_layers", max_layers + 1}});
    if (config.contains("layer_types")) {
      config.erase("layer_types");
      config["full_attention_interval"] = 4;
    }
    CAPTURE(family);
    const std::string line = error_of(config);
    CHECK(line.find("config.json: ") == 0);
    CHECK(line.find("layers is 129; expected ") != std::string::npos);
    CHECK(line.find("128") != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    const Expected<ModelDescription> planned = describe_hf_config(config, nullptr, "config.json");
    REQUIRE_FALSE(planned);
    CHECK(planned.error().line() == "config.json: num_hidden_layers is 129; expected at most 128");
    config["num_hidden_layers"] = max_layers;
    CHECK(error_of(config) == "none");
  }
}

TEST_CASE("Qwen3-Next's sizes are read as its class reads them") {
  json next = json::parse(R"({"attention_bias": false, "bos_token_id": 151643, "decoder_sparse_step": 1,
    "eos_token_id": 151645, "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048,
    "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
    "mlp_only_layers": [], "model_type": "qwen3_next", "moe_intermediate_size": 512, "norm_topk_prob": true,
    "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10, "num_hidden_layers": 48,
    "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06, "rope_scaling": null,
    "rope_theta": 10000000, "shared_expert_intermediate_size": 512, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "vocab_size": 151936})");
  const DecoderConfig published = decoder_of(next);
  CHECK(published.mlp == MlpKind::experts);
  CHECK(published.shape.experts == 512);
  CHECK(published.shape.experts_per_token == 10);
  CHECK(published.shape.moe_intermediate == 512);
  CHECK(published.shape.shared_intermediate == 512);
  CHECK(published.shape.dense.empty());
  CHECK(published.gated_shared_experts);
  CHECK(published.routing == ExpertRouting{});
  CHECK_FALSE(decoder_of(with(next, {{"norm_topk_prob", false}})).routing.normalised);
  const LayerSet others =
      decoder_of(with(next, {{"decoder_sparse_step", 5}, {"mlp_only_layers", {4, 9, 0}}})).shape.dense;
  CHECK(others.count() == 41);
  CHECK(others.contains(4));
  CHECK_FALSE(others.contains(14));
  json sparse = next;
  sparse.erase("intermediate_size"); // of dense layers alone
  CHECK(error_of(sparse) == "none");
  CHECK(error_of(with(sparse, {{"mlp_only_layers", {7}}})) ==
        "config.json: intermediate_size is missing; expected a whole number from 1 to 262144");
  json all = json::array();
  for (int layer = 0; layer < 48; ++layer) all.push_back(layer);
  for (const json& dense : {json{{"num_experts", 0}}, json{{"mlp_only_layers", all}}}) {
    const DecoderConfig decoder = decoder_of(with(next, dense));
    const ModelShape& shape = decoder.shape;
    CHECK(shape.delta.layers.count() == 36);
    CHECK(shape.delta.layers.contains(2));
    CHECK_FALSE(shape.delta.layers.contains(3));
    CHECK(shape.delta.channels() == 8192);
    CHECK(shape.delta.kernel == 4);
    CHECK(shape.kv_heads == 2);
    CHECK(shape.rotated == 64);
    CHECK(shape.mlp == 5120);
    CHECK(shape.experts == 0);
    CHECK(decoder.norm == NormKind::rms_offset);
    CHECK(decoder.query_key_norm);
    CHECK(decoder.gated_heads);
    CHECK(decoder.joint_states);
    CHECK(decoder.rope_theta == 1e7);
  }
  next["num_experts"] = 0;
  // What newer files write: layers by name, and the rotation in one object, of which text has one position a token.
  json named{{"layer_types", json::array()},
             {"rope_parameters",
              {{"rope_type", "default"},
               {"rope_theta", 1e7},
               {"partial_rotary_factor", 0.25},
               {"mrope_section", {11, 11, 10}}}}};
  for (int layer = 0; layer < 48; ++layer)
    named["layer_types"].push_back(layer % 4 == 3 ? "full_attention" : "linear_attention");
  json newer = with(next, named);
  for (const char* field : {"full_attention_interval", "partial_rotary_factor", "rope_theta"}) newer.erase(field);
  CHECK(decoder_of(newer) == decoder_of(next));
  newer["rope_parameters"]["partial_rotary_factor"] = 0.5;
  CHECK(decoder_of(newer).shape.rotated == 128);
  next.erase("partial_rotary_factor");
  CHECK(decoder_of(next).shape.rotated == 64); // the class's own factor
}

TEST_CASE("Qwen3-Next's values that no decoder can have are refused by name") {
  const struct {
    json changes;
    const char* error;
  } wrong[] = {
      {{{"linear_conv_kernel_dim", 0}}, "linear_conv_kernel_dim is 0; expected a whole number from 1 to 262144"},
      {{{"linear_conv_kernel_dim", 1}}, "the length of a convolution is 1; expected a whole number from 2 to 8"},
      {{{"linear_num_value_heads", 5}},
       "5 value heads cannot share 2 key heads; expected a number of value heads that the key heads divide"},
      {{{"linear_key_head_dim", nullptr}}, "linear_key_head_dim is missing; expected a whole number from 1 to 262144"},
      {{{"layer_types", {"linear_attention"}}}, "layer_types has 1 entries; expected 4"},
      {{{"layer_types", {"linear_attention", "sliding_attention", "full_attention", "full_attention"}}},
       "layer_types holds 'sliding_attention'; expected linear_attention or full_attention"},
      {{{"layer_types", nullptr}},
       "layer_types is missing; expected the attention of each layer, or full_attention_interval"},
      {{{"layer_types", nullptr}, {"full_attention_interval", 0}},
       "full_attention_interval is 0; expected a whole number from 1 to 262144"},
      {{{"layer_types", nullptr}, {"full_attention_interval", 1}},
       "no layer keeps a state; expected layers of linear_attention, and layers of full_attention between them"},
      {{{"layer_types", nullptr}, {"full_attention_interval", 5}},
       "every layer keeps a state; expected layers of linear_attention, and layers of full_attention between them"},
      {{{"num_hidden_layers", 129}}, "num_hidden_layers is 129; expected a whole number from 1 to 128"},
      {{{"attn_output_gate", false}}, "attn_output_gate is false; expected true"},
      {{{"attention_bias", true}}, "attention_bias is true; expected false"},
      {{{"output_gate_type", "sigmoid"}}, "output_gate_type is 'sigmoid'; expected swish"},
      {{{"partial_rotary_factor", 0.2}},
       "3 of a head's 16 numbers rotate, by partial_rotary_factor; expected an even number, for pairs rotate"},
      {{{"partial_rotary_factor", 0}},
       "0 of a head's 16 numbers rotate, by partial_rotary_factor; expected an even number, for pairs rotate"},
      {{{"partial_rotary_factor", 1.5}}, "partial_rotary_factor is 1.5; expected a number from 0 to 1"},
      {{{"rope_parameters", {{"partial_rotary_factor", 0.5}}}},
       "rope_parameters: partial_rotary_factor differs from that outside; expected one factor: libraries read two "
       "differently"},
      {{{"partial_rotary_factor", nullptr}, {"rope_parameters", {{"partial_rotary_factor", 0.2}}}},
       "rope_parameters: 3 of a head's 16 numbers rotate, by partial_rotary_factor; expected an even number, for pairs "
       "rotate"},
      {{{"mlp_layer_types", {"dense", "sparse", "dense", "sparse"}}},
       "mlp_layer_types differs from the other fields that say which layers have experts; expected the same layers: "
       "libraries read one or the other"},
      {{{"rope_scaling", {{"rope_type", "llama3"}}}},
       "rope_scaling: the rotation's kind is 'llama3'; expected default"},
      {{{"num_experts", nullptr}}, "num_experts is missing; expected a whole number from 0 to 4096"},
      {{{"mlp_only_layers", {0, 4}}}, "mlp_only_layers is or holds 4; expected layers from 0 to 3"},
      {{{"num_experts_per_tok", 6}}, "num_experts_per_tok is 6; expected a whole number from 1 to 5"},
      {{{"moe_intermediate_size", 0}}, "moe_intermediate_size is 0; expected a whole number from 1 to 262144"},
      {{{"shared_expert_intermediate_size", nullptr}},
       "shared_expert_intermediate_size is missing; expected a whole number from 1 to 262144"},
      {{{"decoder_sparse_step", 0}}, "decoder_sparse_step is 0; expected a whole number from 1 to 262144"},
  };
  for (const auto& row : wrong) {
    std::string error = error_of(with(config_of_family("qwen3_next"), row.changes));
    for (std::size_t at; (at = error.find("config.json: ")) != std::string::npos;) error.erase(at, 13);
    CHECK(error == row.error);
  }
}

TEST_CASE("choices of experts of DeepSeek-V2 that libraries read differently are refused, and those that none makes") {
  json config = config_of_family("deepseek_v3");
  config.update({{"model_type", "deepseek_v2"}, {"topk_method", "group_limited_greedy"}, {"scoring_func", "softmax"}});
  CHECK(error_of(config) == "config.json: norm_topk_prob is true; expected false: libraries read it differently");
  config["norm_topk_prob"] = false;
  CHECK(error_of(config) == "none");
  CHECK(error_of(with(config, {{"topk_method", "noaux_tc"}})) ==
        "config.json: topk_method is 'noaux_tc'; expected greedy or group_limited_greedy");
  CHECK(error_of(with(config, {{"scoring_func", "sigmoid"}})) ==
        "config.json: scoring_func is 'sigmoid'; expected softmax");
  CHECK(error_of(with(config, {{"n_group", 3}})) ==
        "config.json: n_group is 3; expected a number that divides n_routed_experts: 4");
  CHECK(error_of(with(config, {{"n_group", 3}, {"topk_method", "greedy"}})) == "none"); // it has no groups
}

TEST_CASE("windows are those of Hugging Face's classes, and none where no context exceeds them") {
  const auto windows = [](const char* family, json changes) {
    return decoder_of(with(config_of_family(family), std::move(changes))).windows;
  };
  const json mistral{{"model_type", "mistral"}};
  CHECK(windows("llama", with(mistral, {{"sliding_window", 64}})) == std::vector<int>{64, 64});
  CHECK(windows("llama", with(mistral, {{"sliding_window", nullptr}})).empty());
  CHECK(windows("llama", with(mistral, {{"sliding_window", 128}})).empty()); // the longest context
  CHECK(windows("llama", with(mistral, {{"max_position_embeddings", 32768}})) == std::vector<int>{4096, 4096});
  CHECK(windows("llama", json::object()).empty());
  const json sliding{{"use_sliding_window", true}, {"sliding_window", 64}};
  CHECK(windows("qwen2", with(sliding, {{"use_sliding_window", false}})).empty());
  CHECK(windows("qwen2", sliding).empty()); // max_window_layers is 28
  CHECK(windows("qwen2", {{"use_sliding_window", true}, {"max_window_layers", 0}, {"max_position_embeddings", 8192}}) ==
        std::vector<int>{4096, 4096}); // the class's window where the field is missing
  CHECK(windows("qwen2", with(sliding, {{"max_window_layers", 1}})) == std::vector<int>{0, 64});
  CHECK(windows("qwen3", with(sliding, {{"max_window_layers", 0}})) == std::vector<int>{64, 64});
  CHECK(windows("qwen3", with(sliding, {{"layer_types", {"sliding_attention", "full_attention"}}})) ==
        std::vector<int>{64, 0});
}

TEST_CASE("features that would be computed wrongly are refused by name") {
  const struct {
    const char* family;
    json changes;
    const char* error;
  } wrong[] = {
      {"llama", {{"hidden_act", "gelu"}}, "config.json: hidden_act is 'gelu'; expected silu"},
      {"opt", {{"activation_function", "gelu"}}, "config.json: activation_function is 'gelu'; expected relu"},
      {"opt", {{"do_layer_norm_before", false}}, "config.json: do_layer_norm_before is false; expected true"},
      {"opt", {{"enable_bias", false}}, "config.json: enable_bias is false; expected true"},
      {"opt", {{"_remove_final_layer_norm", true}}, "config.json: _remove_final_layer_norm is true; expected false"},
      {"llama", {{"mlp_bias", true}}, "config.json: mlp_bias is true; expected false"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}},
       "config.json: rope_scaling: the rotation's kind is 'yarn'; expected default or llama3"},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}},
       "config.json: rope_scaling: the rotation's kind is 'linear'; expected default or llama3"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 4.0}, {"low_freq_factor", 1}, {"high_freq_factor", 4}}}},
       "config.json: rope_scaling: original_max_position_embeddings is missing; expected a whole number from 1 to "
       "16777216"},
      {"llama3",
       {{"rope_scaling",
         {{"rope_type", "llama3"},
          {"factor", 8},
          {"low_freq_factor", 4},
          {"high_freq_factor", 4},
          {"original_max_position_embeddings", 64}}}},
       "config.json: rope_scaling: high_freq_factor is not above low_freq_factor; expected a range between them"},
      {"llama",
       {{"rope_parameters", {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}}}}},
       "config.json: rope_parameters has an object 'full_attention'; expected one rotation for all layers"},
      {"llama", {{"rope_scaling", 4}}, "config.json: rope_scaling is no JSON object; expected null, or an object"},
      {"llama", {{"rope_theta", -1}}, "config.json: rope_theta is -1; expected a number of at least 1"},
      {"llama",
       {{"partial_rotary_factor", 0.5}},
       "config.json: partial_rotary_factor is below 1; expected heads that are rotated whole"},
      {"llama",
       {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}}},
       "config.json: rope_parameters: partial_rotary_factor is below 1; expected heads that are rotated whole"},
      {"qwen2",
       {{"use_sliding_window", true}, {"sliding_window", 64}, {"layer_types", {"full_attention"}}},
       "config.json: layer_types has 1 entries; expected 2"},
      {"qwen2",
       {{"use_sliding_window", true}, {"sliding_window", 64}, {"layer_types", {"full_attention", "linear_attention"}}},
       "config.json: layer_types holds 'linear_attention'; expected full_attention or sliding_attention"},
      {"llama",
       {{"model_type", "mistral"}, {"sliding_window", 64}, {"layer_types", {"sliding_attention", "full_attention"}}},
       "config.json: layer_types differs from sliding_window; expected the same windows: the class of mistral does not "
       "read layer_types"},
      {"deepseek_v3", {{"attention_bias", true}}, "config.json: attention_bias is true; expected false"},
      {"deepseek_v3",
       {{"num_key_value_heads", 2}},
       "config.json: num_key_value_heads is 2; expected num_attention_heads, as all heads read one latent: 4"},
      {"deepseek_v3",
       {{"topk_method", "group_limited_greedy"}},
       "config.json: topk_method is 'group_limited_greedy'; expected noaux_tc"},
      {"deepseek_v3", {{"scoring_func", "softmax"}}, "config.json: scoring_func is 'softmax'; expected sigmoid"},
      {"deepseek_v3",
       {{"n_group", 3}},
       "config.json: n_group is 3; expected a number that divides n_routed_experts: 4"},
      {"deepseek_v3",
       {{"n_group", 4}},
       "config.json: n_group is 4; expected groups of two experts at least, of n_routed_experts: 4"},
      {"deepseek_v3", {{"topk_group", 3}}, "config.json: topk_group is 3; expected a whole number from 1 to 2"},
      {"deepseek_v3",
       {{"num_experts_per_tok", 3}},
       "config.json: num_experts_per_tok is 3; expected at most the experts of topk_group groups: 2"},
      {"deepseek_v3",
       {{"num_experts_per_tok", 5}},
       "config.json: num_experts_per_tok is 5; expected a whole number from 1 to 4"},
      {"deepseek_v3", {{"norm_topk_prob", nullptr}}, "config.json: norm_topk_prob is missing; expected true or false"},
      {"deepseek_v3",
       {{"routed_scaling_factor", 0}},
       "config.json: routed_scaling_factor is 0; expected a positive number"},
      {"deepseek_v3",
       {{"n_shared_experts", 0}},
       "config.json: n_shared_experts is 0; expected a whole number from 1 to 4096"},
      {"deepseek_v3",
       {{"first_k_dense_replace", nullptr}},
       "config.json: first_k_dense_replace is missing; expected a whole number from 0 to 262144"},
      {"deepseek_v3",
       {{"mlp_layer_types", {"sparse", "sparse"}}},
       "config.json: mlp_layer_types differs from the other fields that say which layers have experts; expected the "
       "same layers: libraries read one or the other"},
      {"deepseek_v3",
       {{"intermediate_size", nullptr}},
       "config.json: intermediate_size is missing; expected a whole number from 1 to 262144"},
      {"deepseek_v3",
       {{"moe_layer_freq", 2}},
       "config.json: moe_layer_freq is not 1; expected 1: libraries read others differently"},
      {"deepseek_v3", {{"index_topk", 2048}}, "config.json: index_topk is set; expected attention to all tokens"},
      {"deepseek_v3",
       {{"qk_rope_head_dim", 3}},
       "config.json: qk_rope_head_dim is 3; expected an even one, for pairs rotate"},
      {"deepseek_v3",
       {{"rope_scaling",
         {{"type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 64}, {"mscale", 0.707}}}},
       "config.json: rope_scaling: only one of mscale and mscale_all_dim is set; expected both or none: libraries read "
       "one differently"},
      {"deepseek_v3",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 8}}}},
       "config.json: rope_scaling: the rotation's kind is 'linear'; expected default or yarn"},
      {"llama", {{"head_dim", 5}}, "config.json: the head size is 5; expected an even one, for its halves rotate"},
      {"llama", {{"eos_token_id", 50}}, "config.json: eos_token_id is or holds 50; expected tokens from 0 to 49"},
      {"llama",
       {{"eos_token_id", {1, "a"}}},
       "config.json: eos_token_id is or holds string; expected tokens from 0 to 49"},
      {"llama", {{"bos_token_id", -1}}, "config.json: bos_token_id is or holds -1; expected tokens from 0 to 49"},
      {"llama", {{"rms_norm_eps", nullptr}}, "config.json: rms_norm_eps is missing; expected a number from 1e-12 to 1"},
      {"llama",
       {{"max_position_embeddings", nullptr}},
       "config.json: max_position_embeddings is missing; expected a whole number from 1 to 16777216"},
      {"llama", {{"attention_bias", 1}}, "config.json: attention_bias is 1; expected true or false"},
      {"llama",
       {{"model_type", "gpt2"}},
       "config.json: model_type is 'gpt2'; expected deepseek_v2, deepseek_v3, glm4_moe, kimi_k2, llama, "
       "mistral, mixtral, opt, qwen2, qwen3, qwen3_5_moe_text, qwen3_5_text or qwen3_next"},
      {"llama",
       {{"model_type", nullptr}},
       "config.json: model_type is missing; expected deepseek_v2, deepseek_v3, glm4_moe, kimi_k2, llama, "
       "mistral, mixtral, opt, qwen2, qwen3, qwen3_5_moe_text, qwen3_5_text or qwen3_next"},
      // What sluice-compare simulates but the decoder cannot compute: programs that compute do not offer it.
      {"llama", {{"torch_dtype", "int8"}}, "config.json: torch_dtype is 'int8'; expected float32, float16 or bfloat16"},
      {"llama",
       {{"dtype", "float8_e4m3fn"}},
       "config.json: dtype is 'float8_e4m3fn'; expected float32, float16 or bfloat16"},
      {"mixtral",
       {{"model_type", "qwen3_moe"}, {"num_experts", 4}, {"moe_intermediate_size", 8}},
       "config.json: model_type is 'qwen3_moe'; expected deepseek_v2, deepseek_v3, glm4_moe, kimi_k2, llama, "
       "mistral, mixtral, opt, qwen2, qwen3, qwen3_5_moe_text, qwen3_5_text or qwen3_next"},
  };
  for (const auto& row : wrong) CHECK(error_of(with(config_of_family(row.family), row.changes)) == row.error);
}

TEST_CASE("a folder's generation_config.json sets the end tokens") {
  const sluice_test::TemporaryFolder folder;
  const auto read = [&] { return read_decoder_config(folder.path.string()); };
  CHECK(read().error().line() ==
        folder.path.string() + ": the folder has no config.json; expected a Hugging Face model folder");
  CHECK(read_decoder_config((folder.path / "none").string()).error().what == "there is no such folder");
  json config = config_of_family("llama");
  config.erase("_name_or_path");
  testing::write_file(folder.path / "config.json", config.dump());
  CHECK(read().value().end_tokens == std::vector<int>{3});
  CHECK(read().value().shape.name == folder.path.filename().string());
  testing::write_file(folder.path / "generation_config.json", R"({"eos_token_id": [4, 5], "top_p": 0.9})");
  CHECK(read().value().end_tokens == std::vector<int>{4, 5});
  testing::write_file(folder.path / "generation_config.json", "{}");
  CHECK(read().value().end_tokens == std::vector<int>{3});
  testing::write_file(folder.path / "generation_config.json", R"({"eos_token_id": 1000})");
  CHECK(read().error().line() == (folder.path / "generation_config.json").string() +
                                     ": eos_token_id is or holds 1000; expected tokens from 0 to 49");
}
