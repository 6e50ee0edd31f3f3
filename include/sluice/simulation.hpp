// SPDX-License-Identifier: Apache-2.0
// What engines are simulated with: workloads, measured costs, observers, serve, nodes.
// Written by `make umbrella`.
#pragma once

#include "sluice/sluice.hpp"

// In the order of the layers, which the formatter would sort away.
// clang-format off
#include "sluice/workload/distributions.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/generator_spec.hpp"
#include "sluice/workload/orbitflow_header.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/workload/workload.hpp"
#include "sluice/cost/measured_grid.hpp"
#include "sluice/cost/table_profile.hpp"
#include "sluice/cost/all_reduce.hpp"
#include "sluice/cost/tensor_parallel.hpp"
#include "sluice/memory/shared_beginnings.hpp"
#include "sluice/observer/chosen_iteration.hpp"
#include "sluice/observer/deadlines.hpp"
#include "sluice/observer/decision_log.hpp"
#include "sluice/observer/measure.hpp"
#include "sluice/observer/merged.hpp"
#include "sluice/observer/metrics.hpp"
#include "sluice/observer/observer.hpp"
#include "sluice/observer/quantile.hpp"
#include "sluice/observer/releases.hpp"
#include "sluice/observer/series.hpp"
#include "sluice/observer/summary.hpp"
#include "sluice/observer/timeline.hpp"
#include "sluice/backend/clock_record.hpp"
#include "sluice/backend/recorded.hpp"
#include "sluice/backend/replayed.hpp"
#include "sluice/engine/simulate.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/node/bus.hpp"
#include "sluice/node/bus_coordinator.hpp"
#include "sluice/node/coordinator.hpp"
#include "sluice/node/node.hpp"
#include "sluice/node/remap_controller.hpp"
#include "sluice/node/sharing.hpp"
#include "sluice/node/simulate_node.hpp"
// clang-format on
