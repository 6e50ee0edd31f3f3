// SPDX-License-Identifier: Apache-2.0
// DiskModel: a folder in memory that fails or loses power at a chosen step; crc32c_by_bit: the checksum's definition.
#pragma once

#include "sluice/records/record.hpp"
#include "sluice/records/record_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice_test {

using namespace sluice;

/// RFC 3720's CRC-32C, bit by bit.
inline std::uint32_t crc32c_by_bit(std::uint32_t before, std::span<const std::byte> bytes) {
  std::uint32_t value = ~before;
  for (const std::byte byte : bytes) {
    value ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return ~value;
}

inline constexpr std::int64_t plenty = std::int64_t{1} << 30; ///< bytes: a capacity that evicts nothing

/// Thrown where the power is cut.
struct PowerCut {};

/// A disk, as POSIX promises no more: bytes are durable when their file was synced, names when their folder was.
struct DiskModel {
  struct File {
    std::vector<std::byte> bytes;
    bool synced = false;
    std::int64_t used = 0;
    std::int64_t hole = 0; ///< bytes that a damaged size claims beyond `bytes`
    bool stuck = false;    ///< it cannot be removed
    std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()) + hole; }
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;

  Names names;   ///< as programs see them
  Names durable; ///< as of the last sync of the folder
  std::int64_t time = 0;
  int steps = 0;                             ///< so far
  int cut_at = -1;                           ///< the power is cut at this step
  int fail_at = -1, code = 0;                ///< this step returns `code`
  std::int64_t room = std::int64_t{1} << 60; ///< bytes of all files; beyond: ENOSPC

  /// What a disk may have after the power was cut. Bits of `choice`: whether unsynced names made it; whether unsynced
  /// bytes made it in full, in half, as zeros, or not at all.
  [[nodiscard]] DiskModel after_cut(unsigned choice) const {
    DiskModel next;
    next.time = time;
    next.names = (choice & 1U) != 0 ? names : durable;
    for (auto& [name, file] : next.names) {
      auto copy = std::make_shared<File>(*file);
      const unsigned bytes = (choice >> 1U) & 3U;
      if (!copy->synced && bytes == 1) copy->bytes.resize(copy->bytes.size() / 2);
      if (!copy->synced && bytes == 2) std::fill(copy->bytes.begin(), copy->bytes.end(), std::byte{0});
      if (!copy->synced && bytes == 3) copy->bytes.clear();
      copy->synced = true;
      file = std::move(copy);
    }
    next.durable = next.names;
    return next;
  }
  static constexpr unsigned choices = 8;
};

/// Its files, for any number of threads; every system call is a step.
class ModelFiles final : public FileLayer {
 public:
  explicit ModelFiles(DiskModel& disk) : disk_(&disk) {}

  int list(std::vector<Entry>& into) override {
    const std::lock_guard lock{mutex_};
    if (const int code = step()) return code;
    for (const auto& [name, file] : disk_->names) into.push_back({name, file->size(), file->used});
    return 0;
  }
  int write(const std::string& name, std::span<const std::span<const std::byte>> parts) override {
    const std::lock_guard lock{mutex_};
    if (const int code = step()) return code; // creates it
    auto file = std::make_shared<DiskModel::File>();
    file->used = ++disk_->time;
    disk_->names[name] = file;
    for (const std::span<const std::byte> part : parts) {
      std::int64_t used = 0;
      for (const auto& [other, one] : disk_->names) used += static_cast<std::int64_t>(one->bytes.size());
      const auto free = static_cast<std::size_t>(std::max<std::int64_t>(0, disk_->room - used));
      const std::span<const std::byte> fits = part.first(std::min(free, part.size()));
      file->bytes.insert(file->bytes.end(), fits.begin(), fits.end());
      if (const int code = step()) return code; // after the write, as a disk that reports late
      if (fits.size() < part.size()) return ENOSPC;
    }
    if (const int code = step()) return code; // syncs it
    file->synced = true;
    return 0;
  }
  int rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock{mutex_};
    if (const int code = step()) return code;
    disk_->names[to] = disk_->names.at(from);
    disk_->names.erase(from);
    return 0;
  }
  int sync_folder() override {
    const std::lock_guard lock{mutex_};
    if (const int code = step()) return code;
    disk_->durable = disk_->names;
    return 0;
  }
  int read(const std::string& name, std::int64_t bytes, std::int64_t from,
           std::span<const std::span<std::byte>> parts) override {
    const std::lock_guard lock{mutex_};
    if (const int code = step()) return code;
    const auto found = disk_->names.find(name);
    if (found == disk_->names.end()) return ENOENT;
    if (found->second->size() != bytes) return other_length;
    for (const std::span<std::byte> part : parts)
      for (std::byte& byte : part) {
        const auto at = static_cast<std::size_t>(from++);
        byte = at < found->second->bytes.size() ? found->second->bytes[at] : std::byte{0};
      }
    return 0;
  }
  int remove(const std::string& name) override {
    const std::lock_guard lock{mutex_};
    if (const int code = step()) return code;
    const auto found = disk_->names.find(name);
    if (found == disk_->names.end()) return ENOENT;
    if (found->second->stuck) return EPERM;
    disk_->names.erase(found);
    return 0;
  }
  /// Changes a bit of a file, if it is there.
  bool rot(const std::string& name) {
    const std::lock_guard lock{mutex_};
    const auto found = disk_->names.find(name);
    if (found == disk_->names.end()) return false;
    found->second->bytes.back() ^= std::byte{1};
    return true;
  }
  int touch(const std::string& name) override {
    const std::lock_guard lock{mutex_};
    if (const int code = step()) return code;
    const auto found = disk_->names.find(name);
    if (found == disk_->names.end()) return ENOENT;
    found->second->used = ++disk_->time;
    return 0;
  }

 private:
  [[nodiscard]] int step() {
    const int now = disk_->steps++;
    if (now == disk_->cut_at) throw PowerCut{};
    return now == disk_->fail_at ? disk_->code : 0;
  }

  DiskModel* disk_;
  std::mutex mutex_;
};

