// SPDX-License-Identifier: Apache-2.0
// RecordStore: blocks of KV on a disk, found again after a restart, never wrong.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/records/record.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace sluice {

/// A file for each record. A record is written under a name of its own, synced, renamed, and its folder synced; only
/// then it is acknowledged. So a file with a record's name is whole after any kill; what a disk did to it later, the
/// record's checksum finds.
///
/// - If a record's bytes are wrong or the disk cannot read them (EIO), `get` misses, logs a line, and removes the file.
///   After an error that may pass (EMFILE, ENOMEM), it misses, logs a line, and keeps the file.
/// - Before a record is written, the least recently used ones are removed until it has room. Records of other models
///   in the folder take room too, and are removed like others. A file that cannot be removed is passed over.
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
    std::int64_t capacity = 0;            ///< Config::capacity
    std::int64_t records = 0, bytes = 0;  ///< there now; bytes with those of other models
    std::int64_t written = 0, read = 0;   ///< records
    std::int64_t evicted = 0, faults = 0; ///< records removed for room; lines in the log
  };

  /// Finds the records of an earlier run, in the order of their last use. Removes, with a line each, what a killed run
  /// left unfinished and files whose size no record of this store can have. Errors: the folder cannot be listed.
  [[nodiscard]] static Expected<std::unique_ptr<RecordStore>> open(std::unique_ptr<FileLayer> files, Config config);

  [[nodiscard]] bool has(const RecordKey& key) const;
  /// Reads a record's payload into `into`, directly: a vector that is used again is not cleared before, and nothing is
  /// copied. False: the record is not there, or it is not what was written; then `into` has any bytes.
  [[nodiscard]] bool get(const RecordKey& key, std::vector<std::byte>& into);
  /// These records are used now, though their content was found elsewhere: the first is the most recent. Keys without a
  /// record are passed over.
  void use(std::span<const RecordKey> keys);
  /// Writes records that the store does not have. Returns how many of them, from the first on, are acknowledged: a
  /// later `get` finds them, also after a crash, while there is room.
  std::size_t put(std::span<const NewRecord> records);
  [[nodiscard]] Totals totals() const;

 private:
  static constexpr std::string_view unfinished = ".new";

  struct Record {
    RecordIdentity identity;
    std::int64_t bytes = 0;   ///< of its file
    std::uint64_t serial = 0; ///< another one for each file, also of one name; 0: no `get` finds it
  };
  using Records = std::list<Record>;
  // Found by identity, and no larger than an iterator.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const RecordIdentity& one) const noexcept { return static_cast<std::size_t>(one.key.low); }
    std::size_t operator()(const Records::iterator& one) const noexcept { return (*this)(one->identity); }
  };
  struct Same {
    using is_transparent = void;
    bool operator()(const Records::iterator& a, const Records::iterator& b) const { return a->identity == b->identity; }
    bool operator()(const RecordIdentity& a, const Records::iterator& b) const { return a == b->identity; }
    bool operator()(const Records::iterator& a, const RecordIdentity& b) const { return a->identity == b; }
  };

  RecordStore(std::unique_ptr<FileLayer> files, Config config) : files_(std::move(files)), config_(std::move(config)) {}

  void fault(std::string_view what, const std::string& name, int code);
  /// How many records of this model it is: 0 or 1.
  [[nodiscard]] std::int64_t ours(const Record& record) const;
  /// `get` finds the record from now on.
  void publish(Records::iterator at);
  void drop(Records::iterator at);
  /// Removes the file of a record that no `get` finds any more, and then the record: until then its bytes count, so
  /// that no file is there uncounted. Needs `files_mutex_`.
  [[nodiscard]] int remove(Records::iterator at, const std::string& name);
  /// Removes the least recently used records until `bytes` more have room. False: there is none.
  bool make_room(std::int64_t bytes);
  /// Reads a record's file. Returns an errno; `why` is what is wrong with its bytes.
  [[nodiscard]] int read(const Record& record, const std::string& name, std::vector<std::byte>& into,
                         std::string_view& why);
  /// Writes one record, up to its rename, and adds it to `renamed`. False: it was not written.
  bool write(const NewRecord& record, Records& renamed);

  std::unique_ptr<FileLayer> files_;
  Config config_;
  bool names_unsynced_ = false; ///< a crash may lose names that this store finds; only `put` uses it
  /// Held while a file with a record's name is removed or replaced, and taken before `mutex_`: a reader that finds a
  /// record wrong removes that file, and none that is written meanwhile. Only its holder removes a record.
  std::mutex files_mutex_;
  mutable std::mutex mutex_; ///< guards what follows; no file is touched under it
  Records records_;          ///< the least recently used first
  std::unordered_set<Records::iterator, Hash, Same> index_;
  std::uint64_t serials_ = 0; ///< given so far
  std::int64_t bytes_ = 0;    ///< of all files with a record's name
  std::int64_t ours_ = 0;     ///< records of this model
  Totals totals_;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/records/record_store.inl.hpp"
#endif
