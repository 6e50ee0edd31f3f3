// SPDX-License-Identifier: Apache-2.0
// program_name: what a program that compares is called: sluice-compare, sluice-explore, or a user's own.
#pragma once

namespace compared {

/// For its errors and the command that its report repeats. Defined beside the table of its systems
/// (compare/systems.cpp.in), which is all that such programs have of their own.
[[nodiscard]] const char* program_name();

} // namespace compared
