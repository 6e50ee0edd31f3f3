// SPDX-License-Identifier: Apache-2.0
// Records with ISA-L's checksum.
#include "sluice/records/isal/crc32c.hpp"
#include "sluice/records/posix_files.hpp"

#include "engines/program.hpp"
#include "run/tiers.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace running {

using namespace sluice;

Expected<std::shared_ptr<RecordStore>> open_records(const DiskCache& disk, std::uint64_t digest) {
  Expected<std::unique_ptr<FileLayer>> files = PosixFiles::open(disk.folder);
  if (!files) return files.error();
  RecordStore::Config config{disk.bytes, digest, crc32c, [](const std::string& line) {
                               std::fprintf(stderr, "%s: --disk-cache: %s\n", engines::program_name(), line.c_str());
                             }};
  Expected<std::unique_ptr<RecordStore>> store = RecordStore::open(*std::move(files), std::move(config));
  if (!store) return store.error();
  return std::shared_ptr<RecordStore>{*std::move(store)};
}

} // namespace running
