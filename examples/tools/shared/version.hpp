// SPDX-License-Identifier: Apache-2.0
// made_by: this program's version, commit and build, which --version prints and every result file contains.
#pragma once

#include "sluice/report/made_by.hpp"

/// Contains the commit at the time when the program was linked (cmake/version.cmake).
[[nodiscard]] const sluice::MadeBy& made_by();
