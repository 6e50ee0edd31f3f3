// SPDX-License-Identifier: Apache-2.0
// RecordStore on this machine's files: a process that is killed at any step leaves nothing wrong, and loses nothing
// that it had acknowledged.
#include "sluice/records/posix_files.hpp"

#include "records/disk_model.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice_test;

namespace {

std::unique_ptr<RecordStore> open_here(const std::string& folder, std::unique_ptr<FileLayer> files = nullptr) {
  if (files == nullptr) {
    auto opened = PosixFiles::open(folder);
    REQUIRE(opened);
    files = *std::move(opened);
  }
  auto store = RecordStore::open(std::move(files), {plenty, 7, crc32c_by_bit, {}});
  REQUIRE(store);
  return *std::move(store);
}

/// Real files of a process that is killed at step `kill_at`: before a call, or in the middle of a write.
class KilledFiles final : public FileLayer {
 public:
  KilledFiles(std::unique_ptr<FileLayer> files, std::string folder, int kill_at)
      : files_(std::move(files)), folder_(std::move(folder)), kill_at_(kill_at) {}

  int list(std::vector<Entry>& into) override { return step(), files_->list(into); }
  int write(const std::string& name, std::span<const std::span<const std::byte>> parts) override {
    step();
    for (std::size_t whole = 0; whole <= parts.size(); ++whole) // so many parts are written, but not synced
      if (steps_++ == kill_at_) {
        std::ofstream file(folder_ + "/" + name, std::ios::binary);
        for (const std::span<const std::byte> part : parts.first(whole))
          file.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
        file.close();
        kill_now();
      }
    return files_->write(name, parts);
  }
  int rename(const std::string& from, const std::string& to) override { return step(), files_->rename(from, to); }
  int sync_folder() override { return step(), files_->sync_folder(); }
  int read(const std::string& name, std::vector<std::byte>& into) override { return step(), files_->read(name, into); }
  int remove(const std::string& name) override { return step(), files_->remove(name); }
  int touch(const std::string& name) override { return step(), files_->touch(name); }

 private:
  void step() {
    if (steps_++ == kill_at_) kill_now();
  }
  [[noreturn]] static void kill_now() {
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }

  std::unique_ptr<FileLayer> files_;
  std::string folder_;
  int kill_at_, steps_ = 0;
};

/// Runs a process that writes two groups of records, and is killed at step `kill_at`. Returns the acknowledged numbers.
std::vector<std::uint64_t> run_killed(const std::string& folder, std::uint64_t first, int kill_at, bool& killed) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto files = PosixFiles::open(folder);
    if (!files) ::_exit(2);
    auto store = RecordStore::open(std::make_unique<KilledFiles>(*std::move(files), folder, kill_at),
                                   {plenty, 7, crc32c_by_bit, {}});
    if (!store) ::_exit(2);
    for (const std::vector<std::uint64_t>& group : {std::vector{first, first + 1}, std::vector{first + 2}})
      if (const std::size_t done = put(**store, group); done > 0)
        if (::write(pipe[1], group.data(), done * sizeof(std::uint64_t)) < 0) ::_exit(2);
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::vector<std::uint64_t> acknowledged;
  for (std::uint64_t number = 0; ::read(pipe[0], &number, sizeof number) == sizeof number;)
    acknowledged.push_back(number);
  ::close(pipe[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  killed = WIFSIGNALED(status);
  REQUIRE((killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));
  return acknowledged;
}

} // namespace

TEST_CASE("killed 1,000 times, at every step in turn: nothing wrong, nothing acknowledged lost") {
  TemporaryFolder folder;
  std::vector<std::uint64_t> acknowledged;
  std::uint64_t next = 1;
  int kills = 0, rounds = 0;
  for (int at = 0; kills < 1'000; ++at, ++rounds) {
    bool killed = false;
    const std::vector<std::uint64_t> more = run_killed(folder.path, next, at, killed);
    kills += killed ? 1 : 0;
    if (!killed) at = -1; // past the last step: from the first one again
    acknowledged.insert(acknowledged.end(), more.begin(), more.end());
    if (killed && rounds % 20 != 0) { // every run reopens the folder; its last records are read now and then
      next += 3;
      continue;
    }
    const auto store = open_here(folder.path);
    for (std::uint64_t number = next; number < next + 3; ++number) CHECK(get(*store, number) != Got::wrong);
    next += 3;
  }
  const auto store = open_here(folder.path);
  std::size_t found = 0;
  for (const std::uint64_t number : acknowledged) found += get(*store, number) == Got::right ? 1U : 0U;
  for (std::uint64_t number = 1; number < next; ++number) CHECK(get(*store, number) != Got::wrong);
  CHECK(store->totals().faults <= 1); // what the last process left unfinished
  MESSAGE(kills << " kills, " << found << " of " << acknowledged.size() << " acknowledged records found");
  CHECK(acknowledged.size() > 300);
  CHECK(found == acknowledged.size());
}

TEST_CASE("records of real files are found after a restart, in the order of their last use") {
  TemporaryFolder folder;
  const std::uint64_t numbers[] = {1, 2, 3};
  {
    const auto store = open_here(folder.path);
    CHECK(put(*store, numbers) == 3);
  }
  const auto store = open_here(folder.path);
  for (const std::uint64_t number : numbers) CHECK(get(*store, number) == Got::right);
  CHECK(store->totals().read == 3);
  CHECK(std::filesystem::exists(folder.path / PosixFiles::lock_name));
}

TEST_CASE("a folder is one process's at a time, and a wrong one is one line") {
  TemporaryFolder folder;
  const std::string made = folder.path / "made";
  {
    const auto one = PosixFiles::open(made);
    REQUIRE(one);
    const auto two = PosixFiles::open(made);
    REQUIRE_FALSE(two);
    CHECK(two.error().line() == made + ": another process uses it; expected a folder for each process");
  }
  CHECK(PosixFiles::open(made));
  const std::string file = folder.path / "file";
  std::ofstream(file) << "no folder";
  CHECK_FALSE(PosixFiles::open(file));
  CHECK_FALSE(PosixFiles::open(folder.path / "missing" / "deep"));
}
