// SPDX-License-Identifier: Apache-2.0
#include <sluice/report/pages.hpp> // includes files that CMake generates: the pages
#include <sluice/sluice.hpp>

int main() { return sluice::LayerSet::all(32).count() == 32 && sluice::live_page().ends_with("</html>\n") ? 0 : 1; }
