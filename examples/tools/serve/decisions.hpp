// SPDX-License-Identifier: Apache-2.0
// DecisionsFile: the decision log of a server, written while it serves.
#pragma once

#include "sluice/core/expected.hpp"

#include "run/recorded.hpp"

#include <cstdio>
#include <memory>
#include <string>

namespace serving {

/// A run has an end, at which its log is written; a server may serve for a year. So each line goes to the file with the
/// next token that is handed over, and memory keeps none. (A file that appears when it is whole, as sluice-run writes,
/// would be nothing to look at meanwhile.)
class DecisionsFile {
 public:
  /// Begins the file, and writes what `recorded` hears. This must outlive the engine. Errors: a name that cannot be
  /// written to.
  [[nodiscard]] sluice::Status open(const std::string& path, running::Recorded& recorded);
  /// After the engine's end: what is left. Errors: a line could not be written.
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
