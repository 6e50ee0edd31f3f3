// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/nlohmann/hf_description.hpp"
#include "sluice/model/nlohmann/hf_expression.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace sluice;
using nlohmann::json;

namespace hf_quantization_test {

/// Two layers, hidden size 256; Q and output of 256 x 256, K and V of 128 x 256, an MLP of 512, a vocabulary of 1000.
json llama() {
  return json{{"model_type", "llama"},       {"hidden_size", 256},       {"num_hidden_layers", 2},
              {"num_attention_heads", 4},    {"num_key_value_heads", 2}, {"head_dim", 64},
              {"intermediate_size", 512},    {"vocab_size", 1000},       {"torch_dtype", "bfloat16"},
              {"tie_word_embeddings", false}};
}
/// The same with 4 experts of 128, 2 per token.
json experts() {
  json config = llama();
  config.update(
      {{"model_type", "qwen3_moe"}, {"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 128}});
  return config;
}
json quantised(json config, const json& quantization) {
  config["quantization_config"] = quantization;
  return config;
}

Expected<ModelDescription> read(const json& config, const json* side = nullptr) {
  return describe_hf_config(config, side, "folder/config.json");
}
std::int64_t bytes(const json& config, ModuleClass of, const json* side = nullptr) {
  const Expected<ModelDescription> model = read(config, side);
  if (!model) FAIL(model.error().line());
  return model->weight_bytes(of).count();
}
std::string refusal(const json& config, const json* side = nullptr) {
  const Expected<ModelDescription> model = read(config, side);
  REQUIRE(!model);
  CHECK(model.error().line().find('\n') == std::string::npos);
  return model.error().line();
}
bool says(const std::string& line, const char* words) { return line.find(words) != std::string::npos; }

constexpr std::int64_t attention = 2 * 256 * 256 + 2 * 128 * 256, mlp = 3 * 512 * 256, head = 1000 * 256;
constexpr std::int64_t expert = 3 * 128 * 256;

TEST_CASE("FP8 with block scales leaves head, embedding, router and norms") {
  const json fp8{
      {"quant_method", "fp8"}, {"weight_block_size", {128, 128}}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}};
  const json config = quantised(llama(), fp8);
  CHECK(bytes(config, ModuleClass::attention) == 2 * (attention + 4 * (2 * 2 * 2 + 2 * 2)));
  CHECK(bytes(config, ModuleClass::dense_mlp) == 2 * (mlp + 4 * 3 * 4 * 2));
  CHECK(bytes(config, ModuleClass::head) == 2 * head);
  CHECK(bytes(config, ModuleClass::embedding) == 2 * head);
  CHECK(bytes(quantised(experts(), fp8), ModuleClass::router) == 2 * 2 * 4 * 256);
  CHECK(bytes(quantised(experts(), fp8), ModuleClass::routed_experts) == 2 * 4 * (expert + 4 * 3 * 2));
  CHECK(bytes(quantised(llama(), {{"quant_method", "fbgemm_fp8"}, {"activation_scale_ub", 1200.0}}),
              ModuleClass::attention) == 2 * (attention + 4 * (256 + 128 + 128 + 256)));
  // Without blocks: one f32 scale per matrix.
  CHECK(bytes(quantised(llama(), {{"quant_method", "fp8"}}), ModuleClass::attention) == 2 * (attention + 4 * 4));
}

TEST_CASE("excludes are names, parts of names, globs and regular expressions") {
  const auto attention_with = [](const json& excludes) {
    return bytes(quantised(llama(), {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", excludes}}),
                 ModuleClass::attention);
  };
  const std::int64_t all = 2 * (attention + 4 * 4), none = 2 * 2 * attention;
  CHECK(attention_with({"lm_head"}) == all);
  CHECK(attention_with({"lm_head", "model.layers.0.self_attn*"}) == all / 2 + none / 2);
  CHECK(attention_with({"model.language_model.layers.1.self_attn"}) == all / 2 + none / 2);
  CHECK(attention_with({"*.self_attn.*"}) == none);
  CHECK(attention_with({"self_attn.q_proj"}) == all + 2 * (256 * 256 - 4));
}

TEST_CASE("an exclude that names nothing here is refused") {
  const auto with = [](const char* pattern) {
    return quantised(llama(), {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", {pattern}}});
  };
  CHECK(says(refusal(with("model.layers.0.attention.query")), "'model.layers.0.attention.query' names no module"));
  CHECK(says(refusal(with("model.layers.1.mlp.gate_projection")), "names no module"));
  CHECK(says(refusal(with("q_pro")), "names no module")); // a part of a part is none
  for (const char* other :
       {"vision_tower*", "mtp.layers.0*", "model.layers.2*", "model.layers.0.input_layernorm", "lm_head"})
    CHECK(read(with(other)));
}

TEST_CASE("a config that names ModelOpt as its producer alone is ModelOpt's") {
  const json named{{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", {"lm_head"}}};
  json producer{{"producer", {{"name", "modelopt"}, {"version", "0.1"}}},
                {"quant_algo", "FP8"},
                {"ignore", {"lm_head"}},
                {"kv_cache_scheme", "FP8"}};
  const Expected<ModelDescription> model = read(quantised(llama(), producer));
  REQUIRE(model);
  CHECK(model->weight_bytes() == read(quantised(llama(), named))->weight_bytes());
  CHECK(model->kv_element_bytes == 1);
  producer["kv_cache_scheme"] = "INT8";
  CHECK(says(refusal(quantised(llama(), producer)), "kv_cache_scheme is no JSON object"));
  producer["producer"] = {{"name", "another"}};
  CHECK(says(refusal(quantised(llama(), producer)), "quant_method is ''"));
}

TEST_CASE("expressions of published configs match from the beginning, and others are refused") {
  const auto matches = [](const char* expression, const char* name) {
    const auto read = detail::ModuleExpression::parse(expression);
    REQUIRE(read);
    return read->matches(name);
  };
  const char* const name = "model.layers.17.mlp.gate_up_proj";
  for (const char* expression :
       {".*", "", "model", "model\\.layers\\.17\\.", ".*mlp\\.(gate|up|gate_up|down)_proj.*", "^model.*proj$",
        ".*layers\\.\\d+\\.mlp.*", ".*\\.[0-9]+\\..*_proj", "model\\.layers\\.1?7", "(?:vision|model)\\..*",
        ".*\\.[^a-z]+\\.mlp", "head|model\\.layers", "(a|model(\\.layers(\\.17)?)?)\\.mlp", "\\w+\\.\\w+"})
    CHECK_MESSAGE(matches(expression, name), expression);
  for (const char* expression : {"layers", ".*mlp\\.(gate|up|down)_proj.*", "model.*proj_$", ".*layers\\.\\d\\.mlp.*",
                                 ".*x+", "a^model", "mode[^k-m]", "$", "model\\.layers\\.(18|19).*"})
    CHECK_MESSAGE(!matches(expression, name), expression);
  CHECK(!matches("a.b", "a\nb"));
  for (const std::string& expression :
       {std::string(200'000, '('), std::string(513, 'a'), std::string{"((a|b|[a-z._0-9])*)*Z"}, std::string{"(a"},
        std::string{"a)"}, std::string{"(?!a)"}, std::string{"(?=a)"}, std::string{"a{2}"}, std::string{"(a)\\1"},
        std::string{"*a"}, std::string{"a**"}, std::string{"a+?"}, std::string{"[a"}, std::string{"[]"},
        std::string{"[z-a]"}, std::string{"a\\"}, std::string{"\\b"}, std::string{"(((((a)))))"}}) {
    CHECK(!detail::ModuleExpression::parse(expression));
    const json excludes{"lm_head", "re:" + expression};
    CHECK(says(refusal(quantised(llama(), {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", excludes}})),
               "is no expression that is understood; expected up to 512 characters"));
  }
  // Every way to match would take 2^500 steps.
  std::string slow;
  while (slow.size() < 500) slow += ".*a?";
  CHECK(!matches((slow + "Z").c_str(), std::string(500, 'a').c_str()));
  const std::vector<std::string> many(5, "re:" + slow);
  CHECK(says(refusal(quantised(llama(), {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", many}})),
             "longer together"));
}

TEST_CASE("a group has at least one element") {
  for (const json& size : {json{0}, json{-1}, json{"16"}, json{1.5}}) {
    const json nvfp4{{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", size}};
    CHECK(says(refusal(quantised(llama(), nvfp4)), "group_size"));
    const json layer{{"quant_algo", "NVFP4"}, {"group_size", size}};
    const json side{
        {"quantization", {{"quant_algo", "MIXED_PRECISION"}, {"quantized_layers", {{"model.layers.0.mlp", layer}}}}}};
    CHECK(says(refusal(llama(), &side), "group_size"));
  }
  CHECK(
      says(refusal(quantised(llama(), {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 0}})), "group_size is 0"));
  CHECK(read(quantised(llama(), {{"quant_method", "awq"}, {"bits", 4}, {"group_size", -1}})));
}

TEST_CASE("a side file quantises a config that says nothing, and gives the type of KV") {
  const json side{{"producer", {{"name", "modelopt"}}},
                  {"quantization",
                   {{"quant_algo", "NVFP4"},
                    {"kv_cache_quant_algo", "FP8"},
                    {"group_size", 16},
                    {"exclude_modules", {"lm_head"}}}}};
  CHECK(bytes(llama(), ModuleClass::attention, &side) == 2 * (attention / 2 + attention / 16 + 4 * 4));
  CHECK(bytes(llama(), ModuleClass::head, &side) == 2 * head);
  CHECK(read(llama(), &side)->kv.bytes(Tokens{1}) == Bytes{2 * 2 * 2 * 64});
  CHECK(describe_hf_config(llama(), &side, "config.json", 2)->kv.bytes(Tokens{1}) == Bytes{2 * 2 * 2 * 64 * 2});
  json unlisted = side; // the exporter's defaults
  unlisted["quantization"].erase("exclude_modules");
  CHECK(bytes(experts(), ModuleClass::head, &unlisted) == 2 * head);
  CHECK(bytes(experts(), ModuleClass::router, &unlisted) == 2 * 2 * 4 * 256);
  json other = side;
  other["quantization"]["kv_cache_quant_algo"] = "NVFP4";
  CHECK(says(refusal(llama(), &other), "kv_cache_quant_algo is 'NVFP4'"));
  const json config =
      quantised(llama(), {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", {"lm_head"}}});
  CHECK(says(refusal(config, &side), "differ"));
}

TEST_CASE("mixed precision names a format per module, one for all experts of a layer") {
  json layers = json::object();
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer);
    layers[at + ".self_attn.o_proj"] = {{"quant_algo", "FP8"}};
    for (int e = 0; e < 4; ++e)
      for (const char* name : {".gate_proj", ".up_proj", ".down_proj"})
        layers[at + ".mlp.experts." + std::to_string(e) + name] = {{"quant_algo", "MXFP8"}};
  }
  json side{{"quantization", {{"quant_algo", "MIXED_PRECISION"}, {"quantized_layers", layers}}}};
  CHECK(bytes(experts(), ModuleClass::routed_experts, &side) == 2 * 4 * (expert + expert / 32));
  CHECK(bytes(experts(), ModuleClass::attention, &side) == 2 * (2 * attention - 256 * 256 + 4));
  side["quantization"]["quantized_layers"]["model.layers.0.mlp.experts.2.up_proj"] = {{"quant_algo", "FP8"}};
  CHECK(says(refusal(experts(), &side), "several formats"));
}

TEST_CASE("MXFP4 quantises experts alone") {
  json gpt = experts();
  gpt.update({{"model_type", "gpt_oss"},
              {"attention_bias", false},
              {"num_local_experts", 4},
              {"layer_types", {"full_attention", "full_attention"}},
              {"intermediate_size", 128}});
  gpt.erase("num_experts"), gpt.erase("moe_intermediate_size");
  gpt = quantised(gpt,
                  {{"quant_method", "mxfp4"},
                   {"modules_to_not_convert", {"model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"}}});
  const std::int64_t biases = 2 * (2 * 128 + 256);
  CHECK(bytes(gpt, ModuleClass::routed_experts) == 2 * 4 * (expert / 2 + expert / 32 + biases));
  CHECK(bytes(gpt, ModuleClass::attention) == 2 * 2 * attention);
}

TEST_CASE("compressed-tensors, AWQ and GPTQ store groups") {
  const auto group = [](const json& weights, const char* format) {
    return json{{"quant_method", "compressed-tensors"},
                {"format", format},
                {"ignore", {"lm_head", "re:.*self_attn.*"}},
                {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
  };
  const json int4{{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 32}, {"symmetric", true}};
  CHECK(bytes(quantised(llama(), group(int4, "pack-quantized")), ModuleClass::dense_mlp) ==
        2 * (mlp / 2 + mlp / 32 * 2));
  CHECK(bytes(quantised(llama(), group(int4, "pack-quantized")), ModuleClass::attention) == 2 * 2 * attention);
  const json channel{{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}, {"symmetric", true}};
  CHECK(bytes(quantised(llama(), group(channel, "float-quantized")), ModuleClass::dense_mlp) ==
        2 * (mlp + 2 * (512 + 512 + 256)));
  const json fp4{{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}, {"group_size", 32}};
  CHECK(bytes(quantised(llama(), group(fp4, "mxfp4-pack-quantized")), ModuleClass::dense_mlp) ==
        2 * (mlp / 2 + mlp / 32));
  CHECK(says(refusal(quantised(llama(), group(fp4, "float-quantized"))), "a float's strategy is 'group'"));
  json bad = int4;
  bad["num_bits"] = 3;
  CHECK(says(refusal(quantised(llama(), group(bad, "pack-quantized"))), "num_bits is 3"));

  const json awq{{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"zero_point", true}, {"version", "gemm"}};
  CHECK(bytes(quantised(llama(), awq), ModuleClass::dense_mlp) == 2 * (mlp / 2 + mlp / 128 * 2 + mlp / 128 / 2));
  const json gptq{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"desc_act", false}, {"sym", true}};
  CHECK(bytes(quantised(llama(), gptq), ModuleClass::dense_mlp) ==
        2 * (mlp / 2 + mlp / 128 * 2 + mlp / 128 / 2 + 4 * (256 + 256 + 512)));
  CHECK(says(refusal(quantised(llama(), {{"quant_method", "bitsandbytes"}})), "quant_method is 'bitsandbytes'"));
  json packed = gptq;
  packed["pack_dtype"] = "int32";
  CHECK(read(quantised(llama(), packed))->weight_bytes() == read(quantised(llama(), gptq))->weight_bytes());
  packed["pack_dtype"] = "int16";
  CHECK(says(refusal(quantised(llama(), packed)), "pack_dtype is not int32"));
  json unknown = awq;
  unknown["packing_factor"] = 5;
  CHECK(says(refusal(quantised(llama(), unknown)), "packing_factor"));
}

TEST_CASE("an engine's shape has the stored bytes, and reads those of touched experts") {
  const json fp8{{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  for (const json& config : {quantised(llama(), fp8), quantised(experts(), fp8)}) {
    const Expected<ModelShape> shape = shape_from_hf_config(config, "config.json");
    REQUIRE(shape);
    const Expected<ModelDescription> model = read(config);
    CHECK(shape->weight_bytes().count() == (model->weight_bytes() - model->weight_bytes(ModuleClass::norm)).count());
    CHECK(shape->layer_weight_bytes_read(Tokens{1'000'000}) == shape->layer_weight_bytes());
    CHECK(shape->head_weight_bytes() == Bytes{2 * head});
    CHECK(shape->hidden_bytes_per_token() == Bytes{2 * 256});
    // Half of it on each of two devices.
    const Expected<ModelShape> shard = tensor_shard(*shape, 2, "--tp");
    REQUIRE(shard);
    CHECK(shard->stored.attention * 2 == shape->stored.attention);
    CHECK(shard->stored.expert * 2 == shape->stored.expert);
  }
}

TEST_CASE("a folder with a side file is never read as unquantised, and Infinity is read") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "sluice_hf_quantization_test";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << llama();
  const std::int64_t whole = read_hf_config(folder.string())->weight_bytes().count();
  std::ofstream(folder / "hf_quant_config.json")
      << R"({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}})";
  const Expected<ModelShape> shape = read_hf_config(folder.string());
  REQUIRE(shape);
  CHECK(shape->weight_bytes().count() == whole - 2 * (attention + mlp) + 2 * 7 * 4);
  CHECK(shape->kv_element_bytes == 1);
  CHECK(find_or_read_model(folder.string(), 2)->kv_element_bytes == 2);
  std::ofstream(folder / "hf_quant_config.json") << R"({"quantization": {"quant_algo": "INT3"}})";
  CHECK(says(read_hf_config(folder.string()).error().line(), "quant_algo is 'INT3'"));
  fs::remove(folder / "hf_quant_config.json");
  std::string text = llama().dump();
  text.insert(1, R"("time_step_limit": [0.0, Infinity], "note": "Infinity \"NaN", )");
  std::ofstream(folder / "config.json") << text;
  CHECK(read_hf_config(folder.string())->weight_bytes().count() == whole);
  fs::remove_all(folder);
}

} // namespace hf_quantization_test
