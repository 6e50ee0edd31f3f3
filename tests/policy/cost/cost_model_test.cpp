// SPDX-License-Identifier: Apache-2.0
// The cost model's role: which types model it, and what Roofline, FlopCount and LinearProfile guarantee.
#include "sluice/core/random.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/policy/cost/flop_count.hpp"
#include "sluice/policy/cost/linear_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include "policy/cost/decoding.hpp"
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

struct LeastModel {
  using role = roles::Cost;
  struct State {};
  StepTime step(const Work&) const { return {}; }
  LinkCost link() const { return {}; }
  const LeastModel& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};
struct WithoutState {
  using role = roles::Cost;
  StepTime step(const Work&) const { return {}; }
  LinkCost link() const { return {}; }
};
struct WithoutLink : LeastModel {
  LinkCost link() const = delete;
};
struct ForgetsBelief {
  using role = roles::Cost;
  struct State {};
  StepTime step(const Work&) const { return {}; }
  LinkCost link() const { return {}; }
  int predictor(const State&) const { return 0; }
  void observe(State&, const Observation&) const {}
};
struct OtherRole : LeastModel {
  using role = roles::Relief;
};

static_assert(CostModel<LeastModel>);
static_assert(CostModel<Roofline> && CostModel<FlopCount> && CostModel<LinearProfile>);
static_assert(CostModel<Calibrated<Roofline>> && CostModel<Calibrated<Calibrated<LinearProfile>>>);
static_assert(!CostModel<WithoutState> && !CostModel<WithoutLink> && !CostModel<ForgetsBelief> &&
              !CostModel<OtherRole>);

LinearProfile linear() { return {llama3_8b(), {9.63e-7, 4.95e-2}, {1.72e-5, 1.39e-2}, FlopsPerSecond{65e12}}; }

/// A random iteration; the chunks live in `chunks`.
Work random_work(Random& random, std::vector<ChunkWork>& chunks) {
  Work work = decoding(static_cast<std::int64_t>(random.below(64)), static_cast<std::int64_t>(random.below(4000) + 1));
  chunks.clear();
  for (std::uint64_t left = random.below(3); left > 0; --left) {
    chunks.push_back({Tokens{random.below(1024) + 1}, Tokens{random.below(4096)}});
    ++work.samples;
  }
  work.chunks = chunks;
  return work;
}

template <class Model>
void more_work_never_takes_less(const Model& model, int layers) {
  Random random(7);
  std::vector<ChunkWork> chunks;
  for (int round = 0; round < 2000; ++round) {
    Work work = random_work(random, chunks);
    const double before = model.step(work).total(layers).count();
    REQUIRE(std::isfinite(before));
    REQUIRE(before >= 0.0);
    switch (random.below(3)) {
    case 0:
      ++work.decodes;
      ++work.samples;
      work.decode_context += Tokens{random.below(100) + 1};
      break;
    case 1:
      if (work.decodes == 0) continue;
      work.decode_context += Tokens{random.below(5000)};
      break;
    default:
      if (chunks.empty()) continue;
      chunks.back().fresh += Tokens{random.below(100)};
      chunks.back().cached += Tokens{random.below(100)};
    }
    REQUIRE(model.step(work).total(layers).count() >= before);
  }
}

} // namespace

TEST_CASE("more work never takes less time") {
  more_work_never_takes_less(Roofline(llama3_8b(), a5000()), 32);
  more_work_never_takes_less(Roofline(mixtral_8x7b(), h200()), 32);
  more_work_never_takes_less(FlopCount(llama3_8b(), a5000()), 32);
  more_work_never_takes_less(linear(), 32);
}

TEST_CASE("no work takes no time") {
  CHECK(Roofline(llama3_8b(), a5000()).step(Work{}).total(32) == Seconds{0});
  CHECK(FlopCount(llama3_8b(), a5000()).step(Work{}).total(32) == Seconds{0});
  CHECK(linear().step(Work{}).total(32) == Seconds{0});
}

