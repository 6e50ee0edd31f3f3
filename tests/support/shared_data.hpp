// SPDX-License-Identifier: Apache-2.0
// Shared data: the public traces and profiles next to the checkout; tests are skipped without them.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <string>
#include <system_error>

namespace sluice_test {

/// The shared folder: $SLUICE_SHARED, or `../shared` next to the checkout. Empty if there is none.
inline std::filesystem::path shared_folder() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (const char* named = std::getenv("SLUICE_SHARED"); named != nullptr && *named != '\0') {
    return fs::is_directory(named, ignored) ? fs::path{named} : fs::path{};
  }
  // From the working directory (ctest runs in the checkout), and from this file, for a program started elsewhere.
  const fs::path checkout = fs::path{__FILE__}.parent_path().parent_path().parent_path();
  for (const fs::path& beside : {fs::current_path(ignored), checkout}) {
    const fs::path candidate = fs::weakly_canonical(beside / ".." / "shared", ignored);
    if (fs::is_directory(candidate, ignored)) return candidate;
  }
  return {};
}

/// A file or folder of the shared folder: `shared_path("data/traces/azure_llm_2023_conv.csv")`.
inline std::string shared_path(const std::string& relative) { return (shared_folder() / relative).string(); }

/// Decorates a test that needs shared files: doctest counts it as skipped if one is missing, and a line names the file.
///
///     TEST_CASE("reads the trace" * sluice_test::needs_shared({"data/traces/x.csv"})) { … }
inline doctest::skip needs_shared(std::initializer_list<const char*> files) {
  std::error_code ignored;
  const std::filesystem::path folder = shared_folder();
  for (const char* file : files) {
    if (!folder.empty() && std::filesystem::exists(folder / file, ignored)) continue;
    std::cerr << "skipped: a test needs " << file << " (set SLUICE_SHARED to the folder that holds it)\n";
    return doctest::skip(true);
  }
  return doctest::skip(false);
}

} // namespace sluice_test
