// SPDX-License-Identifier: Apache-2.0
// sluice-validate import: writes bundles of kernel times from what others measured.
#pragma once

namespace imported {

/// The program's rest: `argv[0]` is "import". Returns the exit status.
int import_bundle(int argc, char** argv);

} // namespace imported
