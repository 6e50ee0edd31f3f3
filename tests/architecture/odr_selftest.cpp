// SPDX-License-Identifier: Apache-2.0
// What a header must not define; architecture.odr must find it.
int defined_twice();
int defined_twice() { return 1; }
inline int defined_once() { return 2; }
int (*use)() = defined_once;
