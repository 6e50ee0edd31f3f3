// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/checkpoint/tiny.hpp"

#include "support/checkpoint_writer.hpp"
#include "support/program.hpp"
#include "support/resident.hpp"
#include "support/small_decoders.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace sluice;
using sluice_test::TemporaryFolder;
using testing::WrittenTensor;

namespace {

ModelWeights read(const TemporaryFolder& folder) {
  Expected<ModelWeights> weights = read_checkpoint(folder.path.string());
  if (!weights) FAIL(weights.error().line());
  return std::move(*weights);
}

std::string error_of(const TemporaryFolder& folder) {
  const Expected<ModelWeights> weights = read_checkpoint(folder.path.string());
  if (weights) return "none";
  std::string line = weights.error().line();
  for (std::size_t at; (at = line.find(folder.path.string())) != std::string::npos;)
    line.replace(at, folder.path.string().size(), "DIR");
  return line;
}

bool same(const Matrix& a, const Matrix& b) {
  if (a.rows != b.rows || a.columns != b.columns || a.type != b.type) return false;
  return a.empty() || std::memcmp(a.row(0), b.row(0), static_cast<std::size_t>(a.rows * a.row_bytes())) == 0;
}

bool same(const ModelWeights& a, const ModelWeights& b) {
  bool equal = same(a.embedding, b.embedding) && same(a.positions, b.positions) && same(a.final_norm, b.final_norm) &&
               same(a.final_norm_bias, b.final_norm_bias) && same(a.head, b.head) &&
               a.layers.size() == b.layers.size() && a.layout.bytes == b.layout.bytes;
  for (std::size_t layer = 0; equal && layer < a.layers.size(); ++layer) {
    const std::vector<TensorPlace>& places = a.layout_at(static_cast<int>(layer)).places;
    equal = places == b.layout_at(static_cast<int>(layer)).places;
    for (std::size_t i = 0; equal && i < places.size(); ++i)
      equal = std::memcmp(a.layers[layer][i], b.layers[layer][i], static_cast<std::size_t>(places[i].bytes())) == 0;
  }
  return equal;
}

const detail::MappedCheckpoint& mapped(const ModelWeights& weights) {
  return *static_cast<const detail::MappedCheckpoint*>(weights.owner.get());
}

bool in_a_mapping(const ModelWeights& weights, const std::byte* at) {
  const auto& files = mapped(weights).files;
  return std::any_of(files.begin(), files.end(), [&](const MappedFile& file) {
    return at >= file.bytes().data() && at < file.bytes().data() + file.bytes().size();
  });
}

ModelWeights small_model(const std::string& name, ElementType type = ElementType::f32) {
  for (const DecoderConfig& config : testing::small_decoders())
    if (config.shape.name == name) return random_weights(config, 5, type);
  FAIL("no family " << name);
  return {};
}

WrittenTensor& named(std::vector<WrittenTensor>& tensors, const std::string& name) {
  for (WrittenTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  FAIL("no tensor " << name);
  return tensors.front();
}

/// Resident bytes of files mapped by this process.
std::int64_t mapped_and_resident() {
  const auto resident = sluice_test::resident_memory();
  return resident->bytes - resident->anonymous;
}

} // namespace

TEST_CASE("tensors have Hugging Face's names") {
  const struct {
    const char* family;
    std::set<std::string> layer; // names of the second layer
    std::set<std::string> outer;
  } families[] = {
      {"qwen2",
       {"model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.q_proj.weight",
        "model.layers.1.self_attn.q_proj.bias", "model.layers.1.self_attn.k_proj.weight",
        "model.layers.1.self_attn.k_proj.bias", "model.layers.1.self_attn.v_proj.weight",
        "model.layers.1.self_attn.v_proj.bias", "model.layers.1.self_attn.o_proj.weight",
        "model.layers.1.post_attention_layernorm.weight", "model.layers.1.mlp.gate_proj.weight",
        "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight"},
       {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}},
      {"qwen3",
       {"model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.q_proj.weight",
        "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight",
        "model.layers.1.self_attn.o_proj.weight", "model.layers.1.self_attn.q_norm.weight",
        "model.layers.1.self_attn.k_norm.weight", "model.layers.1.post_attention_layernorm.weight",
        "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight",
        "model.layers.1.mlp.down_proj.weight"},
       {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}},
      {"deepseek_v3",
       {"model.layers.1.input_layernorm.weight",
        "model.layers.1.self_attn.q_a_proj.weight",
        "model.layers.1.self_attn.q_a_layernorm.weight",
        "model.layers.1.self_attn.q_b_proj.weight",
        "model.layers.1.self_attn.kv_a_proj_with_mqa.weight",
        "model.layers.1.self_attn.kv_a_layernorm.weight",
        "model.layers.1.self_attn.kv_b_proj.weight",
        "model.layers.1.self_attn.o_proj.weight",
        "model.layers.1.post_attention_layernorm.weight",
        "model.layers.1.mlp.gate.weight",
        "model.layers.1.mlp.gate.e_score_correction_bias",
        "model.layers.1.mlp.experts.0.gate_proj.weight",
        "model.layers.1.mlp.experts.0.up_proj.weight",
        "model.layers.1.mlp.experts.0.down_proj.weight",
        "model.layers.1.mlp.experts.1.gate_proj.weight",
        "model.layers.1.mlp.experts.1.up_proj.weight",
        "model.layers.1.mlp.experts.1.down_proj.weight",
        "model.layers.1.mlp.experts.2.gate_proj.weight",
        "model.layers.1.mlp.experts.2.up_proj.weight",
        "model.layers.1.mlp.experts.2.down_proj.weight",
        "model.layers.1.mlp.experts.3.gate_proj.weight",
        "model.layers.1.mlp.experts.3.up_proj.weight",
        "model.layers.1.mlp.experts.3.down_proj.weight",
        "model.layers.1.mlp.shared_experts.gate_proj.weight",
        "model.layers.1.mlp.shared_experts.up_proj.weight",
        "model.layers.1.mlp.shared_experts.down_proj.weight"},
       {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}},
      {"qwen3_5_text", // keeps a state in layers 0 and 2; those of layer 1 are Qwen3's
       {"model.layers.1.input_layernorm.weight", "model.layers.1.self_attn.q_proj.weight",
        "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight",
        "model.layers.1.self_attn.o_proj.weight", "model.layers.1.self_attn.q_norm.weight",
        "model.layers.1.self_attn.k_norm.weight", "model.layers.1.post_attention_layernorm.weight",
        "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight",
        "model.layers.1.mlp.down_proj.weight"},
       {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}},
      {"opt",
       {"model.decoder.layers.1.self_attn_layer_norm.weight", "model.decoder.layers.1.self_attn_layer_norm.bias",
        "model.decoder.layers.1.self_attn.q_proj.weight", "model.decoder.layers.1.self_attn.q_proj.bias",
        "model.decoder.layers.1.self_attn.k_proj.weight", "model.decoder.layers.1.self_attn.k_proj.bias",
        "model.decoder.layers.1.self_attn.v_proj.weight", "model.decoder.layers.1.self_attn.v_proj.bias",
        "model.decoder.layers.1.self_attn.out_proj.weight", "model.decoder.layers.1.self_attn.out_proj.bias",
        "model.decoder.layers.1.final_layer_norm.weight", "model.decoder.layers.1.final_layer_norm.bias",
        "model.decoder.layers.1.fc1.weight", "model.decoder.layers.1.fc1.bias", "model.decoder.layers.1.fc2.weight",
        "model.decoder.layers.1.fc2.bias"},
       {"model.decoder.embed_tokens.weight", "model.decoder.embed_positions.weight",
        "model.decoder.final_layer_norm.weight", "model.decoder.final_layer_norm.bias"}},
  };
  for (const auto& family : families) {
    CAPTURE(family.family);
    std::set<std::string> layer;
    std::set<std::string> outer;
    for (const WrittenTensor& tensor : testing::tensors_of(small_model(family.family))) {
      if (tensor.name.find("layers.1.") != std::string::npos) layer.insert(tensor.name);
      if (tensor.name.find("layers.") == std::string::npos) outer.insert(tensor.name);
    }
    CHECK(layer == family.layer);
    CHECK(outer == family.outer);
  }
  std::set<std::string> sparse, dense;
  for (const WrittenTensor& tensor : testing::tensors_of(small_model("qwen3_next"))) {
    if (tensor.name.find("layers.1.mlp.") != std::string::npos) sparse.insert(tensor.name.substr(19));
    if (tensor.name.find("layers.2.mlp.") != std::string::npos) dense.insert(tensor.name.substr(19));
  }
  CHECK(dense == std::set<std::string>{"gate_proj.weight", "up_proj.weight", "down_proj.weight"});
  CHECK(sparse.size() == 1 + 5 * 3 + 1 + 3);
  for (const char* name : {"gate.weight", "experts.4.gate_proj.weight", "experts.0.down_proj.weight",
                           "shared_expert.up_proj.weight", "shared_expert_gate.weight"})
    CHECK(sparse.count(name) == 1);
  std::set<std::string> mixtral;
  for (const WrittenTensor& tensor : testing::tensors_of(small_model("mixtral")))
    if (tensor.name.find("layers.1.block") != std::string::npos) mixtral.insert(tensor.name);
  CHECK(mixtral.size() == 16);
  CHECK(mixtral.count("model.layers.1.block_sparse_moe.gate.weight") == 1);
  for (const char* of : {"w1", "w2", "w3"})
    CHECK(mixtral.count(std::string{"model.layers.1.block_sparse_moe.experts.4."} + of + ".weight") == 1);
}

TEST_CASE("a layer that keeps a state has the names and shapes of Qwen3-Next's classes, or of Qwen3.5's") {
  using Shape = std::vector<std::int64_t>;
  const std::map<std::string, Shape> both{{"conv1d.weight", {62, 1, 3}},
                                          {"dt_bias", {6}},
                                          {"A_log", {6}},
                                          {"norm.weight", {7}},
                                          {"out_proj.weight", {24, 42}}};
  const std::map<std::string, Shape> joint{{"in_proj_qkvz.weight", {104, 24}}, {"in_proj_ba.weight", {12, 24}}};
  const std::map<std::string, Shape> apart{{"in_proj_qkv.weight", {62, 24}},
                                           {"in_proj_z.weight", {42, 24}},
                                           {"in_proj_b.weight", {6, 24}},
                                           {"in_proj_a.weight", {6, 24}}};
  for (const bool next : {true, false}) {
    std::map<std::string, Shape> expected = both, found;
    expected.insert((next ? joint : apart).begin(), (next ? joint : apart).end());
    const std::string start = "model.layers.2.linear_attn.";
    for (const WrittenTensor& tensor : testing::tensors_of(small_model(next ? "qwen3_next" : "qwen3_5_text")))
      if (tensor.name.rfind(start, 0) == 0) found[tensor.name.substr(start.size())] = tensor.shape;
    CHECK(found == expected);
  }
}

TEST_CASE("checkpoints of each family and type are read back in place") {
  for (const DecoderConfig& config : testing::small_decoders())
    for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
      CAPTURE(config.shape.name);
      const TemporaryFolder folder;
      const ModelWeights written = random_weights(config, 5, type);
      testing::write_checkpoint(folder.path, written);
      const ModelWeights weights = read(folder);
      CHECK(same(weights, written));
      CHECK(weights.config.shape.weight_element_bytes == bytes_of(type));
      CHECK(weights.config.shape.kv_element_bytes == 4);
      CHECK(weights.config.norm == config.norm);
      CHECK((weights.head.head == weights.embedding.head) == config.shape.tied_embeddings);
      CHECK(weights.outer_bytes() == written.outer_bytes());
      for (const std::vector<const std::byte*>& layer : weights.layers)
        for (const std::byte* tensor : layer) CHECK(in_a_mapping(weights, tensor));
      for (const Matrix* outer : {&weights.embedding, &weights.final_norm, &weights.head})
        CHECK(in_a_mapping(weights, outer->row(0)));
      CHECK(mapped(weights).realigned.empty());
    }
}

