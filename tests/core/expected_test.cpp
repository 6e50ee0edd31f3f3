// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/expected.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace sluice;

namespace {

Expected<int> parse_digit(char c) {
  if (c < '0' || c > '9')
    return Error{ErrorCode::bad_input, "line 3", "'" + std::string(1, c) + "' is no digit", "0 to 9"};
  return c - '0';
}

Status check_digit(char c) {
  const Expected<int> digit = parse_digit(c);
  if (!digit) return digit.error();
  return {};
}

} // namespace

TEST_CASE("an Expected holds either the value or the error") {
  for (int c = 32; c < 127; ++c) {
    const Expected<int> digit = parse_digit(static_cast<char>(c));
    const bool is_digit = c >= '0' && c <= '9';
    CHECK(digit.has_value() == is_digit);
    CHECK(static_cast<bool>(digit) == is_digit);
    CHECK(check_digit(static_cast<char>(c)).ok() == is_digit);
    if (is_digit) {
      CHECK(*digit == c - '0');
    } else {
      CHECK(digit.error().code == ErrorCode::bad_input);
      CHECK(digit.error().line() == check_digit(static_cast<char>(c)).error().line());
    }
  }
}

TEST_CASE("an error's line has its nonempty parts, in order") {
  CHECK(Error{ErrorCode::bad_input, "a.csv:2", "no number", "seconds"}.line() ==
        "a.csv:2: no number; expected seconds");
  CHECK(Error{ErrorCode::bad_input, "", "no number", "seconds"}.line() == "no number; expected seconds");
  CHECK(Error{ErrorCode::bad_input, "a.csv:2", "no number", ""}.line() == "a.csv:2: no number");
}

TEST_CASE("an error's line has no control characters, whatever its parts contain") {
  const Error error{ErrorCode::bad_input, "a\nb", "it has \x1b[31m and \x7f", "\t\xC2\x9B"};
  CHECK(error.line() == "a?b: it has ?[31m and ?; expected ??");
  // Every two-byte character: only C1 controls are replaced.
  for (unsigned code = 0x80; code < 0x800; ++code) {
    const std::string character{static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
    CHECK(Error{ErrorCode::bad_input, "", character, ""}.line() == (code < 0xA0 ? "?" : character));
  }
  CHECK(without_controls("a\n\tb\r", "\n\t") == "a\n\tb?");
  CHECK(without_controls("\xC2") == "\xC2");
}

TEST_CASE("a move-only value can be stored and taken out") {
  Expected<std::unique_ptr<int>> boxed = std::make_unique<int>(5);
  REQUIRE(boxed.has_value());
  CHECK(**boxed == 5);
  const std::unique_ptr<int> out = std::move(boxed).value();
  CHECK(*out == 5);
}

TEST_CASE("a value that resembles an Error is not the error") {
  const Expected<std::string> text = std::string("all is well");
  CHECK(text.has_value());
  const Expected<std::string> failed = Error{ErrorCode::not_found, "x", "is not there", ""};
  CHECK_FALSE(failed.has_value());
}

TEST_CASE("the value is read and written through * and ->") {
  Expected<std::vector<int>> list = std::vector<int>{1, 2};
  list->push_back(3);
  (*list)[0] = 9;
  CHECK(list.value() == std::vector<int>{9, 2, 3});
}
