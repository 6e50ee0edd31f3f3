// SPDX-License-Identifier: Apache-2.0
// A number gets its unit where it enters, not later: 50 could be anything.
// sentences: 0
// says[GNU]: could not convert|conversion from .int. to non-scalar
// says[Clang]: no viable conversion from 'int'
// says[nvcc]: no suitable constructor exists to convert from "int"
#include "sluice/core/units.hpp"

#ifdef GOOD
sluice::Seconds slo = sluice::Seconds{0.050};
#else
sluice::Seconds slo = 50;
#endif
