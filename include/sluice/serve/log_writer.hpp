// SPDX-License-Identifier: Apache-2.0
// LogWriter: writes lines to a file or a pipe on its own thread, so that no reader can block the caller.
#pragma once

#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/wall_time.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

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
                     std::chrono::milliseconds last_wait = std::chrono::seconds{1})
      : state_(std::make_shared<State>(descriptor, room)),
        last_wait_(last_wait),
        thread_([state = state_] { state->run(); }) {}
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  /// A thread whose write never returns is detached: it owns the state, and ends with the process.
  ~LogWriter() {
    if (state_->close(last_wait_))
      thread_.join();
    else
      thread_.detach();
  }

  /// Queues one line, without its line end. Never waits for the reader. May be called from any thread.
  void add(std::string_view line) { state_->add(line); }
  /// Returns the number of lines dropped so far. May be called from any thread.
  [[nodiscard]] std::int64_t dropped() const { return state_->dropped(); }

 private:
  class State {
   public:
    State(int descriptor, std::size_t room) : descriptor_(descriptor), room_(room) {}

    void add(std::string_view line) {
      {
        const std::lock_guard lock{mutex_};
        if (unwritten_ + line.size() + 1 > room_) {
          ++dropped_;
          return;
        }
        queued_.append(line).push_back('\n');
        unwritten_ += line.size() + 1;
      }
      changed_.notify_all();
    }
    std::int64_t dropped() {
      const std::lock_guard lock{mutex_};
      return dropped_;
    }
    /// Closes the queue; returns whether the thread has written everything within `wait`.
    bool close(std::chrono::milliseconds wait) {
      std::unique_lock lock{mutex_};
      closing_ = true;
      changed_.notify_all();
      return changed_.wait_for(lock, wait, [&] { return ended_; });
    }

    void run() {
      sigset_t all; // a pipe without a reader must not end the program: SIGPIPE goes to the thread that writes
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
      std::unique_lock lock{mutex_};
      for (;;) {
        changed_.wait(lock, [&] { return closing_ || !queued_.empty(); });
        if (queued_.empty()) break;
        const std::string batch = std::exchange(queued_, {});
        lock.unlock();
        const std::int64_t lost = write(batch);
        lock.lock();
        unwritten_ -= batch.size();
        dropped_ += lost;
        if (lost > 0 || dropped_ == told_) continue;
        const std::string missing = line_of(dropped_ - told_);
        const std::int64_t told = dropped_;
        lock.unlock();
        const bool written = write(missing) == 0;
        lock.lock();
        if (written) told_ = told;
      }
      ended_ = true;
      changed_.notify_all();
    }

   private:
    [[nodiscard]] static std::string line_of(std::int64_t lines) {
      std::string line;
      JsonWriter(line)
          .begin_object()
          .key("event")
          .value("log_lines_dropped")
          .key("time")
          .value(iso_time(wall_ms()))
          .key("lines")
          .value(lines)
          .end_object();
      line += '\n';
      return line;
    }
    /// Writes whole lines; returns how many of them were not written.
    std::int64_t write(std::string_view lines) {
      if (torn_) torn_ = write_all("\n") > 0; // the end of a line that was written in part
      const std::size_t left = torn_ ? lines.size() : write_all(lines);
      const std::string_view rest = lines.substr(lines.size() - left);
      torn_ = torn_ || (left > 0 && left < lines.size() && lines[lines.size() - left - 1] != '\n');
      return std::count(rest.begin(), rest.end(), '\n');
    }
    /// Returns how many bytes the descriptor refused.
    std::size_t write_all(std::string_view bytes) {
      while (!bytes.empty()) {
        const ssize_t wrote = ::write(descriptor_, bytes.data(), bytes.size());
        if (wrote > 0) {
          bytes.remove_prefix(static_cast<std::size_t>(wrote));
        } else if (wrote < 0 && errno == EAGAIN) { // another program made the descriptor non-blocking
          pollfd ready{descriptor_, POLLOUT, 0};
          (void)::poll(&ready, 1, -1);
        } else if (wrote == 0 || errno != EINTR) {
          break;
        }
      }
      return bytes.size();
    }

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
