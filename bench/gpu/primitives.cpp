// SPDX-License-Identifier: Apache-2.0
// Compares the members of the Cta with a host's results. If one is wrong, no measurement means anything.
#include "bench.hpp"
#include "primitive_kernel.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

namespace gpu_bench {
namespace {

using namespace sluice::kernels;
constexpr int threads = PrimitiveKernel::threads, words = PrimitiveKernel::words;
constexpr std::uint32_t poison = 0xffffffffU; // no case may leave this in a word that it must write
using Words = std::vector<std::uint32_t>;

struct Ran {
  Words in, out, global;
  int blocks;
};

Ran run(Bench& bench, Primitive what, std::uint64_t seed, int blocks) {
  Ran ran{Words(words), {}, Words(8), blocks};
  std::uint64_t x = seed;
  for (std::uint32_t& one : ran.in) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    one = static_cast<std::uint32_t>(x >> 33U);
  }
  const Device::Memory in = uploaded(bench.device, ran.in), global = uploaded(bench.device, ran.global);
  const Device::Memory out = poisoned(bench.device, static_cast<std::uint64_t>(blocks) * words * 4);
  PrimitiveParams params;
  params.what = what;
  params.in = reinterpret_cast<const std::uint32_t*>(in.data());
  params.out = reinterpret_cast<std::uint32_t*>(out.data());
  params.global = reinterpret_cast<std::uint32_t*>(global.data());
  params.blocks = blocks;
  bench.device.launch_kernel<PrimitiveKernel>(params);
  bench.device.finish();
  ran.out = downloaded<std::uint32_t>(bench.device, out, 0, static_cast<std::size_t>(blocks) * words);
  ran.global = downloaded<std::uint32_t>(bench.device, global, 0, 8);
  return ran;
}

/// Words that the case should leave in its first block; `poison` in words that it need not write.
using Expected = std::function<std::uint32_t(const Ran&, int thread, int slot)>; // slot: out[slot * threads + thread]
struct Slots {
  Primitive what;
  const char* name;
  int slots;
  Expected expected;
};

std::uint32_t of_lane(const Ran& ran, int thread, int lane) {
  return ran.in[static_cast<std::size_t>(thread / 32 * 32 + lane)];
}

std::uint32_t in_rounds(const Ran& ran, int thread, bool of_warp) {
  Words now(ran.in.begin(), ran.in.begin() + threads), next = now;
  for (int round = 0; round < 8; ++round) {
    for (int t = 0; t < threads; ++t) {
      const int lane = t % 32;
      const int from = of_warp ? t / 32 * 32 + (lane & 16) + (lane * 5 + 1) % 16 : (t * 37 + 1) % threads;
      next[static_cast<std::size_t>(t)] = now[static_cast<std::size_t>(from)] + 1;
    }
    now = next;
  }
  return now[static_cast<std::size_t>(thread)];
}

/// Lane m * 8 + i gives the address of row i of matrix m. This lane gets two neighbours of row lane / 4, or, if
/// transposed, of that column.
std::uint32_t of_matrix(const Ran& ran, int thread, int matrix, bool transposed) {
  const int lane = thread % 32, warp = thread / 32;
  const auto number = [&](int row, int column) -> std::uint32_t {
    const int at = (row + matrix / 2 * 8) * 16 + matrix % 2 * 8 + column; // of the warp's 16 x 16
    const std::uint32_t word = ran.in[static_cast<std::size_t>(warp * 128 + at / 2)];
    return at % 2 == 0 ? word & 0xffffU : word >> 16U;
  };
  const int row = lane / 4, column = lane % 4 * 2;
  return transposed ? number(column, row) | number(column + 1, row) << 16U
                    : number(row, column) | number(row, column + 1) << 16U;
}

std::uint32_t of_product(const Ran& ran, int warp, int row, int column) {
  const auto small = [&](int r, int c, bool right) {
    return static_cast<int>(ran.in[static_cast<std::size_t>(warp * 64 + (right ? 32 : 0) + (r + c * 3) % 32)] >>
                                ((r * 2 + c) % 8 * 3) &
                            7U) -
           3;
  };
  int sum = 0;
  for (int k = 0; k < 16; ++k) sum += small(row, k, false) * small(k, column, true);
  return static_cast<std::uint32_t>(3 * sum);
}

std::vector<Slots> slots() {
  const auto in = [](const Ran& ran, int i) { return ran.in[static_cast<std::size_t>(i)]; };
  const auto votes = [](const Ran& ran, int thread, std::uint32_t bit, std::uint32_t lanes) {
    std::uint32_t all = 0;
    for (int lane = 0; lane < 32; ++lane)
      if ((lanes >> lane & 1U) != 0 && (of_lane(ran, thread, lane) & bit) != 0) all |= 1U << lane;
    return all;
  };
  const auto scanned = [in](const Ran& ran, int thread) {
    std::uint64_t sum = 0;
    for (int i = 0; i <= thread; ++i) sum += in(ran, i);
    return sum;
  };
  return {
      {Primitive::places, "thread, lane, warp, block_x, block_y, blocks_x, blocks_y", 2,
       [](const Ran& ran, int t, int slot) {
         return static_cast<std::uint32_t>(slot == 0 ? t << 16 | t % 32 << 8 | t / 32 : ran.blocks << 4 | 1);
       }},
      {Primitive::sync, "sync", 1, [](const Ran& ran, int t, int) { return in_rounds(ran, t, false); }},
      {Primitive::sync_warp, "sync_warp", 1, [](const Ran& ran, int t, int) { return in_rounds(ran, t, true); }},
      {Primitive::shuffle, "shuffle", 4,
       [](const Ran& ran, int t, int slot) {
         const int lane = t % 32, next = t / 32 * 32 + (lane + 1) % 32;
         if (slot == 0) return of_lane(ran, t, (lane * 7 + 3) % 32);
         if (slot == 1) return static_cast<std::uint32_t>(t / 32 * 32 + 31 - lane);
         if (slot == 2) return lane < 8 ? of_lane(ran, t, 7 - lane) : poison;
         return ran.in[static_cast<std::size_t>(next)] ^ static_cast<std::uint32_t>(next);
       }},
      {Primitive::shuffle_xor, "shuffle_xor", 6,
       [](const Ran& ran, int t, int slot) {
         if (slot == 5) return t % 32 < 16 ? of_lane(ran, t, t % 32 ^ 8) : poison;
         return of_lane(ran, t, t % 32 ^ 1 << slot);
       }},
      {Primitive::shuffle_up, "shuffle_up", 5,
       [](const Ran& ran, int t, int slot) {
         return of_lane(ran, t, t % 32 >= 1 << slot ? t % 32 - (1 << slot) : t % 32);
       }},
      {Primitive::ballot, "ballot", 3,
       [in, votes](const Ran& ran, int t, int slot) {
         if (slot == 2) { // of these votes
           const std::uint32_t bits = in(ran, t) & in(ran, (t + 1) % threads);
           return bits == 0 ? static_cast<std::uint32_t>(-1) : static_cast<std::uint32_t>(std::countr_zero(bits));
         }
         if (slot == 0) return votes(ran, t, 1, full_warp);
         return t % 32 >= 8 && t % 32 < 24 ? votes(ran, t, 2, 0x00ffff00U) : poison;
       }},
      {Primitive::any, "any", 2,
       [](const Ran&, int t, int slot) -> std::uint32_t {
         if (slot == 0) return t / 32 == 2 ? 1 : 0;
         return t % 32 < 4 ? 1 : poison; // four warps: each has the lane of its number
       }},
      {Primitive::atomic_max, "atomic_max", 2,
       [in](const Ran& ran, int, int slot) {
         std::uint32_t most = 0;
         for (int i = 0; i < threads; ++i) most = std::max(most, in(ran, i) >> slot);
         return most;
       }},
      {Primitive::inclusive_scan, "inclusive_scan", 3,
       [scanned](const Ran& ran, int t, int slot) {
         if (slot < 2) return static_cast<std::uint32_t>(scanned(ran, t) >> (slot * 32));
         std::uint64_t sum = 0;
         for (int i = 0; i <= t; ++i) sum += scanned(ran, i) & 0xffffU;
         return static_cast<std::uint32_t>(sum);
       }},
      {Primitive::packets, "load_packet, store_packet, load_written_packet", 5,
       [in](const Ran& ran, int t, int slot) {
         return slot < 4 ? in(ran, slot * threads + t) : in(ran, t * 4 + t % 4);
       }},
      {Primitive::copy_async, "copy_async, commit, wait", 8,
       [in](const Ran& ran, int t, int slot) {
         const int i = slot * threads + t;
         if (i < words / 2) return in(ran, words / 2 - 1 - i);
         return (i - words / 2) / 4 % 2 == 0 ? in(ran, i) : 0;
       }},
      {Primitive::load_matrices, "load_matrices", 4,
       [](const Ran& ran, int t, int slot) { return of_matrix(ran, t, slot, false); }},
      {Primitive::load_matrices_transposed, "load_matrices_transposed", 4,
       [](const Ran& ran, int t, int slot) { return of_matrix(ran, t, slot, true); }},
      {Primitive::mma_bf16, "mma, bf16", 4,
       [](const Ran& ran, int t, int slot) {
         const int i = slot * threads + t;
         return of_product(ran, i / 128, i % 128 / 8, i % 8);
       }},
      {Primitive::mma_f16, "mma, f16", 4,
       [](const Ran& ran, int t, int slot) {
         const int i = slot * threads + t;
         return of_product(ran, i / 128, i % 128 / 8, i % 8);
       }},
      {Primitive::bulk, "barrier_init, barrier_expect, barrier_wait, bulk_load, bulk_store, bulk_wait, fence_async", 8,
       [in](const Ran& ran, int t, int slot) {
         const int i = slot * threads + t, half = words / 2;
         return in(ran, i / half * half + half - 1 - i % half) + 1;
       }},
  };
}

/// In any order of threads, each old value of a counter occurs once.
std::int64_t missing(Words values, std::uint32_t first) {
  std::sort(values.begin(), values.end());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) wrong += values[i] == first + i ? 0 : 1;
  return wrong;
}

