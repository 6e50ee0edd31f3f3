// SPDX-License-Identifier: Apache-2.0
// --bound: which comparisons have a bound, and its table.
#include "compare/bound.hpp"

#include "sluice/policy/cost/layer_work.hpp"
#include "sluice/report/number_text.hpp"

#include "compare/drawn_table.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace compared {

using namespace sluice;

Status check_bound(const Comparison& comparison, std::span<const RequestSpec> requests, bool have_content) {
  constexpr std::size_t most = 2000;
  if (!can_bound())
    return flag_error("--bound", "this build cannot solve it: CBC was missing",
                      "Debian's coinor-libcbc-dev, and cmake again");
  if (comparison.setup.device_blocks.count() < comparison.setup.geometry.layers)
    return flag_error("--bound", "the weights do not fit the device, which the bound takes for granted",
                      "a smaller model or a larger device");
  if (!comparison.setup.geometry.alike())
    return flag_error("--bound", "the model's layers keep different amounts of KV, and the bound counts equal blocks",
                      "a model whose layers are alike");
  if (!comparison.setup.cost.floor())
    return flag_error("--bound", "there is no lower bound of measured kernels' and of a group's times",
                      "one device, and a roofline or an OrbitFlow profile");
  if (comparison.setup.cost.link().host_attention_rate.count() > 0 &&
      std::any_of(comparison.systems.begin(), comparison.systems.end(),
                  [](const System* system) { return system->host_attends; }))
    return flag_error(
        "--bound", "the host may attend decodes, and the bound holds only if the device attends all",
        "only systems whose device attends, or no --host-attention and a device without host_attention_bytes_per_s");
  if (requests.size() > most)
    return flag_error("--bound", fmt::format("there are {} requests, and it would take hours", requests.size()),
                      fmt::format("--limit with at most {}", most));
  if (have_content ||
      std::any_of(requests.begin(), requests.end(), [](const RequestSpec& one) { return one.session != 0; }))
    return flag_error("--bound", "the workload says what its prompts share, whose KV may be found",
                      "a workload without sessions and without content");
  return {};
}

std::string bound_text(const ComparisonReport& report) {
  const auto share = [](const PossibleShare& bound) { return possible_text(bound); };
  const auto proven = [](const PossibleShares& one) {
    return one.any.proven() && one.no_pauses.proven() && one.device.proven() && one.device_no_pauses.proven();
  };
  std::vector<std::vector<std::string>> rows;
  for (const PossibleShares& one : report.possible)
    rows.push_back({fmt::format("x{:g}", one.slo_scale), share(one.any), share(one.no_pauses), share(one.device),
                    share(one.device_no_pauses)});
  return "SLO attainment that no schedule exceeds, %, knowing every arrival and length (docs/bound.md)\n" +
         drawn_table("full", {"SLO", "any system", "no pauses", "device alone", "neither"}, rows,
                     {true, false, false, false, false}) +
         (std::all_of(report.possible.begin(), report.possible.end(), proven)
              ? "\n"
              : "(x): CBC ended before the bound was proven the least of its program, which is at least x\n\n");
}

std::string possible_text(const PossibleShare& bound) {
  const auto text = [](double value) { return fixed_text(100 * value, 1); };
  return text(bound.most) + (bound.proven() ? std::string{} : " (" + text(bound.found) + ")");
}

} // namespace compared