TEST_CASE("Roofline: one decode is bound by the bytes of the weights, a long prompt by the FLOPs") {
  const ModelShape shape = llama3_8b();
  const Device device = a100_80();
  const RooflineEfficiency efficiency{0.5, 0.8};
  Device plain = device;
  plain.compute_fraction.reset();
  plain.bandwidth_fraction.reset();
  const Roofline model(shape, plain, efficiency);

  const double weights = static_cast<double>((shape.weight_bytes() - shape.head_weight_bytes()).count());
  const double kv = static_cast<double>(shape.kv_bytes_per_token().count()) * 2; // one token read, one written
  const double bytes_s = (weights + kv) / (device.memory_bandwidth.count() * 0.8);
  CHECK(model.step(decoding(1, 1)).total(shape.layers).count() == doctest::Approx(bytes_s).epsilon(1e-4));

  const std::array<ChunkWork, 1> prompt{{{Tokens{8192}, Tokens{0}}}};
  Work work;
  work.chunks = prompt;
  const double pairs = 8192.0 * 8193.0 / 2.0;
  const double flops = (8192.0 * shape.linear_flops_per_token_per_layer().count() +
                        pairs * shape.attention_flops_per_pair_per_layer().count()) *
                       shape.layers;
  CHECK((model.step(work).layer * shape.layers).count() ==
        doctest::Approx(flops / (device.half_precision_peak.count() * 0.5)));
}

TEST_CASE("Roofline: a device's stated efficiencies override the assumed ones") {
  Device device = a5000();
  device.compute_fraction = 0.5;
  const std::array<ChunkWork, 1> prompt{{{Tokens{4096}, Tokens{0}}}};
  Work work;
  work.chunks = prompt;
  const Seconds half = Roofline(llama3_8b(), device, {0.9, 0.9}).step(work).layer;
  device.compute_fraction = 1.0;
  CHECK(half.count() == doctest::Approx(2.0 * Roofline(llama3_8b(), device, {0.9, 0.9}).step(work).layer.count()));
}

TEST_CASE("a prompt in chunks attends to as many tokens as the whole prompt") {
  const FlopCount model(llama3_8b(), a100_80());
  std::array<ChunkWork, 1> chunk{{{Tokens{1000}, Tokens{0}}}};
  Work work;
  work.chunks = chunk;
  const double whole = model.step(work).total(32).count();
  double parts = 0.0;
  for (int part = 0; part < 4; ++part) {
    chunk[0] = {Tokens{250}, Tokens{250 * part}};
    parts += model.step(work).total(32).count();
  }
  CHECK(parts == doctest::Approx(whole));
}

TEST_CASE("LinearProfile: a decode is the fitted line, a layer 1/L of it") {
  const LinearProfile model = linear();
  const StepTime time = model.step(decoding(4, 1500));
  CHECK(time.total(32).count() == doctest::Approx(9.63e-7 * 6000 + 4.95e-2));
  CHECK(time.layer.count() == doctest::Approx((9.63e-7 * 6000 + 4.95e-2) / 32));
}

TEST_CASE("LinearProfile: the link moves all layers' KV of n tokens in A n + B") {
  const LinkCost link = linear().link();
  const auto bytes = llama3_8b().kv_bytes_per_token() * 5000;
  CHECK((bytes / link.rate + link.per_layer * 32).count() == doctest::Approx(1.72e-5 * 5000 + 1.39e-2));
}

TEST_CASE("LinearProfile: a prompt takes the time of its FLOPs, but at least the time to read the weights") {
  const LinearProfile model = linear();
  std::array<ChunkWork, 1> prompt{{{Tokens{1}, Tokens{0}}}};
  Work work;
  work.chunks = prompt;
  CHECK(model.step(work).total(32).count() == doctest::Approx(4.95e-2));
  prompt[0].fresh = Tokens{8192};
  const ModelShape shape = llama3_8b();
  const double flops = 32.0 * (8192.0 * shape.linear_flops_per_token_per_layer().count() +
                               8192.0 * 8193.0 / 2.0 * shape.attention_flops_per_pair_per_layer().count());
  CHECK(model.step(work).total(32).count() == doctest::Approx(flops / 65e12));
}
