// SPDX-License-Identifier: Apache-2.0
// What a server writes down while it serves: its requests as they end, and its clock.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/log_writer.hpp"
#include "sluice/serve/served_request.hpp"
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

/// A file that grows by whole lines, each in the file before `add` returns. If the disk fills up, the log reports it
/// once, what could not be written is counted, and the server continues.
class GrowingFile {
 public:
  /// Begins a file; null where the path has an earlier run's lines, or another server writes it. Errors name `flag`:
  /// the path cannot be written.
  static sluice::Expected<std::unique_ptr<GrowingFile>> open(std::string flag, const std::string& path, Log log);
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  /// Says how much was lost, if any was.
  ~GrowingFile();

  /// Whole lines, `count` of them; nothing of them stays where not all can be written.
  void add(std::string_view lines, std::int64_t count = 1);

 private:
  GrowingFile(std::string flag, std::string path, int descriptor, Log log);

  std::string flag_, path_;
  Log log_;
  int descriptor_;
  std::int64_t size_ = 0; ///< of whole lines
  std::int64_t lost_ = 0; ///< lines
};

/// A line for each request that is over.
class RequestFile final : public sluice::ServedListener {
 public:
  explicit RequestFile(std::unique_ptr<GrowingFile> file) : file_(std::move(file)) {}
  void over(const sluice::ServedRequest& request) override;

 private:
  std::unique_ptr<GrowingFile> file_;
  std::string line_;
};

/// The clock of the engine that runs, written out whenever a request is over: memory holds what came since.
class ClockFile final : public sluice::ServedListener {
 public:
  explicit ClockFile(std::unique_ptr<GrowingFile> file);
  /// The engine has ended, or was never made: writes the rest.
  ~ClockFile() override;

  [[nodiscard]] sluice::ClockRecord& record() { return record_; }
  void over(const sluice::ServedRequest& request) override;

 private:
  /// Writes all events but the last `keep`.
  void write(std::size_t keep);

  std::unique_ptr<GrowingFile> file_;
  sluice::ClockRecord record_;
  std::int64_t step_ = 0; ///< iterations that are written
};

/// The files that a run is asked to write, and who else hears of requests that are over.
class Records final : public sluice::ServedListener {
 public:
  explicit Records(Log log) : log_(std::move(log)) {}
  /// Opens the files that `options` name, or, where an earlier run wrote one of them, both with the next number:
  /// day.jsonl, day.1.jsonl, day.2.jsonl. Errors: one of them cannot be written.
  sluice::Status open(const Options& options);
  /// `listener` hears of every request, too; outlives this.
  void tell(sluice::ServedListener& listener) { listeners_.push_back(&listener); }
  /// The same world, and its clock is written down where that was asked for.
  [[nodiscard]] std::shared_ptr<sluice::BackendWorld> recorded(std::shared_ptr<sluice::BackendWorld> world);
  void over(const sluice::ServedRequest& request) override {
    for (sluice::ServedListener* const listener : listeners_) listener->over(request);
  }

 private:
  /// The files of that number; false where one of them is taken.
  sluice::Expected<bool> open(const Options& options, int number);

  Log log_;
  std::unique_ptr<RequestFile> requests_;
  std::unique_ptr<ClockFile> clock_;
  std::vector<sluice::ServedListener*> listeners_; ///< not changed once an engine runs
};

} // namespace serving
