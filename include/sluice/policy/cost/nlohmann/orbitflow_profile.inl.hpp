// SPDX-License-Identifier: Apache-2.0
// read_orbitflow_profile: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/policy/cost/nlohmann/orbitflow_profile.hpp"

namespace sluice::detail {

SLUICE_READERS_INLINE Expected<LinearFit> orbitflow_fit(const nlohmann::json& profile, const char* name,
                                                        const std::string& where) {
  const std::string shown = where + ": " + name;
  const auto section = profile.find(name);
  if (section == profile.end() || !section->is_object() || !section->contains("linear") ||
      !(*section)["linear"].is_object()) {
    return Error{ErrorCode::bad_input, where, std::string{name} + ".linear is missing", "an object with A and B"};
  }
  const JsonFields fields((*section)["linear"], shown + ".linear");
  const Expected<double> slope = fields.number("A", 1e-15, 1.0, "seconds per token, above 0 and at most 1");
  if (!slope) return slope.error();
  const Expected<double> fixed = fields.number("B", 0.0, 1e3, "seconds from 0 to 1000");
  if (!fixed) return fixed.error();
  return LinearFit{*slope, *fixed};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<LinearProfile> read_orbitflow_profile(const std::string& path, const ModelShape& shape,
                                                                     FlopsPerSecond prefill_rate) {
  const Expected<nlohmann::json> profile = read_json_object(path);
  if (!profile) return profile.error();
  const Expected<LinearFit> decode = detail::orbitflow_fit(*profile, "NoPrefetch", path);
  if (!decode) return decode.error();
  const Expected<LinearFit> communication = detail::orbitflow_fit(*profile, "Communication", path);
  if (!communication) return communication.error();
  return LinearProfile{shape, *decode, *communication, prefill_rate};
}

} // namespace sluice
