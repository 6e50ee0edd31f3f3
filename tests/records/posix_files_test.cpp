// SPDX-License-Identifier: Apache-2.0
// RecordStore on this machine's files: a process that is killed at any step leaves nothing wrong, and loses nothing
// that it had acknowledged.
#include "sluice/core/random.hpp"
#include "sluice/records/posix_files.hpp"

#include "records/disk_model.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

// Two system calls of this program, so that tests see which files are synced, and make a lock fail.
namespace posix_files_test {
std::vector<::ino_t> synced; ///< files and folders, in order
int fsync_code = 0, flock_code = 0;
} // namespace posix_files_test
extern "C" int fsync(int file) {
  struct ::stat facts {};
  if (::fstat(file, &facts) == 0) posix_files_test::synced.push_back(facts.st_ino);
  if (posix_files_test::fsync_code == 0) return static_cast<int>(::syscall(SYS_fsync, file));
  errno = posix_files_test::fsync_code;
  return -1;
}
extern "C" int flock(int file, int operation) noexcept {
  if (posix_files_test::flock_code == 0) return static_cast<int>(::syscall(SYS_flock, file, operation));
  errno = posix_files_test::flock_code;
  return -1;
}

namespace {

::ino_t inode(const std::filesystem::path& path) {
  struct ::stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_ino;
}

std::unique_ptr<RecordStore> open_here(const std::string& folder, std::int64_t capacity = plenty,
                                       Crc32c crc = crc32c_by_bit) {
  auto files = PosixFiles::open(folder);
  REQUIRE(files);
  auto store = RecordStore::open(*std::move(files), {capacity, 7, crc, {}});
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
  int read(const std::string& name, std::int64_t bytes, std::int64_t from,
           std::span<const std::span<std::byte>> parts) override {
    return step(), files_->read(name, bytes, from, parts);
  }
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

/// Runs a process that opens a store by `open`, and writes records in groups. Returns the acknowledged numbers.
/// `meanwhile(child, end)`: what this process does until then; it may read numbers from `end`.
template <class Open, class Put, class Meanwhile>
std::vector<std::uint64_t> run_killed(const std::vector<std::vector<std::uint64_t>>& groups, bool& killed,
                                      const Open& open_store, const Put& put_group, const Meanwhile& meanwhile) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::unique_ptr<RecordStore> store = open_store();
    if (store == nullptr) ::_exit(2);
    for (const std::vector<std::uint64_t>& group : groups)
      if (const std::size_t done = put_group(*store, group); done > 0)
        if (::write(pipe[1], group.data(), done * sizeof(std::uint64_t)) < 0) ::_exit(2);
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::vector<std::uint64_t> acknowledged;
  std::uint64_t number = 0;
  const auto next = [&] {
    if (::read(pipe[0], &number, sizeof number) != sizeof number) return false;
    acknowledged.push_back(number);
    return true;
  };
  meanwhile(child, next);
  while (next()) continue;
  ::close(pipe[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  killed = WIFSIGNALED(status);
  REQUIRE((killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));
  return acknowledged;
}
/// At step `kill_at` of two groups of small records.
std::vector<std::uint64_t> run_killed_at(const std::string& folder, std::uint64_t first, int kill_at, bool& killed) {
  const auto open_store = [&]() -> std::unique_ptr<RecordStore> {
    auto files = PosixFiles::open(folder);
    if (!files) return nullptr;
    auto store = RecordStore::open(std::make_unique<KilledFiles>(*std::move(files), folder, kill_at),
                                   {plenty, 7, crc32c_by_bit, {}});
    if (!store) return nullptr;
    return *std::move(store);
  };
  return run_killed(
      {{first, first + 1}, {first + 2}}, killed, open_store,
      [](RecordStore& store, const std::vector<std::uint64_t>& group) { return put(store, group); },
      [](::pid_t /*child*/, const auto& /*next*/) {});
}

/// CRC-32C by bytes, since large records by bits take too long.
std::uint32_t crc32c_by_byte(std::uint32_t before, std::span<const std::byte> bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::byte one[] = {static_cast<std::byte>(byte)};
      made[byte] = ~crc32c_by_bit(0xFFFFFFFFU, one);
    }
    return made;
  }();
  std::uint32_t value = ~before;
  for (const std::byte byte : bytes)
    value = (value >> 8) ^ table[(value ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU];
  return ~value;
}
/// A payload of 20,000 to 80,000 bytes that follows from the record's number.
std::vector<std::byte> large_payload(std::uint64_t number) {
  std::vector<std::byte> bytes(20'000 + static_cast<std::size_t>(number * 7'919 % 60'000));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((number * 37 + i * (i >> 9)) & 0xFFU);
  return bytes;
}
std::size_t put_large(RecordStore& store, const std::vector<std::uint64_t>& group) {
  std::vector<std::vector<std::byte>> payloads;
  for (const std::uint64_t number : group) payloads.push_back(large_payload(number));
  std::vector<std::span<const std::byte>> parts(payloads.begin(), payloads.end());
  std::vector<RecordStore::NewRecord> records;
  for (std::size_t i = 0; i < group.size(); ++i) records.push_back({key_of(group[i]), std::span(parts).subspan(i, 1)});
  return store.put(records);
}
Got get_large(RecordStore& store, std::uint64_t number) {
  std::vector<std::byte> into;
  if (!store.get(key_of(number), into)) return Got::miss;
  return into == large_payload(number) ? Got::right : Got::wrong;
}

} // namespace

TEST_CASE("killed 1,000 times, at every step in turn: nothing wrong, nothing acknowledged lost") {
  TemporaryFolder folder;
  std::vector<std::uint64_t> acknowledged;
  std::uint64_t next = 1;
  int kills = 0, rounds = 0;
  for (int at = 0; kills < 1'000; ++at, ++rounds) {
    bool killed = false;
    const std::vector<std::uint64_t> more = run_killed_at(folder.path, next, at, killed);
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

TEST_CASE("killed 300 times at random moments, in large records: nothing wrong, nothing acknowledged lost") {
  // The moment: after some acknowledgements, and then this process gives up its processor some times. When the child
  // gets on with it is the machine's choice; what must hold is not.
  Random random(18);
  int kills = 0;
  std::size_t all = 0, least = 0, found = 0, unfinished = 0;
  for (int rounds = 0; rounds < 15; ++rounds) {
    TemporaryFolder folder;
    std::vector<std::uint64_t> acknowledged;
    std::uint64_t next = 1;
    const auto open_store = [&]() -> std::unique_ptr<RecordStore> {
      auto files = PosixFiles::open(folder.path);
      if (!files) return nullptr;
      auto store = RecordStore::open(*std::move(files), {plenty, 7, crc32c_by_byte, {}});
      if (!store) return nullptr;
      return *std::move(store);
    };
    for (int run = 0; run < 20; ++run) {
      std::vector<std::vector<std::uint64_t>> groups; // the child is killed long before, or when it has none left
      for (int group = 0; group < 12; ++group, next += 2) groups.push_back({next, next + 1});
      groups.push_back({});
      const std::uint64_t awaited = random.below(6), yields = random.below(std::uint64_t{1} << random.below(12));
      bool killed = false;
      const auto put_or_wait = [](RecordStore& store, const std::vector<std::uint64_t>& group) {
        while (group.empty()) ::pause();
        return put_large(store, group);
      };
      const auto kill = [&](::pid_t child, const auto& next_acknowledged) {
        for (std::uint64_t i = 0; i < awaited; ++i) REQUIRE(next_acknowledged());
        for (std::uint64_t i = 0; i < yields; ++i) ::sched_yield();
        REQUIRE(::kill(child, SIGKILL) == 0);
      };
      const std::vector<std::uint64_t> more = run_killed(groups, killed, open_store, put_or_wait, kill);
      REQUIRE(killed);
      ++kills;
      least += awaited;
      acknowledged.insert(acknowledged.end(), more.begin(), more.end());
      for (const auto& file : std::filesystem::directory_iterator(folder.path))
        unfinished += file.path().extension() == ".new" ? 1U : 0U;
    }
    all += acknowledged.size();
    const auto store = open_here(folder.path, plenty, crc32c_by_byte);
    const std::int64_t swept = store->totals().faults; // what the last process left unfinished
    CHECK(swept <= 1);
    for (const std::uint64_t number : acknowledged) found += get_large(*store, number) == Got::right ? 1U : 0U;
    for (std::uint64_t number = 1; number < next; ++number) CHECK(get_large(*store, number) != Got::wrong);
    CHECK(store->totals().faults == swept); // every file with a record's name is whole
  }
  MESSAGE(kills << " kills, " << unfinished << " in the middle of a file, " << found << " of " << all
                << " acknowledged records found");
  CHECK(kills == 300);
  CHECK(all >= least);
  CHECK(found == all);
}

TEST_CASE("the checksum by bytes is the one by bits") {
  const std::vector<std::byte> bytes = large_payload(1);
  CHECK(crc32c_by_byte(5, bytes) == crc32c_by_bit(5, bytes));
}

TEST_CASE("records of real files leave in the order of their last use, also after a restart") {
  // Written and read in less than a tick of the file system's clock, in orders that neither names nor numbers have.
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; number < 20; ++number) numbers.push_back(7 * number); // of one length
  const std::int64_t each = file_bytes_of(0);
  Random random(19);
  for (int round = 0; round < 10; ++round) {
    TemporaryFolder folder;
    std::vector<std::uint64_t> order = numbers;
    const auto shuffle = [&random](std::span<std::uint64_t> part) {
      for (std::size_t i = part.size(); i > 1; --i) std::swap(part[i - 1], part[random.below(i)]);
    };
    shuffle(order);
    CHECK(put(*open_here(folder.path), order) == order.size());
    if (round >= 5) { // half of them are used again, by another process
      const auto store = open_here(folder.path);
      std::rotate(order.begin(), order.begin() + 10, order.end());
      shuffle(std::span(order).subspan(10));
      for (std::size_t i = 10; i < order.size(); ++i) CHECK(get(*store, order[i]) == Got::right);
    }
    for (std::size_t left = order.size(); left > 0; --left) {
      const auto store = open_here(folder.path, each * static_cast<std::int64_t>(left));
      CHECK(store->totals().records == static_cast<std::int64_t>(left));
      for (std::size_t i = 0; i < order.size(); ++i) CHECK(store->has(key_of(order[i])) == (i + left >= order.size()));
    }
  }
}

TEST_CASE("the order survives a clock that is behind the files' times, and times that no clock has") {
  TemporaryFolder folder;
  const std::uint64_t numbers[] = {7, 14, 0};
  CHECK(put(*open_here(folder.path), numbers) == 3);
  const std::string newest = folder.path / record_name({7, key_of(0)});
  for (const std::int64_t second : {std::int64_t{4'000'000'000}, std::int64_t{15'000'000'000}}) {
    const ::timespec times[] = {{second, 5}, {second, 5}};
    REQUIRE(::utimensat(AT_FDCWD, newest.c_str(), times, 0) == 0);
    CHECK(get(*open_here(folder.path), 7) == Got::right); // now the newest
  }
  const std::uint64_t more[] = {21};
  CHECK(put(*open_here(folder.path), more) == 1); // newer than that
  const auto store = open_here(folder.path, file_bytes_of(21));
  CHECK(store->has(key_of(21)));
  CHECK(store->totals().records == 1);
}

TEST_CASE("a file whose size a damaged disk made 1 TB is a miss, and costs no other record") {
  const std::uint64_t numbers[] = {1, 2};
  for (const std::int64_t capacity : {plenty, std::int64_t{1} << 42}) {
    INFO("capacity " << capacity);
    TemporaryFolder folder;
    CHECK(put(*open_here(folder.path), numbers) == 2);
    const std::filesystem::path file = folder.path / record_name({7, key_of(2)});
    const auto grow = [&file] { return ::truncate(file.c_str(), ::off_t{1} << 40); };
    REQUIRE(grow() == 0); // sparse
    {
      const auto store = open_here(folder.path, capacity);
      CHECK(get(*store, 1) == Got::right);
      CHECK(get(*store, 2) == Got::miss);
      CHECK(store->totals().faults == 1);
      CHECK_FALSE(std::filesystem::exists(file));
      CHECK(put(*store, numbers) == 2);
      REQUIRE(grow() == 0); // while the store runs
      CHECK(get(*store, 2) == Got::miss);
      CHECK(store->totals().faults == 2);
    }
    CHECK_FALSE(std::filesystem::exists(file));
  }
}

TEST_CASE("a new folder, a record and its name are synced") {
  using posix_files_test::synced;
  TemporaryFolder folder;
  const std::filesystem::path made = folder.path / "made";
  synced.clear();
  const auto store = open_here(made.string() + "/");
  CHECK(synced == std::vector{inode(folder.path)});
  synced.clear();
  const std::uint64_t number[] = {1};
  CHECK(put(*store, number) == 1);
  CHECK(synced == std::vector{inode(made / record_name({7, key_of(1)})), inode(made)});
}

TEST_CASE("a new folder whose name cannot be synced is an error, and the next call syncs it") {
  using namespace posix_files_test;
  TemporaryFolder folder;
  const std::string made = folder.path / "made";
  fsync_code = EIO;
  const auto failed = PosixFiles::open(made);
  fsync_code = 0;
  REQUIRE_FALSE(failed);
  CHECK(failed.error().line() == made +
                                     ": the folder's name cannot be synced: Input/output error; expected a folder on a "
                                     "local disk that this process may write");
  CHECK_FALSE(std::filesystem::exists(made));
  synced.clear();
  CHECK(PosixFiles::open(made));
  CHECK(synced == std::vector{inode(folder.path)});
  synced.clear();
  CHECK(PosixFiles::open(made));
  CHECK(synced.empty());
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
  posix_files_test::flock_code = ENOLCK;
  const auto unlocked = PosixFiles::open(made);
  posix_files_test::flock_code = 0;
  REQUIRE_FALSE(unlocked);
  CHECK(unlocked.error().line() == made +
                                       ": it cannot be locked: No locks available; expected a folder on a local disk "
                                       "that this process may write");
  const std::string file = folder.path / "file";
  std::ofstream(file) << "no folder";
  CHECK_FALSE(PosixFiles::open(file));
  CHECK_FALSE(PosixFiles::open(folder.path / "missing" / "deep"));
}
