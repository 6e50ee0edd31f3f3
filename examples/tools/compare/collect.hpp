// SPDX-License-Identifier: Apache-2.0
// collect: what a run leaves behind, whatever the engine's type.
#pragma once

#include "compare/recorder.hpp"
#include "compare/run.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace compared {

/// An engine's type, in words, and whether its run came to an end.
struct Composed {
  std::string_view transfer;           ///< the rule's name
  std::array<std::string, 10> choices; ///< the policies by their types; empty where a role has its default
  std::string livelock;                ///< what the run was caught in; empty: it ended
};

/// Makes a report's row of what was recorded of a run that ended at `end`, and a trace where details were asked for.
void collect(const Request& request, const Composed& engine, const Recorder::State& recorded, sluice::Seconds end,
             Outcome& outcome);

/// The same of a node that ended at `end`: of all tenants together, and of each.
void collect(const Request& request, const Composed& engine, std::span<const Recorder::State* const> recorded,
             sluice::Seconds end, Outcome& outcome);

} // namespace compared
