// SPDX-License-Identifier: Apache-2.0
#include "../../examples/tools/shared/offload_settings.hpp"
#include "fuzz/fuzz_support.hpp"

#include <optional>

SLUICE_FUZZ_TARGET(offload_settings) {
  const std::string text = sluice_test::text_of(data, size);
  for (const OffloadBy by : {OffloadBy::simulation, OffloadBy::machine}) {
    const auto read = offload_detail::read_content(text, "settings", by); // names no file, which a text might
    if (!read) {
      sluice_test::require_one_line(read.error());
      continue;
    }
    sluice_test::require(!read->system.empty(), "settings name a system");
    sluice_test::require((read->host_bytes > 0) != (read->host_ratio > 0), "the host has bytes, or a ratio");
    sluice_test::require((read->disk_bytes > 0) != read->disk.empty(), "a disk has a folder and bytes");
    for (const auto device : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{1},
                              std::optional<std::int64_t>{std::int64_t{1} << 62U}}) {
      const auto host = host_bytes_of(*read, device, "--kv-transfer-config");
      if (host)
        sluice_test::require(*host > 0, "the host has bytes");
      else
        sluice_test::require_one_line(host.error());
    }
  }
  return 0;
}
