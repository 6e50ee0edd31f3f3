// SPDX-License-Identifier: Apache-2.0
// Small configs of each kind, with their figures written out.
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/nlohmann/hf_description.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

using namespace sluice;
using nlohmann::json;

namespace hf_description_test {

/// `base` with the fields of `more`.
json with(json base, const json& more) {
  base.update(more);
  return base;
}

/// Two layers of 4 heads and 2 KV heads of 2, hidden size 8, a vocabulary of 32.
json dense(const char* type) {
  return json{{"model_type", type},           {"hidden_size", 8},
              {"num_hidden_layers", 2},       {"num_attention_heads", 4},
              {"num_key_value_heads", 2},     {"head_dim", 2},
              {"intermediate_size", 16},      {"vocab_size", 32},
              {"tie_word_embeddings", false}, {"max_position_embeddings", 64},
              {"torch_dtype", "bfloat16"},    {"sliding_window", nullptr}};
}

ModelDescription described(const json& config) {
  const Expected<ModelDescription> model = describe_hf_config(config, nullptr, "config.json");
  if (!model) FAIL(model.error().line());
  return *model;
}

std::string refusal(const json& config) {
  const Expected<ModelDescription> model = describe_hf_config(config, nullptr, "config.json");
  REQUIRE(!model);
  const std::string line = model.error().line();
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.rfind("config.json: ", 0) == 0);
  return line;
}

bool says(const std::string& line, const char* words) { return line.find(words) != std::string::npos; }

constexpr std::int64_t attention = 8 * 8 + 2 * 8 * 4 + 8 * 8; // Q, K and V, output
constexpr std::int64_t mlp = 3 * 8 * 16;
constexpr std::int64_t ends = 2 * 32 * 8 + 8; // embedding, head and final norm

TEST_CASE("a dense decoder is its projections, norms, embedding and head") {
  const ModelDescription llama = described(dense("llama"));
  CHECK(llama.parameters() == 2 * (attention + mlp + 2 * 8) + ends);
  CHECK(llama.active_parameters() == llama.parameters());
  CHECK(llama.weight_bytes() == Bytes{2 * llama.parameters()});
  CHECK(llama.weight_bytes(ModuleClass::attention) == Bytes{2 * 2 * attention});
  CHECK(llama.kv.bytes(Tokens{10}) == Bytes{2 * 2 * (2 + 2) * 2 * 10}); // layers, heads, K and V, bytes, tokens
  CHECK(llama.kv.uniform(2));

  const json tied = with(dense("llama"), {{"tie_word_embeddings", true}});
  CHECK(described(tied).parameters() == llama.parameters() - 32 * 8);
  const json biased = with(dense("llama"), {{"attention_bias", true}, {"mlp_bias", true}});
  CHECK(described(biased).parameters() == llama.parameters() + 2 * (8 + 4 + 4 + 8 + 16 + 16 + 8));
  CHECK(described(dense("qwen2")).parameters() == llama.parameters() + 2 * (8 + 4 + 4));
  CHECK(described(dense("qwen3")).parameters() == llama.parameters() + 2 * (2 + 2)); // norms of a head's size
  CHECK(described(dense("olmo2")).parameters() == llama.parameters() + 2 * (8 + 4)); // norms of all heads
  CHECK(described(dense("glm4")).parameters() == llama.parameters() + 2 * 2 * 8);    // four norms a layer
  CHECK(described(dense("phi3")).parameters() == llama.parameters());
}

