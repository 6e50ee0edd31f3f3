// SPDX-License-Identifier: Apache-2.0
// Bulk: the bulk copies of a block and the mbarriers that they arrive at. What they see of shared memory is not what
// threads see: they go through the async proxy.
#pragma once

#include "emulate/report.hpp"
#include "emulate/sanitizers.hpp"
#include "kernels/cta.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::emulate {

class Block;

/// A bulk load lands at a drawn moment, or when nobody else can run. A bulk store reads at a drawn moment until
/// `bulk_wait_read`, writes at one until `bulk_wait`. Both are other threads to ThreadSanitizer.
///
/// The async proxy has a copy of shared memory, of the last `fence_async()` of any thread: a bulk store whose bytes are
/// not what the threads see is an error. Under ThreadSanitizer it is exact, thread by thread: a store knows what
/// writers have fenced before the barriers that its thread has passed.
class Bulk {
 public:
  void init(Block& block, kernels::Mbarrier& barrier, int arrivals, Where where);
  void fence_init(int thread);
  void expect(Block& block, kernels::Mbarrier& barrier, int bytes, Where where);
  /// What a waiting thread has to take, or null if phase `parity` has not completed.
  Order* passed(Block& block, kernels::Mbarrier& barrier, int parity, Where where);
  void load(Block& block, void* to, const void* from, int bytes, kernels::Mbarrier& barrier, Where where);
  void store(Block& block, void* to, const void* from, int bytes, Where where);
  void commit(int thread);
  /// Until at most `left` of the thread's groups still read, or (`whole`) write.
  void wait(Block& block, int thread, int left, bool whole);
  /// What the calling thread wrote so far is there for the async proxy.
  void fence(Block& block);

  [[nodiscard]] bool under_way() const { return under_way_ != 0; }
  [[nodiscard]] bool fenced() const { return watched_for_races && fenced_; }
  /// One of those under way lands, reads or writes.
  void land_one(Block& block);
  /// The block ends, with it all that is under way; who acquires `ended` knows of it.
  void drain(Block& block, void* ended);
  /// What the phase that somebody waits for lacks.
  [[nodiscard]] std::string missing(const kernels::Mbarrier& barrier) const;
  /// A thread ends: its stores must have read, for shared memory ends with the block.
  void check_thread(Block& block, int thread);
  /// What is wrong with the barriers at the end of the block, or nothing.
  [[nodiscard]] std::string left_over() const;
  /// For another block.
  void restart();

 private:
  struct Barrier {
    int arrivals = 0, missing = 0; // of each phase; of this one
    std::int64_t bytes = 0;        // that this phase still waits for
    unsigned phase = 0;
    int made_by = 0;
    bool fenced = false;
    Where made;
    Order completed[2]; // by parity
  };
  enum class Step : std::uint8_t { open, committed, read, done };
  struct Copy {
    bool load = false;
    Step step = Step::open;
    int thread = 0;
    unsigned group = 0;
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
    kernels::Mbarrier* barrier = nullptr;
    Where where;
    std::vector<char> between; // of a store that has read and not written
    ShadowThread engine;
    Order read, written;
  };

  Barrier& known(Block& block, kernels::Mbarrier& barrier, Where where);
  void advance(Block& block, Copy& copy);
  void land(Block& block, Copy& copy);
  void complete(Block& block, Barrier& barrier);
  void see(Block& block);
  void watch(Block& block);
  void check_seen(Block& block, const char* from, std::size_t bytes, Where where);

  std::map<const kernels::Mbarrier*, Barrier> barriers_;
  std::vector<std::unique_ptr<Copy>> copies_;
  std::vector<unsigned> groups_; // that each thread has committed
  std::vector<char> seen_;       // shared memory, as the async proxy sees it
  std::size_t under_way_ = 0;    // copies that may land, read or write
  bool fenced_ = false;
};

} // namespace sluice::emulate
