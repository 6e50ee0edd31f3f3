// SPDX-License-Identifier: Apache-2.0
// RecordStore on a modelled disk: nothing wrong is ever returned, whatever the disk does, and what was acknowledged is
// found after a power cut at any step.
#include "sluice/core/random.hpp"

#include "records/disk_model.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice_test;

namespace {

struct Opened {
  std::unique_ptr<RecordStore> store;
  std::shared_ptr<std::vector<std::string>> lines;
};
Opened open(DiskModel& disk, std::int64_t capacity = plenty, std::uint64_t digest = 7) {
  auto lines = std::make_shared<std::vector<std::string>>();
  RecordStore::Config config{capacity, digest, crc32c_by_bit,
                             [lines](const std::string& line) { lines->push_back(line); }};
  auto store = RecordStore::open(std::make_unique<ModelFiles>(disk), std::move(config));
  REQUIRE(store);
  return {*std::move(store), lines};
}
/// The only file of a disk.
std::vector<std::byte>& only_file(DiskModel& disk) {
  REQUIRE(disk.names.size() == 1);
  return disk.names.begin()->second->bytes;
}
/// A miss, exactly one line, and the file is gone: the next look-up asks no disk.
void check_missed(DiskModel& disk, std::uint64_t number) {
  const Opened opened = open(disk);
  CHECK(get(*opened.store, number) == Got::miss);
  CHECK(opened.lines->size() == 1);
  CHECK(disk.names.empty());
  CHECK(get(*opened.store, number) == Got::miss);
  CHECK(opened.lines->size() == 1);
}
std::int64_t bytes_on(const DiskModel& disk) {
  std::int64_t bytes = 0;
  for (const auto& [name, file] : disk.names) bytes += static_cast<std::int64_t>(file->bytes.size());
  return bytes;
}

} // namespace

TEST_CASE("a record is found, also after a restart, and by nobody with another digest") {
  DiskModel disk;
  {
    const Opened opened = open(disk);
    CHECK(get(*opened.store, 1) == Got::miss);
    const std::uint64_t numbers[] = {1, 2, 3};
    CHECK(put(*opened.store, numbers) == 3);
    CHECK(put(*opened.store, numbers) == 3); // the store has them
    CHECK(opened.store->totals().written == 3);
    for (const std::uint64_t number : numbers) CHECK(get(*opened.store, number) == Got::right);
  }
  const Opened again = open(disk);
  for (std::uint64_t number = 1; number <= 3; ++number) CHECK(get(*again.store, number) == Got::right);
  CHECK(get(*again.store, 4) == Got::miss);
  CHECK(again.lines->empty());

  const Opened other = open(disk, plenty, 8);
  for (std::uint64_t number = 1; number <= 3; ++number) {
    CHECK_FALSE(other.store->has(key_of(number)));
    CHECK(get(*other.store, number) == Got::miss);
  }
  CHECK(other.store->totals().bytes == file_bytes_of(1) + file_bytes_of(2) + file_bytes_of(3));
}

TEST_CASE("each byte of a record flipped is a miss and a line") {
  DiskModel written;
  const std::uint64_t number[] = {5};
  CHECK(put(*open(written).store, number) == 1);
  const std::vector<std::byte> right = only_file(written);
  for (std::size_t at = 0; at < right.size(); ++at)
    for (int bit = 0; bit <= 8; ++bit) { // each bit of it, and all
      INFO("byte " << at << ", bit " << bit);
      only_file(written) = right;
      only_file(written)[at] ^= bit == 8 ? std::byte{0xFF} : std::byte{1} << bit;
      DiskModel disk = written.after_cut(1);
      check_missed(disk, 5);
    }
}

TEST_CASE("a record cut at each length, or longer than it was, is a miss and a line") {
  DiskModel written;
  const std::uint64_t number[] = {5};
  CHECK(put(*open(written).store, number) == 1);
  const std::vector<std::byte> right = only_file(written);
  for (std::size_t length = 0; length < right.size() + 3; ++length) {
    if (length == right.size()) continue;
    INFO("length " << length);
    only_file(written) = right;
    only_file(written).resize(length);
    DiskModel disk = written.after_cut(1);
    check_missed(disk, 5);
  }
}

