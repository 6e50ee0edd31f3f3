// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/workload/csv.hpp"
#include "sluice/workload/timestamp.hpp"

#include "workload/trace_text.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

CsvReader reader_of(const std::string& text, const CsvColumns& columns = {}) {
  return CsvReader{sluice_test::lines_of(text, "trace"), columns};
}

std::string error_of(const std::string& text, const CsvColumns& columns = {}) {
  const Expected<std::vector<RequestSpec>> requests = read_all(reader_of(text, columns));
  if (requests) return "no error";
  const std::string line = requests.error().line();
  CHECK(line.find('\n') == std::string::npos);
  return line;
}

/// As a writer of RFC 4180 would write it: in quotes where required, or by chance.
std::string field(const std::string& text, char separator, Random& random) {
  const bool must = text.find_first_of(std::string{"\"\n \t"} + separator) != std::string::npos;
  if (!must && random.below(4) > 0) return random.below(3) > 0 ? text : " " + text + " ";
  std::string quoted = "\"";
  for (const char character : text) quoted += character == '"' ? std::string{"\"\""} : std::string{character};
  return quoted + "\"";
}

std::string foreign_text(Random& random) {
  constexpr std::string_view letters = "ab\",;\t\n 9.";
  std::string text;
  for (auto left = random.below(12); left > 0; --left) text += letters[random.below(letters.size())];
  return text;
}

std::string date_of(std::int64_t milliseconds) { // of one day
  char text[40];
  std::snprintf(text, sizeof text, "2023-11-16T%02d:%02d:%02d.%03dZ", static_cast<int>(milliseconds / 3'600'000),
                static_cast<int>(milliseconds / 60'000 % 60), static_cast<int>(milliseconds / 1000 % 60),
                static_cast<int>(milliseconds % 1000));
  return text;
}

} // namespace

TEST_CASE("a failed request's other cells must be right, too") {
  const std::string head = "arrival,prompt,output\n0,5,3\n";
  CHECK(error_of(head + "xx,5,0\n") == "trace:3: arrival is 'xx'; expected a number, as above");
  CHECK(error_of(head + "1,junk,0\n").starts_with("trace:3: prompt is 'junk'; expected a whole number"));
  CHECK(error_of(head + "1,0,-2\n").starts_with("trace:3: output is '-2'; expected a whole number"));
  const Expected<std::vector<RequestSpec>> late = read_all(reader_of("arrival,prompt,output\n1,0,3\n7,5,3\n8,5,3\n"));
  REQUIRE(late);
  CHECK(late->back().arrival == Seconds{1}); // since the first request that has not failed
}

