// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/named.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"

#include "support/shared_data.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

using namespace sluice;
using nlohmann::json;

namespace {

json llama() {
  return json::parse(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "max_position_embeddings": 131072})");
}

void check_same_but_name(const json& config, ModelShape expected) {
  Expected<ModelShape> shape = shape_from_hf_config(config, "config.json");
  CAPTURE(expected.name);
  if (!shape) FAIL(shape.error().line());
  shape->name = expected.name;
  CHECK(*shape == expected);
}

} // namespace

TEST_CASE("each model type yields the named shape") {
  check_same_but_name(llama(), llama3_8b());
  check_same_but_name(json::parse(R"({"model_type": "llama", "hidden_size": 5120, "intermediate_size": 13824,
    "num_attention_heads": 40, "num_hidden_layers": 40, "vocab_size": 32000, "torch_dtype": "float16",
    "max_position_embeddings": 4096})"),
                      llama2_13b()); // no num_key_value_heads: as many as heads
  check_same_but_name(json::parse(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "max_position_embeddings": 32768})"),
                      mixtral_8x7b());
  check_same_but_name(json::parse(R"({"model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 27648,
    "num_attention_heads": 40, "num_hidden_layers": 64, "num_key_value_heads": 8, "vocab_size": 152064,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072})"),
                      qwen2_5_32b());
  check_same_but_name(json::parse(R"({"model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600,
    "num_attention_heads": 64, "num_hidden_layers": 64, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "max_position_embeddings": 40960})"),
                      qwen3_32b()); // hidden / heads is 80 here, not the head size
  check_same_but_name(json::parse(R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
    "num_attention_heads": 32, "num_hidden_layers": 48, "num_key_value_heads": 4, "head_dim": 128,
    "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "max_position_embeddings": 40960})"),
                      qwen3_30b_a3b());
  check_same_but_name(json::parse(R"({"model_type": "opt", "hidden_size": 7168, "ffn_dim": 28672,
    "num_attention_heads": 56, "num_hidden_layers": 48, "vocab_size": 50272, "word_embed_proj_dim": 7168,
    "torch_dtype": "float16", "max_position_embeddings": 2048})"),
                      opt_30b());
}

