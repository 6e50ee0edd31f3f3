// SPDX-License-Identifier: Apache-2.0
// RecordStore: blocks of KV on a disk, found again after a restart, never wrong.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/records/file_layer.hpp"
#include "sluice/records/record.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// A file for each record. A record is written under a name of its own, synced, renamed, and its folder synced; only
/// then it is acknowledged. So a file with a record's name is whole after any kill; what a disk did to it later, the
/// record's checksum finds.
///
/// - Whatever is wrong with a record, `get` misses: it says so in one line, and removes the file.
/// - Before a record is written, the least recently used ones are removed until it has room. Records of other models
///   in the folder take room too, and are removed like others.
/// - Opening reads names and sizes, not contents. Files with other names are left alone, and do not count.
///
/// `put` is called from one thread at a time, everything else from any.
class RecordStore {
 public:
  struct Config {
    std::int64_t capacity = 0; ///< bytes of all records together
    std::uint64_t digest = 0;  ///< RecordIdentity::digest
    Crc32c crc = nullptr;
    /// Called with a line for each fault; from any thread that calls the store.
    std::function<void(const std::string&)> log;
  };
  /// A record to be written; its payload is the concatenation of `parts`.
  struct NewRecord {
    RecordKey key;
    std::span<const std::span<const std::byte>> parts;
  };
  struct Totals {
    std::int64_t records = 0, bytes = 0;  ///< there now; bytes with those of other models
    std::int64_t written = 0, read = 0;   ///< records
    std::int64_t evicted = 0, faults = 0; ///< records removed for room; lines in the log
  };