TEST_CASE("requests written as CSV are read back, whatever the separators, quotes and other columns") {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const char separator = ",;\t"[random.below(3)];
    const bool crlf = random.below(2) == 0;
    const int kind = static_cast<int>(random.below(4)); // of times: seconds, milliseconds, nanoseconds, dates
    std::vector<std::string> names{"when", "tokens in", "out"};
    for (auto more = random.below(4); more > 0; --more) names.push_back("other" + std::to_string(more));
    std::vector<std::size_t> order(names.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      std::swap(order[i], order[random.below(i + 1)]);
    }
    std::string text = random.below(2) == 0 ? "\xef\xbb\xbf" : "";
    const auto write = [&](const auto& of) {
      for (std::size_t i = 0; i < order.size(); ++i)
        text += (i > 0 ? std::string{separator} : "") + field(of(order[i]), separator, random);
      text += crlf ? "\r\n" : "\n";
    };
    write([&](std::size_t column) { return names[column]; });

    std::vector<RequestSpec> wanted;
    std::int64_t now = static_cast<std::int64_t>(random.below(1'000'000)), first = now; // milliseconds
    for (auto left = 1 + random.below(20); left > 0; --left, now += static_cast<std::int64_t>(random.below(5000))) {
      const RequestSpec spec{Seconds{static_cast<double>(now - first) / 1000},
                             Tokens{1 + static_cast<std::int64_t>(random.below(5000))},
                             Tokens{1 + static_cast<std::int64_t>(random.below(5000))},
                             {}};
      wanted.push_back(spec);
      // Nanoseconds of today's date exceed a double's precision.
      const std::string at = kind == 0 ? std::to_string(now / 1000) + "." + std::to_string(1000 + now % 1000).substr(1)
                             : kind == 1 ? std::to_string(now)
                             : kind == 2 ? std::to_string(1'700'158'546'000'000'000 + now * 1'000'000)
                                         : date_of(now);
      write([&](std::size_t column) {
        if (column == 0) return at;
        if (column == 1) return std::to_string(spec.prompt.count());
        if (column == 2) return std::to_string(spec.output.count()) + (random.below(3) == 0 ? ".0" : "");
        return foreign_text(random);
      });
    }
    CAPTURE(text);
    const CsvColumns columns{.arrival = "when",
                             .prompt = "tokens in",
                             .output = "out",
                             .decimals = kind == 1   ? 3
                                         : kind == 2 ? 9
                                                     : std::optional<int>{}};
    const Expected<std::vector<RequestSpec>> read = read_all(reader_of(text, columns));
    REQUIRE_MESSAGE(read, read.error().line());
    REQUIRE(read->size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      CHECK((*read)[i].prompt == wanted[i].prompt);
      CHECK((*read)[i].output == wanted[i].output);
      if (kind == 0)
        CHECK((*read)[i].arrival.count() == doctest::Approx(wanted[i].arrival.count()));
      else
        CHECK((*read)[i].arrival == wanted[i].arrival);
    }
  }
}

TEST_CASE("each mistake in a CSV is reported in one line with its place") {
  const std::string header = "arrival,prompt,output\n";
  const struct {
    std::string text, line;
  } rows[] = {
      {"", "trace: the file is empty; expected a header line"},
      {header, "trace: the trace holds no request"},
      {"time,prompt,output\n",
       "trace:1: there is no column 'arrival'; expected --trace-columns with three of the header's "
       "names, time, prompt, output"},
      {"arival,prompt,output\n", "trace:1: there is no column 'arrival' (did you mean arival?)"},
      {"arrival,prompt,output,prompt\n", "trace:1: the column 'prompt' is there 2 times"},
      {header + "1,2\n", "trace:2: the line has 2 columns; expected 3, as in the header"},
      {header + "\n1,2,3\n\n2,2,3,\n", "trace:5: the line has 4 columns"},
      {header + "noon,2,3\n", "trace:2: arrival is 'noon'; expected seconds as a number, or a time such as"},
      {header + ",2,3\n", "trace:2: arrival is ''"},
      {header + "inf,2,3\n", "trace:2: arrival is 'inf'"},
      {header + "1,2,3\n2023-11-16 18:15:46,2,3\n",
       "trace:3: arrival is '2023-11-16 18:15:46'; expected a number, as above"},
      {header + "2023-11-16 18:15:46,2,3\n1,2,3\n",
       "trace:3: arrival is '1'; expected a time such as 2023-11-16T18:15:46.68Z, "
       "as above"},
      {header + "2023-02-30 18:15:46,2,3\n", "trace:2: arrival is '2023-02-30 18:15:46'"},
      {header + "2,2,3\n1,2,3\n", "trace:3: the request arrives 1.000000 s before the one above it"},
      {header + "1,-1,3\n", "trace:2: prompt is '-1'; expected a whole number from 1 to"},
      {header + "1,2.5,3\n", "trace:2: prompt is '2.5'"},
      {header + "1,2,-3\n", "trace:2: output is '-3'"},
      {header + "1,2,\n", "trace:2: output is ''"},
      {header + "1,2,99999999999999999999\n", "trace:2: output is '99999999999999999999'"},
      {header + "1,2,\"3\n", "trace:2: a quoted field has no end"},
      {header + "1,\"2\"2,3\n", "trace:2: there is text behind a quoted field"},
      {header + "1,\"" + std::string(LineReader::longest_line - 8, 'a') + "\nbbbbbbbbbb\n\",3\n",
       "trace:2: a quoted field is longer than 16 MiB"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text.substr(0, 100));
    const std::string line = error_of(row.text);
    CHECK_MESSAGE(line.rfind(row.line, 0) == 0, line);
  }
  CHECK(error_of(header + "1,2.0,3.000\n") == "no error");
  CHECK(error_of(header + "-5,2,3\n1e3,2,3\n") == "no error");
}

