// SPDX-License-Identifier: Apache-2.0
// Promises two sentences and gives one, with an error beside it that is none of ours.
// sentences: 2
// says: a sentence that is not there
#ifndef GOOD
static_assert(sizeof(int) == 0, "sluice: the one sentence");
int broken = "text";
#endif
