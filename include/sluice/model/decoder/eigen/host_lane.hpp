// SPDX-License-Identifier: Apache-2.0
// HostLane: a thread that attends some rows of a layer over K and V in the host's memory (NEO).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/stopwatch.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/thread_pool.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace sluice {

/// Attends rows that have one token each, on one thread of its own, while the thread that called `begin` computes
/// something else. Queries and results lie in buffers of the lane, as a host's would: `begin` copies queries from the
/// device's rows, `end` copies results to them. One batch at a time: `begin`, then `end`.
///
/// `Attention` computes it as on the device, with the same bits: its results do not depend on threads or rows.
///
/// Rejected: the decoder's thread pool. Its jobs end before the next one begins, and the point of the lane is that the
/// device's matrix products and attention go on meanwhile.
template <class Attention>
class HostLane {
 public:
  /// Throws std::thread's error if the system starts no more threads.
  HostLane(const ModelShape& shape, Tokens block_tokens)
      : width_(std::int64_t{shape.heads} * shape.kv_width()),
        attention_(shape, block_tokens, 1),
        thread_([this] { work(); }) {}
  HostLane(const HostLane&) = delete;
  HostLane& operator=(const HostLane&) = delete;
  /// Waits for the batch, if one has begun: its blocks must exist until then.
  ~HostLane() {
    change(State::stopped);
    thread_.join();
  }

  /// Takes the queries of the rows of these sequences, one each, and begins to attend them, to `window` tokens (0:
  /// all). `query`: the device's rows, `stride` floats apart. K and V of the rows are in the sequences' blocks.
  void begin(std::span<const SequenceRows> sequences, int window, const float* query, std::int64_t stride) {
    SLUICE_ASSERT(state_.load(std::memory_order_relaxed) == State::idle, "one batch at a time");
    begun_ = {};
    window_ = window;
    rows_.clear();
    sequences_.clear();
    room_.resize(std::max(room_.size(), 2 * sequences.size() * static_cast<std::size_t>(width_)));
    for (const SequenceRows& sequence : sequences) {
      SLUICE_ASSERT(sequence.rows == 1, "the host attends single tokens");
      const auto row = static_cast<std::int64_t>(rows_.size());
      std::copy_n(query + sequence.first_row * stride, width_, room_.data() + row * width_);
      rows_.push_back(sequence.first_row);
      sequences_.push_back(sequence);
      sequences_.back().first_row = static_cast<int>(row);
    }
    change(State::attends);
  }
  /// Waits until the batch has been attended, and copies the results to the device's rows.
  HostLaneTimes end(float* attended, std::int64_t stride) {
    const Stopwatch waiting;
    await([](State state) { return state == State::done; });
    const Seconds waited = waiting.elapsed();
    const float* result = results();
    for (const int row : rows_) {
      std::copy_n(result, width_, attended + row * stride);
      result += width_;
    }
    state_.store(State::idle, std::memory_order_relaxed); // the lane's thread looks for `attends` alone
    return {begun_.elapsed(), waited};
  }

 private:
  enum class State : std::uint8_t { idle, attends, done, stopped };
  static constexpr int spin_limit = 512; // some 30 us: a layer's attention is often shorter than waking a thread

  [[nodiscard]] float* results() { return room_.data() + static_cast<std::int64_t>(rows_.size()) * width_; }

  void change(State to) {
    {
      const std::lock_guard lock{mutex_};
      state_.store(to, std::memory_order_release);
    }
    changed_.notify_all();
  }
  /// Not if the lane is being destroyed, which would never be seen otherwise.
  void finish() {
    {
      const std::lock_guard lock{mutex_};
      State attends = State::attends;
      state_.compare_exchange_strong(attends, State::done, std::memory_order_release, std::memory_order_relaxed);
    }
    changed_.notify_all();
  }
  /// Spins for a while, then sleeps, until `reached(state)`; returns that state.
  template <class Reached>
  State await(const Reached& reached) {
    for (int spins = 0; spins < spin_limit; ++spins) {
      if (const State state = state_.load(std::memory_order_acquire); reached(state)) return state;
      ThreadPool::relax();
    }
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return reached(state_.load(std::memory_order_relaxed)); });
    return state_.load(std::memory_order_relaxed);
  }
  void work() {
    ThreadPool caller{1}; // attention runs on this thread
    while (await([](State state) { return state == State::attends || state == State::stopped; }) != State::stopped) {
      attention_.run(caller, sequences_, static_cast<int>(rows_.size()), window_, room_.data(), results(), width_);
      finish();
    }
  }

  std::int64_t width_; ///< floats of a row's queries and, at most, of its results
  Attention attention_;
  std::vector<SequenceRows> sequences_; ///< of the batch; row i is the lane's row i
  std::vector<int> rows_;               ///< by the lane's row: the device's
  std::vector<float> room_;             ///< the batch's queries, then its results
  int window_ = 0;                      ///< of the batch's layer
  Stopwatch begun_;                     ///< the batch
  std::atomic<State> state_{State::idle};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_; ///< last: it uses all others
};

} // namespace sluice