TEST_CASE("only the kinds of layers that a model has give images their size and the model its type") {
  DecoderConfig config = small_model("qwen3_next").config;
  config.shape.dense = LayerSet{}.insert(1); // the one that attends: none has K and V beside experts
  const TemporaryFolder folder;
  const ModelWeights written = random_weights(config, 5, ElementType::f16);
  testing::write_checkpoint(folder.path, written);
  for (const ModelWeights& weights : {read(folder), retyped(written, ElementType::f16)}) {
    CHECK(weights.config.shape.weight_element_bytes == 2);
    CHECK(weights.layout.places.empty());
    Bytes largest{0};
    for (int layer = 0; layer < config.shape.layers; ++layer) {
      const LayerLayout own = layout_of(config, ElementType::f16, config.kind(layer));
      largest = std::max(largest, own.bytes);
      CHECK(weights.layout_at(layer).places == own.places);
    }
    CHECK(weights.layout.bytes == largest);
    CHECK(largest < layout_of(config, ElementType::f16, LayerKind{}).bytes);
  }
}

TEST_CASE("shards, names without a prefix, extra tensors and differing types are read too") {
  const ModelWeights written = small_model("mixtral", ElementType::bf16);
  const std::string config = testing::hf_config_of(written.config).dump();
  for (const std::string prefix : {"model.", ""})
    for (const std::size_t shards : {1U, 2U, 5U}) {
      const TemporaryFolder folder;
      testing::write_file(folder.path / "config.json", config);
      testing::write_shards(folder.path, testing::tensors_of(written, prefix), shards);
      const ModelWeights weights = read(folder);
      CHECK(same(weights, written));
      CHECK(mapped(weights).files.size() == shards);
    }

  const TemporaryFolder folder;
  std::vector<WrittenTensor> tensors = testing::tensors_of(written);
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F64", {3}, std::string(24, '\0')});
  for (WrittenTensor& tensor : tensors) {
    if (tensor.name.find("norm") == std::string::npos) continue;
    std::string wide; // bf16 is the upper half of f32
    for (std::size_t i = 0; i < tensor.data.size(); i += 2) wide.append(2, '\0').append(tensor.data, i, 2);
    tensor.data = wide;
    tensor.dtype = "F32";
  }
  testing::write_file(folder.path / "config.json", config);
  testing::write_file(folder.path / "model.safetensors", testing::safetensors_text(tensors));
  const ModelWeights weights = read(folder);
  CHECK(weights.final_norm.type == ElementType::f32);
  CHECK(load_element(weights.final_norm.row(0), ElementType::f32) ==
        load_element(written.final_norm.row(0), ElementType::bf16));
  for (const TensorPlace& place : weights.layout.places)
    CHECK((place.type == ElementType::f32) ==
          (place.tensor == LayerTensor::attention_norm || place.tensor == LayerTensor::mlp_norm));
  CHECK(weights.config.shape.weight_element_bytes == 2);
}

