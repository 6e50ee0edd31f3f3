// SPDX-License-Identifier: Apache-2.0
#include "emulate/launch.hpp"
#include <doctest/doctest.h>

#include <string>

using namespace sluice;
using namespace sluice::kernels;
using emulate::Report;

namespace bulk {
namespace {

enum class Does {
  right,
  unfenced_barrier,
  no_barrier,
  few_bytes,
  many_bytes,
  unwaited_load,
  odd_size,
  unfenced_store,
  uncommitted_store,
  unread_store,
};

struct alignas(16) Numbers {
  std::int32_t of[32];
};
struct Params {
  const Numbers* in;
  Numbers* out;
};

/// Loads 32 numbers in two pieces, adds one to each, and stores them.
template <Does does>
struct Case {
  static constexpr int threads = 32, ctas_per_sm = 1;
  using Params = bulk::Params;
  struct Shared {
    Numbers in, out;
    Mbarrier arrived;
  };

  template <HopperCta C>
  static void run(const C& cta, Shared& shared, const Params& params) {
    const bool first = cta.thread() == 0;
    if (first && does != Does::no_barrier) {
      cta.barrier_init(shared.arrived, 1);
      if (does != Does::unfenced_barrier) cta.fence_barrier_init();
    }
    cta.sync();
    if (first) {
      cta.barrier_expect(shared.arrived, does == Does::few_bytes ? 64 : does == Does::many_bytes ? 192 : 128);
      cta.bulk_load(&shared.in, params.in, does == Does::odd_size ? 60 : 64, shared.arrived);
      cta.bulk_load(&shared.in.of[16], &params.in->of[16], 64, shared.arrived);
    }
    if (does == Does::unwaited_load) return;
    cta.barrier_wait(shared.arrived, 0);
    shared.out.of[cta.thread()] = shared.in.of[cta.thread()] + 1;
    if (does != Does::unfenced_store) cta.fence_async();
    cta.sync();
    if (!first) return;
    cta.bulk_store(params.out, &shared.out, 128);
    if (does != Does::uncommitted_store) cta.bulk_commit();
    if (does != Does::unread_store) cta.template bulk_wait_read<0>();
  }
};

/// The launch's report; empty if the numbers are right. The seed may determine which of two errors it sees first.
template <Does does>
std::string said(std::uint64_t seed) {
  Numbers in, out{};
  for (int i = 0; i < 32; ++i) in.of[i] = i * i;
  const Report report = emulate::launch<Case<does>>({1, 1}, {&in, &out}, seed);
  if (!report.ok()) return report.text();
  for (int i = 0; i < 32; ++i)
    if (out.of[i] != i * i + 1) return "numbers";
  return {};
}

/// Whether the report contains `part` for each of some seeds.
template <Does does>
bool says(const std::string& part) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    if (said<does>(seed).find(part) == std::string::npos) return false;
  return true;
}

} // namespace

TEST_CASE("bulk copies load and store the right bytes, in any order") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) CHECK(said<Does::right>(seed) == "");
}

TEST_CASE("bulk copies and their barriers are checked") {
  CHECK(says<Does::unfenced_barrier>("without fence_barrier_init()"));
  CHECK(says<Does::no_barrier>("uses an mbarrier that nobody has initialised"));
  CHECK(says<Does::many_bytes>("0 arrivals and 64 bytes are still to come"));
  CHECK(says<Does::odd_size>("bulk loads 60 bytes, not a multiple of 16"));
  CHECK(says<Does::uncommitted_store>("ends before it has committed the bulk store"));
}

TEST_CASE("bulk copies under way at the end of their block are errors, however late they are") {
  int loads = 0, stores = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    loads += said<Does::unwaited_load>(seed).find("nobody waits for it") != std::string::npos ? 1 : 0;
    stores += said<Does::unread_store>(seed).find("may still read shared memory") != std::string::npos ? 1 : 0;
  }
  CHECK(loads > 0);
  CHECK(stores > 0);
}

// For ThreadSanitizer these two are races, and it reports them.
TEST_CASE("a barrier that expects too few bytes releases threads too early" *
          doctest::skip(emulate::watched_for_races)) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) CHECK(said<Does::few_bytes>(seed) != "");
}

TEST_CASE("the async proxy sees shared memory as of the last fence" * doctest::skip(emulate::watched_for_races)) {
  CHECK(says<Does::unfenced_store>("bulk stores byte 0 of 128, which was written after the last fence_async()"));
}

} // namespace bulk