  /// Finds the records of an earlier run, in the order of their last use, and removes what a killed one left
  /// unfinished. Errors: the folder cannot be listed.
  [[nodiscard]] static Expected<std::unique_ptr<RecordStore>> open(std::unique_ptr<FileLayer> files, Config config) {
    std::vector<FileLayer::Entry> found;
    if (const int code = files->list(found); code != 0)
      return Error{ErrorCode::bad_input, "the folder of records", std::strerror(code), "a folder that can be read"};
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.used_ns != b.used_ns ? a.used_ns < b.used_ns : a.name < b.name;
    });
    std::unique_ptr<RecordStore> store{new RecordStore(std::move(files), std::move(config))};
    for (const FileLayer::Entry& entry : found) {
      RecordIdentity identity;
      if (entry.name.ends_with(unfinished) &&
          parse(std::string_view{entry.name}.substr(0, entry.name.size() - unfinished.size()), identity))
        store->fault("it was left unfinished", entry.name, store->files_->remove(entry.name));
      else if (parse(entry.name, identity))
        store->insert({entry.name, identity.key, entry.bytes, identity.digest == store->config_.digest});
    }
    store->make_room(0);
    return store;
  }

  [[nodiscard]] bool has(const RecordKey& key) const {
    const std::lock_guard lock{mutex_};
    return index_.contains(key);
  }
  /// Reads a record's payload into `into`. False: it is not there, or it is not what was written.
  [[nodiscard]] bool get(const RecordKey& key, std::vector<std::byte>& into) {
    std::string name;
    {
      const std::lock_guard lock{mutex_};
      const auto found = index_.find(key);
      if (found == index_.end()) return false;
      records_.splice(records_.end(), records_, found->second);
      name = found->second->name;
    }
    const int code = files_->read(name, into);
    std::span<const std::byte> payload;
    std::string_view why = "it cannot be read";
    if (code == 0) why = record_fault(into, {config_.digest, key}, config_.crc, payload);
    if (code == 0 && why.empty()) {
      (void)files_->touch(name); // only the order after a restart suffers
      into.erase(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(record_head_bytes));
      into.resize(payload.size());
      const std::lock_guard lock{mutex_};
      ++totals_.read;
      return true;
    }
    if (!forget(key)) return false; // evicted while it was read
    fault(why, name, code);
    (void)files_->remove(name);
    return false;
  }
  /// Writes records that the store does not have. Returns how many of them, from the first on, are acknowledged: a
  /// later `get` finds them, also after a crash, while there is room.
  std::size_t put(std::span<const NewRecord> records) {
    std::vector<Record> renamed;
    std::size_t done = 0;
    for (; done < records.size(); ++done) {
      const RecordKey& key = records[done].key;
      if (has(key) || std::any_of(renamed.begin(), renamed.end(), [&](const Record& r) { return r.key == key; }))
        continue;
      if (!write(records[done], renamed)) break;
    }
    if (renamed.empty()) return done;
    const int code = files_->sync_folder();
    // Their names may be lost in a crash. Until then they can be found.
    if (code != 0) fault("the folder cannot be synced, so a crash may lose new records", renamed.front().name, code);
    const std::lock_guard lock{mutex_};
    totals_.written += static_cast<std::int64_t>(renamed.size());
    for (Record& record : renamed) insert(std::move(record));
    return code == 0 ? done : 0;
  }
  [[nodiscard]] Totals totals() const {
    const std::lock_guard lock{mutex_};
    Totals now = totals_;
    now.records = static_cast<std::int64_t>(index_.size());
    now.bytes = bytes_;
    return now;
  }

 private:
  static constexpr std::string_view unfinished = ".new";

  struct Record {
    std::string name;
    RecordKey key;
    std::int64_t bytes = 0;
    bool ours = false; ///< of this model
  };
  struct HashKey {
    std::size_t operator()(const RecordKey& key) const { return static_cast<std::size_t>(key.low); }
  };
  using Records = std::list<Record>;

  RecordStore(std::unique_ptr<FileLayer> files, Config config) : files_(std::move(files)), config_(std::move(config)) {}

  /// DIGEST-KEY.kv, in hexadecimal.
  [[nodiscard]] static std::string name_of(const RecordIdentity& identity) {
    std::string name;
    const auto add = [&name](std::uint64_t number) {
      for (int shift = 60; shift >= 0; shift -= 4) name += "0123456789abcdef"[(number >> shift) & 15U];
    };
    add(identity.digest);
    name += '-';
    add(identity.key.high);
    add(identity.key.low);
    return name + ".kv";
  }
  [[nodiscard]] static bool parse(std::string_view name, RecordIdentity& identity) {
    std::array<std::uint64_t, 3> numbers{};
    std::size_t at = 0;
    for (std::size_t digit = 0; digit < 48; ++digit, ++at) {
      if (digit == 16 && (at >= name.size() || name[at++] != '-')) return false;
      if (at >= name.size()) return false;
      const std::size_t value = std::string_view{"0123456789abcdef"}.find(name[at]);
      if (value == std::string_view::npos) return false;
      numbers[digit / 16] = (numbers[digit / 16] << 4) | value;
    }
    identity = {numbers[0], {numbers[1], numbers[2]}};
    return name.substr(at) == ".kv";
  }

  void fault(std::string_view what, const std::string& name, int code) {
    std::string line = name + ": " + std::string{what};
    if (code != 0) line += std::string{": "} + std::strerror(code);
    {
      const std::lock_guard lock{mutex_};
      ++totals_.faults;
    }
    if (config_.log) config_.log(line);
  }
  void insert(Record record) {
    bytes_ += record.bytes;
    records_.push_back(std::move(record));
    if (records_.back().ours) index_[records_.back().key] = std::prev(records_.end());
  }
  bool forget(const RecordKey& key) {
    const std::lock_guard lock{mutex_};
    const auto found = index_.find(key);
    if (found == index_.end()) return false;
    bytes_ -= found->second->bytes;
    records_.erase(found->second);
    index_.erase(found);
    return true;
  }
  /// Removes the least recently used records until `bytes` more have room. False: a file cannot be removed.
  bool make_room(std::int64_t bytes) {
    for (;;) {
      std::string name;
      {
        const std::lock_guard lock{mutex_};
        if (bytes_ + bytes <= config_.capacity) return true;
        if (records_.empty()) return false;
        name = records_.front().name;
      }
      // Removed before it is forgotten: what is counted may be gone, but nothing is there uncounted.
      if (const int code = files_->remove(name); code != 0 && code != ENOENT) {
        fault("it cannot be removed for room", name, code);
        return false;
      }
      const std::lock_guard lock{mutex_};
      const auto gone = std::find_if(records_.begin(), records_.end(), [&](const Record& r) { return r.name == name; });
      if (gone == records_.end()) continue; // a reader has found it wrong
      bytes_ -= gone->bytes;
      if (gone->ours) index_.erase(gone->key);
      records_.erase(gone);
      ++totals_.evicted;
    }
  }
  /// Writes one record, up to its rename, and adds it to `renamed`. False: it was not written.
  bool write(const NewRecord& record, std::vector<Record>& renamed) {
    const RecordIdentity identity{config_.digest, record.key};
    const std::string name = name_of(identity), unfinished_name = name + std::string{unfinished};
    std::uint64_t length = 0;
    for (const std::span<const std::byte> part : record.parts) length += part.size();
    const auto bytes = static_cast<std::int64_t>(record_head_bytes + length + record_tail_bytes);
    std::int64_t before = 0; // of this call's records, which are not in the list yet
    for (const Record& one : renamed) before += one.bytes;
    if (before + bytes > config_.capacity || !make_room(before + bytes)) return false;
    const auto head = record_head(identity, length);
    std::uint32_t crc = config_.crc(0, head);
    for (const std::span<const std::byte> part : record.parts) crc = config_.crc(crc, part);
    const auto tail = record_tail(crc);
    std::vector<std::span<const std::byte>> parts{head};
    parts.insert(parts.end(), record.parts.begin(), record.parts.end());
    parts.emplace_back(tail);
    int code = files_->write(unfinished_name, parts);
    if (code == 0) code = files_->rename(unfinished_name, name);
    if (code == 0) {
      renamed.push_back({name, record.key, bytes, true});
      return true;
    }
    fault("it cannot be written", name, code);
    (void)files_->remove(unfinished_name);
    return false;
  }

  std::unique_ptr<FileLayer> files_;
  Config config_;
  mutable std::mutex mutex_; ///< guards what follows; no file is touched under it
  Records records_;          ///< the least recently used first
  std::unordered_map<RecordKey, Records::iterator, HashKey> index_;
  std::int64_t bytes_ = 0;
  Totals totals_;
};

} // namespace sluice
