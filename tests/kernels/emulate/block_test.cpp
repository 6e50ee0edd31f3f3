// SPDX-License-Identifier: Apache-2.0
#include "emulate/launch.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;
using emulate::Report;

static_assert(HopperCta<emulate::HostCta<64>>);

namespace {

/// A kernel of 64 threads that runs one of these cases.
enum class Does {
  order,
  divergent_barriers,
  ended_thread,
  outside_mask,
  absent_lane,
  missing_lane,
  two_masks,
  votes,
  scan,
  scan_again,
  misaligned_copy,
  misaligned_load,
  misaligned_store,
  copy_elsewhere,
  unwaited_copy,
  groups,
  poison,
  throws,
};

struct Params {
  int* out;
  const std::int32_t* in; // 16-byte aligned
};

template <Does does>
struct Case {
  static constexpr int threads = 64, ctas_per_sm = 1;
  using Params = ::Params;
  struct Shared {
    SharedArray<Packet<std::int32_t>, 8> packets;
    ScanRoom<int, threads> room;
  };

  template <AsyncCopyCta C>
  static void run(const C& cta, Shared& shared, const Params& params) {
    const int thread = cta.thread(), lane = cta.lane();
    if constexpr (does == Does::order) {
      params.out[thread] = cta.atomic_add(params.out + threads, 1);
    } else if constexpr (does == Does::divergent_barriers) {
      if (thread < 32)
        cta.sync();
      else
        cta.sync();
    } else if constexpr (does == Does::ended_thread) {
      if (thread == 40) return;
      cta.sync();
    } else if constexpr (does == Does::outside_mask) {
      cta.sync_warp(0x0000ffffU);
    } else if constexpr (does == Does::absent_lane) {
      if (lane < 16) cta.shuffle_xor(lane, 16, 0x0000ffffU);
    } else if constexpr (does == Does::missing_lane) {
      if (lane != 7) cta.shuffle(lane, 0);
    } else if constexpr (does == Does::two_masks) {
      const std::uint32_t lanes = lane % 2 == 0 ? 0x55555555U : 0xaaaaaaaaU;
      params.out[thread] = cta.shuffle_xor(thread, 2, lanes) + cta.shuffle_up(thread, 2, lanes) * 100;
    } else if constexpr (does == Does::votes) {
      params.out[thread] = static_cast<int>(cta.ballot(lane % 3 == 0)) + static_cast<int>(cta.any(thread == 40));
    } else if constexpr (does == Does::scan || does == Does::scan_again) {
      const int once = cta.inclusive_scan(thread, shared.room);
      if constexpr (does == Does::scan) cta.sync();
      params.out[thread] = cta.inclusive_scan(once, shared.room);
    } else if constexpr (does == Does::misaligned_copy) {
      cta.copy_async(&shared.packets[0], params.in + 1, true);
    } else if constexpr (does == Does::misaligned_load) {
      params.out[thread] = load_packet(params.in + 1).of[0];
    } else if constexpr (does == Does::misaligned_store) {
      if (thread == 9) store_packet(params.out + 2, Packet<int>{});
    } else if constexpr (does == Does::copy_elsewhere) {
      cta.copy_async(params.out, params.in, true);
    } else if constexpr (does == Does::unwaited_copy) {
      if (thread == 5) cta.copy_async(&shared.packets[0], params.in, true);
      cta.commit();
    } else if constexpr (does == Does::groups) {
      if (thread != 0) return;
      for (int group = 0; group < 4; ++group) {
        cta.copy_async(&shared.packets[group * 2], params.in + group * 4, true);
        cta.copy_async(&shared.packets[group * 2 + 1], nullptr, false);
        cta.commit();
      }
      cta.template wait<2>();
      for (int i = 0; i < 8; ++i) { // ThreadSanitizer sees that the last four are read too early
        const bool reads = i < 4 || !emulate::watched_for_races;
        params.out[i] = reads ? shared.packets[i].of[1] : -1;
      }
      cta.template wait<0>();
      for (int i = 0; i < 8; ++i) params.out[8 + i] = shared.packets[i].of[1];
    } else if constexpr (does == Does::poison) {
      params.out[cta.block_x() * threads + thread] = shared.packets[thread % 8].of[0];
      cta.sync();
      if (thread < 8) shared.packets[thread].of[0] = 1; // the next block must not find it
    } else if constexpr (does == Does::throws) {
      if (thread == 3) throw 1;
      cta.sync();
    }
  }
};

struct Ran {
  Report report;
  std::vector<int> out = std::vector<int>(128);
};

template <Does does>
Ran ran(std::uint64_t seed = 1, int blocks = 1) {
  alignas(16) static constexpr std::int32_t in[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                                    10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  Ran result;
  result.report = emulate::launch<Case<does>>({blocks, 1}, {result.out.data(), in}, seed);
  return result;
}

/// A launch's only error.
template <Does does>
std::string error(std::uint64_t seed = 1) {
  const Report report = ran<does>(seed).report;
  REQUIRE(!report.ok());
  return report.errors.front();
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("the emulator draws the order of threads from the seed") {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Ran once = ran<Does::order>(seed);
    REQUIRE(once.report.ok());
    CHECK(once.out == ran<Does::order>(seed).out);
    CHECK(once.out[64] == 64);
    std::vector<int> places(once.out.begin(), once.out.begin() + 64);
    std::sort(places.begin(), places.end());
    for (int i = 0; i < 64; ++i) CHECK(places[static_cast<std::size_t>(i)] == i);
    orders.insert(once.out);
  }
  CHECK(orders.size() == 20);
}

TEST_CASE("the emulator names threads that wait forever, their place, and the thread that is missing") {
  CHECK(says(error<Does::divergent_barriers>(), "waits at another barrier than thread "));
  const std::string ended = error<Does::ended_thread>();
  CHECK(says(ended, "block_test.cpp:"));
  CHECK(says(ended, "block (0, 0), thread 0: waits for ever in sync: thread 40 has ended"));
  CHECK(says(error<Does::missing_lane>(),
             "thread 0: waits for ever for lanes 0xffffffff of its warp: thread 7 has ended"));
  CHECK(says(error<Does::throws>(), "thread 3: the kernel threw an exception"));
}

TEST_CASE("the emulator checks masks") {
  CHECK(says(error<Does::outside_mask>(), "calls for lanes 0x0000ffff, and is none of them"));
  CHECK(says(error<Does::absent_lane>(), "which is not among those called (0x0000ffff)"));
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Ran two = ran<Does::two_masks>(seed), votes = ran<Does::votes>(seed);
    REQUIRE(two.report.ok());
    for (int i = 0; i < 64; ++i) {
      CHECK(two.out[static_cast<std::size_t>(i)] == (i ^ 2) + (i % 32 < 2 ? i : i - 2) * 100);
      CHECK(votes.out[static_cast<std::size_t>(i)] == 0x49249249 + (i < 32 ? 0 : 1));
    }
  }
}

TEST_CASE("a scan's room is reused only after a barrier") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Ran scans = ran<Does::scan>(seed);
    REQUIRE(scans.report.ok());
    int once = 0, twice = 0;
    for (int i = 0; i < 64; ++i) {
      once += i;
      twice += once;
      CHECK(scans.out[static_cast<std::size_t>(i)] == twice);
    }
    CHECK(says(error<Does::scan_again>(seed), "again without a sync() since"));
  }
}

