// SPDX-License-Identifier: Apache-2.0
// HostCta: the emulator's model of the concepts of kernels/cta.hpp.
#pragma once
#include "emulate/block.hpp"
#include "kernels/cta.hpp"

namespace sluice::emulate {

template <int threads_>
struct HostCta {
  static constexpr int threads = threads_;
  int x = 0, y = 0, nx = 1, ny = 1;
  int thread() const { return Block::active().thread(); }
  int lane() const { return thread() % 32; }
  int warp() const { return thread() / 32; }
  int block_x() const { return x; }
  int block_y() const { return y; }
  int blocks_x() const { return nx; }
  int blocks_y() const { return ny; }
  void fence() const {}
  template <class T>
  T shuffle_up(T value, int by, std::uint32_t lanes = kernels::full_warp, Where where = Where::current()) const {
    return shuffle_from(value, lane() >= by ? lane() - by : lane(), lanes, 7, where);
  }
  std::uint32_t ballot(bool vote, std::uint32_t lanes = kernels::full_warp, Where where = Where::current()) const {
    const char mine = vote ? 1 : 0;
    const auto all = Block::active().meet(lanes, 8, &mine, 1, false, where);
    const Quiet quiet;
    std::uint32_t votes = 0;
    for (int l = 0; l < 32; ++l)
      if ((lanes >> l & 1) != 0 && all[l][0] != 0) votes |= 1U << l;
    return votes;
  }
  bool any(bool vote, std::uint32_t lanes = kernels::full_warp, Where where = Where::current()) const {
    return ballot(vote, lanes, where) != 0;
  }
  template <class T>
  T atomic_add(T* at, T value) const {
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
  }
  template <class T>
  T atomic_max(T* at, T value) const {
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
  }
  template <class T>
  T inclusive_scan(T value, kernels::ScanRoom<T, threads>& room, Where where = Where::current()) const {
    T* const all = reinterpret_cast<T*>(&room);
    all[thread()] = value;
    sync(where);
    T sum = 0;
    for (int i = 0; i <= thread(); ++i) sum += all[i];
    sync(where);
    return sum;
  }
  void sync(Where where = Where::current()) const { Block::active().sync(where); }
  void sync_warp(std::uint32_t lanes = kernels::full_warp, Where where = Where::current()) const {
    const char none = 0;
    Block::active().meet(lanes, 0, &none, 1, true, where);
  }
  template <class T>
  T shuffle_xor(T value, int with, std::uint32_t lanes = kernels::full_warp, Where where = Where::current()) const {
    return shuffle_from(value, lane() ^ with, lanes, 1, where);
  }
  template <class T>
  T shuffle(T value, int from, std::uint32_t lanes = kernels::full_warp, Where where = Where::current()) const {
    return shuffle_from(value, from & 31, lanes, 2, where);
  }
  void copy_async(void* to, const void* from, bool wanted) const { Block::active().copy_async(to, from, wanted); }
  void commit() const { Block::active().commit(); }
  template <int left>
  void wait() const {
    Block::active().wait(left);
  }

  // Fragments as PTX lays them out (mma.m16n8k16; ldmatrix): a lane reads its own words, once all have said where rows
  // are.
  void load_matrices(std::uint32_t (&into)[4], const void* row, Where where = Where::current()) const {
    const auto all = Block::active().meet(kernels::full_warp, 3, &row, sizeof row, false, where);
    count_banks(all);
    const int me = lane();
    for (int m = 0; m < 4; ++m) {
      std::memcpy(&into[m], told(all, m * 8 + me / 4) + me % 4 * 4, 4);
    }
  }
  void load_matrices_transposed(std::uint32_t (&into)[4], const void* row, Where where = Where::current()) const {
    const auto all = Block::active().meet(kernels::full_warp, 4, &row, sizeof row, false, where);
    count_banks(all);
    const int me = lane();
    for (int m = 0; m < 4; ++m) {
      std::uint16_t half[2];
      for (int i = 0; i < 2; ++i) {
        std::memcpy(&half[i], told(all, m * 8 + me % 4 * 2 + i) + me / 4 * 2, 2);
      }
      into[m] = half[0] | static_cast<std::uint32_t>(half[1]) << 16;
    }
  }
  template <class T>
  void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
           Where where = Where::current()) const {
    const std::uint32_t b[2] = {b0, b1};
    const auto as = Block::active().meet(kernels::full_warp, 5, a, 16, false, where);
    const auto bs = Block::active().meet(kernels::full_warp, 6, b, 8, false, where);
    const auto number = [](Block::Slots of, int lane, int word, int half) {
      std::uint32_t w;
      std::memcpy(&w, of[lane] + word * 4, 4);
      return kernels::widen(T{static_cast<std::uint16_t>(w >> (16 * half))});
    };
    const int me = lane();
    const Quiet quiet;
    for (int i = 0; i < 4; ++i) {
      const int row = me / 4 + i / 2 * 8, column = me % 4 * 2 + i % 2;
      float sum = c[i];
      for (int k = 0; k < 16; ++k) {
        const float left = number(as, row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2);
        const float right = number(bs, column * 4 + k % 8 / 2, k / 8, k % 2);
        sum += left * right;
      }
      c[i] = sum;
    }
  }

 private:
  /// Eight rows of 16 bytes that share a bank wait for one another.
  static void count_banks(Block::Slots all) {
    const Quiet quiet;
    if (Block::active().thread() % 32 != 0) return;
    for (int m = 0; m < 4; ++m) {
      int in_bank[8] = {}, worst = 0;
      for (int r = 0; r < 8; ++r)
        worst = std::max(worst, ++in_bank[reinterpret_cast<std::uintptr_t>(told(all, m * 8 + r)) / 16 % 8]);
      conflicts += static_cast<std::uint64_t>(worst - 1);
      ++matrices;
    }
  }

 public:
  inline static std::uint64_t conflicts = 0, matrices = 0;

 private:
  static const char* told(Block::Slots all, int lane) {
    const Quiet quiet;
    const char* at = nullptr;
    std::memcpy(&at, all[lane], sizeof at);
    return at;
  }
  template <class T>
  T shuffle_from(T value, int from, std::uint32_t lanes, int kind, Where where) const {
    static_assert(sizeof(T) <= 16);
    const auto all = Block::active().meet(lanes, kind, &value, sizeof value, false, where);
    if (!(lanes >> from & 1))
      Block::active().fail("lane " + std::to_string(lane()) + " takes from lane " + std::to_string(from) +
                           ", which is not among those called (line " + std::to_string(where.line()) + ")");
    T result;
    const Quiet quiet;
    std::memcpy(&result, all[from], sizeof result);
    return result;
  }
};

} // namespace sluice::emulate
