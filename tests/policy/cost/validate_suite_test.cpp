// SPDX-License-Identifier: Apache-2.0
// sluice-validate suite: recordings that follow from a bundle by hand, so that every figure agrees.
#include "support/program.hpp"
#include "support/shared_data.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using sluice_test::Ran;
using sluice_test::TemporaryFolder;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// A bundle of a model with one layer in which every kernel takes 0.1 s, whatever it computes. A step takes 1.3 s:
/// embedding, 8 kernels of the layer (the norms twice) and attention, last norm, head and sampler make 13.
void write_bundle(const fs::path& folder, const std::string& gpu = "") {
  std::string dense = "layer,tokens,time_us\n";
  for (const char* kernel : {"embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn",
                             "down_proj", "final_layernorm"})
    dense += std::string{kernel} + ",1,100000\n";
  write(folder / "dense.csv", dense);
  write(folder / "per_sequence.csv", "layer,sequences,time_us\nlm_head,1,100000\nsampler,1,100000\n");
  write(folder / "attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
                                  "0,0,1,1,100000\n16,0,0,0,100000\n4096,0,0,0,100000\n");
  write(folder / "config.json",
        R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
            "intermediate_size": 128, "num_hidden_layers": 1, "vocab_size": 100, "torch_dtype": "bfloat16"})");
  write(folder / "meta.yaml", "timed_in_graphs: true\ngpu: " + gpu + "\n");
}
constexpr double step_s = 1.3;

/// A trace of requests: when each is due, was sent, and got its first and last of 3 tokens, in seconds.
struct Traced {
  double due, sent, first, last;
};
std::string trace_of(const std::vector<Traced>& requests, int prompt = 4) {
  std::string text = "request_id,server_input_tokens,output_tokens,arrival_time_us,send_time_us,first_chunk_time_us,"
                     "last_chunk_time_us,status\n";
  const auto us = [](double seconds) { return std::to_string(std::llround(seconds * 1e6)); };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Traced& r = requests[i];
    text += std::to_string(i) + "," + std::to_string(prompt) + ",3," + us(r.due) + "," + us(1000 + r.sent) + "," +
            us(1000 + r.first) + "," + us(1000 + r.last) + ",ok\n";
  }
  return text;
}

void write_recording(const fs::path& folder, const std::vector<Traced>& requests, const std::string& more = "",
                     int max_num_seqs = 8) {
  write(folder / "meta.json",
        R"({"model": "test", "profile": "../../bundle", "kv_cache": {"num_gpu_blocks": 100},
            "engine_kwargs": {"max_num_batched_tokens": 64, "max_num_seqs": )" +
            std::to_string(max_num_seqs) + "}" + more + "}");
  write(folder / "trace.yaml", "trace_version: 3\n");
  write(folder / "trace.csv", trace_of(requests));
}

/// `most`: the largest exit code. 1: a bound may be missed.
nlohmann::json suite(const fs::path& folder, const std::string& flags = "", int most = 0) {
  const Ran ran =
      sluice_test::run_program("sluice-validate", "suite --recordings '" + folder.string() + "' --json " + flags);
  CAPTURE(ran.out);
  REQUIRE(ran.code <= most);
  return nlohmann::json::parse(ran.out).at("recordings");
}

} // namespace

TEST_CASE("a client with a request in flight sends the next when the first ends" *
          sluice_test::needs_program("sluice-validate")) {
  const TemporaryFolder folder;
  write_bundle(folder.path / "bundle");
  // Due together, one in flight: each takes three steps, and the second begins when the first has ended. The server
  // runs one request at a time.
  write_recording(folder.path / "runs" / "closed",
                  {{0, 0, step_s, 3 * step_s}, {0, 3 * step_s, 4 * step_s, 6 * step_s}}, "", 1);
  const nlohmann::json rows = suite(folder.path / "runs");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].at("largest").get<double>() < 1e-3);
  // Without that limit both are sent at once. The second then waits three steps in the server: its TTFT is four steps
  // instead of one, and the mean 2.5 instead of one.
  CHECK(rows[0].at("ablation").at("all but clients").get<double>() > 149);
}

TEST_CASE("an arrival during a step joins the step after the next, if the server schedules ahead" *
          sluice_test::needs_program("sluice-validate")) {
  const TemporaryFolder folder;
  write_bundle(folder.path / "bundle");
  // The first request runs three steps. The second is sent within the first step. When that ends the second step has
  // been decided, so the second request runs from the third step on, and ends two steps after the first.
  write_recording(folder.path / "runs" / "ahead", {{0, 0, step_s, 3 * step_s}, {1, 1, 3 * step_s, 5 * step_s}});
  const nlohmann::json ahead = suite(folder.path / "runs");
  CHECK(ahead.at(0).at("largest").get<double>() < 1e-3);
  CHECK(ahead.at(0).at("ablation").at("all but ahead").get<double>() > 20); // it would be a step earlier
}

