// SPDX-License-Identifier: Apache-2.0
// devices_table: the devices and models that --device and --model accept by name, with the figures that decide a
// comparison.
#pragma once

#include <string>

namespace compared {

/// Returns two Markdown tables, which docs/devices.md quotes.
[[nodiscard]] std::string devices_table();

} // namespace compared
