// SPDX-License-Identifier: Apache-2.0
// read_slo: reads a request's own SLO from a line of JSON.
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/request.hpp"

#include <string>
#include <utility>

namespace sluice {

/// Reads `slo_ttft_s` and `slo_tbt_s`, or the fields with the given names, in seconds; infinite if a field is missing.
[[nodiscard]] inline Expected<Slo> read_slo(const JsonFields& fields, const char* ttft = "slo_ttft_s",
                                            const char* tbt = "slo_tbt_s") {
  Slo slo;
  for (const auto& [name, time] : {std::pair{ttft, &slo.ttft}, {tbt, &slo.tbt}}) {
    if (!fields.has(name)) continue;
    const Expected<double> value = fields.number(name, 0.0, 1e12, "seconds above 0 and at most 1e12, or no such field");
    if (!value) return value.error();
    if (*value <= 0) {
      return Error{ErrorCode::bad_input, fields.where(), std::string{name} + " is 0",
                   "seconds above 0, or no such field"};
    }
    *time = Seconds{*value};
  }
  return slo;
}

} // namespace sluice