TEST_CASE("copies and packets are checked, and asynchronous copies arrive late") {
  CHECK(says(error<Does::misaligned_copy>(), "the source of an asynchronous copy is not aligned to 16 bytes"));
  CHECK(says(error<Does::misaligned_load>(), "moves 16 bytes at an address that is not aligned to 16 bytes"));
  CHECK(says(error<Does::misaligned_store>(), "thread 9: moves 16 bytes at an address that is not aligned"));
  CHECK(says(error<Does::copy_elsewhere>(), "the target of an asynchronous copy is not in the block's shared memory"));
  CHECK(says(error<Does::unwaited_copy>(), "thread 5: ends before it has waited for the copy that it asked for here"));
  const Ran groups = ran<Does::groups>();
  REQUIRE(groups.report.ok());
  CHECK(std::vector<int>(groups.out.begin(), groups.out.begin() + 16) ==
        std::vector<int>{1, 0, 5, 0, -1, -1, -1, -1, 1, 0, 5, 0, 9, 0, 13, 0});
}

TEST_CASE("each block finds its shared memory full of nonsense") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Ran poison = ran<Does::poison>(seed, 2);
    for (int i = 0; i < 128; ++i) {
      const int found = poison.out[static_cast<std::size_t>(i)];
      CHECK((found == -1 || found == 0x7b7b7b7b));
    }
  }
}