TEST_CASE("the data type sets the bytes of weights and KV") {
  const struct {
    const char* type;
    int bytes;
  } rows[] = {{"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"float8_e4m3fn", 1}};
  for (const auto& row : rows) {
    json config = llama();
    config["torch_dtype"] = row.type;
    const Expected<ModelShape> shape = shape_from_hf_config(config, "config.json");
    REQUIRE(shape);
    CHECK(shape->weight_element_bytes == row.bytes);
    CHECK(shape->kv_element_bytes == row.bytes);
  }
}

TEST_CASE("a sliding window is read where a model uses one that is shorter than its contexts") {
  const auto window = [](json config) {
    config["max_position_embeddings"] = 32768;
    return shape_from_hf_config(config, "config.json")->attention_window;
  };
  json mistral = llama(), qwen = llama();
  mistral["model_type"] = "mistral";
  CHECK(window(mistral) == Tokens{4096}); // Hugging Face's default
  mistral["sliding_window"] = 1024;
  CHECK(window(mistral) == Tokens{1024});
  mistral["sliding_window"] = nullptr;
  CHECK(window(mistral) == Tokens{0});
  mistral["sliding_window"] = 32768; // no context is longer
  CHECK(window(mistral) == Tokens{0});
  qwen["model_type"] = "qwen2";
  qwen["sliding_window"] = 1024;
  CHECK(window(qwen) == Tokens{0}); // a switch turns it on
  qwen["use_sliding_window"] = true;
  qwen["max_window_layers"] = 0; // the layers below this one attend to all tokens
  CHECK(window(qwen) == Tokens{1024});
  qwen["max_window_layers"] = 32;
  CHECK(window(qwen) == Tokens{0});
  qwen["max_window_layers"] = 8;
  const Expected<ModelShape> mixed = shape_from_hf_config(qwen, "config.json");
  REQUIRE(!mixed);
  CHECK(mixed.error().line().find("8 of 32 layers attend to all tokens") != std::string::npos);
  qwen["use_sliding_window"] = 1;
  CHECK(!shape_from_hf_config(qwen, "config.json"));
  qwen["use_sliding_window"] = true;
  qwen["sliding_window"] = "long";
  CHECK(!shape_from_hf_config(qwen, "config.json"));
}

TEST_CASE("a size that is a number of the class is no default here") {
  for (const char* type : {"mistral", "qwen2", "qwen3", "mixtral"}) {
    CAPTURE(type);
    json config = llama();
    config["model_type"] = type;
    config.erase("num_key_value_heads");
    const Expected<ModelShape> shape = shape_from_hf_config(config, "config.json");
    REQUIRE(!shape);
    CHECK(shape.error().line().find("num_key_value_heads is missing") != std::string::npos);
  }
  json qwen = llama();
  qwen["model_type"] = "qwen3";
  qwen.erase("head_dim");
  const Expected<ModelShape> shape = shape_from_hf_config(qwen, "config.json");
  REQUIRE(!shape);
  CHECK(shape.error().line().find("head_dim is missing") != std::string::npos);
}

TEST_CASE("each wrong field is reported by name in one line") {
  const struct {
    const char* says;
    void (*spoil)(json&);
  } rows[] = {
      {"model_type is missing", [](json& c) { c.erase("model_type"); }},
      {"model_type is 'gpt2'", [](json& c) { c["model_type"] = "gpt2"; }},
      {"model_type is 7", [](json& c) { c["model_type"] = 7; }},
      {"num_hidden_layers is missing", [](json& c) { c.erase("num_hidden_layers"); }},
      {"num_hidden_layers is missing",
       [](json& c) { c["num_hidden_layers"] = nullptr; }}, // configs use null for absence
      {"num_hidden_layers is -32", [](json& c) { c["num_hidden_layers"] = -32; }},
      {"num_hidden_layers is 32.5", [](json& c) { c["num_hidden_layers"] = 32.5; }},
      {"num_hidden_layers is \"32\"", [](json& c) { c["num_hidden_layers"] = "32"; }},
      {"the number of layers is 4000", [](json& c) { c["num_hidden_layers"] = 4000; }},
      {"hidden_size is 18446744073709551615", [](json& c) { c["hidden_size"] = 18446744073709551615u; }},
      {"hidden_size is object", [](json& c) { c["hidden_size"] = json::object(); }},
      {"32 heads cannot share 5", [](json& c) { c["num_key_value_heads"] = 5; }},
      {"num_key_value_heads is 0", [](json& c) { c["num_key_value_heads"] = 0; }},
      {"hidden_size 4096 is not a multiple", [](json& c) { c["num_attention_heads"] = 30; }},
      {"head_dim is 0", [](json& c) { c["head_dim"] = 0; }},
      {"intermediate_size is missing", [](json& c) { c.erase("intermediate_size"); }},
      {"vocab_size is -1", [](json& c) { c["vocab_size"] = -1; }},
      {"tie_word_embeddings is \"no\"", [](json& c) { c["tie_word_embeddings"] = "no"; }},
      {"torch_dtype is 'int4'", [](json& c) { c["torch_dtype"] = "int4"; }},
      {"quantization_config", [](json& c) { c["quantization_config"] = json::object(); }},
      {"num_local_experts is missing", [](json& c) { c["model_type"] = "mixtral"; }},
      {"ffn_dim is missing", [](json& c) { c["model_type"] = "opt"; }},
  };
  for (const auto& row : rows) {
    json config = llama();
    row.spoil(config);
    const Expected<ModelShape> shape = shape_from_hf_config(config, "config.json");
    REQUIRE(!shape);
    const std::string line = shape.error().line();
    CAPTURE(line);
    CHECK(line.rfind("config.json: ", 0) == 0);
    CHECK(line.find(row.says) != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(!shape.error().expected.empty());
  }
}

TEST_CASE("layers without experts among layers with experts are refused") {
  json config = llama();
  config["model_type"] = "qwen3_moe";
  config["num_experts"] = 8;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 64;
  REQUIRE(shape_from_hf_config(config, "config.json"));
  config["mlp_only_layers"] = {0};
  CHECK(!shape_from_hf_config(config, "config.json"));
  config["mlp_only_layers"] = json::array();
  config["decoder_sparse_step"] = 2;
  CHECK(!shape_from_hf_config(config, "config.json"));
}

TEST_CASE("a folder, a file and a name are all found") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "sluice_hf_config_test";
  fs::create_directories(folder);
  fs::remove(folder / "config.json");
  Expected<ModelShape> shape = find_or_read_model(folder.string());
  REQUIRE(!shape);
  CHECK(shape.error().line().find("no config.json") != std::string::npos);

  std::ofstream(folder / "config.json") << llama();
  for (const fs::path& path : {folder, folder / "config.json"}) {
    shape = find_or_read_model(path.string());
    REQUIRE(shape);
    CHECK(shape->name == "sluice_hf_config_test");
  }
  std::ofstream(folder / "config.json") << "{\"model_type\": \"llama\",\n \"hidden_size\": 40";
  shape = find_or_read_model(folder.string());
  REQUIRE(!shape);
  CHECK(shape.error().line().find("config.json:2: the JSON ends too early") != std::string::npos);
  std::ofstream(folder / "config.json") << "[1, 2]";
  shape = find_or_read_model(folder.string());
  REQUIRE(!shape);
  CHECK(shape.error().line().find("this is a JSON array") != std::string::npos);
  std::ofstream(folder / "config.json").close();
  CHECK(!find_or_read_model(folder.string()));
  fs::remove_all(folder);

  REQUIRE(find_or_read_model("qwen3-32b"));
  shape = find_or_read_model("no-such-model");
  REQUIRE(!shape);
  CHECK(shape.error().line().find("llama3-8b") != std::string::npos);
}

TEST_CASE("the profile bundle's model_config.json is Llama-3-8B" *
          sluice_test::needs_shared({"data/profiles/RTX4090-Llama-3.1-8B/model_config.json"})) {
  Expected<ModelShape> shape = read_hf_config(sluice_test::shared_path("data/profiles/RTX4090-Llama-3.1-8B"));
  REQUIRE(shape);
  shape->name = "llama3-8b"; // Llama-3.1-8B has the same shape
  CHECK(*shape == llama3_8b());
}