TEST_CASE("a server whose recording lacks the setting schedules ahead if its version does so by default" *
          sluice_test::needs_program("sluice-validate")) {
  const TemporaryFolder folder;
  write_bundle(folder.path / "bundle");
  const auto largest = [&](const std::string& version, const std::vector<Traced>& requests) {
    write_recording(folder.path / "runs" / "a", requests, R"(, "vllm_version": ")" + version + '"');
    return suite(folder.path / "runs", "--no-ablation", 1).at(0).at("largest").get<double>();
  };
  // The second request is sent within the first step. It runs in the second or, decided ahead, in the third.
  const std::vector<Traced> in_step{{0, 0, step_s, 3 * step_s}, {1, 1, 2 * step_s, 4 * step_s}};
  const std::vector<Traced> ahead{{0, 0, step_s, 3 * step_s}, {1, 1, 3 * step_s, 5 * step_s}};
  for (const char* version : {"0.8.5", "0.13.0rc2"}) {
    CHECK(largest(version, in_step) < 1e-3);
    CHECK(largest(version, ahead) > 20);
  }
  for (const char* version : {"0.14.0", "1.0", "0.1.dev7+g0123abc", "main"}) {
    CHECK(largest(version, ahead) < 1e-3);
    CHECK(largest(version, in_step) > 20);
  }
}

TEST_CASE("a server without graphs has no sizes that could be inputs" * sluice_test::needs_program("sluice-validate")) {
  const TemporaryFolder folder;
  write_bundle(folder.path / "bundle");
  const auto assumes_graphs = [&](const std::string& more) {
    write_recording(folder.path / "runs" / "a", {{0, 0, step_s, 3 * step_s}}, more);
    return suite(folder.path / "runs", "--no-ablation").dump().find("CUDA graphs of up to") != std::string::npos;
  };
  CHECK(assumes_graphs(""));
  CHECK(assumes_graphs(R"(, "resolved_config": {"model_config": {"enforce_eager": false}})"));
  CHECK(assumes_graphs(R"(, "resolved_config": {"compilation_config": {"cudagraph_mode": "FULL_AND_PIECEWISE"}})"));
  CHECK_FALSE(assumes_graphs(R"(, "resolved_config": {"model_config": {"enforce_eager": true}})"));
  for (const char* none : {"\"NONE\"", "0"})
    CHECK_FALSE(assumes_graphs(R"(, "resolved_config": {"compilation_config": {"cudagraph_mode": )" +
                               std::string{none} + "}}"));
}

TEST_CASE("a single run says where the inputs come from that it uses" * sluice_test::needs_program("sluice-validate")) {
  const TemporaryFolder folder;
  write_bundle(folder.path / "bundle" / "tp2");
  fs::copy_file(folder.path / "bundle" / "tp2" / "config.json", folder.path / "bundle" / "config.json");
  write(folder.path / "reduce.csv", "bytes,time_us\n1,1\n1000000,10\n");
  write(folder.path / "run" / "meta.json",
        R"({"engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64, "tensor_parallel_size": 2}})");
  write(folder.path / "run" / "requests.jsonl",
        R"({"request_id": "a", "input_toks": 4, "output_toks": 3, "queued_ts": 1, "scheduled_ts": 1, )"
        R"("first_token_ts": 2, "last_token_ts": 3})"
        "\n");
  const auto printed = [&](const std::string& flags) {
    const Ran ran = sluice_test::run_program("sluice-validate",
                                             "--run '" + (folder.path / "run").string() + "' --profile '" +
                                                 (folder.path / "bundle").string() + "' " + flags + " 2>&1 >/dev/null");
    CAPTURE(ran.out);
    CHECK(ran.code == 0);
    return ran.out;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string table = "--all-reduce '" + (folder.path / "reduce.csv").string() + "'";
  CHECK(has(printed(table), "stated: all-reduces of 2 devices (given on the command line)"));
  const std::string link = printed("--peer-link 16GB/s --peer-latency 2e-6");
  CHECK(has(link, "stated: a link of 16 GB/s and 2 us per collective (given on the command line)"));
  CHECK_FALSE(has(link, "calibrated"));
  for (const char* note : {"CUDA graphs of up to", "async_scheduling"}) {
    CHECK_FALSE(has(link, note));
    CHECK(has(printed("--with all " + table), note));
  }
  CHECK_FALSE(has(printed("--with ahead " + table), "CUDA graphs of up to"));
  CHECK(has(printed("--with padding " + table), "CUDA graphs of up to"));
}

