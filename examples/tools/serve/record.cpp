// SPDX-License-Identifier: Apache-2.0
// Records a server's requests as they end, and its clock.
#include "serve/record.hpp"

#include "sluice/serve/served_requests.hpp"
#include "sluice/world/real/world.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/recorded.hpp"

#include "engines/program.hpp"
#include "run/options.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>

namespace serving {

using namespace sluice;

Expected<std::unique_ptr<GrowingFile>> GrowingFile::open(std::string flag, const std::string& path, Log log) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return running::flag_error(flag, fmt::format("'{}' cannot be written: {}", path, std::strerror(errno)),
                               "the name of a file to be written");
  struct stat file {};
  // Locks the file while it is written; otherwise two servers that start together could both find it empty. A pipe
  // keeps no record.
  const bool regular = ::fstat(descriptor, &file) == 0 && S_ISREG(file.st_mode);
  if (regular && (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 || ::fstat(descriptor, &file) != 0 || file.st_size > 0)) {
    ::close(descriptor);
    return std::unique_ptr<GrowingFile>{};
  }
  return std::unique_ptr<GrowingFile>(new GrowingFile(std::move(flag), path, descriptor, std::move(log)));
}

GrowingFile::GrowingFile(std::string flag, std::string path, int descriptor, Log log)
    : flag_(std::move(flag)), path_(std::move(path)), log_(std::move(log)), descriptor_(descriptor) {}

GrowingFile::~GrowingFile() {
  ::close(descriptor_);
  if (lost_ > 0)
    log_->add(fmt::format("{}: {}: {} lines are missing in '{}'", engines::program_name(), flag_, lost_, path_));
}

void GrowingFile::add(std::string_view lines, std::int64_t count) {
  std::size_t done = 0;
  while (done < lines.size()) {
    const ssize_t wrote = ::write(descriptor_, lines.data() + done, lines.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error = errno;
      // Removes a partly written line, which would make the next one unreadable. Only a regular file can be truncated;
      // other files need no truncation.
      if (::ftruncate(descriptor_, size_) == 0) (void)::lseek(descriptor_, size_, SEEK_SET);
      if (lost_ == 0)
        log_->add(fmt::format("{}: {}: '{}' takes no more: {}; the server goes on without", engines::program_name(),
                              flag_, path_, std::strerror(error)));
      lost_ += count;
      return;
    }
    done += static_cast<std::size_t>(wrote);
  }
  size_ += static_cast<std::int64_t>(lines.size());
}

void RequestFile::over(const ServedRequest& request) {
  line_.clear();
  write_request(line_, request);
  file_->add(line_);
}

ClockFile::ClockFile(std::unique_ptr<GrowingFile> file) : file_(std::move(file)) {
  file_->add(std::string{ClockRecord::header} + '\n');
}
ClockFile::~ClockFile() { write(0); }

void ClockFile::over(const ServedRequest& /*request*/) { write(1); } // the last event has the current time

void ClockFile::write(std::size_t keep) {
  auto& events = record_.events;
  if (events.size() <= keep) return;
  const auto end = events.end() - static_cast<std::ptrdiff_t>(keep);
  std::string lines;
  for (auto event = events.begin(); event != end; ++event) ClockRecord::write(lines, *event, step_);
  file_->add(lines, end - events.begin());
  events.erase(events.begin(), end);
}

namespace {

/// "day.jsonl", "day.1.jsonl", …; "day", "day.1" for a name without an extension.
std::string numbered(const std::string& path, int number) {
  if (number == 0) return path;
  const std::filesystem::path name(path);
  return (name.parent_path() / name.stem()).string() + "." + std::to_string(number) + name.extension().string();
}

} // namespace

Expected<bool> Records::open(const Options& options, int number) {
  std::unique_ptr<GrowingFile> requests, clock;
  for (const auto& [flag, path, place] : {std::tuple{"--record", &options.record, &requests},
                                          std::tuple{"--record-clock", &options.record_clock, &clock}}) {
    if (path->empty()) continue;
    auto file = GrowingFile::open(flag, numbered(*path, number), log_);
    if (!file) return file.error();
    if (*file == nullptr) return false;
    *place = *std::move(file);
  }
  for (const auto& [flag, path] : {std::pair{"--record", &options.record}, {"--record-clock", &options.record_clock}})
    if (number > 0 && !path->empty())
      log_->add(fmt::format("{}: {}: '{}' has another run's lines; this one writes '{}'", engines::program_name(), flag,
                            *path, numbered(*path, number)));
  if (requests) listeners_.push_back((requests_ = std::make_unique<RequestFile>(std::move(requests))).get());
  if (clock) listeners_.push_back((clock_ = std::make_unique<ClockFile>(std::move(clock))).get());
  return true;
}

Status Records::open(const Options& options) {
  constexpr int most = 10'000;
  for (int number = 0; number < most; ++number) {
    const Expected<bool> opened = open(options, number);
    if (!opened) return opened.error();
    if (*opened) return {};
  }
  return running::flag_error("--record", fmt::format("{} earlier runs have files of that name", most), "another name");
}

std::shared_ptr<BackendWorld> Records::recorded(std::shared_ptr<BackendWorld> world) {
  if (!clock_) return world;
  return world_of(Recorded{RealBackend{std::move(world)}, clock_->record()});
}

} // namespace serving
