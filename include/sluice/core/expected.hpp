// SPDX-License-Identifier: Apache-2.0
// Expected: a value, or one line with the reason why there is none.
#pragma once

#include "sluice/core/assert.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// What went wrong, for code; the line for people is in `Error`.
enum class ErrorCode : std::uint8_t {
  bad_input,       ///< a file, flag or request that cannot be understood
  not_found,       ///< a file or name that does not exist
  out_of_memory,   ///< device or host memory is exhausted
  infeasible,      ///< no plan meets memory and SLO
  transfer_failed, ///< the link or copy engine reported an error
  unsupported,     ///< understood, but not supported
  livelocked,      ///< an engine runs without progress
};

/// Replaces each control character except those in `kept` with '?': C0, DEL, and C1 in UTF-8. File names and file
/// contents may have any of them, and a terminal obeys them.
[[nodiscard]] inline std::string without_controls(std::string_view text, std::string_view kept = {}) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool c1 = code == 0xC2 && next >= 0x80 && next < 0xA0;
    const bool plain = (code >= 0x20 && code != 0x7F && !c1) || kept.find(text[i]) != std::string_view::npos;
    shown += plain ? text[i] : '?';
    if (c1) ++i;
  }
  return shown;
}

/// One line for a person: the place, what is wrong there, and what would be right.
struct Error {
  ErrorCode code = ErrorCode::bad_input;
  std::string where;    ///< "trace.csv:17", "--rate-scale", "config.json: num_hidden_layers"
  std::string what;     ///< "the generated-token count is negative (-3)"
  std::string expected; ///< "a whole number of at least 1"; empty if nothing helps

  /// All three without control characters: always one line, whatever a path or a file contains.
  [[nodiscard]] std::string line() const {
    std::string text = where.empty() ? what : where + ": " + what;
    if (!expected.empty()) text += "; expected " + expected;
    return without_controls(text);
  }
};

/// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): so that a function can `return Error{…};`
  Status(Error error) : error_(std::move(error)), failed_(true) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const {
    SLUICE_ASSERT(failed_, "error() of a status that is ok");
    return error_;
  }

 private:
  Error error_;
  bool failed_ = false;
};

/// A `T`, or an Error: the part of C++23's std::expected that Sluice uses. Rejected: tl::expected, since every header
/// would depend on a library for forty lines; std::variant<T, Error>, which added a tenth to an engine's compile time.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::in_place, std::move(value)) {} // NOLINT(google-explicit-constructor)
  Expected(Error error) : error_(std::move(error)) {}            // NOLINT(google-explicit-constructor)

  /// Constructs the value in place.
  template <class... From>
  explicit Expected(std::in_place_t place, From&&... from) : value_(place, std::forward<From>(from)...) {}

  [[nodiscard]] bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }

  [[nodiscard]] T& value() & {
    SLUICE_ASSERT(has_value(), "value() of an Expected that holds an error");
    return *value_;
  }
  [[nodiscard]] const T& value() const& {
    SLUICE_ASSERT(has_value(), "value() of an Expected that holds an error");
    return *value_;
  }
  /// By value, so that `for (auto& r : *read_all(trace))` has no dangling reference into a temporary.
  [[nodiscard]] T value() && {
    SLUICE_ASSERT(has_value(), "value() of an Expected that holds an error");
    return std::move(*value_);
  }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const {
    SLUICE_ASSERT(!has_value(), "error() of an Expected that holds a value");
    return error_;
  }

 private:
  std::optional<T> value_;
  Error error_; ///< empty if there is a value
};

} // namespace sluice
