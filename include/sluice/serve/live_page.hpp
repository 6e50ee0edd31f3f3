// SPDX-License-Identifier: Apache-2.0
// live_page: the page at /live, which shows what the server is doing.
#pragma once

#include "sluice/serve/live_script.hpp"
#include "sluice/serve/live_style.hpp"
#include "sluice/serve/live_what_if.hpp"

#include <string>

namespace sluice {

/// What a browser lets the page do: its own style and script, and questions to the server that it came from.
inline constexpr const char* live_page_policy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// One file that needs no network but `live/state` beside it. The same for every server: all it shows it polls, and
/// puts on the page as text.
[[nodiscard]] inline std::string live_page() {
  std::string out = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Sluice live</title><link rel="icon" href="data:,">
<style>)html";
  out += detail::live_style;
  out += detail::live_what_if_style;
  out += R"html(</style></head>
<body><a class="skip" href="#requests">To the requests</a>
<main>
<header><div><h1 id="model">Sluice</h1><p class="sub" id="about"></p></div>
<p id="status" role="status"><span class="dot" aria-hidden="true"></span><span id="said">asking the server</span></p>
<button type="button" id="hold" aria-pressed="false">Hold still</button></header>
<noscript><p class="alert">This page needs JavaScript. The same figures as text: <a href="metrics">metrics</a>.</p></noscript>
<p class="alert" id="alert" role="alert" hidden></p>
<div id="all" hidden>
<dl class="facts" id="facts" aria-label="Figures"></dl>
<div class="columns">
<section aria-labelledby="h-requests" id="requests"><h2 id="h-requests">Requests</h2>
<ul class="legend" id="legend"></ul>
<div id="empty" hidden><p><b>No request is here.</b> The page shows each from its arrival to its last token. To send one:</p><pre><code id="sample"></code></pre></div>
<div id="heads" class="row heads" aria-hidden="true"><span>request</span><span>phase</span><span>layers of KV, by place</span><span class="n">tokens made</span><span class="n">delivered</span><span class="n">held back</span><span class="n">preempted</span><span>SLO</span></div>
<div id="rows" role="listbox" aria-label="Requests: arrows move, Enter shows details, Escape closes them"></div>
<p class="sub" id="more" hidden></p></section>
<aside id="details" aria-labelledby="h-details" hidden><h2 id="h-details"></h2><button type="button" id="close">Close</button><div id="big"></div><dl id="of"></dl></aside>
</div>
<section aria-labelledby="h-plan"><h2 id="h-plan">What the planner decided last, and why</h2><div id="plan"></div></section>
<section aria-labelledby="h-time"><h2 id="h-time">The last minutes</h2><div class="charts" id="charts"></div></section>)html";
  out += detail::live_what_if_section;
  out +=
      R"html(<section aria-labelledby="h-log"><h2 id="h-log">What happened</h2><div class="logs" id="logs"></div></section>
<footer>The figures are those of <a href="metrics">metrics</a>. r7 is request 7 of the engine, as in its decision log.</footer>
</div></main>
<script>)html";
  out += detail::live_script_base;
  out += detail::live_script_charts;
  out += detail::live_script_page;
  out += detail::live_what_if_script;
  out += "</script>\n</body></html>\n";
  return out;
}

} // namespace sluice
