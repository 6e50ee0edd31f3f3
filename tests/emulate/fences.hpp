// SPDX-License-Identifier: Apache-2.0
// Fences: how __threadfence and relaxed atomics together order what neither orders without the other.
#pragma once

#include "emulate/sanitizers.hpp"

#include <vector>

namespace sluice::emulate {

/// One thread's fences, because ThreadSanitizer models none: an atomic carries what its thread knew at its last fence,
/// and a thread that reads the atomic's word acquires that with a fence of its own (PTX ISA 9.0, 8.8.4, release and
/// acquire patterns). A fence without an atomic, an atomic without a fence, or a write between the two orders nothing.
class Fences {
 public:
  void fence() {
    if (!watched_for_races) return;
    const Quiet quiet;
    for (void* const word : seen_) acquire(word);
    seen_.clear();
    known_.start();
  }
  /// Call before a read-modify-write atomic operation on `word`.
  void before_atomic(void* word) {
    if (!watched_for_races) return;
    const Quiet quiet;
    if (known_.started()) known_.give(word);
    if (seen_.empty() || seen_.back() != word) seen_.push_back(word);
  }
  /// Resets for a thread of another block.
  void restart() {
    seen_.clear();
    known_.stop();
  }

 private:
  ShadowThread known_; // what the thread knew at its last fence
  std::vector<void*> seen_;
};

} // namespace sluice::emulate