TEST_CASE("in an unaligned file, tensors read in place are copied, and the rest stays") {
  const ModelWeights written = small_model("opt");
  for (const std::size_t odd : {1U, 2U, 4U}) {
    const TemporaryFolder folder;
    testing::write_file(folder.path / "config.json", testing::hf_config_of(written.config).dump());
    testing::write_file(folder.path / "model.safetensors",
                        testing::safetensors_text(testing::tensors_of(written), odd));
    const ModelWeights weights = read(folder);
    CHECK(same(weights, written));
    for (const Matrix* outer : {&weights.embedding, &weights.positions, &weights.final_norm, &weights.head})
      CHECK(reinterpret_cast<std::uintptr_t>(outer->row(0)) % sizeof(float) == 0);
    CHECK(mapped(weights).realigned.size() == (odd == 4 ? 0U : 4U));
    CHECK(in_a_mapping(weights, weights.layers[1][3]));
  }
}

TEST_CASE("weights outlive their folder; a forgotten layer leaves memory and returns" *
          doctest::skip(!sluice_test::resident_memory())) {
  const ModelWeights written = random_weights(tiny_llama_config(), 2, ElementType::bf16);
  ModelWeights weights;
  {
    const TemporaryFolder folder;
    DecoderConfig config = written.config;
    config.shape.name = "llama";
    testing::write_file(folder.path / "config.json", testing::hf_config_of(config).dump());
    testing::write_file(folder.path / "model.safetensors", testing::safetensors_text(testing::tensors_of(written)));
    weights = read(folder);
  }
  CHECK(same(weights, written)); // all pages have been read
  const std::int64_t before = mapped_and_resident();
  for (int layer = 0; layer < 8; ++layer) weights.forget(layer);
  const std::int64_t given_back = before - mapped_and_resident();
  CHECK(given_back > weights.layout.bytes.count() * 8 * 9 / 10);
  CHECK(same(weights, written));
}

