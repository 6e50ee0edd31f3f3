// SPDX-License-Identifier: Apache-2.0
// ServedProfile: nothing is added unless it is asked for, and each part adds what it says.
#include "sluice/core/random.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/served_profile.hpp"
#include "sluice/policy/cost/tensor_parallel.hpp"

#include "policy/cost/decoding.hpp"
#include "policy/cost/small_bundle.hpp"
#include <doctest/doctest.h>

#include <vector>

using namespace sluice;
using namespace sluice::testing;

static_assert(ReadsContexts<ServedProfile> && ReadsContexts<TensorParallel<ServedProfile>>);
static_assert(!ReadsContexts<TableProfile> && !ReadsContexts<TensorParallel<TableProfile>>);

namespace {
constexpr int layers = 4;
}

TEST_CASE("without any part the times are the profile's, bit by bit") {
  const TableProfile kernels = small_bundle();
  const ServedProfile served(kernels, {}, layers);
  Random rng(7);
  for (int trial = 0; trial < 300; ++trial) {
    Work work;
    std::vector<Tokens> contexts(rng.below(40));
    for (Tokens& context : contexts) {
      context = Tokens{1 + static_cast<std::int64_t>(rng.below(2000))};
      work.decode_context += context;
    }
    work.decodes = static_cast<std::int64_t>(contexts.size());
    work.contexts = contexts;
    std::vector<ChunkWork> chunks(rng.below(3));
    for (ChunkWork& chunk : chunks)
      chunk = {Tokens{1 + static_cast<std::int64_t>(rng.below(500))},
               Tokens{static_cast<std::int64_t>(rng.below(900))}};
    work.chunks = chunks;
    const StepTime a = kernels.step(work), b = served.step(work);
    CHECK(a.before == b.before);
    CHECK(a.layer == b.layer);
    CHECK(a.after == b.after);
  }
}

TEST_CASE("a padded batch takes the kernels' time of its graph, and its own attention and head") {
  Serving serving;
  serving.graphs = CudaGraphs({1, 2, 4, 8}, {});
  const ServedProfile served(small_bundle(), serving, layers);
  const Work work = decoding(3, 11); // 10 tokens before the fresh one
  const StepTime time = served.step(work);
  CHECK(time.before.count() == doctest::Approx(1.4e-6)); // 4 tokens
  CHECK(time.layer.count() == doctest::Approx(8 * 1.4e-6 + 5.03e-6));
  CHECK(time.after.count() == doctest::Approx(1.4e-6 + 2 * 13e-6)); // 3 sequences
  serving.pads = false;
  CHECK(ServedProfile(small_bundle(), serving, layers).step(work).before.count() == doctest::Approx(1.3e-6));
}

TEST_CASE("a group all-reduces the tokens of its graph") {
  Serving serving;
  serving.graphs = CudaGraphs({1, 2, 4, 8}, {});
  const ModelShape whole = llama3_8b();
  const double token_bytes = static_cast<double>(whole.hidden_bytes_per_token().count());
  const AllReduce all_reduce(MeasuredLine{{{1, 1e-6}, {100'000'000, 1e-6 * 100'000'000}}}, PeerPath::own, 2);
  const ServedProfile shard(small_bundle(), serving, layers);
  const TensorParallel<ServedProfile> group(shard, whole, all_reduce);
  const Work work = decoding(3, 11); // computed as 4 tokens
  CHECK((group.step(work).before - shard.step(work).before).count() == doctest::Approx(4 * token_bytes * 1e-6));
  CHECK((group.step(work).layer - shard.step(work).layer).count() == doctest::Approx(2 * 4 * token_bytes * 1e-6));
  serving.pads = false;
  const ServedProfile unpadded(small_bundle(), serving, layers);
  const TensorParallel<ServedProfile> plain(unpadded, whole, all_reduce);
  CHECK((plain.step(work).layer - unpadded.step(work).layer).count() == doctest::Approx(2 * 3 * token_bytes * 1e-6));
}

TEST_CASE("a graph saves its launches: attention too if it decodes only") {
  Serving serving;
  serving.graphs = CudaGraphs({1, 2, 4, 8}, {Seconds{0.1e-6}, {}, {}});
  const ServedProfile served(small_bundle(), serving, layers);
  const TableProfile kernels = small_bundle();
  const Work decodes = decoding(4, 11);
  CHECK(served.step(decodes).layer.count() == doctest::Approx(kernels.step(decodes).layer.count() - 9 * 0.1e-6));
  Work mixed = decoding(2, 11);
  const std::vector<ChunkWork> chunk{{Tokens{2}, Tokens{0}}};
  mixed.chunks = chunk;
  CHECK(served.step(mixed).layer.count() == doctest::Approx(kernels.step(mixed).layer.count() - 8 * 0.1e-6));
  Work large = decoding(9, 11);
  CHECK(served.step(large).layer == kernels.step(large).layer);
}

TEST_CASE("the tail is added to each layer, for the batch's order") {
  Serving serving;
  serving.tail = DecodeTail({2, 1, 1}, {10.0, 1000.0});
  const ServedProfile served(small_bundle(), serving, layers);
  Work work = decoding(4, 3);
  const std::vector<Tokens> last{Tokens{2}, Tokens{2}, Tokens{2}, Tokens{6}},
      first{Tokens{6}, Tokens{2}, Tokens{2}, Tokens{2}};
  const double without = served.step(work).layer.count(); // a planner knows no contexts
  work.contexts = last;
  CHECK(served.step(work).layer.count() == doctest::Approx(without + 0.2));
  work.contexts = first;
  CHECK(served.step(work).layer.count() == doctest::Approx(without));
}

TEST_CASE("measured skew: a share of the way from the mean's time to the longest's") {
  Serving serving;
  serving.skew = SkewTable({{0, 4, 0.1, 0.9}, {0, 4, 0.5, 0.25}, {0, 100, 0.5, 0.75}, {64, 4, 0.5, 0.0}});
  const ServedProfile served(small_bundle(), serving, layers);
  Work work = decoding(4, 301);
  const double without = served.step(work).layer.count();
  const std::vector<Tokens> contexts{Tokens{101}, Tokens{101}, Tokens{401}, Tokens{601}};
  work.contexts = contexts; // mean 300 and longest 600 before the fresh one: skew 0.5
  // Four decodes at 600 take 4 x 300 x 0.001 us longer than at 300.
  CHECK(served.step(work).layer.count() == doctest::Approx(without + 0.25 * 1.2e-6));
}

TEST_CASE("experts are computed on the padded tokens") {
  Serving serving;
  serving.graphs = CudaGraphs({1, 2, 4, 8}, {});
  serving.experts = ExpertTable({4, 4, 1}, {{1, MeasuredLine{{{1, 1e-3}}}}, {11, MeasuredLine{{{1, 11e-3}}}}});
  const Work work = decoding(3, 11);
  const double with = ServedProfile(small_bundle(), serving, layers).step(work).layer.count();
  serving.experts.reset();
  CHECK(with == doctest::Approx(ServedProfile(small_bundle(), serving, layers).step(work).layer.count() + 4e-3));
}
