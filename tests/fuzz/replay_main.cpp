// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over files, for compilers without libFuzzer: each file is tried whole, cut short at every length
// (of the first 4 KiB), and with single bytes changed. One program has all targets, so that headers are parsed once.
#include "fuzz/fuzz_support.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using sluice_test::FuzzTarget;

void try_input(const FuzzTarget& target, const std::string& text) {
  target.function(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

/// Returns how many inputs were tried.
long replay(const FuzzTarget& target, const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>{stream}, std::istreambuf_iterator<char>{}};
  const std::size_t near = std::min<std::size_t>(text.size(), 4096);
  try_input(target, text);
  long tried = 1;
  for (std::size_t length = 0; length < near; ++length, ++tried) try_input(target, text.substr(0, length));
  for (std::size_t at = 0; at < near; ++at) {
    for (const char changed : {'\0', '\n', '"', '-', '9', '}', '\xff'}) {
      std::string other = text;
      other[at] = changed;
      try_input(target, other);
      ++tried;
    }
  }
  return tried;
}

} // namespace

int main(int count, char** arguments) {
  namespace fs = std::filesystem;
  const FuzzTarget* target = FuzzTarget::first;
  while (target != nullptr && (count < 2 || std::string_view{target->name} != arguments[1])) target = target->next;
  std::vector<fs::path> files;
  for (int i = 2; i < count; ++i) {
    std::error_code failure;
    if (fs::is_directory(arguments[i], failure)) {
      for (const fs::directory_entry& entry : fs::directory_iterator(arguments[i], failure))
        files.push_back(entry.path());
    } else if (fs::is_regular_file(arguments[i], failure)) {
      files.emplace_back(arguments[i]);
    }
  }
  if (target == nullptr || files.empty()) {
    std::fprintf(stderr, "usage: %s TARGET FILE_OR_FOLDER...: no %s was found\n", count > 0 ? arguments[0] : "replay",
                 target == nullptr ? "target" : "file");
    return 2;
  }
  std::sort(files.begin(), files.end());
  long tried = 0;
  for (const fs::path& file : files) tried += replay(*target, file);
  std::printf("%ld inputs from %zu files\n", tried, files.size());
  return 0;
}
