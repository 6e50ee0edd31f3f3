// SPDX-License-Identifier: Apache-2.0
// read_interval_record, interval_record_text: reads and writes a performance record as JSON.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/policy/weights/interval_record.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sluice {
/// The record in a parsed JSON object; `where` starts an error's line. Every point of the grid must be present.
Expected<IntervalRecord> read_interval_record(const nlohmann::json& object, const std::string& where);

/// The record in a file.
Expected<IntervalRecord> read_interval_record(const std::string& path);

/// The record as JSON, one point per line; reading it gives the same record. `made_by` names the program that made it
/// and is not read.
[[nodiscard]] std::string interval_record_text(const IntervalRecord& record, const std::string& made_by = {});

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/policy/weights/nlohmann/interval_record_json.inl.hpp"
#endif
