// SPDX-License-Identifier: Apache-2.0
// sluice-validate import: bundles from small tables, whose times follow by hand.
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using sluice_test::check_refused;
using sluice_test::content;
using sluice_test::needs_program;
using sluice_test::Ran;
using sluice_test::TemporaryFolder;

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// A table: a header and rows, which can be written in either order.
struct Table {
  std::string header;
  std::vector<std::string> rows{};

  [[nodiscard]] std::string text(bool reversed = false) const {
    std::vector<std::string> in_order = rows;
    if (reversed) std::reverse(in_order.begin(), in_order.end());
    std::string all = header + "\n";
    for (const std::string& row : in_order) all += row + "\n";
    return all;
  }
};

const std::string gpu = "VLLM,1.0,Some GPU,";
std::string number(double value) { return std::to_string(value); }

/// The shapes of the model's products, and one beside each axis: n, k.
constexpr int shapes[][2] = {{128, 64}, {64, 64}, {256, 64}, {64, 128}};

/// A product of m rows takes n + m us, and a tile of 64 rows more takes 100 us more.
double product_us(int m, int n) { return n + m + (m > 64 ? 100 : 0); }

Table products() {
  Table table{"framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency"};
  for (const auto& [n, k] : shapes)
    for (const int m : {1, 64, 65, 128}) {
      const std::string size = std::to_string(m) + "," + std::to_string(n) + "," + std::to_string(k) + ",";
      table.rows.push_back(gpu + "gemm,linear,bfloat16," + size + number(product_us(m, n) * 1e-3));
      table.rows.push_back(gpu + "gemm,linear,fp8," + size + "0.001");
    }
  return table;
}

const std::string attention_header = "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,"
                                     "num_key_value_heads,head_dim,beam_width,attn_dtype,kv_cache_dtype,step";
std::string attention_row(int batch, int isl, int step, double us, const std::string& window = "",
                          const std::string& heads = "4,2,16", const std::string& types = "bfloat16,bfloat16") {
  return gpu + "attention,flash," + std::to_string(batch) + "," + std::to_string(isl) + "," + heads + ",1," + types +
         "," + std::to_string(step) + window + "," + number(us * 1e-3);
}

/// A prompt of n tokens takes 5 + n / 2 us. Windows, other heads and other types are faster.
Table prompts() {
  Table table{attention_header + ",window_size,latency"};
  for (const int tokens : {1, 16, 16384}) {
    table.rows.push_back(attention_row(1, tokens, 0, 5 + 0.5 * tokens, ",0"));
    table.rows.push_back(attention_row(1, tokens, 0, 1, ",128"));
    table.rows.push_back(attention_row(1, tokens, 0, 2, ",0", "8,2,16"));
    table.rows.push_back(attention_row(1, tokens, 0, 3, ",0", "4,2,16", "bfloat16,fp8"));
    table.rows.push_back(attention_row(2, tokens, 0, 4, ",0"));
  }
  return table;
}
/// A decode behind n tokens takes 7 + n us. This table has no window_size, as the older ones.
Table decodes() {
  Table table{attention_header + ",latency"};
  for (const int count : {1, 4})
    for (const int step : {1, 1000}) table.rows.push_back(attention_row(count, 1, step, 7 + step));
  return table;
}

const std::string config = R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 128, "num_hidden_layers": 1, "vocab_size": 100,
  "torch_dtype": "bfloat16"})";

const std::string one_request = R"({"request_id": "a", "input_toks": 16, "output_toks": 1, "queued_ts": 1, )"
                                R"("scheduled_ts": 1, "first_token_ts": 2, "last_token_ts": 2})"
                                "\n";

/// A folder with such tables, and the flags that import them.
struct Inputs {
  TemporaryFolder folder;
  fs::path tables = folder.path / "tables";

