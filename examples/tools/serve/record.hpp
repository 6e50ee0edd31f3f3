// SPDX-License-Identifier: Apache-2.0
// Records: the files in which a server records its requests as they end, and its clock.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/log_writer.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/world/clock_record.hpp"
#include "sluice/world/cpu/cpu.hpp"

#include "serve/options.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serving {

using Log = std::shared_ptr<sluice::LogWriter>;

/// A file that grows by whole lines; each line is in the file before `add` returns. If the disk fills up, the log
/// reports it once, the lines that could not be written are counted, and the server continues.
class GrowingFile {
 public:
  /// Opens a file. Returns null if the file contains an earlier run's lines or another server writes it. Errors name
  /// `flag`: the path cannot be written.
  static sluice::Expected<std::unique_ptr<GrowingFile>> open(std::string flag, const std::string& path, Log log);
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  /// Reports how many lines were lost, if any.
  ~GrowingFile();

  /// Adds `count` whole lines. If they cannot all be written, none of them stays in the file.
  void add(std::string_view lines, std::int64_t count = 1);

 private:
  GrowingFile(std::string flag, std::string path, int descriptor, Log log);

  std::string flag_, path_;
  Log log_;
  int descriptor_;
  std::int64_t size_ = 0; ///< of the whole lines
  std::int64_t lost_ = 0; ///< lines
};

/// Writes a line for each request that has ended.
class RequestFile final : public sluice::ServedListener {
 public:
  explicit RequestFile(std::unique_ptr<GrowingFile> file) : file_(std::move(file)) {}
  void over(const sluice::ServedRequest& request) override;

 private:
  std::unique_ptr<GrowingFile> file_;
  std::string line_;
};

/// Records the clock of the running engine, and writes it whenever a request ends: memory contains only later events.
class ClockFile final : public sluice::ServedListener {
 public:
  explicit ClockFile(std::unique_ptr<GrowingFile> file);
  /// Writes the rest after the engine has ended, or if it was never made.
  ~ClockFile() override;

  [[nodiscard]] sluice::ClockRecord& record() { return record_; }
  void over(const sluice::ServedRequest& request) override;

 private:
  /// Writes all events except the last `keep`.
  void write(std::size_t keep);

  std::unique_ptr<GrowingFile> file_;
  sluice::ClockRecord record_;
  std::int64_t step_ = 0; ///< number of iterations that have been written
};

/// The files that a run must write, and other listeners of ended requests.
class Records final : public sluice::ServedListener {
 public:
  explicit Records(Log log) : log_(std::move(log)) {}
  /// Opens the files that `options` name. If an earlier run wrote one of them, opens both with the next number:
  /// day.jsonl, day.1.jsonl, day.2.jsonl. Errors: one of them cannot be written.
  sluice::Status open(const Options& options);
  /// `listener` also receives every request; it must outlive this object.
  void tell(sluice::ServedListener& listener) { listeners_.push_back(&listener); }
  /// Returns the same world; its clock is recorded if that was requested.
  [[nodiscard]] std::shared_ptr<sluice::BackendWorld> recorded(std::shared_ptr<sluice::BackendWorld> world);
  void over(const sluice::ServedRequest& request) override {
    for (sluice::ServedListener* const listener : listeners_) listener->over(request);
  }

 private:
  /// Opens the files with that number; returns false if one of them is in use.
  sluice::Expected<bool> open(const Options& options, int number);

  Log log_;
  std::unique_ptr<RequestFile> requests_;
  std::unique_ptr<ClockFile> clock_;
  std::vector<sluice::ServedListener*> listeners_; ///< not changed once an engine runs
};

} // namespace serving
