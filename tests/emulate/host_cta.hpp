// SPDX-License-Identifier: Apache-2.0
// HostCta: the emulator's model of the concepts of kernels/cta.hpp.
#pragma once

#include "emulate/block.hpp"
#include "emulate/bulk.inl.hpp"
#include "emulate/matrices.hpp"
#include "kernels/cta.hpp"

#include <cstdint>
#include <cstring>
#include <string>

namespace sluice::emulate {

/// Loads and stores of packets are not calls of the Cta, but are reported too.
inline const bool reports_misaligned_packets = [] {
  kernels::misaligned_packet = [](const char* file, unsigned line) {
    Block::active().fail({file, line}, "moves 16 bytes at an address that is not aligned to 16 bytes");
  };
  return true;
}();

template <int threads_>
struct HostCta {
  static constexpr int threads = threads_;
  using Lanes = std::uint32_t;

  int x = 0, y = 0, nx = 1, ny = 1;

  EMULATE_UNSEEN int thread() const { return Block::active().thread(); }
  int lane() const { return thread() % 32; }
  int warp() const { return thread() / 32; }
  int block_x() const { return x; }
  int block_y() const { return y; }
  int blocks_x() const { return nx; }
  int blocks_y() const { return ny; }

  void sync(Where where = Where::current()) const { block().sync(where); }
  void sync_warp(Lanes lanes = kernels::full_warp, Where where = Where::current()) const {
    block().sync_warp(lanes, where);
  }
  void fence() const { block().fences().fence(); }

  template <class T>
  T shuffle(T value, int from, Lanes lanes = kernels::full_warp, Where where = Where::current()) const {
    return exchange(value, from & 31, lanes, Exchange::shuffle, where);
  }
  template <class T>
  T shuffle_xor(T value, int with, Lanes lanes = kernels::full_warp, Where where = Where::current()) const {
    return exchange(value, lane() ^ with, lanes, Exchange::shuffle_xor, where);
  }
  template <class T>
  T shuffle_up(T value, int by, Lanes lanes = kernels::full_warp, Where where = Where::current()) const {
    return exchange(value, lane() >= by ? lane() - by : lane(), lanes, Exchange::shuffle_up, where);
  }
  Lanes ballot(bool vote, Lanes lanes = kernels::full_warp, Where where = Where::current()) const {
    return block().meet(lanes, Exchange::ballot, Lanes{vote}, where, [lanes](Lanes* all) {
      Lanes votes = 0;
      for (int lane = 0; lane < 32; ++lane)
        if ((lanes >> lane & 1U) != 0 && all[lane] != 0) votes |= 1U << lane;
      for (int lane = 0; lane < 32; ++lane)
        if ((lanes >> lane & 1U) != 0) all[lane] = votes;
    });
  }
  bool any(bool vote, Lanes lanes = kernels::full_warp, Where where = Where::current()) const {
    return ballot(vote, lanes, where) != 0;
  }

  template <class T>
  T atomic_add(T* at, T value) const {
    before_atomic(at);
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
  }
  template <class T>
  T atomic_max(T* at, T value) const {
    before_atomic(at);
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
  }

  /// Like CUB's, it has one barrier inside and none at its end: a fast thread may return while others still read
  /// `room`.
  template <class T>
  T inclusive_scan(T value, kernels::ScanRoom<T, threads>& room, Where where = Where::current()) const {
    T* const all = reinterpret_cast<T*>(&room);
    block().enter(&room, where);
    all[thread()] = value;
    block().sync_in(&room, where);
    T sum = 0;
    for (int i = 0, last = thread(); i <= last; ++i) sum += all[i];
    return sum;
  }

  void copy_async(void* to, const void* from, bool wanted, Where where = Where::current()) const {
    block().require_shared(to, 16, "the target of an asynchronous copy", where);
    block().require_aligned(to, 16, "the target of an asynchronous copy", where);
    if (wanted) block().require_aligned(from, 16, "the source of an asynchronous copy", where);
    block().copies().issue(to, from, wanted, where);
  }
  void commit() const { block().copies().commit(); }
  template <int left>
  void wait() const {
    block().copies().wait(left);
  }

