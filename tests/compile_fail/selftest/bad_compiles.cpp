// SPDX-License-Identifier: Apache-2.0
// Both halves compile.
// sentences: 1
// says: anything
