// SPDX-License-Identifier: Apache-2.0
// A list of models answers one question: with two in it a product would be of engines that lack one of the roles.
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
