// SPDX-License-Identifier: Apache-2.0
// made_by: the version, commit and build of this program, which --version prints and every file of results bears.
#pragma once

#include "sluice/report/made_by.hpp"

/// Of the commit as it was when the program was linked (cmake/version.cmake).
[[nodiscard]] const sluice::MadeBy& made_by();
