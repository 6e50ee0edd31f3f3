// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/log_writer.hpp"
#include "sluice/serve/wall_time.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

using sluice::iso_time;
using sluice::LogWriter;

namespace {

struct Pipe {
  Pipe() { REQUIRE(::pipe2(ends, O_CLOEXEC) == 0); }
  ~Pipe() {
    close_reader();
    ::close(ends[1]);
  }
  void close_reader() {
    if (ends[0] >= 0) ::close(std::exchange(ends[0], -1));
  }
  std::string next_line() {
    read_until("\n");
    const std::string line = text.substr(0, text.find('\n'));
    text.erase(0, line.size() + 1);
    return line;
  }
  /// Reads until the text contains `mark`.
  void read_until(const std::string& mark) {
    while (text.find(mark) == std::string::npos) {
      char buffer[1 << 14];
      const ssize_t bytes = ::read(ends[0], buffer, sizeof buffer);
      REQUIRE(bytes > 0);
      text.append(buffer, static_cast<std::size_t>(bytes));
    }
  }
  int ends[2];
  std::string text;
};

const std::string line(100, 'x');

/// Adds lines until so many are dropped.
std::int64_t overfill(LogWriter& log, std::int64_t dropped) {
  std::int64_t added = 0;
  for (; log.dropped() < dropped; ++added) log.add(line);
  return added;
}

} // namespace

TEST_CASE("LogWriter never waits for a pipe that nobody reads, and says how many lines were dropped") {
  Pipe pipe;
  LogWriter log(pipe.ends[1], 1 << 12);
  const std::int64_t added = overfill(log, 1000);
  const std::int64_t dropped = log.dropped();
  CHECK(added > dropped);           // the pipe and the queue took the first
  std::int64_t whole = 0, told = 0; // the writer may have reported some before the pipe was full
  while (whole + told < added) {
    const std::string next = pipe.next_line();
    const std::size_t at = next.find("\"lines\":");
    const bool is_line = at == std::string::npos;
    CHECK(next.find(is_line ? line : R"({"event":"log_lines_dropped","time":"2)") == 0);
    whole += is_line ? 1 : 0;
    told += is_line ? 0 : std::atoll(next.c_str() + at + 8);
  }
  CHECK(told == dropped);
  CHECK(log.dropped() == dropped);
}

TEST_CASE("LogWriter outlives its reader: what nobody can read is counted") {
  Pipe pipe;
  LogWriter log(pipe.ends[1]);
  pipe.close_reader();
  CHECK(overfill(log, 10) >= 10); // no SIGPIPE
}

TEST_CASE("LogWriter's end waits for the queue, and not for ever") {
  Pipe pipe;
  {
    LogWriter log(pipe.ends[1], LogWriter::default_room, std::chrono::hours{1});
    log.add("one");
    log.add("two");
  }
  pipe.read_until("two\n");
  CHECK(pipe.text == "one\ntwo\n");
  Pipe blocked;
  {
    LogWriter log(blocked.ends[1], 1 << 12, std::chrono::milliseconds{1});
    overfill(log, 1);
  }
  blocked.read_until("x\n"); // the thread that is left behind writes on until the process ends
}

TEST_CASE("iso_time writes UTC with milliseconds") {
  CHECK(iso_time(0) == "1970-01-01T00:00:00.000Z");
  CHECK(iso_time(1'709'164'799'999) == "2024-02-28T23:59:59.999Z");
  CHECK(iso_time(1'709'164'800'007) == "2024-02-29T00:00:00.007Z");
}
