// SPDX-License-Identifier: Apache-2.0
// RecordStore on a modelled disk: nothing wrong is ever returned, whatever the disk does, and what was acknowledged is
// found after a power cut at any step.
#include "sluice/core/random.hpp"

#include "records/disk_model.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice_test;

namespace {

struct Opened {
  std::unique_ptr<RecordStore> store;
  std::shared_ptr<std::vector<std::string>> lines;
};
Opened open(std::unique_ptr<FileLayer> files, std::int64_t capacity = plenty, std::uint64_t digest = 7) {
  auto lines = std::make_shared<std::vector<std::string>>();
  RecordStore::Config config{capacity, digest, crc32c_by_bit,
                             [lines](const std::string& line) { lines->push_back(line); }};
  auto store = RecordStore::open(std::move(files), std::move(config));
  REQUIRE(store);
  return {*std::move(store), lines};
}
Opened open(DiskModel& disk, std::int64_t capacity = plenty, std::uint64_t digest = 7) {
  return open(std::make_unique<ModelFiles>(disk), capacity, digest);
}
Opened open(DiskModel& disk, WatchedFiles::Hook before, WatchedFiles::Hook after, std::int64_t capacity = plenty) {
  return open(std::make_unique<WatchedFiles>(disk, std::move(before), std::move(after)), capacity);
}
std::size_t put_one(RecordStore& store, std::uint64_t number) { return put(store, std::span(&number, 1)); }
/// A record's file.
DiskModel::File& file_of(DiskModel& disk, std::uint64_t number) {
  return *disk.names.at(record_name({7, key_of(number)}));
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
    if (static_cast<std::int64_t>(length) < least_record_bytes) { // opening sees that already
      DiskModel short_one = written.after_cut(1);
      CHECK(open(short_one).lines->size() == 1);
      CHECK(short_one.names.empty());
    }
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

TEST_CASE("a record whose content was found elsewhere is used now, the first of several the most recently") {
  DiskModel disk;
  const std::uint64_t numbers[] = {7, 14, 21, 28}; // all of one length
  const std::int64_t room = 4 * file_bytes_of(7);
  {
    const Opened opened = open(disk, room);
    CHECK(put(*opened.store, numbers) == 4);
    const RecordKey used[] = {key_of(7), key_of(14), key_of(99)}; // there is no 99
    opened.store->use(used);
    CHECK(opened.store->totals().read == 0);
    CHECK(opened.lines->empty());
  }
  const Opened opened = open(disk, room); // in the same order
  const auto left = [&] {
    std::vector<std::uint64_t> there;
    for (const std::uint64_t number : numbers)
      if (opened.store->has(key_of(number))) there.push_back(number);
    return there;
  };
  put_one(*opened.store, 35);
  CHECK(left() == std::vector<std::uint64_t>{7, 14, 28});
  put_one(*opened.store, 42);
  CHECK(left() == std::vector<std::uint64_t>{7, 14});
  put_one(*opened.store, 49);
  CHECK(left() == std::vector<std::uint64_t>{7});
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
  DiskModel empty;
  const Opened none = open(empty, 50);
  CHECK(put_one(*none.store, 5) == 0); // larger than the capacity: no line, and no loop
  CHECK(none.lines->empty());
}

TEST_CASE("a group whose folder could not be synced is acknowledged only after a sync, also if it is written again") {
  const std::vector<std::vector<std::uint64_t>> groups{{1, 2}, {3}, {4, 5}};
  int retried = 0;
  for (int fail = 1;; ++fail) {
    INFO("step " << fail);
    DiskModel disk;
    disk.fail_at = fail;
    disk.code = EIO;
    std::vector<std::uint64_t> kept;
    {
      const Opened opened = open(disk);
      for (const std::vector<std::uint64_t>& group : groups) {
        std::size_t done = put(*opened.store, group);
        if (done < group.size()) {
          ++retried;
          done = put(*opened.store, group);
        }
        CHECK(done == group.size());
        kept.insert(kept.end(), group.begin(), group.begin() + static_cast<std::ptrdiff_t>(done));
        DiskModel left = disk.after_cut(0);
        left.fail_at = -1;
        const Opened again = open(left);
        for (const std::uint64_t number : kept) CHECK(get(*again.store, number) == Got::right);
      }
    }
    if (disk.steps <= fail) break;
  }
  CHECK(retried > 10);
}

TEST_CASE("a sync that keeps failing acknowledges nothing, and the records are found meanwhile") {
  DiskModel disk;
  disk.code = EIO;
  const Opened opened = open(disk,
                             [&disk](FileCall call, const std::string& /*name*/) {
                               if (call == FileCall::sync_folder) disk.fail_at = disk.steps;
                             },
                             {});
  for (int time = 1; time <= 3; ++time) {
    CHECK(put_one(*opened.store, 1) == 0);
    CHECK(get(*opened.store, 1) == Got::right);
    CHECK(opened.lines->size() == static_cast<std::size_t>(time));
  }
}

TEST_CASE("an error that may pass is a miss and a line, and the record stays") {
  for (const int code : {EMFILE, ENFILE, ENOMEM, EACCES}) {
    for (const int read : {0, 1}) { // the record's head, and the rest
      INFO("errno " << code << ", read " << read);
      DiskModel disk;
      disk.code = code;
      const Opened opened = open(disk);
      REQUIRE(put_one(*opened.store, 1) == 1);
      disk.fail_at = disk.steps + read;
      CHECK(get(*opened.store, 1) == Got::miss);
      CHECK(opened.lines->size() == 1);
      CHECK(opened.store->has(key_of(1)));
      CHECK(get(*opened.store, 1) == Got::right);
      CHECK(opened.lines->size() == 1);
    }
  }
}

TEST_CASE("a record that the disk cannot read is removed, and one whose file is gone is forgotten") {
  for (const int read : {0, 1}) {
    INFO("read " << read);
    DiskModel disk;
    disk.code = EIO;
    const Opened opened = open(disk);
    REQUIRE(put_one(*opened.store, 1) == 1);
    disk.fail_at = disk.steps + read;
    CHECK(get(*opened.store, 1) == Got::miss);
    CHECK(disk.names.empty());
    REQUIRE(put_one(*opened.store, 2) == 1);
    disk.names.clear();
    CHECK(get(*opened.store, 2) == Got::miss);
    CHECK(opened.lines->size() == 2);
    CHECK_FALSE(opened.store->has(key_of(2)));
    CHECK(opened.store->totals().bytes == 0);
    CHECK(opened.store->totals().records == 0);
  }
}

TEST_CASE("a damaged size costs its own record only") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t hole : {std::int64_t{1}, std::int64_t{1} << 40, most - 1'000}) {
    for (const std::int64_t capacity : {plenty, std::int64_t{1} << 42, most}) {
      INFO("hole " << hole << ", capacity " << capacity);
      DiskModel disk;
      const std::uint64_t numbers[] = {1, 2, 3};
      REQUIRE(put(*open(disk).store, numbers) == 3);
      file_of(disk, 3).hole = hole;                       // the newest
      if (capacity == most) file_of(disk, 2).hole = hole; // two of them: their sum overflows
      const Opened opened = open(disk, capacity);
      if (capacity != most) {
        CHECK(get(*opened.store, 1) == Got::right);
        CHECK(get(*opened.store, 2) == Got::right);
      }
      CHECK(get(*opened.store, 3) == Got::miss);
      CHECK_FALSE(disk.names.contains(record_name({7, key_of(3)})));
      CHECK(opened.lines->size() == 1);
      CHECK(opened.store->totals().bytes >= 0);
      CHECK(opened.store->totals().bytes <= capacity);
    }
  }
  DiskModel disk; // and in a store that runs
  const Opened opened = open(disk);
  REQUIRE(put_one(*opened.store, 1) == 1);
  file_of(disk, 1).hole = most - 1'000;
  CHECK(get(*opened.store, 1) == Got::miss);
  CHECK(opened.lines->size() == 1);
  CHECK(disk.names.empty());
}

TEST_CASE("files that cannot be removed are passed over, and only if all are, a record is refused") {
  DiskModel disk;
  const std::int64_t capacity = file_bytes_of(1) + file_bytes_of(2) + file_bytes_of(3) + 6; // any three records
  const std::uint64_t numbers[] = {1, 2, 3};
  REQUIRE(put(*open(disk, capacity).store, numbers) == 3);
  for (const std::uint64_t number : {1U, 2U}) file_of(disk, number).stuck = true;
  const Opened opened = open(disk, capacity);
  CHECK(put_one(*opened.store, 4) == 1);
  CHECK(opened.lines->size() == 1); // for both
  CHECK(opened.store->totals().evicted == 1);
  for (const std::uint64_t number : {1U, 2U, 4U}) CHECK(get(*opened.store, number) == Got::right);
  CHECK(get(*opened.store, 3) == Got::miss);
  file_of(disk, 4).stuck = true;
  CHECK(put_one(*opened.store, 5) == 0);
  CHECK(opened.lines->size() == 2);
  for (const std::uint64_t number : {1U, 2U, 4U}) CHECK(get(*opened.store, number) == Got::right);
  CHECK(opened.store->totals().bytes == bytes_on(disk));
  file_of(disk, 1).stuck = false;
  CHECK(put_one(*opened.store, 5) == 1);
  CHECK(bytes_on(disk) <= capacity);
}

TEST_CASE("a wrong record that cannot be removed is no longer found, counts, and is written anew") {
  DiskModel disk;
  const Opened opened = open(disk);
  REQUIRE(put_one(*opened.store, 1) == 1);
  file_of(disk, 1).bytes.back() ^= std::byte{1};
  file_of(disk, 1).stuck = true;
  CHECK(get(*opened.store, 1) == Got::miss);
  CHECK_FALSE(opened.store->has(key_of(1)));
  CHECK(opened.store->totals().bytes == bytes_on(disk));
  CHECK(put_one(*opened.store, 1) == 1);
  CHECK(get(*opened.store, 1) == Got::right);
  CHECK(opened.store->totals().bytes == bytes_on(disk));
  CHECK(opened.store->totals().records == 1);
  CHECK(opened.lines->size() == 1);
}

TEST_CASE("a reader that was interrupted removes no record that was written meanwhile") {
  DiskModel disk;
  REQUIRE(put_one(*open(disk).store, 1) == 1);
  file_of(disk, 1).bytes.back() ^= std::byte{1};
  RecordStore* store = nullptr;
  int reads = 0;
  const Opened opened = open(disk, {}, [&](FileCall call, const std::string& /*name*/) {
    if (call != FileCall::read || ++reads != 2) return;
    const Got other = get(*store, 1); // another reader
    CHECK(other == Got::miss);
    CHECK(put_one(*store, 1) == 1);
  });
  store = opened.store.get();
  CHECK(get(*store, 1) == Got::miss); // what this reader had read was wrong
  CHECK(get(*store, 1) == Got::right);
  CHECK(opened.lines->size() == 1);
}

TEST_CASE("a record is not written anew while a reader removes its wrong file") {
  DiskModel disk;
  REQUIRE(put_one(*open(disk).store, 1) == 1);
  file_of(disk, 1).bytes.back() ^= std::byte{1};
  std::atomic<bool> removing = false, renamed = false;
  bool overlaps = false;
  const Opened opened = open(disk,
                             [&](FileCall call, const std::string& /*name*/) {
                               if (call == FileCall::rename) renamed = true;
                               if (call != FileCall::remove || removing.exchange(true)) return;
                               // A writer that did not wait would come by now. If the machine runs it too late, this
                               // finds less.
                               for (int i = 0; i < 50'000 && !renamed; ++i) std::this_thread::yield();
                               overlaps = renamed;
                             },
                             {});
  std::thread writer([&] {
    while (!removing) std::this_thread::yield();
    (void)put_one(*opened.store, 1);
  });
  const Got got = get(*opened.store, 1);
  removing = true;
  writer.join();
  CHECK(got == Got::miss);
  CHECK_FALSE(overlaps);
  CHECK(get(*opened.store, 1) == Got::right);
  CHECK(opened.lines->size() == 1);
}

TEST_CASE("a record that is evicted is a miss without a line, and counts until its file is gone") {
  DiskModel disk;
  const std::int64_t capacity = file_bytes_of(1) + file_bytes_of(2);
  RecordStore* store = nullptr;
  int removals = 0;
  const auto check = [&](FileCall call, const std::string& /*name*/) {
    if (call != FileCall::remove || store == nullptr) return;
    ++removals;
    const Got got = get(*store, 1);
    CHECK(got == Got::miss);
    CHECK(store->totals().bytes >= bytes_on(disk));
  };
  const std::uint64_t numbers[] = {1, 2};
  const Opened opened = open(disk, check, check, capacity);
  REQUIRE(put(*opened.store, numbers) == 2);
  store = opened.store.get();
  CHECK(put_one(*store, 3) == 1);
  CHECK(removals >= 2); // before and after
  CHECK(opened.lines->empty());
  CHECK(store->totals().faults == 0);
}

TEST_CASE("a record is read into the caller's memory, and a vector that is used again stays") {
  DiskModel disk;
  const Opened opened = open(disk);
  const std::uint64_t numbers[] = {5, 12}; // of one length
  REQUIRE(put(*opened.store, numbers) == 2);
  std::vector<std::byte> into(payload_of(5).size(), std::byte{0xEE});
  const std::byte* const at = into.data();
  const std::size_t capacity = into.capacity();
  for (const std::uint64_t number : numbers) {
    REQUIRE(opened.store->get(key_of(number), into));
    CHECK(into == payload_of(number));
    CHECK(into.data() == at);
    CHECK(into.capacity() == capacity); // no room for a head or a tail was needed
  }
}

TEST_CASE("readers, a writer, and a disk that rots, in threads: no wrong record, and no file is removed under one") {
  DiskModel disk;
  constexpr std::int64_t capacity = 1'000;
  constexpr std::uint64_t keys = 16;
  std::atomic<int> removing = 0, overlaps = 0, wrong = 0, missing = 0, rotten = 0;
  WatchedFiles* files = nullptr;
  auto watched = std::make_unique<WatchedFiles>(
      disk,
      [&](FileCall call, const std::string& /*name*/) {
        if (call == FileCall::remove) {
          ++removing;
          for (int i = 0; i < 3; ++i) std::this_thread::yield(); // so that others get between
        }
        if (call == FileCall::rename && removing > 0) ++overlaps;
      },
      [&](FileCall call, const std::string& /*name*/) {
        if (call == FileCall::remove) --removing;
        if (call == FileCall::read) std::this_thread::yield();
      });
  files = watched.get();
  RecordStore::Config config{capacity, 7, crc32c_by_bit, [&](const std::string& line) {
                               if (line.find(std::strerror(ENOENT)) != std::string::npos) ++missing;
                             }};
  auto store = RecordStore::open(std::move(watched), std::move(config));
  REQUIRE(store);
  std::vector<std::thread> readers;
  for (std::uint64_t seed = 1; seed <= 2; ++seed)
    readers.emplace_back([&, seed] {
      Random random(seed);
      for (int step = 0; step < 3'000; ++step)
        if (get(**store, random.below(keys)) == Got::wrong) ++wrong;
    });
  std::thread writer([&] {
    Random random(3);
    for (int step = 0; step < 1'500; ++step) {
      const std::uint64_t group[] = {random.below(keys), random.below(keys)};
      (void)put(**store, group);
      if (step % 5 == 0 && files->rot(record_name({7, key_of(random.below(keys))}))) ++rotten;
    }
  });
  for (std::thread& reader : readers) reader.join();
  writer.join();
  CHECK(wrong == 0);
  CHECK(overlaps == 0);
  CHECK(missing == 0);
  CHECK((*store)->totals().faults <= rotten);
  for (std::uint64_t number = 0; number < keys; ++number) (void)get(**store, number); // the last rotten ones
  for (std::uint64_t number = 0; number < keys; ++number)
    CHECK((get(**store, number) == Got::right) == (*store)->has(key_of(number)));
  CHECK((*store)->totals().bytes == bytes_on(disk));
  CHECK(missing == 0);
}
