// SPDX-License-Identifier: Apache-2.0
// parse_sessions: reads the text of `--generate` that describes sessions.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/session_generator.hpp"

#include <optional>
#include <string_view>

namespace sluice {

/// Returns whether a text of `--generate` describes sessions.
[[nodiscard]] bool describes_sessions(std::string_view text);

/// Parses a text that describes sessions: `chat`, `agents:sessions=50,rate=0.1`, or
/// `sessions:rate=1,sessions=100,turns=8,first=4096,growth=512,output=128,user=30`.
///
/// Presets have a default for every key. `sessions` needs rate, sessions, turns, first, growth and output. A cv makes
/// the arrivals gamma. Errors begin with `--generate`.
Expected<SessionSpec> parse_sessions(std::string_view text);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/session_spec.inl.hpp"
#endif
