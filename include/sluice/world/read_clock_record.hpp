// SPDX-License-Identifier: Apache-2.0
// read_clock_record: reads the CSV that ClockRecord::text writes.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/content.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/world/clock_record.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

/// The fields of one line, by the header's names.
struct ClockLine {
  static constexpr std::size_t count = 13;
  std::array<std::string_view, count> fields;
  std::string where;

  static Expected<ClockLine> split(std::string_view line, std::string where) {
    ClockLine split;
    split.where = std::move(where);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t comma = i + 1 < count ? line.find(',') : std::string_view::npos; // a reason may hold commas
      if ((comma == std::string_view::npos) != (i + 1 == count))
        return Error{ErrorCode::bad_input, split.where, "the line has a wrong number of fields", std::to_string(count)};
      split.fields[i] = line.substr(0, comma);
      if (comma != std::string_view::npos) line.remove_prefix(comma + 1);
    }
    return split;
  }

  template <class Number>
  [[nodiscard]] Status read(std::size_t i, const char* name, Number least, Number& value) const {
    const std::string_view text = fields[i];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value >= least &&
        value <= std::numeric_limits<Number>::max())
      return {};
    return Error{ErrorCode::bad_input, where, std::string{name} + " is '" + excerpt(text) + "'",
                 std::string{std::is_integral_v<Number> ? "a whole number" : "a number"} + ", at least " +
                     std::to_string(least)};
  }
  /// Of the last field: hexadecimal, with a space between two.
  [[nodiscard]] Status read_keys(std::vector<BlockKey>& keys) const {
    for (std::string_view left = fields[count - 1]; !left.empty();) {
      const std::string_view text = left.substr(0, left.find(' '));
      std::uint64_t key = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key, 16);
      const bool ends_line = text.size() == left.size();
      if (error != std::errc{} || end != text.data() + text.size() || (!ends_line && text.size() + 1 == left.size()))
        return Error{ErrorCode::bad_input, where, "a key is '" + excerpt(text) + "'",
                     "hexadecimal keys, with a space between two"};
      keys.push_back(BlockKey{key});
      left.remove_prefix(ends_line ? left.size() : text.size() + 1);
    }
    return {};
  }
};

} // namespace detail

/// Reads a record as `ClockRecord::text` writes it. Errors: no start, a line that is not an event, a time that runs
/// backwards, a step out of order.
inline Expected<ClockRecord> read_clock_record(Expected<LineReader> lines) {
  if (!lines) return lines.error();
  const auto wrong = [&lines](std::string what, std::string expected) {
    return Error{ErrorCode::bad_input, lines->where(), std::move(what), std::move(expected)};
  };
  Expected<std::optional<std::string_view>> line = lines->next();
  if (!line) return line.error();
  if (!*line || **line != ClockRecord::header)
    return wrong("the header is '" + excerpt(line->value_or("")) + "'", "'" + std::string{ClockRecord::header} + "'");
  constexpr std::array kinds{ClockEvent::Kind::start,   ClockEvent::Kind::idle,    ClockEvent::Kind::run,
                             ClockEvent::Kind::ready,   ClockEvent::Kind::late,    ClockEvent::Kind::joined,
                             ClockEvent::Kind::cancel,  ClockEvent::Kind::release, ClockEvent::Kind::loaded,
                             ClockEvent::Kind::loading, ClockEvent::Kind::name,    ClockEvent::Kind::wait};
  ClockRecord record;
  std::int64_t steps = 0;
  for (;;) {
    line = lines->next();
    if (!line) return line.error();
    if (!*line) break;
    const Expected<detail::ClockLine> split = detail::ClockLine::split(**line, lines->where());
    if (!split) return split.error();

    ClockEvent event;
    const std::string_view kind = split->fields[1];
    const bool first = record.events.empty();
    const bool outcome = !first && (kind == "ended" || kind == "failed" || kind == "lost");
    if (outcome && record.events.back().kind != ClockEvent::Kind::run)
      return wrong("a request has " + std::string{kind} + " outside of an iteration", "that behind a 'run'");
    if (!outcome) {
      const auto* const known =
          std::find_if(kinds.begin(), kinds.end(), [kind](ClockEvent::Kind one) { return kind == to_string(one); });
      if (known == kinds.end() || first != (*known == ClockEvent::Kind::start))
        return wrong(
            "the event is '" + excerpt(kind) + "'",
            first
                ? "'start'"
                : "'run', 'idle', 'wait', 'ready', 'late', 'joined', 'cancel', 'release', 'loaded', 'loading', 'name', "
                  "'ended', 'failed' or 'lost'");
      event.kind = *known;
    }

    std::int64_t step = 0;
    std::uint32_t slot = 0;
    double now_s = 0, asked_s = 0, duration_s = 0, stall_s = 0, link_s = 0;
    for (const Status& status :
         {split->read(0, "step", std::int64_t{0}, step), split->read(2, "now_s", 0.0, now_s),
          split->read(3, "asked_s", 0.0, asked_s), split->read(4, "duration_s", 0.0, duration_s),
          split->read(5, "stall_s", 0.0, stall_s), split->read(6, "link_s", 0.0, link_s),
          split->read(7, "background_blocks", 0.0, event.background_blocks),
          split->read(8, "requests", std::int64_t{0}, event.requests),
          split->read(9, "tokens", std::int64_t{0}, event.tokens),
          split->read(10, "batch", std::uint64_t{0}, event.batch), split->read(11, "slot", std::uint32_t{0}, slot)})
      if (!status) return status.error();
    if (step != steps) return wrong("the step is " + std::to_string(step), std::to_string(steps));
    if (outcome) {
      record.events.back().outcomes.push_back(
          {Slot{slot}, kind != "ended", std::string{split->fields[12]}, kind == "lost"});
      continue;
    }
    if (event.kind == ClockEvent::Kind::name) {
      if (const Status status = split->read_keys(event.keys); !status) return status.error();
    } else if (!split->fields[12].empty()) {
      return wrong("a '" + std::string{kind} + "' has the reason '" + excerpt(split->fields[12]) + "'", "none");
    }
    event.slot = Slot{slot};
    event.now = Seconds{now_s};
    event.asked = Seconds{asked_s};
    event.cost = {Seconds{duration_s}, Seconds{stall_s}, Seconds{link_s}};
    if (!first && event.now < record.events.back().now) return wrong("now_s is before the last line's", "no less");
    if (event.kind == ClockEvent::Kind::run) ++steps;
    record.events.push_back(std::move(event));
  }
  if (record.events.empty()) return wrong("there is no line after the header", "the event 'start'");
  return record;
}

} // namespace sluice
