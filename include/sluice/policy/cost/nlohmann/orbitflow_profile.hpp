// SPDX-License-Identifier: Apache-2.0
// read_orbitflow_profile: OrbitFlow's fitted step and transfer times, from JSON.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/policy/cost/linear_profile.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sluice {

namespace detail {

/// `{"<name>": {"linear": {"A": …, "B": …}}}`
Expected<LinearFit> orbitflow_fit(const nlohmann::json& profile, const char* name, const std::string& where);

} // namespace detail

/// The profile of `shape` in the file `path`. `prefill_rate`: FLOP/s that the device achieves in prefill, which is not
/// in the file.
Expected<LinearProfile> read_orbitflow_profile(const std::string& path, const ModelShape& shape,
                                               FlopsPerSecond prefill_rate);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/policy/cost/nlohmann/orbitflow_profile.inl.hpp"
#endif
