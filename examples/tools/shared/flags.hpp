// SPDX-License-Identifier: Apache-2.0
// Flags: a program's command line, with ranges, and one line per error.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"

#include "shared/flag_errors.hpp"
#include "shared/sizes.hpp"
#include "shared/version.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

/// CLI11 finds and describes the flags. Numbers are parsed here, because CLI11 reads only a prefix of
/// "99999999999999999999". A command line's error begins with the program's name (flag_errors.hpp).
class Flags {
 public:
  Flags(std::string program, std::string purpose) : app_(std::move(purpose), std::move(program)) {
    app_.set_version_flag("--version", made_by().line(), "print version, commit and build, and stop");
  }

  CLI::App& app() { return app_; }
  [[nodiscard]] const CLI::App& app() const { return app_; }

  /// Adds a flag for an integer from `least` to `most`. `Place`: an integer, or an optional of one. `else_expected`:
  /// appended to the error's expectation.
  template <class Place>
  CLI::Option* whole(const std::string& flag, Place& place, std::int64_t least, std::int64_t most,
                     const std::string& help, const std::string& else_expected = "") {
    const std::string expected =
        "a whole number from " + std::to_string(least) + " to " + std::to_string(most) + else_expected;
    return read(flag, "N", help, one_or_list(flag, [=, &place](std::string_view text) -> std::string {
                  std::int64_t value = 0;
                  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
                  if (wrong != std::errc{} || end != text.data() + text.size() || value < least || value > most)
                    return expected;
                  place = static_cast<Inner<Place>>(value);
                  return {};
                }));
  }
  /// Adds a flag for a finite number above `least`, or equal to it if `closed`.
  template <class Place>
  CLI::Option* number(const std::string& flag, Place& place, double least, bool closed, const std::string& help) {
    const std::string expected = described(least, closed);
    return read(flag, "NUMBER", help, one_or_list(flag, [=, &place](std::string_view text) -> std::string {
                  double value = 0;
                  if (!read_number(text, value) || !(closed ? value >= least : value > least)) return expected;
                  place = value;
                  return {};
                }));
  }
  /// Adds a flag for a size with its unit, or in bytes: "64MiB", "1.5GB", "65536". `Place`: for bytes, as in whole().
  template <class Place>
  CLI::Option* size(const std::string& flag, Place& place, std::int64_t least, const std::string& help) {
    const std::string expected =
        "a size" + (least > 0 ? " of at least " + std::to_string(least) + "B," : "") + " such as 64MiB, 1.5GB or 65536";
    return read(flag, "SIZE", help, one_or_list(flag, [=, &place](std::string_view text) -> std::string {
                  const std::optional<double> bytes = read_bytes(text);
                  if (!bytes || *bytes < static_cast<double>(least)) return expected;
                  place = static_cast<Inner<Place>>(*bytes);
                  return {};
                }));
  }
  /// Adds a flag for bytes per second, with their unit: "2GB/s". `or_unlimited`: accept that word as 0.
  template <class Place>
  CLI::Option* rate(const std::string& flag, Place& place, bool or_unlimited, const std::string& help) {
    const std::string expected =
        std::string{"a rate of at least 1B/s, with its unit, such as 2GB/s"} + (or_unlimited ? ", or unlimited" : "");
    return read(flag, "RATE", help, one_or_list(flag, [=, &place](std::string_view text) -> std::string {
                  const bool unlimited = or_unlimited && text == "unlimited";
                  const std::optional<double> rate = read_rate(text);
                  if (!unlimited && (!rate || *rate < 1)) return expected;
                  place = unlimited ? 0 : *rate;
                  return {};
                }));
  }
  /// A number flag that was given as a list: "--kv-blocks 400,600,800".
  struct Listed {
    std::string flag;
    std::vector<std::string> values;
    bool numbers = true; ///< false: names
  };
  /// Allows later number flags to be given as lists, until it is called with null. `lists` receives the lists, with
  /// each value checked, and a flag's place gets the first value of its list.
  void lists_into(std::vector<Listed>* lists) { lists_ = lists; }