TEST_CASE("only whole pages are forgotten") {
  const TemporaryFolder folder;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  testing::write_file(folder.path / "file", std::string(3 * page, 'x'));
  Expected<MappedFile> file = MappedFile::open((folder.path / "file").string());
  REQUIRE(file);
  const std::span<const std::byte> bytes = file->bytes();
  CHECK(bytes.size() == 3 * page);
  CHECK(forget_pages(bytes) == 3 * page);
  CHECK(forget_pages(bytes.subspan(1)) == 2 * page);
  CHECK(forget_pages(bytes.subspan(1, 2 * page)) == page);
  CHECK(forget_pages(bytes.subspan(1, page)) == 0);
  CHECK(forget_pages(bytes.subspan(page, 0)) == 0);
  const MappedFile moved = std::move(*file);
  CHECK(moved.bytes()[3 * page - 1] == std::byte{'x'});

  CHECK(MappedFile::open((folder.path / "none").string()).error().code == ErrorCode::not_found);
  CHECK(MappedFile::open(folder.path.string()).error().what == "this is no regular file");
  testing::write_file(folder.path / "empty", "");
  CHECK(MappedFile::open((folder.path / "empty").string()).error().what == "the file is empty");
}

TEST_CASE("a malformed folder is reported in one line") {
  const ModelWeights good = small_model("llama", ElementType::bf16);
  const std::vector<WrittenTensor> tensors = testing::tensors_of(good);
  const TemporaryFolder folder;
  const auto write = [&](const std::vector<WrittenTensor>& changed) {
    testing::write_file(folder.path / "model.safetensors", testing::safetensors_text(changed));
  };
  CHECK(error_of(folder) == "DIR: the folder has no config.json; expected a Hugging Face model folder");
  testing::write_file(folder.path / "config.json", testing::hf_config_of(good.config).dump());
  CHECK(error_of(folder) == "DIR: the folder has no model.safetensors and no model.safetensors.index.json; expected "
                            "weights in safetensors");
  write(tensors);
  CHECK(error_of(folder) == "none");

  std::vector<WrittenTensor> changed = tensors;
  named(changed, "model.layers.1.mlp.up_proj.weight").name = "other";
  write(changed);
  CHECK(error_of(folder) ==
        "DIR: there is no tensor 'model.layers.1.mlp.up_proj.weight'; expected it, of shape [40, 24]");

  changed = tensors;
  named(changed, "lm_head.weight").name = "other";
  write(changed);
  CHECK(error_of(folder) == "DIR: there is no tensor 'lm_head.weight'; expected it, of shape [50, 24]");

  changed = tensors;
  named(changed, "model.layers.0.self_attn.k_proj.weight").shape = {24, 12};
  write(changed);
  CHECK(error_of(folder) == "DIR/model.safetensors: tensor 'model.layers.0.self_attn.k_proj.weight' has the shape "
                            "[24, 12]; expected [12, 24], by config.json");

  changed = tensors;
  named(changed, "model.norm.weight").shape = {1, 24};
  write(changed);
  CHECK(error_of(folder) ==
        "DIR/model.safetensors: tensor 'model.norm.weight' has the shape [1, 24]; expected [24], by config.json");

  changed = tensors;
  named(changed, "model.layers.1.self_attn.k_proj.weight").dtype = "F16";
  write(changed);
  CHECK(
      error_of(folder) ==
      "DIR/model.safetensors: tensor 'model.layers.1.self_attn.k_proj.weight' is of dtype F16; expected BF16, the type "
      "of tensor 'model.layers.0.self_attn.k_proj.weight'");

  changed = tensors;
  named(changed, "model.layers.0.self_attn.k_proj.weight").dtype = "I16";
  write(changed);
  CHECK(error_of(folder) == "DIR/model.safetensors: tensor 'model.layers.0.self_attn.k_proj.weight' is of dtype I16; "
                            "expected F32, F16 or BF16");

  const std::string whole = testing::safetensors_text(tensors);
  testing::write_file(folder.path / "model.safetensors", whole.substr(0, whole.size() - 1));
  CHECK(error_of(folder).find("of the data, of which the file has") != std::string::npos);
  testing::write_file(folder.path / "model.safetensors", "");
  CHECK(error_of(folder) == "DIR/model.safetensors: the file is empty; expected a file with something in it");
  std::filesystem::remove(folder.path / "model.safetensors");
  std::filesystem::create_directory(folder.path / "model.safetensors");
  CHECK(error_of(folder) == "DIR/model.safetensors: this is no regular file; expected a file");
}

