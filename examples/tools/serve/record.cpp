// SPDX-License-Identifier: Apache-2.0
// What a server writes down while it serves.
#include "serve/record.hpp"

#include "sluice/serve/request_record.hpp"
#include "sluice/world/machine/real_backend.hpp"
#include "sluice/world/machine/world_of.hpp"
#include "sluice/world/recorded.hpp"

#include "run/options.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

namespace serving {

using namespace sluice;

Expected<std::unique_ptr<GrowingFile>> GrowingFile::open(std::string flag, const std::string& path, Log log) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return running::flag_error(flag, fmt::format("'{}' cannot be written: {}", path, std::strerror(errno)),
                               "the name of a file to be written");
  return std::unique_ptr<GrowingFile>(new GrowingFile(std::move(flag), path, descriptor, std::move(log)));
}

GrowingFile::GrowingFile(std::string flag, std::string path, int descriptor, Log log)
    : flag_(std::move(flag)), path_(std::move(path)), log_(std::move(log)), descriptor_(descriptor) {}

GrowingFile::~GrowingFile() {
  ::close(descriptor_);
  if (lost_ > 0) log_->add(fmt::format("sluice-serve: {}: {} lines are missing in '{}'", flag_, lost_, path_));
}

void GrowingFile::add(std::string_view lines, std::int64_t count) {
  std::size_t done = 0;
  while (done < lines.size()) {
    const ssize_t wrote = ::write(descriptor_, lines.data() + done, lines.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error = errno;
      // Half a line would make the next one unreadable. What is no regular file cannot be cut, nor need it be.
      if (::ftruncate(descriptor_, size_) == 0) (void)::lseek(descriptor_, size_, SEEK_SET);
      if (lost_ == 0)
        log_->add(fmt::format("sluice-serve: {}: '{}' takes no more: {}; the server goes on without", flag_, path_,
                              std::strerror(error)));
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

void ClockFile::over(const ServedRequest& /*request*/) { write(1); } // the last says what time it is

void ClockFile::write(std::size_t keep) {
  auto& events = record_.events;
  if (events.size() <= keep) return;
  const auto end = events.end() - static_cast<std::ptrdiff_t>(keep);
  std::string lines;
  for (auto event = events.begin(); event != end; ++event) ClockRecord::write(lines, *event, step_);
  file_->add(lines, end - events.begin());
  events.erase(events.begin(), end);
}

Status Records::open(const Options& options) {
  if (!options.record.empty()) {
    auto file = GrowingFile::open("--record", options.record, log_);
    if (!file) return file.error();
    requests_ = std::make_unique<RequestFile>(std::move(*file));
    listeners_.push_back(requests_.get());
  }
  if (!options.record_clock.empty()) {
    auto file = GrowingFile::open("--record-clock", options.record_clock, log_);
    if (!file) return file.error();
    clock_ = std::make_unique<ClockFile>(std::move(*file));
    listeners_.push_back(clock_.get());
  }
  return {};
}

std::shared_ptr<BackendWorld> Records::recorded(std::shared_ptr<BackendWorld> world) {
  if (!clock_) return world;
  return world_of(Recorded{RealBackend{std::move(world)}, clock_->record()});
}

} // namespace serving
