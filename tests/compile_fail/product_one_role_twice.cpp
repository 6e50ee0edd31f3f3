// SPDX-License-Identifier: Apache-2.0
// Two lists of one role have no engine in common: no combination of them composes.
// sentences: 1
// says: two Choices play the same role: merge them
#include "sluice/engine/product.hpp"

using namespace sluice;
#ifdef GOOD
using P = Product<Choices<Fcfs, FcfsPrefillFirst>>;
#else
using P = Product<Choices<Fcfs>, Choices<FcfsPrefillFirst, BasicFcfs<Batching::chunked, Newcomers::required>>>;
#endif

std::size_t use() { return sizeof(P); }