TEST_CASE("a malformed index is reported in one line") {
  const ModelWeights good = small_model("llama");
  const std::vector<WrittenTensor> tensors = testing::tensors_of(good);
  const TemporaryFolder folder;
  const std::string index = "model.safetensors.index.json";
  testing::write_file(folder.path / "config.json", testing::hf_config_of(good.config).dump());
  testing::write_shards(folder.path, tensors, 2);
  CHECK(error_of(folder) == "none");

  const std::string second = "model-2-of-2.safetensors";
  std::filesystem::rename(folder.path / second, folder.path / "away");
  CHECK(error_of(folder) ==
        "DIR/model.safetensors.index.json: its file 'model-2-of-2.safetensors' is not in the folder; "
        "expected all files of the index");
  testing::write_file(folder.path / second, testing::safetensors_text({tensors[0], tensors[1]}));
  CHECK(error_of(folder) == "DIR/model-2-of-2.safetensors: tensor 'model.embed_tokens.weight' is in "
                            "DIR/model-1-of-2.safetensors too; expected it in one file");
  testing::write_file(folder.path / second, testing::safetensors_text({tensors[1]}));
  CHECK(error_of(folder) == "DIR/model-2-of-2.safetensors: there is no tensor "
                            "'model.layers.0.input_layernorm.weight'; expected it here, as the index says");

  for (const char* text : {"{}", R"({"weight_map": {}})", R"({"weight_map": [1]})"}) {
    testing::write_file(folder.path / index, text);
    CHECK(error_of(folder) ==
          "DIR/model.safetensors.index.json: weight_map is missing or empty; expected an object with "
          "the file of every tensor");
  }
  testing::write_file(folder.path / index, R"({"weight_map": {"a": "../model.safetensors"}})");
  CHECK(error_of(folder) == "DIR/model.safetensors.index.json: the file of tensor 'a' is '../model.safetensors'; "
                            "expected the name of a file beside the index");
  testing::write_file(folder.path / index, "{");
  CHECK(error_of(folder) == "DIR/model.safetensors.index.json:1: the JSON ends too early; expected a JSON object");
}

