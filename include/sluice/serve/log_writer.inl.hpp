// SPDX-License-Identifier: Apache-2.0
// LogWriter: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/log_writer.hpp"
#include "sluice/serve/wall_time.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace sluice {

SLUICE_SERVER_INLINE LogWriter::LogWriter(int descriptor, std::size_t room, std::chrono::milliseconds last_wait)
    : state_(std::make_shared<State>(descriptor, room)),
      last_wait_(last_wait),
      thread_([state = state_] { state->run(); }) {}

SLUICE_SERVER_INLINE LogWriter::~LogWriter() {
  if (state_->close(last_wait_))
    thread_.join();
  else
    thread_.detach();
}

SLUICE_SERVER_INLINE void LogWriter::State::add(std::string_view line) {
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

SLUICE_SERVER_INLINE std::int64_t LogWriter::State::dropped() {
  const std::lock_guard lock{mutex_};
  return dropped_;
}

SLUICE_SERVER_INLINE bool LogWriter::State::close(std::chrono::milliseconds wait) {
  std::unique_lock lock{mutex_};
  closing_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, wait, [&] { return ended_; });
}

SLUICE_SERVER_INLINE void LogWriter::State::run() {
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

SLUICE_SERVER_INLINE std::string LogWriter::State::line_of(std::int64_t lines) {
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

SLUICE_SERVER_INLINE std::int64_t LogWriter::State::write(std::string_view lines) {
  if (torn_) torn_ = write_all("\n") > 0; // the end of a line that was written in part
  const std::size_t left = torn_ ? lines.size() : write_all(lines);
  const std::string_view rest = lines.substr(lines.size() - left);
  torn_ = torn_ || (left > 0 && left < lines.size() && lines[lines.size() - left - 1] != '\n');
  return std::count(rest.begin(), rest.end(), '\n');
}

SLUICE_SERVER_INLINE std::size_t LogWriter::State::write_all(std::string_view bytes) {
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

} // namespace sluice