TEST_CASE("times in milliseconds are not read as seconds") {
  const auto file = [](const std::string& first, const std::string& second) {
    return "arrival,prompt,output\n" + first + ",1,1\n" + second + ",1,1\n";
  };
  const struct {
    const char *first, *second, *unit;
    int decimals;
  } clocks[] = {
      {"1700000000123", "1700000060123", "unit=ms", 3},
      {"1700000000123.5", "1700000060123.5", "unit=ms", 3},
      {"1700000000123000", "1700000060123000", "unit=us", 6},
      {"1700000000123000000", "1700000060123000000", "unit=ns", 9},
  };
  for (const auto& clock : clocks) {
    CHECK(error_of(file(clock.first, clock.second)) ==
          "trace:2: arrival is '" + std::string{clock.first} + "', too large for seconds since 1970; expected " +
              clock.unit + " in --trace-columns, or unit=s where they are seconds");
    const auto read = read_all(reader_of(file(clock.first, clock.second), {.decimals = clock.decimals}));
    REQUIRE(read);
    CHECK(read->back().arrival == Seconds{60});
  }
  const auto seconds = read_all(reader_of(file("1700000000", "1700000060")));
  REQUIRE(seconds);
  CHECK(seconds->back().arrival == Seconds{60});
  const auto said = read_all(reader_of(file("200000000000", "200000000060"), {.decimals = 0}));
  REQUIRE(said);
  CHECK(said->back().arrival == Seconds{60});
  CHECK(
      error_of(file("2023-11-16 18:15:46", "2023-11-16 18:15:47"), {.decimals = 3}) ==
      "trace:2: arrival is '2023-11-16 18:15:46', which has no unit; expected --trace-columns without unit=, which is "
      "of numbers");
}

TEST_CASE("dates with and without a zone in one file are an error") {
  const std::string header = "arrival,prompt,output\n";
  CHECK(error_of(header + "2023-11-16 18:15:46Z,1,1\n2023-11-16T20:15:47+02:00,1,1\n") == "no error");
  CHECK(
      error_of(header + "2023-11-16 18:15:46Z,1,1\n2023-11-16 20:15:47,1,1\n") ==
      "trace:3: arrival is '2023-11-16 20:15:47', without a zone; expected all times with one, as above: hours may lie "
      "between them");
  CHECK(error_of(header + "2023-11-16 18:15,1,1\n2023-11-16 20:15-03,1,1\n")
            .find("with a zone; expected all times "
                  "without one") != std::string::npos);
}

TEST_CASE("a decimal comma is read if commas do not separate fields") {
  for (const char* separator : {";", "\t"}) {
    std::string text = "arrival;prompt;output\n0,5;1;1\n2,75;512,0;1\n";
    std::string parted;
    for (const char character : text) parted += character == ';' ? std::string{separator} : std::string{character};
    const auto read = read_all(reader_of(parted));
    REQUIRE_MESSAGE(read, read.error().line());
    CHECK(read->back().arrival == Seconds{2.25});
    CHECK(read->back().prompt == Tokens{512});
  }
  CHECK(error_of("arrival;prompt;output\n1.000,5;1;1\n").rfind("trace:2: arrival is '1.000,5'", 0) == 0);
  CHECK(error_of("arrival;prompt;output\n1;1,000;1\n").rfind("trace:2: prompt is '1,000'", 0) == 0);
  CHECK(error_of("arrival,prompt,output\n\"0,5\",1,1\n").rfind("trace:2: arrival is '0,5'", 0) == 0);
}

