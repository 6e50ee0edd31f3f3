// SPDX-License-Identifier: Apache-2.0
// Without ISA-L there is no checksum, and so no disk.
#include "run/tiers.hpp"

namespace running {

using namespace sluice;

Expected<std::shared_ptr<RecordStore>> open_records(const DiskCache& disk, std::uint64_t /*digest*/) {
  return Error{ErrorCode::unsupported, disk.folder, "this program was built without ISA-L",
               "a build with it (Debian: libisal-dev)"};
}

} // namespace running
