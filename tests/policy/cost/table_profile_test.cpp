// SPDX-License-Identifier: Apache-2.0
// TableProfile: exact at measured points, between neighbours elsewhere, and clear errors for malformed files.
#include "sluice/core/random.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"

#include "policy/cost/decoding.hpp"
#include "support/shared_data.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

namespace fs = std::filesystem;

/// A profile folder of synthetic times, deleted at the end. `attention_us` is a closed formula, so that the tests have
/// an answer that does not come from the code under test.
class ProfileFolder {
 public:
  ProfileFolder() {
    std::string folder = (fs::temp_directory_path() / "sluice-profile-XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    std::ostringstream dense;
    dense << "layer,tokens,time_us\n";
    for (const char* kernel : {"embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn",
                               "down_proj", "final_layernorm"}) {
      for (const int tokens : {1, 16, 64, 512}) dense << kernel << ',' << tokens << ',' << 10 + tokens << '\n';
    }
    write("dense.csv", dense.str());
    std::ostringstream head;
    head << "layer,sequences,time_us\n";
    for (const char* kernel : {"lm_head", "sampler"}) {
      for (const int sequences : {1, 8, 64}) head << kernel << ',' << sequences << ',' << 100 + sequences << '\n';
    }
    write("per_sequence.csv", head.str());
    std::ostringstream attention;
    attention << "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
    for (const int chunk : {0, 16, 256, 1024}) {
      for (const int past : {0, 128, 2048}) {
        for (const int decodes : {0, 1, 8, 64}) {
          for (const int context : {0, 16, 512, 4096}) {
            if ((chunk == 0 && (past != 0 || decodes == 0)) || (decodes == 0) != (context == 0)) continue;
            if (chunk == 256 && decodes == 64) continue; // points that did not fit the profiler's memory
            if (chunk == 1024 && past == 128 && context == 512) continue;
            attention << chunk << ',' << past << ',' << decodes << ',' << context << ','
                      << attention_us(chunk, past, decodes, context) << '\n';
          }
        }
      }
    }
    write("attention.csv", attention.str());
  }
  ~ProfileFolder() { fs::remove_all(folder_); }
  ProfileFolder(const ProfileFolder&) = delete;
  ProfileFolder& operator=(const ProfileFolder&) = delete;

  /// Linear on every axis, so interpolation and extrapolation must both reproduce it.
  static double attention_us(double chunk, double past, double decodes, double context) {
    return 9.0 + 0.01 * chunk * (1.0 + 0.001 * past) + 0.004 * decodes * context;
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void replace(const std::string& name, const std::string& what, const std::string& with) const {
    std::ifstream file(folder_ / name);
    std::ostringstream text;
    text << file.rdbuf();
    std::string changed = text.str();
    const std::size_t at = changed.find(what);
    REQUIRE(at != std::string::npos);
    write(name, changed.replace(at, what.size(), with));
  }
  void remove(const std::string& name) const { fs::remove(folder_ / name); }
  [[nodiscard]] std::string path() const { return folder_.string(); }
  [[nodiscard]] Expected<TableProfile> read() const { return read_table_profile(path(), LinkCost{}); }

 private:
  fs::path folder_;
};

/// All of a layer except attention in the synthetic bundle: eight kernels, the norm twice.
double dense_us(double tokens) { return 8.0 * (10.0 + tokens); }

/// The reader's expected error: its code, and parts of the line.
void refused(const ProfileFolder& bundle, ErrorCode code, std::initializer_list<const char*> pieces) {
  const Expected<TableProfile> profile = bundle.read();
  REQUIRE_FALSE(profile);
  CHECK(profile.error().code == code);
  const std::string line = profile.error().line();
  for (const char* piece : pieces) {
    CAPTURE(line);
    CHECK(line.find(piece) != std::string::npos);
  }
  CHECK(line.find('\n') == std::string::npos);
}

} // namespace

TEST_CASE("a decode step is the sum of its kernels, at measured points and between them") {
  const ProfileFolder bundle;
  const Expected<TableProfile> profile = bundle.read();
  REQUIRE(profile);
  for (const std::int64_t count : {1, 3, 8, 40, 64}) {
    for (const std::int64_t context : {16, 100, 512, 3000, 4096, 9000}) {
      const StepTime time = profile->step(decoding(count, context + 1));
      const auto n = static_cast<double>(count);
      CHECK(time.before.count() * 1e6 == doctest::Approx(10.0 + n));
      CHECK(time.layer.count() * 1e6 ==
            doctest::Approx(dense_us(n) + ProfileFolder::attention_us(0, 0, n, static_cast<double>(context))));
      CHECK(time.after.count() * 1e6 == doctest::Approx(10.0 + n + 2.0 * (100.0 + n)));
    }
  }
}

TEST_CASE("tokens that need only K and V take the time of kv_proj, or of a whole layer if it was not measured") {
  const ProfileFolder bundle;
  const Expected<TableProfile> whole = bundle.read();
  REQUIRE(whole);
  bundle.replace("dense.csv", "embedding,1,", "kv_proj,1,4\nkv_proj,101,204\nembedding,1,");
  const Expected<TableProfile> profile = bundle.read();
  REQUIRE(profile);
  Work work = decoding(8, 1001);
  const auto layer_us = [&](const TableProfile& by, Tokens projected, Tokens passed) {
    work.rebuilt = {projected, passed};
    return by.step(work).layer.count() * 1e6;
  };
  const double attention_us = ProfileFolder::attention_us(0, 0, 8, 1000);
  for (const std::int64_t passed : {0, 16, 40})
    for (const std::int64_t stored : {0, 1, 31, 101, 300}) {
      const auto through = 8.0 + static_cast<double>(passed), more = static_cast<double>(stored);
      const Tokens projected{passed + stored};
      CHECK(layer_us(*profile, projected, Tokens{passed}) ==
            doctest::Approx(dense_us(through) + (stored > 0 ? 2.0 + 2.0 * more : 0.0) + attention_us));
      CHECK(layer_us(*whole, projected, Tokens{passed}) == doctest::Approx(dense_us(through + more) + attention_us));
    }
  const std::array<RebuiltWork, 2> rebuilds{{{Tokens{32}, LayerSet::all(2), {}}, {Tokens{16}, LayerSet::all(1), {}}}};
  work.rebuilds = rebuilds; // all their rows are embedded
  CHECK(profile->step(work).before.count() * 1e6 == doctest::Approx(10.0 + 8.0 + 48.0));
  work.rebuilds = {};
  // Tokens that pass on their way to a later layer, and whose K and V exist here, project nothing in addition.
  CHECK(layer_us(*profile, Tokens{0}, Tokens{16}) == doctest::Approx(dense_us(24.0) + attention_us));
}

TEST_CASE("a chunk together with decodes, in a grid with holes") {
  const ProfileFolder bundle;
  const Expected<TableProfile> profile = bundle.read();
  REQUIRE(profile);
  for (const std::int64_t fresh : {16, 100, 256, 700, 1024}) {
    for (const std::int64_t past : {0, 64, 1000}) {
      const std::array<ChunkWork, 1> chunk{{{Tokens{fresh}, Tokens{past}}}};
      Work work = decoding(8, 1001);
      work.chunks = chunk;
      CHECK(
          (profile->step(work).layer.count()) * 1e6 ==
          doctest::Approx(dense_us(8.0 + static_cast<double>(fresh)) +
                          ProfileFolder::attention_us(static_cast<double>(fresh), static_cast<double>(past), 8, 1000)));
    }
  }
}

TEST_CASE("chunks that share a launch add their own times, in any order") {
  const ProfileFolder bundle;
  const Expected<TableProfile> profile = bundle.read();
  REQUIRE(profile);
  std::array<ChunkWork, 3> chunks{{{Tokens{300}, Tokens{0}}, {Tokens{20}, Tokens{1500}}, {Tokens{500}, Tokens{10}}}};
  Work work = decoding(8, 1001);
  work.chunks = chunks;
  const double floor = ProfileFolder::attention_us(16, 0, 0, 0);
  const double expected = ProfileFolder::attention_us(500, 10, 8, 1000) + ProfileFolder::attention_us(300, 0, 0, 0) -
                          floor + ProfileFolder::attention_us(20, 1500, 0, 0) - floor;
  const double first = profile->step(work).layer.count() * 1e6;
  CHECK(first == doctest::Approx(dense_us(828) + expected));
  std::reverse(chunks.begin(), chunks.end());
  CHECK(profile->step(work).layer.count() * 1e6 == doctest::Approx(first));
}

TEST_CASE("a chunk of one token is a decode, and shorter chunks take the shortest measured time") {
  const ProfileFolder bundle;
  const Expected<TableProfile> profile = bundle.read();
  REQUIRE(profile);
  const std::array<ChunkWork, 1> single{{{Tokens{1}, Tokens{700}}}};
  Work work;
  work.chunks = single;
  CHECK(profile->step(work).layer.count() == doctest::Approx(profile->step(decoding(1, 701)).layer.count()));
  const std::array<ChunkWork, 1> tiny{{{Tokens{5}, Tokens{700}}}};
  work.chunks = tiny;
  CHECK(profile->step(work).layer.count() * 1e6 ==
        doctest::Approx(dense_us(5) + ProfileFolder::attention_us(16, 700, 0, 0)));
}

TEST_CASE("an iteration is beyond the grid if a point that its time is made of was not measured") {
  const ProfileFolder bundle;
  const Expected<TableProfile> profile = bundle.read();
  REQUIRE(profile);
  const auto beyond = [&](std::int64_t decodes, std::int64_t context, std::vector<ChunkWork> chunks) {
    Work work = decoding(decodes, context + 1);
    work.chunks = chunks;
    return profile->beyond(work);
  };
  const auto is = [](const BeyondGrid& of, std::string_view axis, double size, double last) {
    CAPTURE(of.axis);
    CHECK(of.axis == axis);
    CHECK(of.size == size);
    CHECK(of.last == last);
  };
  Random random(3);
  for (int i = 0; i < 300; ++i) { // the full part of the grid, between its points as on them
    const auto up_to = [&](std::uint64_t most) { return static_cast<std::int64_t>(1 + random.below(most)); };
    is(beyond(up_to(64), up_to(4096), {}), "", 0, 0);
    is(beyond(up_to(8), up_to(4096), {{Tokens{1 + up_to(255)}, Tokens{up_to(2048) - 1}}}), "", 0, 0);
  }
  is(beyond(64, 4096, {}), "", 0, 0);
  is(beyond(64, 4097, {}), "mean context of the decodes", 4097, 4096);
  is(beyond(65, 16, {}), "batch", 65, 64); // decodes and the output head end at one number
  is(beyond(0, 0, {{Tokens{513}, Tokens{0}}}), "tokens in an iteration", 513, 512);
  is(beyond(0, 0, {{Tokens{2048}, Tokens{0}}}), "tokens in an iteration", 2048, 512); // and twice the longest chunk
  is(beyond(0, 0, {{Tokens{16}, Tokens{4096}}}), "tokens before a chunk", 4096, 2048);
  is(beyond(8, 16, {{Tokens{256}, Tokens{0}}}), "", 0, 0);
  is(beyond(32, 16, {{Tokens{256}, Tokens{0}}}), "decodes", 32, 8); // 64 beside a chunk of 256 were not measured
  is(beyond(32, 16, {{Tokens{16}, Tokens{0}}}), "", 0, 0);
  // Two chunks: all except the largest are looked up alone, and the furthest size is kept.
  is(beyond(0, 0, {{Tokens{16}, Tokens{3000}}, {Tokens{16}, Tokens{6144}}}), "tokens before a chunk", 6144, 2048);
  is(beyond(1, 16, {{Tokens{1}, Tokens{9000}}}), "mean context of the decodes", 4508, 4096); // a decode to the kernel
}

TEST_CASE("a broken bundle is reported in one clear line") {
  const ProfileFolder bundle;
  SUBCASE("missing file") {
    bundle.remove("attention.csv");
    refused(bundle, ErrorCode::not_found, {"attention.csv"});
  }
  SUBCASE("empty file") {
    bundle.write("dense.csv", "");
    refused(bundle, ErrorCode::bad_input, {"dense.csv", "empty"});
  }
  SUBCASE("header only") {
    bundle.write("per_sequence.csv", "layer,sequences,time_us\n");
    refused(bundle, ErrorCode::bad_input, {"per_sequence.csv", "no row"});
  }
  SUBCASE("missing column") {
    bundle.replace("dense.csv", "layer,tokens,time_us", "layer,time_us");
    refused(bundle, ErrorCode::bad_input, {"dense.csv:1", "layer,tokens,time_us"});
  }
  SUBCASE("NaN") {
    bundle.replace("dense.csv", "embedding,16,26", "embedding,16,nan");
    refused(bundle, ErrorCode::bad_input, {"dense.csv:3", "nan"});
  }
  SUBCASE("negative time") {
    bundle.replace("attention.csv", "0,0,1,512,", "0,0,1,512,-");
    refused(bundle, ErrorCode::bad_input, {"attention.csv:3", "above 0"});
  }
  SUBCASE("infinite time") {
    bundle.replace("per_sequence.csv", "sampler,8,108", "sampler,8,inf");
    refused(bundle, ErrorCode::bad_input, {"per_sequence.csv:6", "inf"});
  }
  SUBCASE("sizes that do not ascend") {
    bundle.replace("dense.csv", "layernorm,64,", "layernorm,16,");
    refused(bundle, ErrorCode::bad_input, {"dense.csv:8", "ascending", "more than 16"});
  }
  SUBCASE("a batch measured twice") {
    bundle.replace("attention.csv", "0,0,1,512,", "0,0,1,16,");
    refused(bundle, ErrorCode::bad_input, {"attention.csv:3", "above"});
  }
  SUBCASE("a field too many") {
    bundle.replace("attention.csv", "0,0,1,512,", "0,0,0,1,512,");
    refused(bundle, ErrorCode::bad_input, {"attention.csv:3", "fields", "5"});
  }
  SUBCASE("a fraction of a token") {
    bundle.replace("attention.csv", "0,0,1,512,", "0,0,1,512.5,");
    refused(bundle, ErrorCode::bad_input, {"attention.csv:3", "whole number"});
  }
  SUBCASE("an unknown kernel") {
    bundle.replace("dense.csv", "act_fn,1,", "gelu,1,");
    refused(bundle, ErrorCode::unsupported, {"gelu", "act_fn"});
  }
  SUBCASE("a missing kernel") {
    bundle.write("per_sequence.csv", "layer,sequences,time_us\nlm_head,1,5\n");
    refused(bundle, ErrorCode::bad_input, {"per_sequence.csv", "sampler is missing"});
  }
  SUBCASE("chunks never measured alone") {
    bundle.write("attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,9\n16,0,1,16,9\n");
    refused(bundle, ErrorCode::bad_input, {"prefill_chunk 16", "alone"});
  }
  SUBCASE("no decodes alone") {
    bundle.write("attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n16,0,0,0,9\n");
    refused(bundle, ErrorCode::bad_input, {"attention.csv", "prefill_chunk 0"});
  }
  SUBCASE("a mixture of experts") {
    bundle.write("moe.csv", "tokens,activated_experts,time_us\n");
    refused(bundle, ErrorCode::unsupported, {"moe.csv"});
  }
}

TEST_CASE("the RTX 4090 bundle: exact at every measured decode, between its corners elsewhere" *
          sluice_test::needs_shared({"data/profiles/RTX4090-Llama-3.1-8B/attention.csv"})) {
  const std::string folder = sluice_test::shared_path("data/profiles/RTX4090-Llama-3.1-8B");
  const Expected<TableProfile> profile = read_table_profile(folder, LinkCost{});
  REQUIRE(profile);

  // An independent reading of the file.
  std::map<std::array<int, 4>, double> points;
  std::ifstream file(folder + "/attention.csv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::array<int, 4> key{};
    double us = 0.0;
    REQUIRE(std::sscanf(line.c_str(), "%d,%d,%d,%d,%lf", &key[0], &key[1], &key[2], &key[3], &us) == 5);
    points[key] = us;
  }
  const auto attention = [&](std::int64_t count, std::int64_t context) {
    // A layer's other kernels are the same for equal counts, so a difference to a fixed context isolates attention.
    return (profile->step(decoding(count, context + 1)).layer - profile->step(decoding(count, 17)).layer).count() *
               1e6 +
           points.at({0, 0, static_cast<int>(count), 16});
  };
  std::vector<int> contexts;
  for (const auto& [key, us] : points) {
    if (key[0] != 0) continue;
    CHECK(attention(key[2], key[3]) == doctest::Approx(us));
    if (key[2] == 1) contexts.push_back(key[3]);
  }
  Random random(11);
  for (int round = 0; round < 1000; ++round) {
    const auto at = static_cast<std::size_t>(random.below(contexts.size() - 1));
    const int count = 1 << random.below(9);
    const int low = contexts[at];
    const int high = contexts[at + 1];
    const auto between = low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low)));
    const double first = points.at({0, 0, count, low});
    const double second = points.at({0, 0, count, high});
    const double value = attention(count, between);
    CHECK(value >= std::min(first, second) - 1e-6);
    CHECK(value <= std::max(first, second) + 1e-6);
  }
}