float as_float(std::uint32_t x) { return std::bit_cast<float>(x); }

/// NaNs with different bits count as equal.
bool alike(std::uint32_t a, std::uint32_t b) { return a == b || (std::isnan(as_float(a)) && std::isnan(as_float(b))); }

std::int64_t wrong_arithmetic(const Ran& ran) {
  std::int64_t wrong = 0;
  for (std::size_t t = 0; t < threads; ++t) {
    const auto number = [&](std::size_t slot) {
      return static_cast<float>(static_cast<int>(ran.in[t + slot * threads] >> 8U)) * 0x1p-12F - 1024.0F;
    };
    const float a = number(0), b = number(1), c = number(2);
    const auto got = [&](std::size_t slot) { return ran.out[slot * threads + t]; };
    wrong += got(0) == std::bit_cast<std::uint32_t>(std::fma(a, b, c)) ? 0 : 1;
    const volatile float product = a * b; // rounded before the addition
    wrong += got(1) == std::bit_cast<std::uint32_t>(product + c) ? 0 : 1;
    const double exactly = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c); // 48 bits: exact
    wrong += got(2) == std::bit_cast<std::uint32_t>(static_cast<float>(exactly)) ? 0 : 1;
    const double power = std::exp2(static_cast<double>(a * 0.0625F));
    const double off = std::fabs(static_cast<double>(as_float(got(3))) - power) / power;
    wrong += off <= 2 * 0x1p-23 ? 0 : 1; // 2 ulp
    wrong += got(4) == std::bit_cast<std::uint32_t>(std::max(a, b)) ? 0 : 1;
  }
  return wrong;
}

