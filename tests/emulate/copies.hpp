// SPDX-License-Identifier: Apache-2.0
// Copies: one thread's cp.async copies that it has not waited for.
#pragma once

#include "emulate/report.hpp"
#include "emulate/sanitizers.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace sluice::emulate {

/// A thread's copies, in groups. A copy lands when the thread waits for its group or at a drawn moment before; until
/// then its target holds 0xff, which is a NaN. For ThreadSanitizer another thread performs it: that thread knows what
/// this one knew at the commit, and this one knows its work after the wait.
class Copies {
 public:
  void issue(void* to, const void* from, bool wanted, Where where) {
    std::memset(to, 0xff, 16); // in the thread's own name: reading the target early is a race
#if EMULATE_ASAN
    char seen[16]; // a source out of bounds is reported at the line that requests the copy
    if (wanted) std::memcpy(seen, from, 16);
    asm volatile("" : : "r"(seen) : "memory");
#endif
    const Quiet quiet;
    copies_.push_back({to, from, wanted, group_, where});
  }
  void commit() {
    const Quiet quiet;
    const std::size_t before = ends_.empty() ? landed_ : ends_.back();
    ends_.push_back(copies_.size());
    ++group_;
    if (!watched_for_races || before == copies_.size()) return;
    if (!engine_.started()) {
      engine_.start();
      order_ = std::make_unique<Order>();
    }
    release(&order_->issued);
    engine_.take(&order_->issued);
  }
  void wait(std::size_t left) {
    const Quiet quiet;
    if (ends_.size() - waited_ <= left) return;
    waited_ = ends_.size() - left;
    const std::size_t end = ends_[waited_ - 1];
    while (landed_ < end) land_one();
    if (watched_for_races && end > 0) acquire(&order_->arrived[copies_[end - 1].group % groups_known]);
    if (waited_ == ends_.size() && landed_ == copies_.size()) clear();
  }
  /// Whether a committed copy has not landed.
  [[nodiscard]] EMULATE_UNSEEN bool under_way() const { return landed_ < copies_.size() && !ends_.empty(); }
  /// Lands the next copy, if its group was committed.
  void land_one() {
    if (landed_ >= ends_.back()) return;
    const Copy one = copies_[landed_];
    if (one.wanted)
      engine_.copy(one.to, one.from, 16);
    else
      engine_.fill(one.to, 0, 16);
    ++landed_;
    const bool last = landed_ == copies_.size() || copies_[landed_].group != one.group;
    if (watched_for_races && last) engine_.give(&order_->arrived[one.group % groups_known]);
  }
  /// The line that requested a copy for which no thread waited, or null.
  [[nodiscard]] const Where* unwaited() const {
    const std::size_t waited = waited_ == 0 ? 0 : ends_[waited_ - 1];
    return waited < copies_.size() ? &copies_[waited].where : nullptr;
  }
  /// Resets for a thread of another block.
  void restart() {
    clear();
    engine_.stop();
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    bool wanted;
    unsigned group;
    Where where;
  };
  void clear() {
    copies_.clear();
    ends_.clear();
    landed_ = waited_ = 0;
  }

  // ThreadSanitizer's order, by group: with more groups than these under way, two share an entry.
  static constexpr unsigned groups_known = 16;
  struct Order {
    char issued = 0;
    char arrived[groups_known] = {};
  };

  std::vector<Copy> copies_;      // in the order in which they were requested, and land
  std::vector<std::size_t> ends_; // of the groups committed, in `copies_`
  std::size_t landed_ = 0;        // copies
  std::size_t waited_ = 0;        // groups
  unsigned group_ = 0;
  ShadowThread engine_;
  std::unique_ptr<Order> order_;
};

} // namespace sluice::emulate
