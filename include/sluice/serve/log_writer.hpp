// SPDX-License-Identifier: Apache-2.0
// LogWriter: writes lines to a file or a pipe on its own thread, so that no reader can block the caller.
#pragma once

#include "sluice/core/compiled.hpp"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace sluice {

/// Lines wait in a bounded queue. A line that does not fit is dropped and counted, and so is a line that the descriptor
/// refuses (because its reader has exited or the disk is full). When a write succeeds again, the log reports the number
/// of missing lines: `{"event":"log_lines_dropped","time":…,"lines":12}`.
///
/// Rejected: a non-blocking descriptor. The flag belongs to the open file, which the shell and other programs share.
class LogWriter {
 public:
  /// Most bytes of waiting lines.
  static constexpr std::size_t default_room = std::size_t{1} << 20;

  /// `descriptor` must stay open until the process ends. `last_wait`: how long the destructor waits until the queue is
  /// written.
  explicit LogWriter(int descriptor, std::size_t room = default_room,
                     std::chrono::milliseconds last_wait = std::chrono::seconds{1});
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  /// A thread whose write never returns is detached: it owns the state, and ends with the process.
  ~LogWriter();

  /// Queues one line, without its line end. Never waits for the reader. May be called from any thread.
  void add(std::string_view line) { state_->add(line); }
  /// Returns the number of lines dropped so far. May be called from any thread.
  [[nodiscard]] std::int64_t dropped() const { return state_->dropped(); }

 private:
  class State {
   public:
    State(int descriptor, std::size_t room) : descriptor_(descriptor), room_(room) {}

    void add(std::string_view line);
    std::int64_t dropped();
    /// Closes the queue; returns whether the thread has written everything within `wait`.
    bool close(std::chrono::milliseconds wait);

    void run();

   private:
    [[nodiscard]] static std::string line_of(std::int64_t lines);
    /// Writes whole lines; returns how many of them were not written.
    std::int64_t write(std::string_view lines);
    /// Returns how many bytes the descriptor refused.
    std::size_t write_all(std::string_view bytes);

    const int descriptor_;
    const std::size_t room_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string queued_;        ///< whole lines
    std::size_t unwritten_ = 0; ///< bytes that are queued or being written
    std::int64_t dropped_ = 0;  ///< lines
    std::int64_t told_ = 0;     ///< dropped lines that the log has reported
    bool closing_ = false, ended_ = false;
    bool torn_ = false; ///< used by the thread: the last write ended within a line
  };

  std::shared_ptr<State> state_;
  std::chrono::milliseconds last_wait_;
  std::thread thread_;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/log_writer.inl.hpp"
#endif