  Inputs() {
    write_text(folder.path / "config.json", config);
    write_text(folder.path / "gpu.yaml",
               "gpu:\n  mem_bw: 1000000000000 # bytes\n  mem_bw_empirical_scaling_factor: 0.5\n"
               "  mem_empirical_constant_latency: 0.000002\n  bfloat16_tc_flops: 10000000000000\n");
    put("gemm_perf", products());
    put("context_attention_perf", prompts());
    put("generation_attention_perf", decodes());
  }
  void put(const std::string& name, const Table& table, bool reversed = false) const {
    write_text(tables / (name + ".csv"), table.text(reversed));
  }
  [[nodiscard]] fs::path out(const std::string& name = "out") const { return folder.path / name; }
  [[nodiscard]] std::string flags(const std::string& name = "out") const {
    const std::string at = folder.path.string();
    return "import aiconfigurator --tables '" + tables.string() + "' --system '" + at + "/gpu.yaml' --config '" + at +
           "/config.json' --out '" + out(name).string() + "' ";
  }
  /// Imports, and returns the bundle's files by name.
  [[nodiscard]] std::map<std::string, std::string> import(const std::string& more = "",
                                                          const std::string& name = "out") const {
    const Ran ran = sluice_test::run_program("sluice-validate", flags(name) + more + " 2>&1");
    CAPTURE(ran.out);
    REQUIRE(ran.code == 0);
    return files_of(out(name));
  }
  static std::map<std::string, std::string> files_of(const fs::path& bundle) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(bundle))
      if (entry.is_regular_file()) files[entry.path().lexically_relative(bundle).string()] = content(entry.path());
    return files;
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
doctest::skip needs_validate() { return needs_program("sluice-validate"); }

} // namespace

TEST_CASE("import: both points of a tile's edge are kept, and a shape between two others lies between" *
          needs_validate()) {
  const Inputs inputs;
  const auto files = inputs.import();
  const std::string& dense = files.at("tp1/dense.csv");
  CHECK(has(dense, "qkv_proj,1,129.0000\nqkv_proj,64,192.0000\nqkv_proj,65,293.0000\nqkv_proj,128,356.0000\n"));
  CHECK(has(dense, "o_proj,65,229.0000\n"));
  CHECK(has(dense, "gate_up_proj,65,421.0000\n"));
  CHECK(has(dense, "down_proj,64,128.0000\n"));
  // 4,096 bytes (16 tokens, read and written) at 0.5 TB/s, and 2 us.
  CHECK(has(dense, "embedding,16,2.0082\n"));
  CHECK_FALSE(has(dense, "qk_norm"));
  // The head's 100 columns lie between 64 and 128.
  CHECK(has(files.at("tp1/per_sequence.csv"), "lm_head,64,164.0000\nlm_head,65,265.0000\n"));
  CHECK(has(files.at("tp1/per_sequence.csv"), "sampler,256,2.2048\n")); // 102,400 bytes
  CHECK(files.at("config.json") == config);
}

TEST_CASE("import: attention without a window, of the model's heads, and chunks behind other tokens" *
          needs_validate()) {
  const Inputs inputs;
  const std::string attention = inputs.import().at("tp1/attention.csv");
  CHECK(has(attention, "0,0,1,1,8.0000\n0,0,1,1000,1007.0000\n0,0,4,1,8.0000\n"));
  CHECK(has(attention, "\n1,0,0,0,5.5000\n")); // an empty kernel
  CHECK(has(attention, "\n16,0,0,0,13.0000\n"));
  // A prompt of 272 tokens takes 141 us, its first 256 take 133, and an empty kernel 5.5.
  CHECK(has(attention, "\n16,256,0,0,13.5000\n"));
  CHECK(has(attention, "\n8192,8192,0,0,4101.5000\n"));
}

TEST_CASE("import: the same tables give the same bytes, in any order of their rows" * needs_validate()) {
  const Inputs inputs;
  const auto first = inputs.import();
  CHECK(inputs.import("", "again") == first);
  CHECK(inputs.import() == first); // over itself
  inputs.put("gemm_perf", products(), true);
  inputs.put("context_attention_perf", prompts(), true);
  inputs.put("generation_attention_perf", decodes(), true);
  CHECK(inputs.import("", "reversed") == first);
}

TEST_CASE("import: meta.yaml says where everything comes from" * needs_validate()) {
  const Inputs inputs;
  const std::string meta = inputs.import().at("meta.yaml");
  CHECK(has(meta, "gpu: Some GPU\n"));
  CHECK(has(meta, "timed_in_graphs: true\n"));
  CHECK(has(meta, "source: ai-dynamo/aiconfigurator, Apache-2.0"));
  CHECK(has(meta, "tables: gemm_perf.csv (VLLM 1.0, 16 rows), context_attention_perf.csv (VLLM 1.0, 3 rows), "
                  "generation_attention_perf.csv (VLLM 1.0, 4 rows)\n"));
  CHECK(has(meta, "products_beyond_peak: 0 left out (10 TFLOP/s)\n"));
  CHECK_FALSE(has(meta, inputs.folder.path.string()));
}

