// SPDX-License-Identifier: Apache-2.0
// Fences: how __threadfence and relaxed atomics together order what neither does alone.
#pragma once

#include "emulate/sanitizers.hpp"

#include <vector>

namespace sluice::emulate {

/// One thread's fences, for ThreadSanitizer, which knows none: an atomic carries what its thread knew at its last
/// fence, and who saw the atomic's word knows that after a fence of its own (PTX ISA 9.0, 8.8.4, release and acquire
/// patterns). A fence without an atomic, an atomic without a fence, or a write between the two, orders nothing.
class Fences {
 public:
  void fence() {
    if (!watched_for_races) return;
    const Quiet quiet;
    for (void* const word : seen_) acquire(word);
    seen_.clear();
    known_.start();
  }
  /// Before an atomic operation on `word`, which reads and writes.
  void before_atomic(void* word) {
    if (!watched_for_races) return;
    const Quiet quiet;
    if (known_.started()) known_.give(word);
    if (seen_.empty() || seen_.back() != word) seen_.push_back(word);
  }
  /// For another block's thread.
  void restart() {
    seen_.clear();
    known_.stop();
  }

 private:
  ShadowThread known_; // what the thread knew at its last fence
  std::vector<void*> seen_;
};

} // namespace sluice::emulate
