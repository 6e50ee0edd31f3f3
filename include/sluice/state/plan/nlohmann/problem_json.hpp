// SPDX-License-Identifier: Apache-2.0
// read_problem: reads a planning problem from JSON and checks every field.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/state/plan/instance.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sluice {
namespace detail {

Status read_requests(const nlohmann::json& list, PlanningProblem& problem, double slo_s, const std::string& where);

} // namespace detail

/// The problem in a parsed JSON object; `where` starts an error's line. Blocks are layer blocks; layers are counted
/// from 1 in the file and from 0 in the problem.
Expected<PlanningProblem> read_problem(const nlohmann::json& object, const std::string& where);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/state/plan/nlohmann/problem_json.inl.hpp"
#endif