TEST_CASE("classes differ from Llama's in biases, norms and gates") {
  const std::int64_t llama = described(dense("llama")).parameters();
  const std::int64_t key_biases = 2 * (8 + 4 + 4), norm_biases = 2 * 2 * 8 + 8, gates = 2 * 8 * 16;
  const json biased{{"attention_bias", true}};
  for (const char* type : {"glm", "internlm2", "internlm3"}) CHECK(described(dense(type)).parameters() == llama);
  CHECK(described(with(dense("glm"), biased)).parameters() == llama + key_biases);
  CHECK(described(with(dense("internlm3"), {{"qkv_bias", true}})).parameters() == llama + key_biases);
  CHECK(says(refusal(with(dense("internlm3"), {{"bias", true}})), "'bias'"));
  CHECK(described(dense("qwen2_vl_text")).parameters() == llama + key_biases);
  for (const char* type : {"exaone4", "hunyuan_v1_dense"})
    CHECK(described(dense(type)).parameters() == llama + 2 * (2 + 2)); // norms of a head's size
  CHECK(says(refusal(with(dense("hunyuan_v1_dense"), {{"norm_type", "layer"}})), "norm_type is 'layer'"));
  CHECK(described(dense("arcee")).parameters() == llama - gates);
  CHECK(described(dense("nemotron")).parameters() == llama - gates + norm_biases);
  CHECK(described(dense("stablelm")).parameters() == llama + norm_biases);
  CHECK(described(with(dense("stablelm"), {{"use_qkv_bias", true}})).parameters() == llama + norm_biases + key_biases);
  CHECK(says(refusal(with(dense("stablelm"), {{"use_parallel_residual", true}})), "use_parallel_residual"));
  const std::int64_t all_biases = key_biases + 2 * (8 + 16 + 8); // and of the output, up and down
  for (const char* type : {"starcoder2", "gpt_neox"})
    CHECK(described(dense(type)).parameters() == llama - gates + norm_biases + all_biases);
  CHECK(says(refusal(with(dense("gpt_neox"), {{"attention_bias", false}})), "attention_bias is false"));
  CHECK(described(dense("phi")).parameters() == llama - gates + all_biases + 8 + 32); // one norm, its bias; a head's
  CHECK(described(with(dense("starcoder2"), {{"use_bias", false}})).parameters() == llama - gates + norm_biases);
  for (const char* type : {"cohere", "cohere2", "starcoder2", "ernie4_5"}) { // tied unless the config says no
    json silent = dense(type);
    silent.erase("tie_word_embeddings");
    silent["sliding_window"] = 8;
    if (type == std::string{"cohere"} || type == std::string{"ernie4_5"}) silent["sliding_window"] = nullptr;
    CHECK(described(silent).tied_embeddings);
  }
  CHECK(described(dense("cohere")).parameters() == llama - 2 * 8); // attention and MLP share a norm
  CHECK(described(with(dense("cohere"), {{"use_qk_norm", true}})).parameters() == llama - 2 * 8 + 2 * (8 + 4));
  CHECK(says(refusal(with(dense("cohere"), {{"use_parallel_block", false}})), "use_parallel_block is false"));
  const json command = with(dense("cohere2"), {{"num_hidden_layers", 4}, {"sliding_window", 8}});
  CHECK(described(command).kv.bytes(Tokens{100}) == Bytes{16 * (3 * 8 + 100)}); // its class's pattern
  CHECK(described(with(command, {{"sliding_window_pattern", 2}})).kv.bytes(Tokens{100}) == Bytes{16 * 2 * (8 + 100)});
}

TEST_CASE("what a class has a number of its own for must be stated") {
  const auto without = [](json of, const char* name) { return of.erase(name), of; };
  for (const char* type : {"mistral", "qwen3", "glm"})
    CHECK(says(refusal(without(dense(type), "num_key_value_heads")), "num_key_value_heads is missing"));
  CHECK(says(refusal(without(dense("qwen3"), "head_dim")), "head_dim is missing"));
  CHECK(says(refusal(dense("seed_oss")), "attention_bias is missing"));
  CHECK(says(refusal(without(dense("exaone4"), "sliding_window")), "sliding_window is missing"));
  CHECK(described(without(dense("granite"), "num_key_value_heads")).kv.bytes(Tokens{1}) == Bytes{2 * 4 * (2 + 2) * 2});
}

TEST_CASE("every listed type is known, and no other") {
  for (const HfModelTypes& row : hf_model_types())
    for (std::size_t begin = 0; begin < row.types.size();) {
      const std::size_t end = std::min(row.types.find(", ", begin), row.types.size());
      const std::string type{row.types.substr(begin, end - begin)};
      const Expected<ModelDescription> model =
          describe_hf_config(with(dense("llama"), {{"model_type", type}}), nullptr, "config.json");
      CAPTURE(type);
      CHECK((model || !says(model.error().line(), "model_type is")));
      begin = end + 2;
    }
  CHECK(says(refusal({{"model_type", "gpt2"}, {"n_embd", 768}}), "model_type is 'gpt2'")); // its sizes: other names
}

TEST_CASE("engines' shapes have the bytes of the description without norms") {
  for (const char* type :
       {"llama", "qwen3", "mistral", "mimo", "qwen3_vl_text", "phi3", "arcee", "cohere", "gpt_neox"}) {
    const json config = dense(type);
    const ModelDescription model = described(config);
    const Expected<ModelShape> shape = shape_from_hf_config(config, "config.json");
    REQUIRE(shape);
    const std::int64_t norms = model.weight_bytes(ModuleClass::norm).count();
    CHECK(shape->weight_bytes() + Bytes{norms} == model.weight_bytes());
    CHECK(shape->kv_bytes_per_token() * 100 == model.kv.bytes(Tokens{100}));
  }
}