/// A function of FileLayer.
enum class FileCall : std::uint8_t { list, write, rename, sync_folder, read, remove, touch };

/// Files that call `before` and `after` around each call, outside the lock of the modelled disk.
class WatchedFiles final : public FileLayer {
 public:
  using Hook = std::function<void(FileCall, const std::string& name)>;
  WatchedFiles(DiskModel& disk, Hook before, Hook after)
      : files_(disk), before_(std::move(before)), after_(std::move(after)) {}

  int list(std::vector<Entry>& into) override {
    return watch(FileCall::list, {}, [&] { return files_.list(into); });
  }
  int write(const std::string& name, std::span<const std::span<const std::byte>> parts) override {
    return watch(FileCall::write, name, [&] { return files_.write(name, parts); });
  }
  int rename(const std::string& from, const std::string& to) override {
    return watch(FileCall::rename, to, [&] { return files_.rename(from, to); });
  }
  int sync_folder() override {
    return watch(FileCall::sync_folder, {}, [&] { return files_.sync_folder(); });
  }
  int read(const std::string& name, std::int64_t bytes, std::int64_t from,
           std::span<const std::span<std::byte>> parts) override {
    return watch(FileCall::read, name, [&] { return files_.read(name, bytes, from, parts); });
  }
  int remove(const std::string& name) override {
    return watch(FileCall::remove, name, [&] { return files_.remove(name); });
  }
  int touch(const std::string& name) override {
    return watch(FileCall::touch, name, [&] { return files_.touch(name); });
  }
  bool rot(const std::string& name) { return files_.rot(name); }

 private:
  template <class Call>
  int watch(FileCall which, const std::string& name, const Call& call) {
    if (before_) before_(which, name);
    const int code = call();
    if (after_) after_(which, name);
    return code;
  }

  ModelFiles files_;
  Hook before_, after_;
};

/// The payload of the record with this number: its length and bytes follow from the number.
inline std::vector<std::byte> payload_of(std::uint64_t number) {
  std::vector<std::byte> bytes(40 + static_cast<std::size_t>(number % 7));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((number * 37 + i * 11 + (number >> 3)) & 0xFFU);
  return bytes;
}
inline RecordKey key_of(std::uint64_t number) { return {number * 0x9e3779b97f4a7c15U, ~number}; }
inline std::int64_t file_bytes_of(std::uint64_t number) {
  return static_cast<std::int64_t>(record_head_bytes + payload_of(number).size() + record_tail_bytes);
}

/// Writes the records with these numbers in one call, each in two parts. Returns how many are acknowledged.
inline std::size_t put(RecordStore& store, std::span<const std::uint64_t> numbers) {
  std::vector<std::vector<std::byte>> payloads;
  std::vector<std::vector<std::span<const std::byte>>> parts;
  for (const std::uint64_t number : numbers) payloads.push_back(payload_of(number));
  for (const std::vector<std::byte>& payload : payloads)
    parts.push_back({std::span(payload).first(8), std::span(payload).subspan(8)});
  std::vector<RecordStore::NewRecord> records;
  for (std::size_t i = 0; i < numbers.size(); ++i) records.push_back({key_of(numbers[i]), parts[i]});
  return store.put(records);
}

/// A get's outcome.
enum class Got : std::uint8_t { miss, right, wrong };
inline Got get(RecordStore& store, std::uint64_t number) {
  std::vector<std::byte> into;
  if (!store.get(key_of(number), into)) return Got::miss;
  return into == payload_of(number) ? Got::right : Got::wrong;
}

} // namespace sluice_test
