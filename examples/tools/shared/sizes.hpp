// SPDX-License-Identifier: Apache-2.0
// Sizes as people write them: 64MiB, 1.5GB, 2GB/s.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

/// Returns the bytes of "64MiB", "1.5 GB" or "65536", in decimal and binary units. Empty if the text is not a size, is
/// negative or above 2^62.
[[nodiscard]] inline std::optional<double> read_bytes(std::string_view text) {
  double value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc{} || !std::isfinite(value)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  constexpr std::string_view prefixes = "kMGT";
  double factor = 1;
  if (!unit.empty() && unit != "B") {
    const std::size_t power = prefixes.find(unit.front() == 'K' ? 'k' : unit.front());
    const std::string_view rest = unit.substr(1);
    if (power == std::string_view::npos || (rest != "B" && rest != "iB")) return std::nullopt;
    factor = std::pow(rest == "iB" ? 1024.0 : 1000.0, static_cast<double>(power + 1));
  }
  value *= factor;
  if (!(value >= 0 && value <= 0x1p62)) return std::nullopt;
  return value;
}

/// Returns the bytes per second of "2GB/s" or "500 MB/s". "2" is refused, because it could mean bytes per second or
/// GB/s.
[[nodiscard]] inline std::optional<double> read_rate(std::string_view text) {
  if (!text.ends_with("B/s")) return std::nullopt;
  text.remove_suffix(2);
  return read_bytes(text);
}

/// Returns the value of a number, a size or a rate in SI units: its position on an axis.
[[nodiscard]] inline std::optional<double> read_quantity(std::string_view text) {
  double value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong == std::errc{} && end == text.data() + text.size()) return value;
  return text.ends_with("/s") ? read_rate(text) : read_bytes(text);
}

/// Returns the exact count, followed by a readable one: "26542080 bytes (25.3 MiB)".
[[nodiscard]] inline std::string exact_bytes(std::int64_t bytes) {
  std::string text = std::to_string(bytes) + " bytes";
  if (bytes < 1024) return text;
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit < 3) value /= 1024, ++unit;
  char shown[40];
  std::snprintf(shown, sizeof shown, " (%.*f %s)", value < 10 ? 2 : 1, value, units[unit]);
  return text + shown;
}
