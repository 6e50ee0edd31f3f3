// SPDX-License-Identifier: Apache-2.0
// policy_mistake: how a policy ends the run that asked it.
#pragma once

#include <stdexcept>
#include <string>

namespace sluice {

/// Ends the run with `what`. The functions of a policy return no Status, so that a policy stays a few lines; the engine
/// turns what leaves them into the status that ends its run, with the policy's name (engine/core/policy_threw.hpp).
[[noreturn, gnu::cold]] inline void policy_mistake(const std::string& what) { throw std::domain_error(what); }

} // namespace sluice