TEST_CASE("a record under another record's name is a miss and a line") {
  DiskModel disk;
  const std::uint64_t numbers[] = {5, 12}; // of one length
  CHECK(put(*open(disk).store, numbers) == 2);
  std::swap(disk.names.begin()->second, std::next(disk.names.begin())->second);
  const Opened opened = open(disk);
  for (const std::uint64_t number : numbers) CHECK(get(*opened.store, number) == Got::miss);
  CHECK(opened.lines->size() == 2);
}

TEST_CASE("the power is cut at every step of writes, restarts and evictions") {
  // Three runs of a program on one disk: they write records in groups, read some, and the small capacity evicts.
  const std::vector<std::vector<std::vector<std::uint64_t>>> runs{
      {{1, 2}, {3}}, {{4, 5, 6}, {2}, {7}}, {{8, 9}, {1, 10, 11}}};
  int cuts = 0, acknowledged = 0, found = 0;
  for (const std::int64_t capacity : {plenty, std::int64_t{500}}) {
    for (int cut = 0;; ++cut) {
      bool was_cut = false;
      std::vector<std::uint64_t> kept; // acknowledged; without evictions all of them must be found
      DiskModel disk;
      disk.cut_at = cut;
      try {
        for (const auto& run : runs) {
          const Opened opened = open(disk, capacity);
          for (const std::vector<std::uint64_t>& group : run) {
            const std::size_t done = put(*opened.store, group);
            kept.insert(kept.end(), group.begin(), group.begin() + static_cast<std::ptrdiff_t>(done));
            const Got got = get(*opened.store, group.front()); // outside CHECK, which would catch the cut
            CHECK(got != Got::wrong);
            CHECK(bytes_on(disk) <= capacity);
          }
        }
      } catch (const PowerCut&) {
        was_cut = true;
      }
      for (unsigned choice = 0; choice < DiskModel::choices; ++choice) {
        INFO("capacity " << capacity << ", cut at step " << cut << ", choice " << choice);
        DiskModel left = disk.after_cut(choice);
        const Opened opened = open(left, capacity);
        CHECK(bytes_on(left) <= capacity);
        for (std::uint64_t number = 1; number <= 11; ++number) {
          const Got got = get(*opened.store, number);
          CHECK(got != Got::wrong);
          if (capacity < plenty) continue;
          const bool was = std::find(kept.begin(), kept.end(), number) != kept.end();
          acknowledged += was ? 1 : 0;
          found += was && got == Got::right ? 1 : 0;
        }
        const std::uint64_t more[] = {20, 21};
        CHECK(put(*opened.store, more) == 2); // and it goes on
        CHECK(get(*opened.store, 21) == Got::right);
      }
      if (!was_cut) break;
      ++cuts;
    }
  }
  MESSAGE(cuts << " cuts, " << found << " of " << acknowledged << " acknowledged records found");
  CHECK(cuts > 100);
  CHECK(found == acknowledged);
}

TEST_CASE("each step fails once: never a wrong record, at most one line more, and the next run goes on") {
  for (const int code : {EIO, ENOSPC}) {
    for (int fail = 1;; ++fail) { // step 0 lists the folder: below
      INFO("step " << fail << ", errno " << code);
      DiskModel disk;
      disk.fail_at = fail;
      disk.code = code;
      std::vector<std::uint64_t> kept;
      std::size_t lines = 0;
      {
        const Opened opened = open(disk, 400);
        for (const std::vector<std::uint64_t>& group : std::vector<std::vector<std::uint64_t>>{{1, 2}, {3}, {4, 5}}) {
          const std::size_t done = put(*opened.store, group);
          CHECK(done <= group.size());
          for (std::size_t i = 0; i < done; ++i) CHECK(opened.store->has(key_of(group[i])));
          for (const std::uint64_t number : group) CHECK(get(*opened.store, number) != Got::wrong);
          CHECK(bytes_on(disk) <= 400);
        }
        lines = opened.lines->size();
      }
      CHECK(lines <= 1);
      const bool failed = disk.steps > fail;
      disk.fail_at = -1;
      const Opened again = open(disk, 400);
      for (std::uint64_t number = 1; number <= 5; ++number) CHECK(get(*again.store, number) != Got::wrong);
      const std::uint64_t more[] = {20};
      CHECK(put(*again.store, more) == 1);
      CHECK(get(*again.store, 20) == Got::right);
      if (!failed) break;
    }
  }
}

