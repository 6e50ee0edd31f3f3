// SPDX-License-Identifier: Apache-2.0
// Inbox: what many threads ask of one engine thread.
#pragma once

#include "sluice/backend/doorbell.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace sluice {

/// Unbounded: a gate bounds the queue, where it can answer with a reason.
template <class Message>
class Inbox {
 public:
  /// From any thread.
  void push(Message message) {
    {
      const std::lock_guard lock{mutex_};
      messages_.push_back(std::move(message));
    }
    bell_.ring();
  }
  /// All there is, in the order that it came; swaps rather than copies. Never waits.
  void take(std::vector<Message>& into) {
    into.clear();
    const std::lock_guard lock{mutex_};
    into.swap(messages_);
  }
  /// Rings when a message comes.
  [[nodiscard]] Doorbell& bell() { return bell_; }

 private:
  std::mutex mutex_;
  Doorbell bell_;
  std::vector<Message> messages_;
};

} // namespace sluice