TEST_CASE("single iterations are found by the tokens of the requests, and drawn" *
          sluice_test::needs_program("sluice-validate")) {
  const TemporaryFolder folder;
  write_bundle(folder.path / "bundle");
  const fs::path run = folder.path / "runs" / "a";
  write(run / "meta.json", R"({"model": "test", "profile": "../../bundle", "kv_cache": {"num_gpu_blocks": 100},
                              "engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64}})");
  // Two requests that start together: 3 and 5 tokens. So two iterations lie between the first tokens and the end of
  // the shorter request, and two more before the other one's end. Both pairs decode only.
  const auto line = [](int tokens, double last) {
    return R"({"request_id": "a", "input_toks": 4, "output_toks": )" + std::to_string(tokens) +
           R"(, "queued_ts": 10, "scheduled_ts": 10, "first_token_ts": 11.3, "last_token_ts": )" +
           std::to_string(last) + "}\n";
  };
  write(run / "requests.jsonl", line(3, 11.3 + 2 * step_s) + line(5, 11.3 + 4 * step_s));
  const Ran ran = sluice_test::run_program("sluice-validate", "suite --recordings '" + (folder.path / "runs").string() +
                                                                  "' --no-ablation --json --iterations '" +
                                                                  (folder.path / "pictures").string() + "'");
  REQUIRE(ran.code == 0);
  const std::string svg = sluice_test::content((folder.path / "pictures" / "a.svg").string());
  CHECK(svg.find("a: measured minus simulated, ms, of 2 iterations") != std::string::npos);
  // Two plots of two points each, all at a residual of 0: half way between -1 and 1 ms. The third, of iterations with
  // a chunk, is empty.
  std::size_t circles = 0;
  for (std::size_t at = svg.find("cy=\"182.0\""); at != std::string::npos; at = svg.find("cy=\"182.0\"", at + 1))
    ++circles;
  CHECK(circles == 4);
  CHECK(svg.find("only decoding: 2 iterations") != std::string::npos);
  CHECK(svg.find("with a chunk: 0 iterations") != std::string::npos);
}

TEST_CASE("a front end delays a request" * sluice_test::needs_program("sluice-validate")) {
  const TemporaryFolder folder;
  write_bundle(folder.path / "bundle");
  write_recording(folder.path / "runs" / "front", {{0, 0, 0.5 + step_s, 0.5 + 3 * step_s}}, R"(, "front_end_s": 0.5)");
  CHECK(suite(folder.path / "runs").at(0).at("largest").get<double>() < 1e-3);
}

TEST_CASE("a saturated recording has the bound that was agreed for what its client asked for, or none" *
          sluice_test::needs_program("sluice-validate")) {
  struct Case {
    const char* what;
    int prompt;
    double rate;        // requests per second
    double later_s;     // measured first tokens come later than simulated
    double pace;        // measured TPOT, in steps
    const char* agreed; // what the table says
  };
  for (const Case& one : {
           Case{"short prompts at 24: TTFT has no bound", 990, 24, 0.2, 1, "  holds"},
           Case{"short prompts at 24: TPOT beyond 5 %", 990, 24, 0, 1.08, "  MISSED"},
           Case{"short prompts at 30: latency beyond 8 %", 990, 30, 0.5, 1, "  MISSED"},
           Case{"short prompts at 18, whatever the figures are", 990, 18, 3, 2, "  none agreed"},
           Case{"long prompts at 18: every figure", 2070, 18, 0.2, 1, "  MISSED"},
           Case{"long prompts at 12, as simulated", 2070, 12, 0, 1, "  holds"},
           Case{"other prompts", 1500, 24, 3, 2, "  none agreed"},
       }) {
    CAPTURE(std::string{one.what});
    const TemporaryFolder folder;
    write_bundle(folder.path / "bundle", "NVIDIA H100 80GB HBM3");
    const double first = step_s + one.later_s, last = first + 2 * one.pace * step_s;
    const fs::path run = folder.path / "runs" / "closed";
    write(run / "meta.json",
          R"({"model": "Qwen/Qwen3-14B", "profile": "../../bundle", "kv_cache": {"num_gpu_blocks": 1000},
              "engine_kwargs": {"max_num_seqs": 1, "max_num_batched_tokens": 4096}})");
    write(run / "trace.yaml", "trace_version: 3\n");
    write(run / "trace.csv", trace_of({{0, 0, first, last}, {1 / one.rate, last, last + first, 2 * last}}, one.prompt));
    const Ran ran = sluice_test::run_program("sluice-validate", "suite --no-ablation --recordings '" +
                                                                    (folder.path / "runs").string() + "'");
    CAPTURE(ran.out);
    CHECK(ran.out.find(one.agreed) != std::string::npos);
    CHECK(ran.code == (std::string{one.agreed} == "  MISSED" ? 1 : 0));
  }
}

TEST_CASE("a recording that nothing states, or without a profile, is reported in one line" *
          sluice_test::needs_program("sluice-validate")) {
  const TemporaryFolder folder;
  const auto fails = [&](const char* what) {
    const Ran ran =
        sluice_test::run_program("sluice-validate", "suite --recordings '" + folder.path.string() + "' 2>&1");
    CAPTURE(ran.out);
    CHECK(ran.code == 2);
    CHECK(ran.out.find(what) != std::string::npos);
    CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 1);
  };
  fails("no folder in it holds a recording");
  write(folder.path / "a" / "trace.yaml", "trace_version: 3\n");
  write(folder.path / "a" / "trace.csv", trace_of({{0, 0, 1, 2}}));
  fails("nothing states the trace's server");
  write(folder.path / "meta.json", R"({"engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64}})");
  fails("there is no profile for it");
}
