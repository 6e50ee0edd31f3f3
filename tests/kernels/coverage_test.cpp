// SPDX-License-Identifier: Apache-2.0
// Which of the named models the compiled kernels cover: makes the table of docs/kernels.md and compares it. To print
// it: build/release/bin/sluice_kernels_tests -tc="*docs/kernels.md*" -s
#include "sluice/model/named.hpp"

#include "kernels/needs.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

constexpr std::array<std::pair<ElementType, const char*>, 3> elements{
    {{ElementType::f32, "f32"}, {ElementType::f16, "f16"}, {ElementType::bf16, "bf16"}}};

/// "`Norm` .kind = NormKind::rms": a configuration, without its element if the column gives it.
std::string without_element(const NeededKernel& kernel, const std::string& of_column) {
  std::string config = kernel.config;
  const std::string element = ".element = ElementType::" + of_column;
  if (config.rfind(element, 0) == 0) config.erase(0, element.size() + (config.size() > element.size() ? 2 : 0));
  return "`" + kernel.family + (config.empty() ? std::string{} : " " + config) + "`";
}

struct Row {
  std::string models, needs;
  std::array<std::string, elements.size()> coverage;
};

Row row_of(const NamedModel& model) {
  Row row{std::string{model.name}, {}, {}};
  const DecoderConfig decoder = decoder_of(model.shape());
  for (std::size_t e = 0; e < elements.size(); ++e) {
    for (const NeededKernel& kernel : needed_kernels(decoder, elements[e].first)) {
      if (e + 1 == elements.size())
        row.needs += (row.needs.empty() ? "" : ", ") + without_element(kernel, elements[e].second);
      if (!kernel.compiled) row.coverage[e] += (row.coverage[e].empty() ? "missing: `" : ", `") + kernel.line + "`";
    }
    if (row.coverage[e].empty()) row.coverage[e] = "covered";
  }
  return row;
}

/// Models with equal needs share a row.
std::string coverage_table() {
  std::vector<Row> rows;
  for (const NamedModel& model : named_models) {
    const Row row = row_of(model);
    const auto same =
        std::find_if(rows.begin(), rows.end(), [&](const Row& other) { return other.needs == row.needs; });
    if (same == rows.end())
      rows.push_back(row);
    else
      same->models += ", " + row.models;
  }
  std::string table = "| models | configurations, in the element of the column where none is said |";
  for (const auto& element : elements) table += std::string{" "} + element.second + " |";
  table += "\n|---|---|---|---|---|\n";
  for (const Row& row : rows) {
    table += "| " + row.models + " | " + row.needs + " |";
    for (const std::string& coverage : row.coverage) table += " " + coverage + " |";
    table += "\n";
  }
  return table;
}

} // namespace

TEST_CASE("the table of models in docs/kernels.md follows from the list of configurations") {
  const std::string table = coverage_table();
  std::ifstream page("docs/kernels.md");
  REQUIRE(page.good());
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  CHECK_MESSAGE(text.find("\n" + table) != std::string::npos, "docs/kernels.md should have:\n" << table);
}

TEST_CASE("every named model is covered in half precision") {
  for (const NamedModel& model : named_models)
    for (const ElementType element : {ElementType::f16, ElementType::bf16})
      for (const NeededKernel& kernel : needed_kernels(decoder_of(model.shape()), element))
        CHECK_MESSAGE(kernel.compiled, model.name, " needs the line ", kernel.line);
}

TEST_CASE("no named model exceeds a limit of the kernels, and every exceeded limit of another model is reported") {
  for (const NamedModel& model : named_models)
    for (const auto& element : elements)
      for (const std::string& limit : exceeded_limits(decoder_of(model.shape()), element.first))
        FAIL_CHECK(model.name, ": ", limit);
  DecoderConfig decoder = decoder_of(llama3_8b());
  decoder.shape.hidden = 4100;
  decoder.shape.mlp = 14340;
  decoder.shape.vocabulary = 1 << 20;
  CHECK(exceeded_limits(decoder, ElementType::f32).size() == 1);
  CHECK(exceeded_limits(decoder, ElementType::bf16) ==
        std::vector<std::string>{"hidden size 4100: products read inputs by packets of 8",
                                 "intermediate size 14340: products read inputs by packets of 8",
                                 "vocabulary 1048576: Sample takes fewer than 1048576 tokens"});
  decoder = decoder_of(llama3_8b());
  decoder.windows.assign(static_cast<std::size_t>(decoder.shape.layers), 0);
  CHECK(exceeded_limits(decoder, ElementType::bf16).empty());
  decoder.windows.back() = 4096;
  CHECK(exceeded_limits(decoder, ElementType::bf16) ==
        std::vector<std::string>{"a sliding window: PagedAttention attends to the whole context"});
  decoder = decoder_of(llama3_8b());
  decoder.shape.kv_heads = 1;
  decoder.shape.latent = {.rank = 512, .rotated = 64, .value = 128};
  decoder.neighbours_rotate = true;
  CHECK(exceeded_limits(decoder, ElementType::bf16) ==
        std::vector<std::string>{"latent attention: PagedAttention reads K and V of heads",
                                 "neighbours that rotate, or YaRN: RopeAndStore rotates halves, by factors of 1"});
  decoder = decoder_of(llama3_8b()); // Qwen3-Next's
  decoder.shape.rotated = 32;
  decoder.shape.delta = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .kernel = 4};
  decoder.shape.delta.layers.insert(0);
  decoder.norm = NormKind::rms_offset;
  decoder.query_key_norm = decoder.gated_heads = decoder.joint_states = true;
  CHECK(exceeded_limits(decoder, ElementType::bf16) ==
        std::vector<std::string>{"the gated delta rule's layers and norms: no kernel computes them"});
  const std::vector<std::string> others{
      "experts other than Mixtral's: Route weighs the best by their softmax, and all layers have them"};
  for (const std::function<void(DecoderConfig&)>& change :
       std::vector<std::function<void(DecoderConfig&)>>{[](DecoderConfig& of) { of.routing.normalised = false; },
                                                        [](DecoderConfig& of) { of.shape.shared_intermediate = 14336; },
                                                        [](DecoderConfig& of) { of.shape.dense.insert(0); }}) {
    DecoderConfig routed = decoder_of(mixtral_8x7b());
    CHECK(exceeded_limits(routed, ElementType::bf16).empty());
    change(routed);
    CHECK(exceeded_limits(routed, ElementType::bf16) == others);
  }
  decoder = decoder_of(llama3_8b());
  decoder.mlp = MlpKind::experts;
  decoder.shape.experts = 512;
  decoder.shape.experts_per_token = 10;
  decoder.shape.moe_intermediate = 768;
  CHECK(
      exceeded_limits(decoder, ElementType::f16) ==
      std::vector<std::string>{"512 experts: Route takes at most 256", "10 experts of a token: Route takes at most 8"});
}

TEST_CASE("a model with another head size is rejected with the lines that it lacks") {
  ModelShape shape = llama3_8b();
  shape.head_dim = 160;
  const std::vector<NeededKernel> needed = needed_kernels(decoder_of(shape), ElementType::bf16);
  CHECK(std::count_if(needed.begin(), needed.end(), [](const NeededKernel& k) { return !k.compiled; }) == 4);
  const auto missing = std::find_if(needed.begin(), needed.end(), [](const NeededKernel& k) { return !k.compiled; });
  CHECK(missing->line ==
        "sluice_kernel(rows/rope_and_store.hpp RopeAndStore \".element = ElementType::bf16, .head_dim = 160\")");
}
