// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over files, for compilers without libFuzzer: every argument is a file or a folder of files, and
// each is tried whole, cut short at every length (of the first 4 KiB), and with single bytes changed.
#include "fuzz/fuzz_support.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

namespace {

void try_input(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

/// Returns how many inputs were tried.
long replay(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>{stream}, std::istreambuf_iterator<char>{}};
  const std::size_t near = std::min<std::size_t>(text.size(), 4096);
  try_input(text);
  long tried = 1;
  for (std::size_t length = 0; length < near; ++length, ++tried) try_input(text.substr(0, length));
  for (std::size_t at = 0; at < near; ++at) {
    for (const char changed : {'\0', '\n', '"', '-', '9', '}', '\xff'}) {
      std::string other = text;
      other[at] = changed;
      try_input(other);
      ++tried;
    }
  }
  return tried;
}

} // namespace

int main(int count, char** arguments) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < count; ++i) {
    std::error_code failure;
    if (fs::is_directory(arguments[i], failure)) {
      for (const fs::directory_entry& entry : fs::directory_iterator(arguments[i], failure))
        files.push_back(entry.path());
    } else if (fs::is_regular_file(arguments[i], failure)) {
      files.emplace_back(arguments[i]);
    }
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s FILE_OR_FOLDER...: no file was found\n", count > 0 ? arguments[0] : "replay");
    return 2;
  }
  std::sort(files.begin(), files.end());
  long tried = 0;
  for (const fs::path& file : files) tried += replay(file);
  std::printf("%ld inputs from %zu files\n", tried, files.size());
  return 0;
}
