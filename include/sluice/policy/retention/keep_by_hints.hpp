// SPDX-License-Identifier: Apache-2.0
// KeepByHints: released blocks can be found, and those that their client gives up are overwritten first.
#pragma once

#include "sluice/policy/retention/keep_until_overwritten.hpp"

namespace sluice {

/// KeepUntilOverwritten for clients that say what they will not use again: of a session that ends (`release`) or whose
/// next prompts keep only a part (`keep`), the rest makes room first, as sglang#27574 asks for. What other sessions
/// have used, too, keeps its place: a system prompt outlives the session that releases it.
struct KeepByHints : KeepUntilOverwritten {
  static constexpr HintSet uses_hints{.keep = true, .release = true};

  Tokens on_end(const View& /*view*/, const RequestRow& row) const { return row.hints(heeded<KeepByHints>).kept(); }
};

static_assert(explain<KeepByHints>());

} // namespace sluice
