// SPDX-License-Identifier: Apache-2.0
// Flags: a program's command line, with ranges, and one line for what is wrong with it.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

/// CLI11 finds and explains the flags; numbers are read here, for CLI11 takes what it can of "99999999999999999999" and
/// answers in two lines. `what` opens every error's line: the program's name.
class Flags {
 public:
  Flags(std::string program, std::string purpose) : program_(std::move(program)), app_(std::move(purpose)) {}

  CLI::App& app() { return app_; }
  [[nodiscard]] const CLI::App& app() const { return app_; }

  /// A whole number from `least` to `most`. `Place`: an integer, or an optional of one.
  template <class Place>
  CLI::Option* whole(const std::string& flag, Place& place, std::int64_t least, std::int64_t most,
                     const std::string& help) {
    const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    return read(flag, help, [=, &place](std::string_view text) -> std::string {
      std::int64_t value = 0;
      const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (wrong != std::errc{} || end != text.data() + text.size() || value < least || value > most) return expected;
      place = static_cast<Inner<Place>>(value);
      return {};
    });
  }
  /// A finite number from `least`, which itself is allowed if `closed`.
  template <class Place>
  CLI::Option* number(const std::string& flag, Place& place, double least, bool closed, const std::string& help) {
    const std::string expected = described(least, closed);
    return read(flag, help, [=, &place](std::string_view text) -> std::string {
      double value = 0;
      if (!read_number(text, value) || !(closed ? value >= least : value > least)) return expected;
      place = value;
      return {};
    });
  }
  /// Such numbers, with commas between them.
  CLI::Option* numbers(const std::string& flag, std::vector<double>& place, double least, bool closed,
                       const std::string& help) {
    const std::string expected = described(least, closed) + ", or several with commas";
    return read(flag, help, [=, &place](std::string_view text) -> std::string {
      place.clear();
      for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        double value = 0;
        if (!read_number(text.substr(begin, end - begin), value) || !(closed ? value >= least : value > least))
          return expected;
        place.push_back(value);
        begin = end + 1;
      }
      return {};
    });
  }

  /// Anything else: `take` stores the text's value, or returns what would have been right.
  template <class Take>
  CLI::Option* other(const std::string& flag, const std::string& help, Take take) {
    return read(flag, help, take);
  }

  /// Reads the command line. Nothing: go on; otherwise the program's exit status, and what there was to say is said.
  [[nodiscard]] std::optional<int> parse(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);
      const std::string text = error.what();
      const bool ours = text.find("; expected ") != std::string::npos;
      std::fprintf(stderr, "%s: %s%s\n", program_.c_str(), text.substr(0, text.find('\n')).c_str(),
                   ours ? "" : "; expected the flags that --help lists");
      return 2;
    }
    return std::nullopt;
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

  /// `take` stores the text's value, or returns what would have been right.
  template <class Take>
  CLI::Option* read(const std::string& flag, const std::string& help, Take take) {
    return app_.add_option_function<std::string>(
        flag,
        [flag, take](const std::string& text) {
          if (const std::string expected = take(text); !expected.empty())
            throw CLI::ParseError(flag + ": it is '" + sluice::excerpt(text) + "'; expected " + expected,
                                  CLI::ExitCodes::ValidationError);
        },
        help);
  }

  std::string program_;
  CLI::App app_;
};
