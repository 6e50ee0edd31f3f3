// SPDX-License-Identifier: Apache-2.0
// Finds the SLOs of requests, and sets those of a comparison.
#include "compare/slos.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace compared {

using namespace sluice;

OwnSlos own_slos_of(const Options& options, std::span<const RequestSpec> recorded) {
  OwnSlos own{.classes = {}, .all_ttft = true, .all_tbt = true};
  bool priorities = false;
  for (const RequestSpec& request : recorded) {
    own.several = own.several || request.slo != recorded.front().slo;
    priorities = priorities || request.priority != recorded.front().priority;
    own.all_ttft = own.all_ttft && !std::isinf(request.slo.ttft.count());
    own.all_tbt = own.all_tbt && !std::isinf(request.slo.tbt.count());
    own.shortest.ttft = std::min(own.shortest.ttft, request.slo.ttft);
    own.shortest.tbt = std::min(own.shortest.tbt, request.slo.tbt);
  }
  if (own.shortest == Slo{} && !priorities) return own;
  std::optional<std::vector<SloClass>> classes = slo_classes_of(recorded);
  if (!classes) own.note = fmt::format("more than {} different ones: no tables by class", most_slo_classes);
  if (classes) own.classes = *std::move(classes);
  const auto is_stated = [&](const SloClass& one) {
    return std::any_of(options.slo_classes.begin(), options.slo_classes.end(),
                       [&](const SloClass& stated) { return stated.has(one.slo, one.priority); });
  };
  // A class that no request drew is still listed; requests' own SLOs in the trace may add others.
  if (std::all_of(own.classes.begin(), own.classes.end(), is_stated) && !options.slo_classes.empty())
    own.classes = options.slo_classes;
  for (SloClass& one : own.classes)
    if (one.slo == Slo{} && one.priority == 0) one.name = own.shortest == Slo{} ? "priority 0" : "others";
  return own;
}

Status set_slos(const Options& options, const OwnSlos& own, Seconds computed, Comparison& c) {
  const std::pair<const char*, bool> unread[] = {{"--slo-ttft", own.all_ttft && options.slo_ttft},
                                                 {"--slo-tbt", own.all_tbt && options.slo_tbt},
                                                 {"--slo-scale", own.all_tbt && !options.slo_scales.empty()}};
  for (const auto& [flag, given] : unread)
    if (given)
      return flag_error(flag, "every request has an SLO of its own",
                        options.slo_classes.empty() ? "no such flag, or a trace without SLOs"
                                                    : "no such flag, or no --slo-classes");
  c.slo_ttft = own.all_ttft ? own.shortest.ttft : Seconds{options.slo_ttft.value_or(5)}; // SuperInfer's SLO
  c.base_slo = own.all_tbt ? own.shortest.tbt : options.slo_tbt ? Seconds{*options.slo_tbt} : computed;
  c.scales = own.all_tbt ? std::vector{1.0} : !options.slo_scales.empty() ? options.slo_scales : std::vector{1.5};
  c.several_slos = own.several;
  if (own.classes.size() > 1) c.setup.slo_classes = c.workload.slo_classes = own.classes;
  if (!own.note.empty()) c.workload.notes.emplace_back("Requests' own SLOs and priorities", own.note);
  return {};
}

} // namespace compared
