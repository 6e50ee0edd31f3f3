// SPDX-License-Identifier: Apache-2.0
// The good half is wrong too.
// sentences: 1
// says: anything
static_assert(sizeof(int) == 0, "sluice: anything");
