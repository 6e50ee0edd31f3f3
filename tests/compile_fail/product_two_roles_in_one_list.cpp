// SPDX-License-Identifier: Apache-2.0
// The models of one list must play one role: with two roles in a list, some engines of the product would lack one.
// sentences: 1
// says: the models of one Choices must play the same role
#include "sluice/engine/product.hpp"

using namespace sluice;
#ifdef GOOD
using Models = Choices<Fcfs, FcfsPrefillFirst>;
#else
using Models = Choices<Fcfs, AllResident>;
#endif

std::size_t use() { return sizeof(Models); }
