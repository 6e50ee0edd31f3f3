// SPDX-License-Identifier: Apache-2.0
// report.html: the data of the requests' time by cause, for report/pages/why.js.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/time_report.hpp"

namespace sluice::detail {

void write_time(JsonWriter& json, const TimeReport& time);

} // namespace sluice::detail

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/html_why.inl.hpp"
#endif
