// SPDX-License-Identifier: Apache-2.0
// drawn_table: a table of texts for a terminal, a page, a paper or a spreadsheet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace compared {

/// Returns a table with these heads: aligned for a terminal (full), Markdown (md), a tabular of LaTeX (latex) or
/// comma-separated (csv).
std::string drawn_table(std::string_view style, const std::vector<std::string>& heads,
                        const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& left);

} // namespace compared
