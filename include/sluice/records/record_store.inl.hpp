// SPDX-License-Identifier: Apache-2.0
// RecordStore: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/records/record_store.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace sluice {

SLUICE_INLINE Expected<std::unique_ptr<RecordStore>> RecordStore::open(std::unique_ptr<FileLayer> files,
                                                                       Config config) {
  std::vector<FileLayer::Entry> found;
  if (const int code = files->list(found); code != 0)
    return Error{ErrorCode::bad_input, "the folder of records", std::strerror(code), "a folder that can be read"};
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.used_ns != b.used_ns ? a.used_ns < b.used_ns : a.name < b.name;
  });
  std::unique_ptr<RecordStore> store{new RecordStore(std::move(files), std::move(config))};
  bool removable = true; // not one line for each record of a folder that is read-only
  for (const FileLayer::Entry& entry : found) {
    const auto remove = [&](std::string_view why) { store->fault(why, entry.name, store->files_->remove(entry.name)); };
    RecordIdentity identity;
    if (entry.name.ends_with(unfinished) &&
        parse_record_name(std::string_view{entry.name}.substr(0, entry.name.size() - unfinished.size()), identity))
      remove("it was left unfinished");
    else if (!parse_record_name(entry.name, identity))
      continue;
    else if (entry.bytes < least_record_bytes)
      remove("the file is shorter than a record");
    else if (entry.bytes > store->config_.capacity) // a damaged size must not evict all others
      remove("the file is larger than the capacity");
    else {
      removable = removable && store->make_room(entry.bytes);
      store->bytes_ += entry.bytes;
      store->records_.push_back({identity, entry.bytes, 0});
      store->publish(std::prev(store->records_.end()));
    }
  }
  return store;
}

SLUICE_INLINE bool RecordStore::has(const RecordKey& key) const {
  const std::lock_guard lock{mutex_};
  const auto found = index_.find(RecordIdentity{config_.digest, key});
  return found != index_.end() && (*found)->serial != 0;
}

SLUICE_INLINE bool RecordStore::get(const RecordKey& key, std::vector<std::byte>& into) {
  Record record;
  {
    const std::lock_guard lock{mutex_};
    const auto found = index_.find(RecordIdentity{config_.digest, key});
    if (found == index_.end() || (*found)->serial == 0) return false;
    records_.splice(records_.end(), records_, *found);
    record = **found;
  }
  const std::string name = record_name(record.identity);
  std::string_view why;
  const int code = read(record, name, into, why);
  if (code == 0 && why.empty()) {
    (void)files_->touch(name); // only the order after a restart suffers
    const std::lock_guard lock{mutex_};
    ++totals_.read;
    return true;
  }
  if (code != 0 && code != EIO && code != ENOENT) { // this process lacks something, or the file is not at fault
    fault("it cannot be read now", name, code);
    return false;
  }
  {
    const std::lock_guard files{files_mutex_};
    Records::iterator at;
    {
      const std::lock_guard lock{mutex_};
      const auto found = index_.find(record.identity);
      // If it was evicted meanwhile, a file with this name now is another one.
      if (found == index_.end() || (*found)->serial != record.serial) return false;
      at = *found;
      at->serial = 0;
    }
    (void)remove(at, name);
  }
  fault(why.empty() ? "it cannot be read" : why, name, code);
  return false;
}

SLUICE_INLINE void RecordStore::use(std::span<const RecordKey> keys) {
  for (std::size_t i = keys.size(); i-- > 0;) {
    const RecordIdentity identity{config_.digest, keys[i]};
    {
      const std::lock_guard lock{mutex_};
      const auto found = index_.find(identity);
      if (found == index_.end() || (*found)->serial == 0) continue;
      records_.splice(records_.end(), records_, *found);
    }
    (void)files_->touch(record_name(identity)); // only the order after a restart suffers
  }
}

SLUICE_INLINE std::size_t RecordStore::put(std::span<const NewRecord> records) {
  Records renamed;
  std::size_t done = 0;
  for (; done < records.size(); ++done) {
    const RecordKey& key = records[done].key;
    if (has(key) || std::any_of(renamed.begin(), renamed.end(), [&](const Record& r) { return r.identity.key == key; }))
      continue;
    if (!write(records[done], renamed)) break;
  }
  if (renamed.empty() && !names_unsynced_) return done;
  const int code = files_->sync_folder();
  names_unsynced_ = code != 0;
  if (code != 0) fault("it cannot be synced, so a crash may lose new records", "the folder", code);
  const std::lock_guard lock{mutex_};
  totals_.written += static_cast<std::int64_t>(renamed.size());
  while (!renamed.empty()) {
    records_.splice(records_.end(), renamed, renamed.begin());
    publish(std::prev(records_.end()));
  }
  return code == 0 ? done : 0;
}

SLUICE_INLINE RecordStore::Totals RecordStore::totals() const {
  const std::lock_guard lock{mutex_};
  Totals now = totals_;
  now.capacity = config_.capacity;
  now.records = ours_;
  now.bytes = bytes_;
  return now;
}

