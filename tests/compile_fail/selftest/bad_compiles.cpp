// SPDX-License-Identifier: Apache-2.0
// Nothing is wrong with either half.
// sentences: 1
// says: anything
