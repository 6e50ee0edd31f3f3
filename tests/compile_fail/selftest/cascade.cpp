// SPDX-License-Identifier: Apache-2.0
// Gives the one message that it declares, and a second error.
// sentences: 1
// says: the one sentence
#ifndef GOOD
static_assert(sizeof(int) == 0, "sluice: the one sentence");
int broken = "text";
#endif