TEST_CASE("import: products beyond the device's peak are left out, and a table full of them is refused" *
          needs_validate()) {
  const Inputs inputs;
  Table table = products();
  for (int m = 129; m < 229; ++m) // 116 products in all
    table.rows.push_back(gpu + "gemm,linear,bfloat16," + std::to_string(m) + ",64,64,1");
  // 2 x 1000 x 64 x 64 FLOP are 0.82 us at the peak of 10 TFLOP/s.
  table.rows.push_back(gpu + "gemm,linear,bfloat16,1000,64,64,0.00081");
  table.rows.push_back(gpu + "gemm,linear,bfloat16,1000,256,64,0.00329");
  inputs.put("gemm_perf", table);
  const auto files = inputs.import();
  CHECK(has(files.at("meta.yaml"), "products_beyond_peak: 1 left out"));
  CHECK_FALSE(has(files.at("tp1/dense.csv"), "o_proj,1000,"));
  CHECK(has(files.at("tp1/dense.csv"), "gate_up_proj,1000,3.2900\n"));
  table.rows.push_back(gpu + "gemm,linear,bfloat16,2000,64,64,0.0016");
  inputs.put("gemm_perf", table);
  check_refused("sluice-validate", inputs.flags(), "2 of 119 products are faster than 10 TFLOP/s");
  // A prompt of 32,768 tokens is 137 GFLOP: 14 ms.
  inputs.put("gemm_perf", products());
  Table fast = prompts();
  fast.rows.push_back(attention_row(1, 32768, 0, 1, ",0"));
  inputs.put("context_attention_perf", fast);
  check_refused("sluice-validate", inputs.flags(), "1 of 4 products are faster than 10 TFLOP/s");
}

TEST_CASE("import: a device's share of several, and its all-reduces in a graph" * needs_validate()) {
  const Inputs inputs;
  Table attention = prompts(), decoding = decodes();
  for (const int tokens : {1, 16, 16384})
    attention.rows.push_back(attention_row(1, tokens, 0, 5 + 0.5 * tokens, ",0", "2,1,16"));
  decoding.rows.push_back(gpu + "attention,flash,1,1,2,1,16,1,bfloat16,bfloat16,1,0.009");
  inputs.put("context_attention_perf", attention);
  inputs.put("generation_attention_perf", decoding);
  inputs.put("custom_allreduce_perf",
             {"framework,version,device,op_name,kernel_source,allreduce_dtype,num_gpus,message_size,latency,backend",
              {gpu + "all_reduce,custom_graph,bfloat16,2,128,0.004,vllm_graph",
               gpu + "all_reduce,custom_eager,bfloat16,2,128,0.020,vllm_eager",
               gpu + "all_reduce,custom_graph,bfloat16,4,128,0.006,vllm_graph",
               gpu + "all_reduce,custom_graph,bfloat16,2,134217728,0.6,vllm_graph",
               gpu + "all_reduce,custom_graph,bfloat16,2,512,0.005,vllm_graph"}});
  const auto files = inputs.import("--devices 2");
  CHECK(files.count("tp1/dense.csv") == 0);
  CHECK(has(files.at("tp2/dense.csv"), "qkv_proj,64,128.0000\n")); // half of the heads: 64 columns
  CHECK(has(files.at("tp2/attention.csv"), "0,0,1,1,9.0000\n"));
  CHECK(files.at("tp2/all_reduce.csv") ==
        "bytes,time_us\n256,4.0000\n1024,5.0000\n268435456,600.0000\n"); // elements of two bytes
  CHECK(has(files.at("meta.yaml"), "tp2_tables: gemm_perf.csv (VLLM 1.0, "));
  CHECK(has(files.at("meta.yaml"), "custom_allreduce_perf.csv (VLLM 1.0, 3 rows)"));
  // A second import into the same bundle: each keeps its facts.
  const auto both = inputs.import();
  for (const char* part : {"tp1/dense.csv", "tp2/dense.csv"}) CHECK(both.count(part) == 1);
  CHECK(has(both.at("meta.yaml"), "\ntables: gemm_perf.csv (VLLM 1.0, "));
  CHECK(has(both.at("meta.yaml"), "\ntp2_tables: gemm_perf.csv (VLLM 1.0, "));
  CHECK(inputs.import() == both);
  write_text(inputs.out("other") / "meta.yaml", "gpu: Another GPU\n");
  check_refused("sluice-validate", inputs.flags("other"), "has a bundle of Another GPU; expected a new folder");
  check_refused("sluice-validate", inputs.flags() + "--devices 3", "do not divide among 3 devices");
}

