// SPDX-License-Identifier: Apache-2.0
// Implements --why of sluice-compare.
#include "compare/why.hpp"

#include "sluice/core/text.hpp"
#include "sluice/report/why_text.hpp"

#include "shared/flag_errors.hpp"
#include <fmt/format.h>

#include <charconv>

namespace compared {

void add_why_flag(CLI::App& app, std::optional<WhyAsked>& why) {
  app.add_option_function<std::string>(
         "--why",
         [&why](const std::string& text) {
           why.emplace();
           if (text.empty() || text == "all") return;
           const char* end = text.data() + text.size();
           const auto [read, error] = std::from_chars(text.data(), end, why->id);
           if (error != std::errc{} || read != end || why->id < 0)
             throw RefusedFlag(
                 wrong_flag("--why", "it is '" + sluice::excerpt(text) + "'", "a request's number, or all"));
         },
         "explain where requests' time went, from arrival to last token: for one by its number (from 0, in arrival "
         "order), or for all together")
      ->expected(0, 1)
      ->type_name("[ID]");
}

sluice::Status check_why(const Options& options, std::int64_t requests) {
  if (!options.why) return {};
  if (options.table != "full")
    return flag_error("--why", "it prints text, and --table asks for " + options.table, "--table full");
  if (options.why->id >= requests)
    return flag_error("--why", fmt::format("there is no request {}", options.why->id),
                      fmt::format("a number from 0 to {}, or none for all of them", requests - 1));
  return {};
}

std::string why_text(WhyAsked why, const sluice::ComparisonReport& report) {
  return why.id < 0 ? why_table(report) : why_request(report, why.id);
}

} // namespace compared
