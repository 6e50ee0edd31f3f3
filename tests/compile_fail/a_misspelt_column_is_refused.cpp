// SPDX-License-Identifier: Apache-2.0
// A table's column is a metric of report/columns.hpp: a misspelt key would be an empty column.
// sentences: 0
// says[GNU]: no_column_has_this_key
// says[Clang]: is not a constant expression
// says[nvcc]: constant
#include "sluice/report/columns.hpp"

#ifdef GOOD
constexpr auto columns = sluice::columns_of("tbt_attainment", "served");
#else
constexpr auto columns = sluice::columns_of("tbt_attainment", "serve");
#endif
static_assert(columns.size() == 2);
