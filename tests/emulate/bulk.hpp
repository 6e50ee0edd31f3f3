// SPDX-License-Identifier: Apache-2.0
// Bulk: a block's bulk copies and the mbarriers that they arrive at. The copies see shared memory through the async
// proxy, which differs from what threads see.
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

/// A bulk load lands at a drawn moment, or when nothing else can run. A bulk store reads at a drawn moment before
/// `bulk_wait_read` returns, and writes at one before `bulk_wait` returns. Both are separate threads to
/// ThreadSanitizer.
///
/// The async proxy has a copy of shared memory as of any thread's last `fence_async()`: a bulk store whose bytes differ
/// from what the threads see is an error. Under ThreadSanitizer the model is exact for each thread: a store sees what
/// writers have fenced before the barriers that its thread has passed.
class Bulk {
 public:
  void init(Block& block, kernels::Mbarrier& barrier, int arrivals, Where where);
  void fence_init(int thread);
  void expect(Block& block, kernels::Mbarrier& barrier, int bytes, Where where);
  /// What a waiting thread must acquire, or null if phase `parity` has not completed.
  Order* passed(Block& block, kernels::Mbarrier& barrier, int parity, Where where);
  void load(Block& block, void* to, const void* from, int bytes, kernels::Mbarrier& barrier, Where where);
  void store(Block& block, void* to, const void* from, int bytes, Where where);
  void commit(int thread);
  /// Waits until at most `left` of the thread's groups still read, or (`whole`) write.
  void wait(Block& block, int thread, int left, bool whole);
  /// Makes everything that the calling thread wrote so far visible to the async proxy.
  void fence(Block& block);

  [[nodiscard]] bool under_way() const { return under_way_ != 0; }
  [[nodiscard]] bool fenced() const { return watched_for_races && fenced_; }
  /// One of the copies under way lands, reads or writes.
  void land_one(Block& block);
  /// Ends the block and every copy under way; a thread that acquires `ended` sees them.
  void drain(Block& block, void* ended);
  /// What is missing for the phase that some thread waits for.
  [[nodiscard]] std::string missing(const kernels::Mbarrier& barrier) const;
  /// Ends a thread: its stores must have read, because shared memory ends with the block.
  void check_thread(Block& block, int thread);
  /// The barriers' errors at the end of the block; empty without errors.
  [[nodiscard]] std::string left_over() const;
  /// Resets for another block.
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
    std::vector<char> between; // of a store that has read and not yet written
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
  std::vector<char> seen_;       // shared memory as the async proxy sees it
  std::size_t under_way_ = 0;    // copies that may land, read or write
  bool fenced_ = false;
};

} // namespace sluice::emulate
