// SPDX-License-Identifier: Apache-2.0
// add_slo_classes: adds the flag --slo-classes, the same in every program that serves or sends a workload.
#pragma once

#include "sluice/workload/slo_classes.hpp"

#include "shared/flags.hpp"

#include <string>
#include <utility>
#include <vector>

inline void add_slo_classes(Flags& flags, std::vector<sluice::SloClass>& classes) {
  flags.other(
      "--slo-classes",
      "classes of requests, each with its share, its TTFT and its TBT SLO, such as 0.5:2s/50ms,0.5:30s/200ms "
      "or chat=0.5:2s/50ms,...; a priority may follow, as in 0.5:2s/50ms:-1 (the lowest is served first); every "
      "request is in one at random",
      [&classes](const std::string& text) -> std::string {
        sluice::Expected<std::vector<sluice::SloClass>> read = sluice::parse_slo_classes(text);
        if (!read) throw RefusedFlag(read.error());
        classes = *std::move(read);
        return {};
      });
}