SLUICE_INLINE void RecordStore::fault(std::string_view what, const std::string& name, int code) {
  std::string line = name + ": " + std::string{what};
  if (code != 0) line += std::string{": "} + std::strerror(code);
  {
    const std::lock_guard lock{mutex_};
    ++totals_.faults;
  }
  if (config_.log) config_.log(line);
}

SLUICE_INLINE std::int64_t RecordStore::ours(const Record& record) const {
  return record.identity.digest == config_.digest ? 1 : 0;
}

SLUICE_INLINE void RecordStore::publish(Records::iterator at) {
  at->serial = ++serials_;
  index_.insert(at);
  ours_ += ours(*at);
}

SLUICE_INLINE void RecordStore::drop(Records::iterator at) {
  bytes_ -= at->bytes;
  ours_ -= ours(*at);
  index_.erase(at);
  records_.erase(at);
}

SLUICE_INLINE int RecordStore::remove(Records::iterator at, const std::string& name) {
  const int code = files_->remove(name);
  if (code != 0 && code != ENOENT) return code;
  const std::lock_guard lock{mutex_};
  drop(at);
  return 0;
}

SLUICE_INLINE bool RecordStore::make_room(std::int64_t bytes) {
  std::string first;
  int code = 0;
  std::size_t stuck = 0, tries = 0;
  bool fits = false;
  for (bool begins = true;; begins = false) {
    const std::lock_guard files{files_mutex_};
    Records::iterator victim;
    std::uint64_t serial = 0;
    {
      const std::lock_guard lock{mutex_};
      if (begins) tries = records_.size();
      fits = bytes_ <= config_.capacity - bytes;
      if (fits || tries-- == 0 || records_.empty()) break;
      victim = records_.begin();
      serial = std::exchange(victim->serial, 0);
    }
    const std::string name = record_name(victim->identity);
    const int failed = remove(victim, name);
    const std::lock_guard lock{mutex_};
    if (failed == 0) {
      ++totals_.evicted;
      continue;
    }
    victim->serial = serial;
    records_.splice(records_.end(), records_, victim);
    if (stuck++ > 0) continue;
    first = name;
    code = failed;
  }
  if (stuck > 0)
    fault(stuck == 1 ? "it cannot be removed for room"
                     : "it and " + std::to_string(stuck - 1) + " more cannot be removed for room",
          first, code);
  return fits;
}

SLUICE_INLINE int RecordStore::read(const Record& record, const std::string& name, std::vector<std::byte>& into,
                                    std::string_view& why) {
  std::array<std::byte, record_head_bytes> head{};
  std::array<std::byte, record_tail_bytes> tail{};
  const std::span<std::byte> first[] = {head};
  int code = files_->read(name, record.bytes, 0, first);
  if (code == 0) why = record_fault(head, record.identity, record.bytes);
  if (code == 0 && why.empty()) { // only now its length is known to be true
    into.resize(static_cast<std::size_t>(record.bytes - least_record_bytes));
    const std::span<std::byte> rest[] = {into, tail};
    code = files_->read(name, record.bytes, record_head_bytes, rest);
    if (code == 0 && detail::get_number(tail, tail.size()) != config_.crc(config_.crc(0, head), into))
      why = "the checksum is wrong";
  }
  if (code != FileLayer::other_length) return code;
  why = "the file's length is not the record's";
  return 0;
}

SLUICE_INLINE bool RecordStore::write(const NewRecord& record, Records& renamed) {
  const RecordIdentity identity{config_.digest, record.key};
  const std::string name = record_name(identity), unfinished_name = name + std::string{unfinished};
  std::uint64_t length = 0;
  for (const std::span<const std::byte> part : record.parts) length += part.size();
  const auto bytes = static_cast<std::int64_t>(record_head_bytes + length + record_tail_bytes);
  std::int64_t together = bytes; // with this call's records, which cannot be evicted yet
  for (const Record& one : renamed) together += one.bytes;
  if (together > config_.capacity || !make_room(bytes)) return false;
  const auto head = record_head(identity, length);
  std::uint32_t crc = config_.crc(0, head);
  for (const std::span<const std::byte> part : record.parts) crc = config_.crc(crc, part);
  const auto tail = record_tail(crc);
  std::vector<std::span<const std::byte>> parts{head};
  parts.insert(parts.end(), record.parts.begin(), record.parts.end());
  parts.emplace_back(tail);
  int code = files_->write(unfinished_name, parts);
  if (code == 0) {
    const std::lock_guard files{files_mutex_};
    code = files_->rename(unfinished_name, name);
    if (code == 0) {
      const std::lock_guard lock{mutex_};
      const auto replaced = index_.find(identity); // a wrong one that could not be removed
      if (replaced != index_.end()) drop(*replaced);
      bytes_ += bytes;
      renamed.push_back({identity, bytes, 0});
      return true;
    }
  }
  fault("it cannot be written", name, code);
  (void)files_->remove(unfinished_name);
  return false;
}

} // namespace sluice