TEST_CASE("import: some products of another bundle are replaced, and nothing else" * needs_validate()) {
  const Inputs inputs;
  const auto base = inputs.import("", "base");
  Table slower = products();
  for (std::string& row : slower.rows) row += "001"; // 0.129000 -> 0.129000001: below the last digit
  slower.rows.push_back(gpu + "gemm,linear,bfloat16,256,128,64,0.5");
  inputs.put("gemm_perf", slower);
  auto files = inputs.import("--kernels qkv_proj --base '" + inputs.out("base").string() + "'");
  std::string dense = files.at("tp1/dense.csv");
  const std::string added = "qkv_proj,256,500.0000\n";
  REQUIRE(has(dense, added));
  dense.erase(dense.find(added), added.size());
  const auto sorted_lines = [](const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  CHECK(sorted_lines(dense) == sorted_lines(base.at("tp1/dense.csv")));
  for (const char* same : {"tp1/attention.csv", "tp1/per_sequence.csv", "config.json"})
    CHECK(files.at(same) == base.at(same));
  CHECK(has(files.at("meta.yaml"), "replaced: qkv_proj\n"));
  CHECK(has(files.at("meta.yaml"), "timed_in_graphs: true\n"));
  CHECK(has(files.at("meta.yaml"), "base_tables: gemm_perf.csv"));
  check_refused("sluice-validate", inputs.flags() + "--kernels lm_head --base '" + inputs.out("base").string() + "'",
                "--kernels: it is 'lm_head'; expected some of down_proj");
  check_refused("sluice-validate", inputs.flags() + "--kernels qkv_proj", "--kernels: there is no --base");
}

TEST_CASE("import: a bundle is a profile that a recording replays on" * needs_validate()) {
  const Inputs inputs;
  (void)inputs.import();
  const fs::path run = inputs.folder.path / "run";
  write_text(run / "meta.json", R"({"engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64}})");
  write_text(run / "requests.jsonl", one_request);
  const Ran ran = sluice_test::run_program("sluice-validate", "--run '" + run.string() + "' --profile '" +
                                                                  inputs.out().string() + "' 2>/dev/null");
  CAPTURE(ran.out);
  REQUIRE(ran.code == 0);
  // One step of a layer: products at 16 tokens lie between 1 and 64 (144, 80, 272, 80 us) and the head at one sequence
  // (101), attention of 16 tokens (13), 7 moving kernels (2 us and more).
  CHECK(has(ran.out, "TTFT mean              1.00000       0.00070"));
}

TEST_CASE("a bundle in share/sluice/profiles beside the programs is a profile by its name" * needs_validate()) {
  const Inputs inputs;
  const fs::path root = inputs.folder.path;
  fs::create_directories(root / "bin");
  fs::copy_file(sluice_test::program_path("sluice-validate"), root / "bin" / "sluice-validate");
  (void)inputs.import("", "share/sluice/profiles/some-model");
  const fs::path run = root / "run";
  write_text(run / "meta.json", R"({"engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64}})");
  write_text(run / "requests.jsonl", one_request);
  const auto replayed = [&](const std::string& profile) {
    return sluice_test::run_program((root / "bin" / "sluice-validate").string(), // an absolute path
                                    "--run '" + run.string() + "' --profile '" + profile + "' 2>&1");
  };
  const Ran by_name = replayed("some-model");
  CHECK(by_name.code == 0);
  CHECK(by_name.out == replayed(inputs.out("share/sluice/profiles/some-model").string()).out);
  CHECK(replayed("another-model").code == 2);
}

