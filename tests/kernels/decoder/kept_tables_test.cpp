// SPDX-License-Identifier: Apache-2.0
// KeptTables, and a KernelRunner that keeps tables: what a decode step uploads, and that its bits are those of tables
// that are uploaded whole.
#include "kernels/decoder/runner_case.hpp"
#include "kernels/decoder/staging.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace kept_tables {
namespace {

/// The samples that a runner expects: none, others than those that follow, or these.
enum class Told : std::uint8_t { nothing, others, samples };

/// Sequences that decode on one runner, which gets their tables as a machine would give them.
class Decoding {
 public:
  Decoding(RunnerCase<f32>& runner, bool keeps, std::size_t sequences) : case_(&runner), keeps_(keeps) {
    given_.assign(sequences, std::vector<int>(static_cast<std::size_t>(layers()), 0));
  }

  /// What the runner knows of a table from now on, at most.
  void forget(std::size_t sequence, int layer, int known) {
    int& given = given_[sequence][static_cast<std::size_t>(layer)];
    given = std::min(given, known);
  }
  void forget(std::size_t sequence) {
    for (int layer = 0; layer < layers(); ++layer) forget(sequence, layer, 0);
  }

  /// One pass of the parts; `of` are their sequences' numbers. Samples each part's last row.
  Outcome pass(std::span<const Part> parts, const std::vector<std::size_t>& of, bool announces = true,
               Told told = Told::samples) {
    std::vector<std::int32_t> tokens, positions;
    for (const Part& part : parts)
      for (int i = 0; i < part.count; ++i) {
        tokens.push_back((*part.tokens)[static_cast<std::size_t>(part.first + i)]);
        positions.push_back(part.first + i);
      }
    ModelRunner& runner = case_->runner();
    runner.begin(tokens, positions);
    std::vector<GrownTable> grown;
    for (std::size_t p = 0; p < parts.size() && keeps_ && announces; ++p)
      for (int layer = 0; layer < layers(); ++layer) {
        int& given = given_[of[p]][static_cast<std::size_t>(layer)];
        if (given == 0 || given >= blocks(parts[p])) continue;
        grown.push_back({layer, static_cast<std::int32_t>(of[p]), given, blocks(parts[p]), addresses(parts[p], layer)});
        given = blocks(parts[p]);
      }
    if (!grown.empty()) runner.announce(grown);
    std::vector<SampleRow> samples;
    int end = 0;
    for (const Part& part : parts) samples.push_back({(end += part.count) - 1, {}, 0, 0});
    std::vector<SampleRow> others = samples;
    for (SampleRow& other : others) other.sampling.temperature = 2;
    if (keeps_ && told != Told::nothing) runner.expect(told == Told::samples ? samples : others);
    for (int layer = 0; layer < layers(); ++layer) {
      std::vector<SequenceRows> rows;
      int row = 0;
      for (std::size_t p = 0; p < parts.size(); ++p) {
        SequenceRows one{row, parts[p].count, parts[p].first, addresses(parts[p], layer), 0};
        if (keeps_) {
          int& given = given_[of[p]][static_cast<std::size_t>(layer)];
          one.table = static_cast<std::int32_t>(of[p]);
          one.known = std::exchange(given, blocks(parts[p]));
        }
        rows.push_back(one);
        row += parts[p].count;
      }
      runner.launch_layer(layer, case_->whole(layer), rows, row, 0, {});
    }
    return case_->sample(samples);
  }

 private:
  [[nodiscard]] int layers() const { return case_->config().shape.layers; }
  [[nodiscard]] static int blocks(const Part& part) {
    return (part.first + part.count + block_tokens - 1) / block_tokens;
  }
  [[nodiscard]] static std::byte* const* addresses(const Part& part, int layer) {
    return part.kv->layers[static_cast<std::size_t>(layer)].data();
  }

  RunnerCase<f32>* case_;
  bool keeps_;
  std::vector<std::vector<int>> given_; // by sequence and layer: blocks
};

} // namespace