  void load_matrices(std::uint32_t (&into)[4], const void* row, Where where = Where::current()) const {
    const MatrixPlaces mine = matrices(row, Exchange::matrices, where);
    for (int matrix = 0; matrix < 4; ++matrix) std::memcpy(&into[matrix], mine.at[matrix], 4);
  }
  void load_matrices_transposed(std::uint32_t (&into)[4], const void* row, Where where = Where::current()) const {
    const MatrixPlaces mine = matrices(row, Exchange::transposed, where);
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::uint16_t half[2];
      for (int i = 0; i < 2; ++i) std::memcpy(&half[i], mine.at[matrix * 2 + i], 2);
      into[matrix] = half[0] | static_cast<std::uint32_t>(half[1]) << 16U;
    }
  }
  template <kernels::Element T>
    requires(sizeof(T) == 2)
  void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
           Where where = Where::current()) const {
    const Operands mine{{a[0], a[1], a[2], a[3]}, {b0, b1}, {c[0], c[1], c[2], c[3]}};
    const Operands sums = block().meet(kernels::full_warp, Exchange::mma, mine, where, multiply<T>);
    for (int i = 0; i < 4; ++i) c[i] = sums.c[i];
  }

  void barrier_init(kernels::Mbarrier& barrier, int arrivals, Where where = Where::current()) const {
    block().bulk().init(block(), barrier, arrivals, where);
  }
  void fence_barrier_init() const { block().bulk().fence_init(thread()); }
  void barrier_expect(kernels::Mbarrier& barrier, int bytes, Where where = Where::current()) const {
    touch(barrier);
    block().bulk().expect(block(), barrier, bytes, where);
  }
  void barrier_wait(kernels::Mbarrier& barrier, int phase, Where where = Where::current()) const {
    touch(barrier);
    block().wait_barrier(barrier, phase, where);
  }
  void bulk_load(void* to, const void* from, int bytes, kernels::Mbarrier& barrier,
                 Where where = Where::current()) const {
    touch(barrier);
    block().bulk().load(block(), to, from, bytes, barrier, where);
  }
  void bulk_store(void* to, const void* from, int bytes, Where where = Where::current()) const {
    block().bulk().store(block(), to, from, bytes, where);
  }
  void bulk_commit() const { block().bulk().commit(thread()); }
  template <int left>
  void bulk_wait_read() const {
    block().bulk().wait(block(), thread(), left, false);
  }
  template <int left>
  void bulk_wait() const {
    block().bulk().wait(block(), thread(), left, true);
  }
  void fence_async() const { block().bulk().fence(block()); }

 private:
  static Block& block() { return Block::active(); }

  template <class T>
  struct Parcel {
    T value;
    int from;
  };
  template <class T>
  static T exchange(T value, int from, Lanes lanes, Exchange kind, Where where) {
    static_assert(sizeof(T) <= 8, "a shuffle moves one or two registers");
    if (from < 0 || from > 31 || (lanes >> from & 1U) == 0) {
      block().fail(where, "takes from lane " + std::to_string(from) + ", which is not among those called (" +
                              hex(lanes) + ")");
    }
    const auto deliver = [lanes](Parcel<T>* all) {
      T values[32];
      for (int lane = 0; lane < 32; ++lane)
        if ((lanes >> lane & 1U) != 0) values[lane] = all[lane].value;
      for (int lane = 0; lane < 32; ++lane)
        if ((lanes >> lane & 1U) != 0) all[lane].value = values[all[lane].from];
    };
    return block().meet(lanes, kind, Parcel<T>{value, from}, where, deliver).value;
  }
  static MatrixPlaces matrices(const void* row, Exchange kind, Where where) {
    const auto place = [kind, where](MatrixPlaces* all) {
      place_matrices(block(), all, kind == Exchange::transposed, where);
    };
    return block().meet(kernels::full_warp, kind, MatrixPlaces{{static_cast<const char*>(row)}}, where, place);
  }
  static void before_atomic(void* at) {
    block().give_way();
    block().fences().before_atomic(at);
  }
  /// An mbarrier's own word, with which ThreadSanitizer detects a thread that uses an mbarrier without a barrier after
  /// another thread's initialisation.
  static void touch(kernels::Mbarrier& barrier) { (void)__atomic_load_n(&barrier.state, __ATOMIC_RELAXED); }
};

} // namespace sluice::emulate
