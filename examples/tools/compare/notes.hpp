// SPDX-License-Identifier: Apache-2.0
// What a report says of its comparison: the machine, the workload, and every flag that differs from its default.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/report/report.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/workload/workload.hpp"

#include "compare/comparison.hpp"
#include "compare/memory.hpp"
#include "compare/slos.hpp"
#include "compare/world.hpp"

#include <span>

namespace compared {

/// Reports the machine, its limits, and where its times are from. `budget`: the KV of one device.
void report_machine(const Options& options, const World& world, const Budget& budget, Comparison& c);

/// Reports the requests and their SLOs, and what the model's configuration says and the simulation ignores.
void report_workload(const Options& options, const sluice::ModelShape& shape,
                     std::span<const sluice::RequestSpec> requests, const sluice::WorkloadTotals& sum, Comparison& c);

/// Adds notes on every flag that differs from its default.
void report_choices(const Options& options, const World& world, const OwnSlos& own, sluice::WorkloadReport& w);

} // namespace compared