TEST_CASE("a damaged file is read or refused, and never read beyond its end") {
  const ModelWeights good = small_model("llama");
  const TemporaryFolder folder;
  testing::write_checkpoint(folder.path, good);
  const std::string whole = testing::safetensors_text(testing::tensors_of(good));
  const std::size_t header = whole.find("lm_head") + 2600; // later changes are in numbers: any bytes are valid
  Random random(3);
  int refused = 0;
  int unharmed = 0;
  for (int i = 0; i < 300; ++i) {
    std::string text = whole;
    for (std::uint64_t change = random.below(3); change > 0; --change)
      text[random.below(header)] = static_cast<char>(random.below(2) == 0 ? random.below(256) : '0' + random.below(10));
    if (random.below(5) == 0) text.resize(random.below(text.size()));
    testing::write_file(folder.path / "model.safetensors", text);
    const Expected<ModelWeights> weights = read_checkpoint(folder.path.string());
    if (!weights) {
      ++refused;
      CHECK(weights.error().line().find('\n') == std::string::npos);
      CHECK_FALSE(weights.error().expected.empty());
    } else {
      ++unharmed;
      static_cast<void>(same(*weights, good)); // reads every byte
    }
  }
  CHECK(refused > 100);
  CHECK(unharmed > 30);
}