TEST_CASE("line ends, blank lines and capitals do not matter") {
  const std::vector<RequestSpec> wanted{{Seconds{0}, Tokens{2}, Tokens{3}, {}}, {Seconds{4}, Tokens{5}, Tokens{6}, {}}};
  for (const char* text : {"arrival,prompt,output\n1,2,3\n5,5,6\n", "Arrival,PROMPT,Output\r\n1,2,3\r\n5,5,6\r\n",
                           "arrival,prompt,output\r1,2,3\r5,5,6\r", "arrival,prompt,output\r1,2,3\r\r5,5,6",
                           " \t\narrival,prompt,output\n  \n1,2,3\n \t \n5,5,6\n\t\n"}) {
    CAPTURE(text);
    const auto read = read_all(reader_of(text));
    REQUIRE_MESSAGE(read, read.error().line());
    CHECK(*read == wanted);
  }
  // An exact match wins; if two names differ only in case, neither is guessed.
  CHECK(error_of("arrival,prompt,output,Prompt\n1,2,3,x\n") == "no error");
  CHECK(error_of("arrival,PROMPT,output,Prompt\n1,2,3,4\n").rfind("trace:1: the column 'prompt' is there 2 times", 0) ==
        0);
}

TEST_CASE("a mapping names each column once") {
  const Expected<CsvColumns> all = parse_csv_columns("unit=us,output=out,arrival=ts=0,prompt=in put");
  REQUIRE(all);
  CHECK(*all == CsvColumns{.arrival = "ts=0", .prompt = "in put", .output = "out", .decimals = 6});
  const Expected<CsvColumns> one = parse_csv_columns("prompt=in");
  REQUIRE(one);
  CHECK(*one == CsvColumns{.prompt = "in"});
  for (const auto& row : {std::pair{"", "'' names no column"},
                          {"arrival", "'arrival' names no column"},
                          {"arrival=", "'arrival=' names no column"},
                          {"prompt=a,", "'' names no column"},
                          {"prompt=a,prompt=b", "prompt is named twice"},
                          {"unit=h", "unit is 'h'"},
                          {"unit=", "'unit=' names no unit"},
                          {"arrival=a,prompt=n,output=n", "prompt and output are both the column 'n'"},
                          {"arrival=prompt", "arrival and prompt are both the column 'prompt'"},
                          {"promt=a", "there is no 'promt' of a request (did you mean prompt?)"}}) {
    CAPTURE(row.first);
    const Expected<CsvColumns> read = parse_csv_columns(row.first);
    REQUIRE_FALSE(read);
    CHECK(read.error().what == row.second);
    CHECK(read.error().where == "--trace-columns");
  }
}

TEST_CASE("a time's offset is read in every form of ISO 8601") {
  const auto ns = [](const char* text) { return detail::parse_timestamp(text); };
  REQUIRE(ns("2023-11-16T18:15:46Z"));
  for (const char* same : {"2023-11-16 18:15:46", "2023-11-16T19:15:46+01:00", "2023-11-16T19:15:46+0100",
                           "2023-11-16T19:15:46+01", "2023-11-16T14:45:46.000-03:30", "2023-11-16T14:45:46-0330"})
    CHECK_MESSAGE(ns(same) == ns("2023-11-16T18:15:46Z"), same);
  for (const char* none : {"2023-11-16T18:15:46+", "2023-11-16T18:15:46+1", "2023-11-16T18:15:46+01:",
                           "2023-11-16T18:15:46+01:0", "2023-11-16T18:15:46+010", "2023-11-16T18:15:46+15:00",
                           "2023-11-16T18:15:", "2023-11-16T18:15.5", "2023-11-16T18", "2023-11-16", "18:15:46"})
    CHECK_MESSAGE(!ns(none), none);
  for (const char* same :
       {"2023-11-16T18:15Z", "2023-11-16 18:15", "2023-11-16T19:15+01:00", "2023-11-16T18:15:00,000"})
    CHECK_MESSAGE(ns(same) == ns("2023-11-16T18:15:00Z"), same);
}
