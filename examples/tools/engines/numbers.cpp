// SPDX-License-Identifier: Apache-2.0
#include "engines/numbers.hpp"

#include "sluice/core/text.hpp"

#include "engines/system.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace engines {

using namespace sluice;

std::vector<NumberRow> all_numbers(std::span<const System> systems) {
  std::vector<NumberRow> all;
  for (const System& system : systems) {
    if (system.numbers == nullptr) continue;
    for (const NumberRow& row : system.numbers()) {
      const auto same = [&row](const NumberRow& other) { return other.policy == row.policy && other.name == row.name; };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(row);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const NumberRow& a, const NumberRow& b) { return a.policy < b.policy; });
  return all;
}

namespace {

/// A bound as it is checked: of a whole number all digits, unless they are many.
std::string bound_text(const NumberRow& row, double bound) {
  return row.whole && std::abs(bound) < 1e9 ? fmt::format("{:.0f}", bound) : fmt::format("{:g}", bound);
}

} // namespace

Expected<NumberSetting> read_setting(const std::string& text, std::span<const System> systems) {
  const auto wrong = [](std::string what, std::string expected) {
    return Error{ErrorCode::bad_input, "--set", std::move(what), std::move(expected)};
  };
  const std::size_t dot = text.find('.'), equals = text.find('=', dot == std::string::npos ? 0 : dot);
  if (dot == std::string::npos || equals == std::string::npos)
    return wrong("it is '" + excerpt(text) + "'", "Policy.number=value, as --list numbers has them");
  const std::string policy = text.substr(0, dot), name = text.substr(dot + 1, equals - dot - 1);
  const std::string digits = text.substr(equals + 1);
  const std::vector<NumberRow> all = all_numbers(systems);
  std::vector<std::string_view> policies, names;
  for (const NumberRow& row : all) {
    if (policies.empty() || policies.back() != row.policy) policies.push_back(row.policy);
    if (row.policy == policy) names.push_back(row.name);
  }
  if (names.empty())
    return wrong("no policy of these systems is called '" + excerpt(policy) + "'" + did_you_mean(policy, policies),
                 "a policy that --list numbers has");
  const auto row = std::find_if(all.begin(), all.end(),
                                [&](const NumberRow& one) { return one.policy == policy && one.name == name; });
  if (row == all.end()) {
    std::string known;
    for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string{one};
    return wrong(policy + " has no number '" + excerpt(name) + "'" + did_you_mean(name, names), known);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool number = error == std::errc{} && end == digits.data() + digits.size(); // `most` may be infinite
  if (!number || std::isnan(value) || value < row->least || value > row->most ||
      (row->whole && (value != std::floor(value) || std::isinf(value))))
    return wrong(fmt::format("{}.{} is '{}'", policy, name, excerpt(digits)),
                 fmt::format("a {}number from {} to {}", row->whole ? "whole " : "", bound_text(*row, row->least),
                             bound_text(*row, row->most)));
  return NumberSetting{std::string{row->policy}, std::string{row->name}, value};
}

Expected<std::vector<NumberSetting>> read_settings(std::span<const std::string> texts,
                                                   std::span<const System> systems) {
  std::vector<NumberSetting> settings;
  for (const std::string& text : texts) {
    Expected<NumberSetting> setting = read_setting(text, systems);
    if (!setting) return setting.error();
    const auto same = [&setting](const NumberSetting& one) {
      return one.policy == setting->policy && one.name == setting->name;
    };
    if (std::any_of(settings.begin(), settings.end(), same))
      return Error{ErrorCode::bad_input, "--set", setting->policy + "." + setting->name + " is set twice",
                   "each number once"};
    settings.push_back(*std::move(setting));
  }
  return settings;
}

std::string numbers_text(std::span<const System> systems) {
  std::string text = "numbers of the policies, their defaults and bounds (--set Policy.number=value):\n";
  for (const NumberRow& row : all_numbers(systems))
    text += fmt::format("  {:<38} {:>8g}  {} to {}: {}\n", fmt::format("{}.{}", row.policy, row.name), row.value,
                        bound_text(row, row.least), bound_text(row, row.most), row.what);
  return text;
}

} // namespace engines
