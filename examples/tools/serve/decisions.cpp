// SPDX-License-Identifier: Apache-2.0
// Writes a server's decision log.
#include "serve/decisions.hpp"

#include "sluice/core/text.hpp"

#include "run/options.hpp"

#include <cerrno>
#include <system_error>

namespace serving {

using namespace sluice;

Status DecisionsFile::open(const std::string& path, running::Recorded& recorded) {
  file_.reset(std::fopen(path.c_str(), "we"));
  if (!file_)
    return running::flag_error("--decisions", "'" + excerpt(path, 200) + "': " + std::generic_category().message(errno),
                               "the name of a file to be written");
  recorded_ = &recorded;
  recorded.keeps_decisions = true;
  recorded.decided = [this] { write(); };
  return {};
}

void DecisionsFile::write() {
  for (const std::string& line : recorded_->decisions.lines)
    failed_ |= std::fputs((line + '\n').c_str(), file_.get()) < 0;
  failed_ |= std::fflush(file_.get()) != 0;
  recorded_->decisions.lines.clear();
}

Status DecisionsFile::close() {
  if (!file_) return {};
  write();
  if (std::fclose(file_.release()) == 0 && !failed_) return {};
  return running::flag_error("--decisions", "the file could not be written to its end", "room on its disk");
}

} // namespace serving