TEST_CASE("import: each mistake is one line" * needs_validate()) {
  const Inputs inputs;
  const auto refused = [&](const std::string& part) { check_refused("sluice-validate", inputs.flags(), part); };
  Table table = products();
  table.rows.push_back("VLLM,1.0,Other GPU,gemm,linear,bfloat16,1,1,1,1");
  inputs.put("gemm_perf", table);
  refused("gemm_perf.csv:34: the row is of Other GPU and VLLM 1.0; expected Some GPU and VLLM 1.0, as above");
  table = products();
  table.rows.push_back(gpu + "gemm,linear,bfloat16,1,1,1,inf");
  inputs.put("gemm_perf", table);
  refused("gemm_perf.csv:34: the latency is 'inf'; expected milliseconds above 0");
  inputs.put("gemm_perf", {"m,n,k,latency", {"1,1,1,1"}});
  refused("the header has no column 'gemm_dtype'; expected a table of aiconfigurator");
  inputs.put("gemm_perf", {products().header, {gpu + "gemm,linear,bfloat16,1,7,7,1"}});
  refused("neither 64 columns nor 128 rows of a product are measured at two sizes");
  fs::remove(inputs.tables / "gemm_perf.csv");
  write_text(inputs.tables / "gemm_perf.parquet", "PAR1");
  refused("gemm_perf.parquet: the table is still Parquet; expected gemm_perf.csv beside it, which parquet_to_csv.mjs");
  inputs.put("gemm_perf", products());
  inputs.put("context_attention_perf", {attention_header + ",latency", {attention_row(1, 16, 0, 10, "", "8,8,16")}});
  refused("no attention of 4 heads and 2 KV heads of 16 is measured");
  write_text(inputs.folder.path / "gpu.yaml", "gpu:\n  mem_bw: 0\n");
  refused("gpu.yaml: there is no bfloat16_tc_flops above 0");
  check_refused("sluice-validate", "import", "import: no source is named; expected aiconfigurator or llmservingsim");
  check_refused("sluice-validate", "import vidur", "import: it is 'vidur'; expected aiconfigurator or llmservingsim");
  check_refused("sluice-validate", "import aiconfigurator --tables x", "--system: is missing");
}

TEST_CASE("import llmservingsim: tables are checked and copied byte by byte, without the profiler's paths" *
          needs_validate()) {
  const Inputs inputs;
  (void)inputs.import();
  const fs::path from = inputs.folder.path / "perf";
  std::map<std::string, std::string> tables;
  for (const char* name : {"dense.csv", "per_sequence.csv", "attention.csv"})
    tables[name] = content(inputs.out() / "tp1" / name);
  tables["skew.csv"] = "pc,n,kv_big,kv_mean,alpha\n0,4,100,50,0.5\n";
  for (const auto& [name, text] : tables) write_text(from / "tp1" / name, text);
  write_text(from / "tp1" / "skew_fit.csv", "anything\n");
  const std::string path = std::string{"/tm"} + "p/profiled";
  write_text(from / "meta.yaml", "vllm_version: 0.19.0\ngpu: Some GPU\nengine_effective:\n  model: " + path + "\n");
  const auto flags = [&](const std::string& device) {
    return "import llmservingsim --bundle '" + from.string() + "' --config '" +
           (inputs.folder.path / "config.json").string() + "' --device " + device + " --out '" +
           inputs.out("copied").string() + "'";
  };
  const Ran ran = sluice_test::run_program("sluice-validate", flags("a100-80"));
  REQUIRE(ran.code == 0);
  const auto files = Inputs::files_of(inputs.out("copied"));
  CHECK(files.size() == 6);
  for (const auto& [name, text] : tables) CHECK(files.at("tp1/" + name) == text);
  CHECK(has(files.at("meta.yaml"), "vllm_version: 0.19.0\ngpu: Some GPU\nsource: casys-kaist/LLMServingSim, MIT\n"));
  CHECK_FALSE(has(files.at("meta.yaml"), path));

  check_refused("sluice-validate", flags("a100-81"), "--device: there is no device 'a100-81'");
  write_text(from / "tp1" / "skew.csv", "pc,n,kv_big,kv_mean,alpha\n0,4,100,500,0.5\n");
  check_refused("sluice-validate", flags("a100-80"), "skew.csv:2: the mean context is not between 0 and the longest");
  fs::remove(from / "tp1" / "skew.csv");
  // 2 x 100,000 x 64 x 64 FLOP are 2.6 us on an A100.
  write_text(from / "tp1" / "dense.csv", tables["dense.csv"] + "o_proj,100000,2.5\n");
  check_refused("sluice-validate", flags("a100-80"), "dense.csv: 1 of 17 products are faster than 312 TFLOP/s");
}