TEST_CASE("kernels.decoder: ranges of kept tables do not overlap, whatever grows, and none is lost") {
  Random random{71};
  constexpr int layers = 3;
  constexpr std::int64_t size = 2000;
  KeptTables kept{layers, size};
  struct Mine {
    std::int32_t first = -1, room = 0;
  };
  std::vector<Mine> mine(layers * 8);
  int refused = 0, moved = 0;
  for (int step = 0; step < 2000; ++step) {
    const auto layer = static_cast<int>(random.below(layers));
    const auto table = static_cast<std::int32_t>(random.below(8));
    const auto entries = static_cast<std::int64_t>(1 + random.below(step % 100 < 90 ? 60 : 400));
    Mine& old = mine[static_cast<std::size_t>(table * layers + layer)];
    KeptTables::Table* const found = kept.of(layer, table, entries);
    if (found == nullptr) {
      CHECK(kept.find(layer, table) == nullptr);
      old = {};
      ++refused;
      continue;
    }
    CHECK(found->room >= entries);
    CHECK(found == kept.find(layer, table));
    if (found->first != old.first) {
      CHECK(found->entries == 0);
      ++moved;
    }
    found->entries = static_cast<std::int32_t>(entries);
    old = {found->first, found->room};
    std::vector<Mine> ranges;
    for (const Mine& one : mine)
      if (one.first >= 0) ranges.push_back(one);
    std::sort(ranges.begin(), ranges.end(), [](const Mine& a, const Mine& b) { return a.first < b.first; });
    bool apart = ranges.back().first + ranges.back().room <= size;
    for (std::size_t i = 1; i < ranges.size(); ++i)
      apart = apart && ranges[i - 1].first + ranges[i - 1].room <= ranges[i].first;
    CHECK(apart);
  }
  CHECK(refused > 0);
  CHECK(moved > 0);
}

TEST_CASE("kernels.decoder: tables that stay on the device give the bits of tables that are uploaded whole" *
          doctest::skip(few)) {
  for (const SmallModel model : {SmallModel::llama, SmallModel::mixtral}) {
    for (const std::int64_t room : {std::int64_t{1} << 16, std::int64_t{40}}) { // entries for each layer: many, and few
      CAPTURE(testing::name_of(model));
      CAPTURE(room);
      Random random{72};
      RunnerCase<f32> one{model, 1, {.graph_rows = 8}};
      RunnerCase<f32> other{model, 2, {.graph_rows = 8, .kept_blocks = room}};
      constexpr std::size_t sequences = 4;
      constexpr int longest = 300;
      Decoding whole{one, false, sequences}, kept{other, true, sequences};
      std::vector<std::vector<std::int32_t>> tokens(sequences);
      std::vector<SequenceKv> kv, kv_of_other;
      std::vector<int> done(sequences, 0);
      for (std::size_t s = 0; s < sequences; ++s) {
        tokens[s] = random_tokens(random, longest, one.config().shape.vocabulary);
        kv.emplace_back(one.config(), longest, random);
        kv_of_other.emplace_back(one.config(), longest, random);
      }
      constexpr int random_steps = sanitized ? 10 : 40;
      for (int step = 0; step < random_steps + 5; ++step) {
        // The last five decode one token of each: their graph is replayed, whatever the random steps were.
        const bool decodes = step >= random_steps;
        std::vector<Part> parts, parts_of_other;
        std::vector<std::size_t> of;
        for (std::size_t s = 0; s < sequences; ++s) {
          if (!decodes && random.below(5) == 0 && !(s + 1 == sequences && of.empty())) continue;
          if (!decodes && (done[s] + 40 > longest || random.below(12) == 0)) { // another request has the number
            done[s] = 0;
            kept.forget(s);
          }
          const int count = done[s] == 0                       ? 20 + static_cast<int>(random.below(20))
                            : !decodes && random.below(6) == 0 ? 17
                                                               : 1;
          parts.push_back({&tokens[s], &kv[s], done[s], count});
          parts_of_other.push_back({&tokens[s], &kv_of_other[s], done[s], count});
          of.push_back(s);
          done[s] += count;
        }
        const bool announces = random.below(4) > 0;
        const auto told = static_cast<Told>(random.below(3));
        const Outcome expected = whole.pass(parts, of), found = kept.pass(parts_of_other, of, announces, told);
        CHECK(found.logits == expected.logits);
        CHECK(found.tokens == expected.tokens);
        if (random.below(3) > 0) continue;
        const std::size_t s = random.below(sequences); // a block of it moves, and the old one becomes NaN
        for (int layer = 0; layer < one.config().shape.layers; ++layer) {
          auto& blocks = kv_of_other[s].layers[static_cast<std::size_t>(layer)];
          const std::size_t at = random.below(blocks.size());
          const std::size_t bytes = kv_of_other[s].memory.front().size();
          std::byte* const to = kv_of_other[s].add(bytes);
          std::memcpy(to, blocks[at], bytes);
          std::memset(blocks[at], 0xff, bytes);
          blocks[at] = to;
          kept.forget(s, layer, static_cast<int>(at));
        }
      }
      CHECK(other.graphs().replayed > 0);
    }
  }
}

