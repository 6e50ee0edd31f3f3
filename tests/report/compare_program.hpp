// SPDX-License-Identifier: Apache-2.0
// sluice-compare as tests of its output start it.
#pragma once

#include "support/program.hpp"
#include <doctest/doctest.h>

#include <string>

namespace sluice_test::comparing {

inline doctest::skip needs_program() { return sluice_test::needs_program("sluice-compare"); }

/// What it prints, errors among it, without its progress.
inline Ran run(const std::string& arguments) { return run_program("sluice-compare", "--quiet " + arguments + " 2>&1"); }

} // namespace sluice_test::comparing
