// SPDX-License-Identifier: Apache-2.0
// A record of a run's clock; a record that was read is the same when written and read again.
#include "sluice/world/read_clock_record.hpp"

#include "fuzz/fuzz_support.hpp"

#include <memory>
#include <sstream>

SLUICE_FUZZ_TARGET(clock_record) {
  using namespace sluice;
  const auto read = [](const std::string& text) {
    return read_clock_record(LineReader{std::make_unique<std::istringstream>(text), "clock.csv"});
  };
  const Expected<ClockRecord> record = read(sluice_test::text_of(data, size));
  if (!record) {
    sluice_test::require_one_line(record.error());
    return 0;
  }
  Seconds before{0};
  for (const ClockEvent& event : record->events) {
    sluice_test::require(event.now >= before, "time does not run backwards");
    before = event.now;
  }
  const std::string text = record->text();
  const Expected<ClockRecord> again = read(text);
  sluice_test::require(again && again->text() == text, "a record is read as it was written");
  return 0;
}
