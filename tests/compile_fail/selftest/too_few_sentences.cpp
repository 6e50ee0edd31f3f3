// SPDX-License-Identifier: Apache-2.0
// Declares two messages and gives one, with an unrelated error.
// sentences: 2
// says: a sentence that is not there
#ifndef GOOD
static_assert(sizeof(int) == 0, "sluice: the one sentence");
int broken = "text";
#endif