#if !defined(SLUICE_ON_CARD) // a GPU's queue counts nothing

TEST_CASE("kernels.decoder: a decode step uploads its rows and new blocks, whatever lies there" * doctest::skip(few)) {
  constexpr std::size_t sequences = 3;
  struct Uploaded {
    std::int64_t quiet = 0, growing = 0; // bytes of a step without a new block, and with one for each sequence
  };
  const auto uploads = [](int context, bool keeps) {
    Random random{73};
    RunnerCase<f32> one{SmallModel::mixtral, 1, {.graph_rows = 8}}; // its experts' places stay, too
    Decoding decoding{one, keeps, sequences};
    const int all = context + 2 * block_tokens;
    std::vector<std::vector<std::int32_t>> tokens(sequences);
    std::vector<SequenceKv> kv;
    std::vector<std::size_t> of(sequences);
    for (std::size_t s = 0; s < sequences; ++s) {
      tokens[s] = random_tokens(random, all, one.config().shape.vocabulary);
      kv.emplace_back(one.config(), all, random);
      of[s] = s;
    }
    const auto pass = [&](int first, int count) {
      std::vector<Part> parts;
      for (std::size_t s = 0; s < sequences; ++s) parts.push_back({&tokens[s], &kv[s], first, count});
      const emulate::Uploads before = one.queue().uploads();
      (void)decoding.pass(parts, of);
      const emulate::Uploads now = one.queue().uploads();
      if (keeps && count == 1 && first > context) CHECK(now.launches == before.launches + 1);
      return now.bytes - before.bytes;
    };
    pass(0, context);
    Uploaded found;
    const std::int64_t layers = one.config().shape.layers;
    for (int i = 0; i < 2 * block_tokens; ++i) {
      const std::int64_t bytes = pass(context + i, 1);
      if (i == 0) continue; // the lists of other rows
      std::int64_t& like = (context + i) % block_tokens == 0 ? found.growing : found.quiet;
      if (keeps && like > 0) CHECK(bytes == like);
      like = bytes;
    }
    if (keeps) CHECK(found.growing == found.quiet + 16 * layers * static_cast<std::int64_t>(sequences));
    return found;
  };
  // Both contexts are of one segment of the attention: longer ones have more tiles, which are uploaded too.
  const Uploaded few_tokens = uploads(2 * block_tokens + 4, true), many_tokens = uploads(13 * block_tokens + 4, true);
  CHECK(few_tokens.quiet == many_tokens.quiet);
  CHECK(few_tokens.growing == many_tokens.growing);
  CHECK(uploads(13 * block_tokens + 4, false).quiet > many_tokens.quiet + 11 * 3 * 3 * 8); // entries of 11 more blocks
}

#endif

} // namespace kept_tables