  /// Adds a flag for a name or a file, or several separated by commas if lists are enabled. An existing file whose name
  /// contains commas is a single value.
  template <class Place>
  CLI::Option* name(const std::string& flag, Place& place, const std::string& help) {
    return read(flag, "TEXT", help, [flag, &place, lists = lists_](std::string_view text) -> std::string {
      std::error_code ignored;
      place = std::string{text};
      if (lists == nullptr || text.find(',') == std::string_view::npos || std::filesystem::exists(text, ignored))
        return {};
      Listed listed{flag, {}, false};
      for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string value{text.substr(begin, end - begin)};
        if (value.empty()) return "names with one comma between two";
        if (std::find(listed.values.begin(), listed.values.end(), value) != listed.values.end())
          return "each name once";
        listed.values.push_back(value);
        begin = end + 1;
      }
      place = listed.values.front();
      lists->push_back(std::move(listed));
      return {};
    });
  }

  /// Adds a flag for a list of numbers, separated by commas.
  CLI::Option* numbers(const std::string& flag, std::vector<double>& place, double least, bool closed,
                       const std::string& help) {
    const std::string expected = described(least, closed) + ", or several with commas";
    return read(flag, "NUMBER,...", help, [=, &place](std::string_view text) -> std::string {
      place.clear();
      for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        double value = 0;
        if (!read_number(text.substr(begin, end - begin), value) || !(closed ? value >= least : value > least))
          return expected;
        if (std::find(place.begin(), place.end(), value) != place.end()) return "each number once";
        place.push_back(value);
        begin = end + 1;
      }
      return {};
    });
  }

  /// Adds a flag for a list of integers from `least` to `most`, separated by commas.
  CLI::Option* wholes(const std::string& flag, std::vector<std::int64_t>& place, std::int64_t least, std::int64_t most,
                      const std::string& help) {
    const std::string expected =
        "a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", or several with commas";
    return read(flag, "N,...", help, [=, &place](std::string_view text) -> std::string {
      place.clear();
      for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        std::int64_t value = 0;
        const auto [stop, wrong] = std::from_chars(text.data() + begin, text.data() + end, value);
        if (wrong != std::errc{} || stop != text.data() + end || value < least || value > most) return expected;
        if (std::find(place.begin(), place.end(), value) != place.end()) return "each number once";
        place.push_back(value);
        begin = end + 1;
      }
      return {};
    });
  }

  /// `take` stores the text's value, or returns the expectation for the error. `kind`: the value's type in --help.
  template <class Take>
  CLI::Option* read(const std::string& flag, const std::string& kind, const std::string& help, Take take) {
    CLI::Option* option = app_.add_option_function<std::string>(
        flag,
        [flag, take](const std::string& text) {
          if (const std::string expected = take(text); !expected.empty())
            throw RefusedFlag(wrong_flag(flag, "it is '" + sluice::excerpt(text) + "'", expected));
        },
        help);
    return option->type_name(kind);
  }

  /// Adds a flag that names a file of flags, in CLI11's format: lines such as `port = 8080`. The command line takes
  /// precedence.
  void from_file(const std::string& flag) {
    app_.set_config(flag, "", "a file of further flags, a line each as 'port = 8080'; the command line overrides it")
        ->type_name("FILE");
    app_.allow_config_extras(CLI::config_extras_mode::error);
  }

  /// Adds a flag for any other value: `take` stores the text's value, or returns the expectation for the error.
  template <class Take>
  CLI::Option* other(const std::string& flag, const std::string& help, Take take) {
    return read(flag, "TEXT", help, take);
  }

  /// Adds a flag for a folder to write to: any path except an empty one, which would silently lose everything.
  CLI::Option* folder(const std::string& flag, std::string& place, const std::string& help) {
    return read(flag, "TEXT", help, [&place](std::string_view text) -> std::string {
      place = text;
      return text.empty() ? "a folder's path" : "";
    });
  }

  /// Reads the command line. Empty: continue; otherwise the program's exit status, with all output already printed.
  [[nodiscard]] std::optional<int> parse(int argc, char** argv) { return parse_or_say(app_, argc, argv); }
  /// Reads words. Returns what --help or --version asks to print; empty: continue.
  [[nodiscard]] sluice::Expected<std::string> read_words(const std::vector<std::string>& words) {
    return read_flags(app_, words);
  }

 private:
  template <class Place>
  struct Unwrap {
    using type = Place;
  };
  template <class Value>
  struct Unwrap<std::optional<Value>> {
    using type = Value;
  };
  template <class Place>
  using Inner = typename Unwrap<Place>::type;

  static bool read_number(std::string_view text, double& value) {
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
    return wrong == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
  }
  static std::string described(double least, bool closed) {
    char text[64];
    std::snprintf(text, sizeof text, "a finite number %s %g", closed ? "of at least" : "above", least);
    return text;
  }

  /// Wraps `take` for one number so that it also accepts a list, if lists are enabled.
  template <class Take>
  auto one_or_list(const std::string& flag, Take take) {
    return [flag, take, lists = lists_](std::string_view text) -> std::string {
      if (lists == nullptr || text.find(',') == std::string_view::npos) return take(text);
      Listed listed{flag, {}};
      std::vector<double> known;
      for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string value{text.substr(begin, end - begin)};
        listed.values.push_back(value);
        const std::string what = "value " + std::to_string(listed.values.size()) + " of '" + sluice::excerpt(text) +
                                 "' is '" + sluice::excerpt(value) + "'";
        if (const std::string expected = take(value); !expected.empty())
          throw RefusedFlag(wrong_flag(flag, what, expected));
        const std::optional<double> number = read_quantity(value);
        if (!number)
          throw RefusedFlag(wrong_flag(flag, what + ", which is not a number",
                                       "only numbers in a list, and " + flag + " " + value + " by itself"));
        if (std::find(known.begin(), known.end(), *number) != known.end())
          throw RefusedFlag(wrong_flag(flag, what + " once more", "each number once"));
        known.push_back(*number);
        begin = end + 1;
      }
      take(listed.values.front());
      lists->push_back(std::move(listed));
      return {};
    };
  }

  CLI::App app_;
  std::vector<Listed>* lists_ = nullptr;
};
