// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace {

double value_of(const std::string& name) {
  std::string text;
  sluice::PrometheusWriter to(text, {});
  sluice::write_process_metrics(to);
  const std::size_t at = text.find("\n" + name + " ");
  REQUIRE_MESSAGE(at != std::string::npos, name);
  return std::atof(text.c_str() + at + name.size() + 2);
}

} // namespace

TEST_CASE("write_process_metrics describes this process") {
  const double files = value_of("process_open_fds");
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  CHECK(value_of("process_open_fds") == files + 1);
  ::close(file);
  CHECK(value_of("process_open_fds") == files);
  CHECK(value_of("process_max_fds") > files);
  CHECK(value_of("process_threads") >= 1);

  const double cpu = value_of("process_cpu_seconds_total");
  while (value_of("process_cpu_seconds_total") == cpu) { // each look takes some
  }
  const double resident = value_of("process_resident_memory_bytes");
  CHECK(value_of("process_virtual_memory_bytes") > resident);
  const std::vector<char> more(std::size_t{64} << 20, 'x');
  CHECK(value_of("process_resident_memory_bytes") - resident > 32e6 * static_cast<double>(more.back() == 'x'));
  const double began = value_of("process_start_time_seconds");
  CHECK(began <= static_cast<double>(std::time(nullptr)) + 2);
  CHECK(began > static_cast<double>(std::time(nullptr)) - 86'400);
  CHECK(value_of("process_start_time_seconds") == began);
}

TEST_CASE("stat_field counts behind a name with spaces and brackets") {
  CHECK(sluice::detail::stat_field("1 (a) b) c) S 4 5 6", 4) == 4);
  CHECK(sluice::detail::stat_field("1 (a) S 4 5 6", 6) == 6);
  CHECK(sluice::detail::stat_field("", 6) == 0);
}
