// SPDX-License-Identifier: Apache-2.0
// DecisionsFile: a server's decision log, written while the server runs.
#pragma once

#include "sluice/core/expected.hpp"

#include "run/recorded.hpp"

#include <cstdio>
#include <memory>
#include <string>

namespace serving {

/// A run ends and then writes its log, but a server may run for a year. Each line is therefore written to the file
/// at once, before the live page can show its decision, and no lines stay in memory. (A file that appears only when it
/// is complete, as sluice-run writes it, could not be read in the meantime.)
class DecisionsFile {
 public:
  /// Starts the file, and writes the events that `recorded` receives. This object must outlive the engine. Errors: the
  /// file cannot be written.
  [[nodiscard]] sluice::Status open(const std::string& path, running::Recorded& recorded);
  /// Writes the remaining lines after the engine's end. Errors: a line could not be written.
  [[nodiscard]] sluice::Status close();

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };

  void write();

  std::unique_ptr<std::FILE, Close> file_;
  running::Recorded* recorded_ = nullptr;
  bool failed_ = false;
};

} // namespace serving
