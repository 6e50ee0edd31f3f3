// SPDX-License-Identifier: Apache-2.0
#include "sluice/workload/csv.hpp"

#include "fuzz/fuzz_support.hpp"
#include "workload/trace_text.hpp"

SLUICE_FUZZ_TARGET(csv) {
  // The first line is a mapping, if it can be read as one; the rest is the table.
  const std::string text = sluice_test::text_of(data, size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  const sluice::Expected<sluice::CsvColumns> columns = sluice::parse_csv_columns(text.substr(0, line));
  sluice::CsvReader reader{
      sluice_test::lines_of(columns ? text.substr(std::min(line + 1, text.size())) : text, "trace"),
      columns ? *columns : sluice::CsvColumns{}};
  sluice_test::drain(reader);
  return 0;
}
