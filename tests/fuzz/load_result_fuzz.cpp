// SPDX-License-Identifier: Apache-2.0
// What load generators write: any text is read, or refused in one line.
#include "sluice/workload/nlohmann/load_result.hpp"

#include "fuzz/fuzz_support.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

SLUICE_FUZZ_TARGET(load_result) {
  // The reader opens its file twice, so the text needs one.
  static const std::string path = [] {
    std::string folder = (std::filesystem::temp_directory_path() / "sluice-fuzz-XXXXXX").string();
    return std::string{mkdtemp(folder.data())} + "/result";
  }();
  std::ofstream(path, std::ios::binary | std::ios::trunc) << sluice_test::text_of(data, size);
  const auto result = sluice::read_load_result(path);
  if (!result) {
    sluice_test::require_one_line(result.error());
    return 0;
  }
  for (const sluice::ClientRecord& one : result->requests)
    sluice_test::require(one.record.queued <= one.record.first_token &&
                             one.record.first_token <= one.record.last_token &&
                             one.record.prompt >= sluice::Tokens{1} && one.record.output >= sluice::Tokens{1},
                         "a request that was read has tokens, and times in order");
  return 0;
}