TEST_CASE("experts count whole in the weights and by the router's choice in a token") {
  const json sparse{
      {"num_experts", 6}, {"num_local_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 5}};
  const ModelDescription qwen = described(with(dense("qwen3_moe"), sparse));
  const std::int64_t expert = 3 * 8 * 5, outside = 2 * (attention + 2 + 2 + 6 * 8 + 2 * 8) + ends;
  CHECK(qwen.parameters() == outside + 2 * 6 * expert);
  CHECK(qwen.active_parameters() == outside + 2 * 2 * expert);
  // Every second layer, counted from the second.
  const ModelDescription stepped = described(with(dense("qwen3_moe"), with(sparse, {{"decoder_sparse_step", 2}})));
  CHECK(stepped.parameters() == qwen.parameters() - 6 * expert - 6 * 8 + mlp);
  const ModelDescription listed = described(with(dense("qwen3_moe"), with(sparse, {{"mlp_only_layers", {0}}})));
  CHECK(listed.parameters() == stepped.parameters());
  // A shared expert with its gate.
  const ModelDescription shared =
      described(with(dense("qwen2_moe"), with(sparse, {{"shared_expert_intermediate_size", 7}})));
  CHECK(shared.parameters() == qwen.parameters() + 2 * (3 * 8 * 7 + 8) + 2 * (8 + 4 + 4) - 2 * (2 + 2));
  // Dense layers first, shared experts of an expert's size, a correction bias in f32.
  const json glm = with(dense("glm4_moe"), {{"n_routed_experts", 6},
                                            {"num_experts_per_tok", 2},
                                            {"n_shared_experts", 2},
                                            {"moe_intermediate_size", 5},
                                            {"first_k_dense_replace", 1}});
  const ModelDescription air = described(glm);
  CHECK(air.parameters() == 2 * (attention + 16) + mlp + 6 * 8 + 6 + (6 + 2) * expert + ends);
  CHECK(air.weight_bytes() == Bytes{2 * air.parameters() + 2 * 6});
  CHECK(says(refusal(with(glm, {{"num_experts_per_tok", 7}})), "7 experts per token of 6"));
  const json deepseek = with(glm, {{"model_type", "deepseek"}, {"moe_layer_freq", 1}});
  CHECK(described(deepseek).parameters() == air.parameters() - 6); // no correction bias
  json ling = with(glm, {{"model_type", "bailing_moe"}, {"num_experts", 6}, {"num_shared_experts", 2}});
  ling.erase("n_routed_experts"), ling.erase("n_shared_experts");
  CHECK(described(ling).parameters() == air.parameters() - 6);
  ling["moe_router_enable_expert_bias"] = true;
  CHECK(says(refusal(ling), "use_qk_norm is missing"));
  ling["use_qk_norm"] = true;
  CHECK(described(ling).parameters() == air.parameters() + 2 * (2 + 2));
  const json ernie = with(dense("ernie4_5_moe"), {{"num_hidden_layers", 5},
                                                  {"moe_num_experts", 6},
                                                  {"moe_k", 2},
                                                  {"moe_num_shared_experts", 2},
                                                  {"moe_intermediate_size", 5},
                                                  {"moe_layer_interval", 1},
                                                  {"moe_layer_start_index", 1},
                                                  {"moe_layer_end_index", -1}});
  const std::int64_t routed = 6 * 8 + 6 + (6 + 2) * expert; // router, correction, routed and shared experts
  CHECK(described(ernie).parameters() == 5 * (attention + 16) + mlp + 4 * routed + ends);
  CHECK(described(ernie).active_parameters() == described(ernie).parameters() - 4 * 4 * expert);
  const auto with_experts = [&](const json& more) { // layers
    return (described(with(ernie, more)).parameters() - 5 * (attention + 16 + mlp) - ends) / (routed - mlp);
  };
  CHECK(with_experts({{"moe_layer_end_index", 3}}) == 3);
  CHECK(with_experts({{"moe_layer_interval", 2}}) == 2); // the second and the fourth
  json open = ernie;
  open.erase("moe_layer_start_index");
  CHECK(says(refusal(open), "moe_layer_start_index is missing"));
  const json phi = with(dense("phimoe"), {{"num_local_experts", 6},
                                          {"num_experts_per_tok", 2},
                                          {"sliding_window", 8},
                                          {"attention_bias", true},
                                          {"lm_head_bias", true}});
  CHECK(described(phi).parameters() ==
        2 * (attention + 8 + 4 + 4 + 8 + 6 * 8 + 6 * mlp + 2 * 16) + ends + 8 + 32); // norms have biases too
  CHECK(described(phi).kv.bytes(Tokens{100}) == Bytes{2 * 16 * 8});
}

TEST_CASE("windows are read from a list of layers, a pattern or a field for all") {
  const json gpt = with(dense("gpt_oss"), {{"attention_bias", true},
                                           {"num_local_experts", 4},
                                           {"num_experts_per_tok", 2},
                                           {"sliding_window", 16},
                                           {"layer_types", {"sliding_attention", "full_attention"}}});
  const ModelDescription model = described(gpt);
  CHECK(model.kv.bytes(Tokens{100}) == Bytes{16 * (100 + 16)}); // 16 bytes a token and layer
  CHECK(model.kv.fixed_bytes() == Bytes{16 * 16});
  // Biases, sinks, a router with a bias, experts with biases.
  CHECK(model.parameters() == 2 * (attention + 8 + 4 + 4 + 8 + 4 + 4 * 8 + 4 + 4 * (mlp + 2 * 16 + 8) + 16) + ends);
  CHECK(says(refusal(with(gpt, {{"layer_types", {"full_attention"}}})), "layer_types has 1 entries"));
  CHECK(says(refusal(with(gpt, {{"layer_types", {"full_attention", "odd"}}})), "'odd'"));
  CHECK(described(with(dense("mistral"), {{"sliding_window", 8}})).kv.bytes(Tokens{100}) == Bytes{2 * 16 * 8});

  json gemma = with(dense("gemma3_text"), {{"num_hidden_layers", 6}, {"sliding_window", 8}});
  CHECK(described(gemma).kv.bytes(Tokens{100}) == Bytes{16 * (5 * 8 + 100)}); // every sixth attends to all
  gemma["sliding_window_pattern"] = 2;
  CHECK(described(gemma).kv.bytes(Tokens{100}) == Bytes{16 * 3 * (8 + 100)});
  CHECK(described(with(dense("qwen2"), {{"sliding_window", 8}, {"use_sliding_window", false}})).kv.uniform(2));
}

TEST_CASE("a window counts where the class uses it, unless it is switched off, and is refused elsewhere") {
  const json eight{{"sliding_window", 8}};
  for (const char* type : {"mistral", "mixtral", "ministral3", "phi3"}) {
    json config = with(with(dense(type), eight), {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
    if (config["model_type"] != "mixtral") config.erase("num_local_experts"), config.erase("num_experts_per_tok");
    CHECK(described(config).kv.bytes(Tokens{100}) == Bytes{2 * 16 * 8});
    CHECK(described(with(config, {{"use_sliding_window", false}})).kv.uniform(2));
  }
  for (const char* type : {"llama", "glm4", "granite", "olmo2", "glm", "ernie4_5", "qwen3_vl_text", "mimo"}) {
    const bool switched = says(type, "qwen") || says(type, "mimo");
    const json on = with(with(dense(type), eight), switched ? json{{"use_sliding_window", true}} : json::object());
    CAPTURE(type);
    CHECK(says(refusal(on), "sliding_window is"));
    CHECK(described(with(on, {{"use_sliding_window", false}})).kv.uniform(2));
    CHECK(described(with(on, {{"sliding_window", nullptr}, {"use_sliding_window", nullptr}})).kv.uniform(2));
  }
  // No context is longer than this one.
  CHECK(described(with(dense("llama"), {{"sliding_window", 64}})).kv.uniform(2));
  for (const char* type : {"smollm3", "olmo3"}) {
    CHECK(says(refusal(with(dense(type), eight)), "layer_types is missing"));
    CHECK(described(with(with(dense(type), eight), {{"layer_types", {"sliding_attention", "full_attention"}}}))
              .kv.bytes(Tokens{100}) == Bytes{16 * (100 + 8)});
  }
  for (const char* type : {"qwen2", "qwen3"}) { // the layers from max_window_layers on
    const json qwen = with(with(dense(type), eight), {{"use_sliding_window", true}, {"max_window_layers", 1}});
    CHECK(described(qwen).kv.bytes(Tokens{100}) == Bytes{16 * (100 + 8)});
    CHECK(described(with(qwen, {{"use_sliding_window", nullptr}})).kv.uniform(2));
    CHECK(described(with(qwen, {{"max_window_layers", 2}})).kv.uniform(2));
    CHECK(described(with(qwen, {{"max_window_layers", nullptr}})).kv.uniform(2)); // 28
    CHECK(described(with(qwen, {{"layer_types", {"sliding_attention", "sliding_attention"}}})).kv.bytes(Tokens{100}) ==
          Bytes{16 * 2 * 8});
  }
}

TEST_CASE("both readers agree about the windows of the types that both read") {
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"})
    for (const json& window : json::array({nullptr, 8, 16, 64}))
      for (const json& on : json::array({nullptr, false, true}))
        for (const int full : {0, 1, 2}) {
          const json config = with(dense(type), {{"sliding_window", window},
                                                 {"use_sliding_window", on},
                                                 {"max_window_layers", full},
                                                 {"max_position_embeddings", 32}});
          CAPTURE(config.dump());
          const Expected<ModelShape> shape = shape_from_hf_config(config, "config.json");
          const Expected<ModelDescription> model = describe_hf_config(config, nullptr, "config.json");
          // What only some layers have is described, and no shape.
          const bool alike = model && model->kv.groups().size() == 1;
          CHECK(static_cast<bool>(shape) == alike);
          if (!shape || !alike) continue;
          const Tokens kept = shape->attention_window > Tokens{0} ? shape->attention_window : Tokens{32};
          CHECK(model->kv.bytes(Tokens{32}) == shape->kv_bytes_per_token() * kept.count());
        }
  json mistral = with(dense("mistral"), {{"max_position_embeddings", 32768}});
  mistral.erase("sliding_window"); // its class's default
  CHECK(described(mistral).kv.bytes(Tokens{32768}) == Bytes{2 * 16 * 4096});
  CHECK(shape_from_hf_config(mistral, "config.json")->attention_window == Tokens{4096});
}

TEST_CASE("Gemma 4's full layers have heads of their own, and K that is V too") {
  const json gemma{
      {"model_type", "gemma4"},
      {"text_config", with(dense("gemma4_text"), {{"sliding_window", 8},
                                                  {"global_head_dim", 4},
                                                  {"attention_k_eq_v", true},
                                                  {"num_global_key_value_heads", 1},
                                                  {"tie_word_embeddings", true},
                                                  {"layer_types", {"sliding_attention", "full_attention"}}})}};
  const ModelDescription model = described(gemma);
  CHECK(model.kv.bytes(Tokens{100}) == Bytes{16 * 8 + 1 * (4 + 4) * 2 * 100}); // both are kept
  const std::int64_t global = 8 * 16 + 8 * 4 + 16 * 8;                         // Q, K, output
  CHECK(model.parameters() == attention + 2 + 2 + global + 4 + 4 + 2 * (mlp + 4 * 8) + 32 * 8 + 8);
}

TEST_CASE("Llama 4 attends to a chunk in layers with rotation, and has experts in every n-th layer") {
  json llama = with(dense("llama4_text"), {{"num_hidden_layers", 4},
                                           {"attention_chunk_size", 32},
                                           {"interleave_moe_layer_step", 2},
                                           {"num_local_experts", 3},
                                           {"num_experts_per_tok", 1},
                                           {"intermediate_size_mlp", 20}});
  const ModelDescription model = described({{"model_type", "llama4"}, {"text_config", llama}});
  CHECK(model.kv.bytes(Tokens{100}) == Bytes{16 * (3 * 32 + 100)});
  CHECK(model.parameters() == 4 * (attention + 16) + 2 * 3 * 8 * 20 + 2 * (3 * 8 + (3 + 1) * mlp) + ends);
  CHECK(model.active_parameters() == model.parameters() - 2 * 2 * mlp);
  llama["no_rope_layers"] = {1, 0, 1, 0};
  CHECK(described({{"model_type", "llama4"}, {"text_config", llama}}).kv.bytes(Tokens{100}) ==
        Bytes{16 * 2 * (32 + 100)});
}

json latent(const char* type) {
  return json{{"model_type", type},       {"hidden_size", 8},          {"num_hidden_layers", 3},
              {"num_attention_heads", 2}, {"q_lora_rank", 6},          {"kv_lora_rank", 128},
              {"qk_nope_head_dim", 4},    {"qk_rope_head_dim", 2},     {"v_head_dim", 3},
              {"intermediate_size", 16},  {"vocab_size", 32},          {"first_k_dense_replace", 1},
              {"n_routed_experts", 4},    {"num_experts_per_tok", 2},  {"moe_intermediate_size", 5},
              {"n_shared_experts", 1},    {"topk_method", "noaux_tc"}, {"dtype", "bfloat16"}};
}

TEST_CASE("latent attention keeps one latent per token, and an indexer its keys beside it") {
  const std::int64_t projections = 8 * 6 + 6 + 6 * 2 * (4 + 2) + 8 * (128 + 2) + 128 + 128 * 2 * (4 + 3) + 2 * 3 * 8;
  const std::int64_t rest = 3 * 16 + mlp + 2 * (4 * 8 + 4 + 5 * 3 * 8 * 5) + ends;
  const ModelDescription deepseek = described(latent("deepseek_v3"));
  CHECK(deepseek.parameters() == 3 * projections + rest);
  CHECK(deepseek.weight_bytes() == Bytes{2 * deepseek.parameters() + 2 * 4 * 2}); // correction biases in f32
  CHECK(deepseek.kv.bytes(Tokens{10}) == Bytes{3 * (128 + 2) * 2 * 10});
  const ModelDescription direct =
      described(with(latent("deepseek_v2"), {{"q_lora_rank", nullptr}, {"topk_method", "greedy"}}));
  CHECK(direct.parameters() == deepseek.parameters() - 3 * (8 * 6 + 6 + 6 * 12 - 8 * 12) - 2 * 4);

  const json sparse = with(latent("deepseek_v32"), {{"index_n_heads", 3}, {"index_head_dim", 128}, {"index_topk", 64}});
  const std::int64_t indexer = 6 * 3 * 128 + 8 * 128 + 8 * 3 + 2 * 128;
  CHECK(described(sparse).parameters() == deepseek.parameters() + 3 * indexer);
  CHECK(described(sparse).kv.bytes(Tokens{10}) == Bytes{3 * (130 * 2 + 128 + 4) * 10});
  // What attention costs: latents as they are, or expanded for prompts; with an indexer, its top k of them.
  const LayerDescription& dense_layer = deepseek.layers.front();
  CHECK(dense_layer.latent == 128 + 2);
  CHECK(dense_layer.latent_value == 128);
  CHECK(dense_layer.expands);
  CHECK(deepseek.kv.groups().front().rule.picked == KvRule::unlimited);
  const ModelDescription indexed = described(sparse);
  CHECK(!indexed.layers.front().expands);
  CHECK(indexed.layers.front().index_heads == 3);
  CHECK(indexed.layers.front().index_dim == 128);
  CHECK(indexed.kv.groups().front().rule.picked == 64);
  // A layer that shares an indexer has neither its weights nor its keys.
  const ModelDescription shared =
      described(with(sparse, {{"model_type", "glm_moe_dsa"}, {"indexer_types", {"full", "shared", "full"}}}));
  CHECK(shared.parameters() == deepseek.parameters() + 2 * indexer);
  CHECK(shared.kv.bytes(Tokens{10}) == Bytes{(3 * 130 * 2 + 2 * 132) * 10});
  // FP8 latents of sparse attention have a scale per 128 and rotate in two bytes; without an indexer they have none.
  CHECK(describe_hf_config(sparse, nullptr, "config.json", 1)->kv.bytes(Tokens{10}) ==
        Bytes{3 * (128 + 4 + 2 * 2 + 132) * 10});
  CHECK(describe_hf_config(latent("deepseek_v3"), nullptr, "config.json", 1)->kv.bytes(Tokens{10}) ==
        Bytes{3 * 130 * 10});
  CHECK(says(refusal(with(latent("deepseek_v3"), {{"index_topk", 64}})), "index_topk"));
  CHECK(says(refusal(with(latent("deepseek_v3"), {{"qk_rope_head_dim", 3}})), "qk_rope_head_dim is 3"));
  CHECK(says(refusal(with(sparse, {{"index_topk_freq", 4}})), "index_topk_freq"));
}

TEST_CASE("a gated delta layer keeps a state and the last inputs of its convolution") {
  const json qwen = with(dense("qwen3_5_text"), {{"num_hidden_layers", 4},
                                                 {"linear_key_head_dim", 3},
                                                 {"linear_num_key_heads", 2},
                                                 {"linear_num_value_heads", 4},
                                                 {"linear_value_head_dim", 5},
                                                 {"linear_conv_kernel_dim", 4},
                                                 {"full_attention_interval", 4},
                                                 {"mamba_ssm_dtype", "float32"}});
  const ModelDescription model = described({{"model_type", "qwen3_5"}, {"text_config", qwen}});
  const std::int64_t mixed = 2 * 6 + 20; // Q, K and V of the rule
  CHECK(model.kv.fixed_bytes() == Bytes{3 * (4 * 3 * 5 * 4 + 3 * mixed * 2)});
  CHECK(model.kv.bytes(Tokens{100}) == model.kv.fixed_bytes() + Bytes{16 * 100});
  const std::int64_t delta = 8 * mixed + 8 * 20 + 2 * 8 * 4 + mixed * 4 + 4 + 4 + 5 + 20 * 8;
  const std::int64_t gated = attention + 8 * 8 + 2 + 2; // Q has a gate beside it
  CHECK(model.parameters() == 3 * delta + gated + 4 * (mlp + 16) + ends);
  CHECK(model.weight_bytes() == Bytes{2 * model.parameters() + 3 * 2 * (4 + 5)}); // A_log and the norm in f32
}

TEST_CASE("Kimi delta attention alternates with latent attention") {
  json kimi = with(latent("kimi_linear"), {{"num_experts", 4},
                                           {"num_experts_per_token", 2},
                                           {"num_shared_experts", 1},
                                           {"linear_attn_config",
                                            {{"kda_layers", {1, 2}},
                                             {"full_attn_layers", {3}},
                                             {"num_heads", 2},
                                             {"head_dim", 4},
                                             {"short_conv_kernel_size", 4}}}});
  kimi.erase("n_routed_experts"), kimi.erase("n_shared_experts"), kimi.erase("num_experts_per_tok");
  const ModelDescription model = described(kimi);
  CHECK(model.kv.fixed_bytes() == Bytes{2 * (2 * 4 * 4 * 4 + 3 * 3 * 8 * 2)});
  CHECK(model.kv.growth_bytes_per_token() == 130 * 2);
  kimi["linear_attn_config"]["kda_layers"] = {1};
  CHECK(says(refusal(kimi), "neither list"));
}

TEST_CASE("Nemotron-H has Mamba, attention, MLP or experts, one a layer") {
  const json nemotron = with(dense("nemotron_h"), {{"num_hidden_layers", 4},
                                                   {"hybrid_override_pattern", "M*-E"},
                                                   {"mamba_num_heads", 2},
                                                   {"mamba_head_dim", 3},
                                                   {"n_groups", 1},
                                                   {"ssm_state_size", 5},
                                                   {"conv_kernel", 4},
                                                   {"n_routed_experts", 4},
                                                   {"num_experts_per_tok", 2},
                                                   {"moe_intermediate_size", 5},
                                                   {"moe_shared_expert_intermediate_size", 7},
                                                   {"use_conv_bias", true}});
  const ModelDescription model = described(nemotron);
  const std::int64_t mixed = 6 + 2 * 5;
  const std::int64_t mamba = 8 * (6 + mixed + 2) + mixed * 4 + mixed + 3 * 2 + 6 + 6 * 8;
  const std::int64_t experts = 4 * 8 + 4 + 4 * 2 * 8 * 5 + 2 * 8 * 7;
  CHECK(model.parameters() == mamba + attention + 2 * 8 * 16 + experts + 4 * 8 + ends);
  CHECK(model.kv.fixed_bytes() == Bytes{6 * 5 * 2 + 3 * mixed * 2}); // the config's data type, if it says no other
  CHECK(model.kv.growth_bytes_per_token() == 16);
  const ModelDescription single = described(with(nemotron, {{"mamba_ssm_cache_dtype", "float32"}}));
  CHECK(single.kv.fixed_bytes() == Bytes{6 * 5 * 4 + 3 * mixed * 2});
  // Experts in a narrower space.
  const ModelDescription narrow = described(with(nemotron, {{"moe_latent_size", 4}}));
  CHECK(narrow.parameters() == model.parameters() - 4 * 2 * 4 * 5 + 2 * 4 * 8);
  CHECK(says(refusal(with(nemotron, {{"hybrid_override_pattern", "M*-X"}})), "'X'"));
  CHECK(says(refusal(with(nemotron, {{"num_hidden_layers", 5}})), "num_hidden_layers is 5"));
}

TEST_CASE("nemotron-nas has sizes per layer, and layers without attention or MLP") {
  const json blocks = json::parse(R"([
    {"attention": {"n_heads_in_group": 2, "no_op": false}, "ffn": {"ffn_mult": 96.0, "no_op": false}},
    {"attention": {"n_heads_in_group": null, "no_op": true}, "ffn": {"no_op": true}}])");
  const ModelDescription model = described(with(dense("nemotron-nas"), {{"block_configs", blocks}}));
  const std::int64_t width = 512; // 2/3 of 96 times 8
  CHECK(model.parameters() == attention + 3 * 8 * width + 16 + ends);
  CHECK(model.kv.bytes(Tokens{10}) == Bytes{16 * 10});
  CHECK(says(refusal(with(dense("nemotron-nas"), {{"block_configs", json::array()}})), "block_configs"));
}

TEST_CASE("MiMo-V2 has other heads in its windows, and MiniMax-M3 an indexer") {
  const json mimo = with(dense("mimo_v2_flash"), {{"v_head_dim", 1},
                                                  {"swa_num_attention_heads", 4},
                                                  {"swa_num_key_value_heads", 4},
                                                  {"swa_head_dim", 2},
                                                  {"swa_v_head_dim", 1},
                                                  {"sliding_window", 8},
                                                  {"hybrid_layer_pattern", {0, 1}},
                                                  {"moe_layer_freq", {0, 0}},
                                                  {"n_routed_experts", 4},
                                                  {"num_experts_per_tok", 2},
                                                  {"moe_intermediate_size", 5}});
  CHECK(described(mimo).kv.bytes(Tokens{100}) == Bytes{2 * (2 + 1) * 2 * 100 + 4 * (2 + 1) * 2 * 8});
  const json m3 = with(dense("minimax_m3"), {{"use_qk_norm", true},
                                             {"qk_norm_type", "per_head"},
                                             {"num_local_experts", 4},
                                             {"num_experts_per_tok", 2},
                                             {"shared_intermediate_size", 5},
                                             {"n_shared_experts", 1},
                                             {"dense_intermediate_size", 16},
                                             {"moe_layer_freq", {0, 1}},
                                             {"sparse_attention_config",
                                              {{"use_sparse_attention", true},
                                               {"sparse_num_index_heads", 2},
                                               {"sparse_index_dim", 6},
                                               {"sparse_topk_blocks", 2},
                                               {"sparse_block_size", 16},
                                               {"sparse_attention_freq", {0, 1}}}}});
  const ModelDescription indexed = described(m3);
  CHECK(indexed.kv.bytes(Tokens{10}) == Bytes{(2 * 16 + 6 * 2) * 10});
  int reads = 0; // the layer with an indexer reads the K and V of two blocks, and the other all
  for (const KvGroup& group : indexed.kv.groups())
    if (group.rule.kind == KvKind::full)
      reads += group.rule.reach() == 32 && group.layers.contains(1) && group.layers.count() == 1;
  CHECK(reads == 1);
}

TEST_CASE("DeepSeek-V4 keeps a window, entries per few tokens, keys and a state") {
  const json v4{{"model_type", "deepseek_v4"},
                {"hidden_size", 8},
                {"num_hidden_layers", 3},
                {"num_attention_heads", 2},
                {"num_key_value_heads", 1},
                {"head_dim", 16},
                {"vocab_size", 32},
                {"q_lora_rank", 6},
                {"o_lora_rank", 4},
                {"o_groups", 2},
                {"sliding_window", 8},
                {"index_head_dim", 128},
                {"index_n_heads", 3},
                {"hc_mult", 2},
                {"compress_ratios", {0, 4, 128, 0}},
                {"n_routed_experts", 4},
                {"num_experts_per_tok", 2},
                {"moe_intermediate_size", 5},
                {"n_shared_experts", 1},
                {"topk_method", "noaux_tc"}};
  const ModelDescription model = described(v4);
  const std::int64_t states = 2 * 4 * 16 * 4 * 2 + 2 * 4 * 128 * 4 * 2 + 2 * 128 * 16 * 4;
  CHECK(model.kv.fixed_bytes() == Bytes{3 * 16 * 2 * 8 + states});
  CHECK(model.kv.bytes(Tokens{256}) == model.kv.fixed_bytes() + Bytes{(16 * 2 + 132) * 64 + 16 * 2 * 2});
  CHECK(says(refusal(with(v4, {{"compress_ratios", {0, 8, 128}}})), "compress_ratios holds 8"));
}

TEST_CASE("Granite 4 has Mamba or attention, then experts and a shared MLP") {
  const json granite = with(dense("granitemoehybrid"), {{"layer_types", {"mamba", "attention"}},
                                                        {"mamba_n_heads", 2},
                                                        {"mamba_d_head", 3},
                                                        {"mamba_n_groups", 1},
                                                        {"mamba_d_state", 5},
                                                        {"mamba_d_conv", 4},
                                                        {"num_local_experts", 4},
                                                        {"num_experts_per_tok", 2},
                                                        {"shared_intermediate_size", 7}});
  const ModelDescription model = described(granite);
  const std::int64_t mixed = 6 + 2 * 5, mamba = 8 * (6 + mixed + 2) + mixed * 4 + mixed + 3 * 2 + 6 + 6 * 8;
  CHECK(model.parameters() == mamba + attention + 2 * (4 * 8 + 4 * mlp + 3 * 8 * 7 + 16) + ends);
  CHECK(model.kv.fixed_bytes() == Bytes{6 * 5 * 2 + 3 * mixed * 2});
  // Granite 3: attention in every layer, and in one of its types no shared MLP.
  const json three{{"model_type", "granitemoe"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}};
  const ModelDescription older = described(with(dense("granitemoe"), three));
  CHECK(older.parameters() == 2 * (attention + 4 * 8 + 4 * mlp + 16) + ends);
  const json shared = with(three, {{"model_type", "granitemoeshared"}, {"shared_intermediate_size", 7}});
  CHECK(described(with(dense("granitemoe"), shared)).parameters() == older.parameters() + 2 * 3 * 8 * 7);
  CHECK(says(refusal(dense("granitemoe")), "num_local_experts is missing"));
}

TEST_CASE("a field that may change the sizes is refused by name") {
  for (const char* name :
       {"num_extra_layers", "expert_dtype", "projection_rank", "attention_chunk_size", "num_memory_tokens",
        "ffn_dim_multiplier", "chunk_size", "token_mixer_width", "vision_layers", "rope_head_dim", "tokens_per_block"})
    CHECK(says(refusal(with(dense("llama"), {{name, 3}})), name));
  for (const json& harmless : {json{{"rope_theta", 1e6}}, json{{"eos_token_id", 5}}, json{{"num_extra_layers", 0}},
                               json{{"initializer_range", 0.02}}, json{{"attention_dropout", 0.1}},
                               json{{"image_token_index", 9}}, json{{"decoder_start_token_id", 1}}})
    CHECK(described(with(dense("llama"), harmless)).parameters() > 0);
  CHECK(says(refusal(with(dense("mistral"), {{"num_hidden_layers", 200}})), "num_hidden_layers is 200"));
  CHECK(says(refusal(with(dense("llama"), {{"torch_dtype", "int4"}})), "int4"));
  CHECK(says(refusal(with(dense("llama"), {{"ffn_dim_multiplier", 1.3}})), "ffn_dim_multiplier"));
}

TEST_CASE("an engine's shape is refused by naming what the model has") {
  const auto line = [](const json& config) {
    const Expected<ModelShape> shape = shape_from_hf_config(config, "config.json");
    REQUIRE(!shape);
    CHECK(says(shape.error().line(), "sluice-plan --models counts this model"));
    return shape.error().line();
  };
  const json gemma = with(dense("gemma3_text"), {{"num_hidden_layers", 6}, {"sliding_window", 1024}});
  CHECK(says(line(gemma), "its KV is in groups: 5 of 6 layers keep a window of 1024 tokens, 1 all tokens"));
  CHECK(says(line(latent("deepseek_v3")), "one latent per token"));
  const json glm = with(dense("glm4_moe"), {{"n_routed_experts", 6},
                                            {"num_experts_per_tok", 2},
                                            {"moe_intermediate_size", 5},
                                            {"first_k_dense_replace", 1}});
  CHECK(says(line(glm), "its layers differ: 1 of 2"));
  CHECK(says(line(with(glm, {{"first_k_dense_replace", 0}, {"n_shared_experts", 1}})), "shared experts"));

  // A program that simulates gets its description.
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "sluice_hf_simulated_test";
  fs::create_directories(folder);
  const auto simulated = [&](const json& config) {
    std::ofstream(folder / "config.json") << config;
    return find_or_read_simulated(folder.string());
  };
  for (const json& config : {gemma, latent("deepseek_v3"), glm}) {
    const Expected<SimulatedModel> model = simulated(config);
    REQUIRE(model);
    REQUIRE(model->layered);
    CHECK(model->layered->parameters() == described(config).parameters());
    CHECK(model->shape.layers == static_cast<int>(model->layered->layers.size()));
    CHECK(model->shape.name == "sluice_hf_simulated_test");
  }
  const Expected<SimulatedModel> plain = simulated(dense("llama"));
  REQUIRE(plain);
  CHECK(!plain->layered);
  CHECK(plain->shape == *find_or_read_model(folder.string()));
  // What is not understood is refused in both.
  CHECK(says(simulated(with(dense("olmo2"), {{"num_extra_layers", 3}})).error().line(), "num_extra_layers"));
  fs::remove_all(folder);
}

} // namespace hf_description_test