TEST_CASE("a folder that cannot be listed is an error") {
  DiskModel disk;
  disk.fail_at = 0;
  disk.code = EIO;
  const auto store = RecordStore::open(std::make_unique<ModelFiles>(disk), {plenty, 7, crc32c_by_bit, {}});
  REQUIRE_FALSE(store);
  CHECK(store.error().line() == "the folder of records: Input/output error; expected a folder that can be read");
}

TEST_CASE("a full disk: what has no room is refused with a line, and what was there stays") {
  for (std::int64_t room = 0; room <= 2 * file_bytes_of(1) + file_bytes_of(3); ++room) {
    INFO("room for " << room << " bytes");
    DiskModel disk;
    disk.room = room;
    const Opened opened = open(disk);
    std::vector<std::uint64_t> kept;
    for (std::uint64_t number = 1; number <= 3; ++number) {
      const std::uint64_t one[] = {number};
      if (put(*opened.store, one) == 1) kept.push_back(number);
    }
    CHECK(opened.lines->size() + kept.size() == 3);
    for (std::uint64_t number = 1; number <= 3; ++number) {
      const bool was = std::find(kept.begin(), kept.end(), number) != kept.end();
      CHECK(get(*opened.store, number) == (was ? Got::right : Got::miss));
    }
    CHECK(disk.names.size() == kept.size()); // nothing half written is left
  }
}

TEST_CASE("the least recently used records leave, in the order of a list, also across restarts") {
  Random random(11);
  DiskModel disk;
  constexpr std::int64_t capacity = 1'000;
  std::vector<std::uint64_t> order; // the reference: the least recent first
  const auto bytes_of = [](const std::vector<std::uint64_t>& numbers) {
    std::int64_t bytes = 0;
    for (const std::uint64_t number : numbers) bytes += file_bytes_of(number);
    return bytes;
  };
  Opened opened = open(disk, capacity);
  for (int step = 0; step < 3'000; ++step) {
    const std::uint64_t number = random.below(25);
    const auto at = std::find(order.begin(), order.end(), number);
    const bool there = at != order.end();
    if (random.below(50) == 0) {
      opened = {}; // one store at a time
      opened = open(disk, capacity);
    }
    CHECK(opened.store->has(key_of(number)) == there);
    if (random.below(2) == 0) {
      CHECK(get(*opened.store, number) == (there ? Got::right : Got::miss));
      if (there) std::rotate(at, at + 1, order.end());
    } else {
      const std::uint64_t one[] = {number};
      CHECK(put(*opened.store, one) == 1);
      if (there) continue; // writing what is there is no use of it
      while (bytes_of(order) + file_bytes_of(number) > capacity) order.erase(order.begin());
      order.push_back(number);
    }
    CHECK(opened.store->totals().bytes == bytes_of(order));
    CHECK(bytes_on(disk) == bytes_of(order));
  }
  CHECK(opened.store->totals().records == static_cast<std::int64_t>(order.size()));
  CHECK(opened.lines->empty());
}

TEST_CASE("other models' records make room, a smaller capacity is kept, and other files are left alone") {
  DiskModel disk;
  const std::uint64_t numbers[] = {1, 2, 3, 4};
  CHECK(put(*open(disk, plenty, 1).store, numbers) == 4);
  const std::vector<std::byte> notes(5'000);
  const std::span<const std::byte> parts[] = {notes};
  CHECK(ModelFiles(disk).write("notes.txt", parts) == 0);
  CHECK(ModelFiles(disk).write("0000000000000001-00.kv", parts) == 0);
  const std::int64_t all = file_bytes_of(1) + file_bytes_of(2) + file_bytes_of(3) + file_bytes_of(4);
  {
    const Opened other = open(disk, all, 2);
    CHECK(other.store->totals().bytes == all);
    const std::uint64_t one[] = {2};
    CHECK(put(*other.store, one) == 1);
    CHECK(other.store->totals().evicted >= 1);
    CHECK(other.store->totals().bytes <= all);
  }
  const Opened small = open(disk, 250, 1);
  CHECK(small.store->totals().bytes <= 250);
  CHECK(disk.names.contains("notes.txt"));
  CHECK(disk.names.contains("0000000000000001-00.kv"));
  const std::uint64_t large[] = {5};
  const Opened none = open(disk, 50, 1);
  CHECK(put(*none.store, large) == 0); // larger than the capacity: no line, and no loop
  CHECK(none.lines->empty());
}
