// SPDX-License-Identifier: Apache-2.0
#include "identity/eigen/confluence_checks.hpp"

namespace sluice::testing {

TEST_CASE("Confluence changes no token and no logit") { check_confluence<CpuTrials>(81, 15); }

TEST_CASE("cancellations under Confluence change no token and no logit") { check_confluence<CpuTrials>(83, 8, 25); }

} // namespace sluice::testing