std::int64_t wrong_elements(const Ran& ran) {
  std::int64_t wrong = 0;
  for (std::uint32_t block = 0; block < static_cast<std::uint32_t>(ran.blocks); ++block) {
    for (std::uint32_t i = 0; i < 256; ++i) {
      const auto out = [&](std::uint32_t slot) { return ran.out[block * words + slot * 256 + i]; };
      const auto one = static_cast<std::uint16_t>(block * 256 + i);
      wrong += alike(out(0), static_cast<std::uint32_t>(one) << 16U) ? 0 : 1;
      wrong += alike(out(1), std::bit_cast<std::uint32_t>(widen(F16{one}))) ? 0 : 1;
      const float number = as_float(ran.in[i] ^ block * 0x01010101U);
      wrong += out(2) == narrow<Bf16>(number).bits ? 0 : 1;
      wrong += out(3) == narrow<F16>(number).bits ? 0 : 1;
    }
  }
  return wrong;
}

} // namespace

void primitives(Bench& bench) {
  const int seeds = bench.size(20, 3);
  const auto row = [&](const std::string& name, Primitive what, int blocks,
                       const std::function<std::int64_t(const Ran&)>& wrong_in, std::int64_t cases) {
    bench.row(name, std::to_string(blocks) + " blocks of 128 threads, " + std::to_string(seeds) + " inputs",
              [&](Row& said) {
                std::int64_t wrong = 0;
                for (int seed = 1; seed <= seeds; ++seed)
                  wrong += wrong_in(run(bench, what, static_cast<std::uint64_t>(seed), blocks));
                said.unit = "wrong words";
                said.samples = {static_cast<double>(wrong)};
                said.checks = true;
                said.check = {static_cast<double>(wrong), 0, cases * seeds};
              });
  };
  for (const Slots& one : slots()) {
    row(
        one.name, one.what, 1,
        [&](const Ran& ran) {
          std::int64_t wrong = 0;
          for (int slot = 0; slot < one.slots; ++slot)
            for (int t = 0; t < threads; ++t)
              wrong += ran.out[static_cast<std::size_t>(slot * threads + t)] == one.expected(ran, t, slot) ? 0 : 1;
          for (std::size_t i = static_cast<std::size_t>(one.slots) * threads; i < words; ++i)
            wrong += ran.out[i] == poison ? 0 : 1;
          return wrong;
        },
        words);
  }
  const int many = bench.size(256, 8);
  row(
      "atomic_add", Primitive::atomic_add, many,
      [&](const Ran& ran) {
        Words of_all;
        std::int64_t wrong = 0;
        for (std::size_t b = 0; b < static_cast<std::size_t>(many); ++b) {
          const auto at = ran.out.begin() + static_cast<std::ptrdiff_t>(b * words);
          wrong += missing(Words(at, at + threads), 0);
          of_all.insert(of_all.end(), at + threads, at + 2 * threads);
        }
        return wrong + missing(of_all, 0) + (ran.global[0] == static_cast<std::uint32_t>(many * threads) ? 0 : 1);
      },
      2 * threads * many);
  row(
      "atomic_add of 64 bits", Primitive::atomic_add_wide, 1,
      [](const Ran& ran) {
        std::uint64_t sum = (1ULL << 40U) + threads;
        for (std::size_t i = 0; i < threads; ++i) sum += ran.in[i];
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < threads; ++i) wrong += ran.out[i] == 1 ? 0 : 1;
        return wrong + (ran.out[threads] == static_cast<std::uint32_t>(sum) ? 0 : 1) +
               (ran.out[threads + 1] == static_cast<std::uint32_t>(sum >> 32U) ? 0 : 1);
      },
      threads + 2);
  row(
      "fence", Primitive::fence, many,
      [&](const Ran& ran) {
        std::uint32_t sum = 0;
        for (int block = 0; block < many; ++block) sum += 4 * PrimitiveKernel::share(block) + 6;
        return static_cast<std::int64_t>((ran.global[0] == static_cast<std::uint32_t>(many) ? 0 : 1) +
                                         (ran.global[1] == sum ? 0 : 1) + (ran.global[2] == 1 ? 0 : 1));
      },
      3);
  row("fused, times, exp2_fast, larger", Primitive::arithmetic, 1, wrong_arithmetic, 5 * threads);
  row("widen, narrow", Primitive::elements, bench.size(256, 16), wrong_elements,
      std::int64_t{4} * 256 * bench.size(256, 16));
}

} // namespace gpu_bench
