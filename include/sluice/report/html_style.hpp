// SPDX-License-Identifier: Apache-2.0
// The style of report.html: light, dark and print.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Colours have the hues of Okabe and Ito (2008), which are told apart with every common colour blindness, set to
/// different lightness so that they are told apart in grey as well; each stands out from the page by 3:1. Nothing is
/// told by colour alone: lines have dashes and markers, bars have hatches.
inline constexpr std::string_view html_style = R"css(
:root{color-scheme:light dark;
--bg:#fff;--card:#fff;--fg:#1b1f24;--mute:#57606a;--line:#d3d9e0;--grid:#e8ecf0;--soft:#f3f5f8;--other:#b4bcc6;
--c0:#0060a8;--c1:#be3e00;--c2:#008f66;--c3:#772a6b;--c4:#c98600;--c5:#20242a;--layer:#9fb3c8;--layer2:#7f98b3;--on:#fff}
@media(prefers-color-scheme:dark){:root{
--bg:#12161c;--card:#171c23;--fg:#e6eaef;--mute:#9aa5b1;--line:#39424d;--grid:#27303a;--soft:#1d242d;--other:#55606c;
--c0:#3f8fd8;--c1:#f57a2c;--c2:#36d6a6;--c3:#ab528f;--c4:#ffd766;--c5:#f4f6f9;--layer:#5b7088;--layer2:#475b72;--on:#12161c}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif}
main{max-width:1340px;margin:0 auto;padding:24px 20px 64px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:19px;margin:0 0 2px;letter-spacing:-.005em}
h3{font-size:14px;margin:18px 0 4px}
p{margin:0 0 10px;max-width:78ch}
.sub{color:var(--mute)}
section{margin-top:38px} section>p{max-width:110ch} section+p{margin-top:14px}
dl.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(200px,1fr));gap:0;margin:16px 0 0;border:1px solid var(--line);border-radius:8px;overflow:hidden}
dl.facts div{padding:8px 12px;box-shadow:0 0 0 .5px var(--line)}
dl.facts div.w{grid-column:span 2}
dl.facts dt{font-size:12px;color:var(--mute)}
dl.facts dd{margin:0;font-weight:600;font-size:14px;overflow-wrap:anywhere}
code,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.88em}
pre{margin:8px 0 0;padding:10px 12px;background:var(--soft);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;font-size:12.5px}
.bar{margin-top:26px;padding:12px 14px;display:grid;gap:10px;border:1px solid var(--line);border-radius:8px;background:var(--soft)}
.bar .row{display:flex;flex-wrap:wrap;gap:6px 10px;align-items:center}
.bar .row .row{flex:1 1 240px}
.bar .name{font-size:13px;color:var(--mute);min-width:96px}
button{font:inherit;font-size:13px;color:var(--fg);background:var(--card);border:1px solid var(--line);border-radius:6px;padding:2px 9px;cursor:pointer;line-height:1.6}
button:hover{border-color:var(--mute)}
button:focus-visible,select:focus-visible,th:focus-visible{outline:2px solid var(--c0);outline-offset:1px}
button[aria-pressed=true]{border-color:var(--fg);box-shadow:inset 0 0 0 1px var(--fg);font-weight:600}
button svg{display:inline-block;vertical-align:-2px;margin-right:6px}
select{font:inherit;font-size:13px;color:var(--fg);background:var(--card);border:1px solid var(--line);border-radius:6px;padding:3px 6px;max-width:100%}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,540px),1fr));gap:22px 28px}
.three{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));gap:16px 24px}
figure{margin:10px 0 0;min-width:0}
.save{display:flex;justify-content:flex-end;gap:4px;min-height:20px;margin-bottom:2px;opacity:.55} .save:hover,.save:focus-within{opacity:1}
.save button{font-size:11px;padding:0 6px} caption .save{display:inline-flex;margin:0 0 0 10px}
figcaption{display:flex;flex-wrap:wrap;align-items:center;gap:0 6px;font-size:13px;font-weight:600;margin-bottom:2px} figcaption .save{margin:0 0 0 auto}
figure svg,.legend svg{display:block;max-width:100%;overflow:visible} figure svg{height:auto}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Arial,"DejaVu Sans",sans-serif;fill:var(--fg)}
svg text.m{fill:var(--mute)} svg text.b{font-weight:600} svg text.s{font-size:11px}
svg .g{stroke:var(--grid);stroke-width:1;shape-rendering:crispEdges} svg .a{stroke:var(--mute);stroke-width:1;shape-rendering:crispEdges}
svg text.halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
svg text.num{font-variant-numeric:tabular-nums}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;margin:6px 0 2px;padding:0;list-style:none}
.legend li{display:flex;align-items:center;gap:6px} .legend svg{flex:none}
#tip{position:fixed;z-index:9;pointer-events:none;background:var(--fg);color:var(--bg);font-size:12.5px;line-height:1.4;padding:5px 9px;border-radius:6px;max-width:340px;white-space:pre-line;opacity:0;transition:opacity .08s}
.wide{overflow-x:auto;margin-top:8px;border:1px solid var(--line);border-radius:8px}
table{border-collapse:separate;border-spacing:0;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:9px 12px;color:var(--mute);font-size:12.5px;caption-side:top}
caption b{color:var(--fg);font-size:14px}
th,td{padding:4px 7px;text-align:right;white-space:nowrap;border-top:1px solid var(--grid)}
thead th{font-weight:600;color:var(--mute);border-top:0;vertical-align:bottom}
thead tr:last-child th{border-bottom:1px solid var(--mute)}
thead tr:last-child th[data-sort]{cursor:pointer} th[aria-sort=descending]:after{content:" \2193"} th[aria-sort=ascending]:after{content:" \2191"}
thead tr.groups th{text-align:center;border-bottom:1px solid var(--line)} thead tr.groups th:empty{border-bottom:0}
tbody th,td.l,thead th.l{text-align:left}
tbody th{position:sticky;left:0;background:var(--card);font-weight:600}
tbody th small{display:block;font-weight:400;font-size:11px;line-height:1.1;color:var(--mute)}
td small{color:var(--mute);font-size:11px}
tr.control td,tr.control th{border-top:2px solid var(--mute);font-style:italic}
td.code{white-space:normal;text-align:left;min-width:300px} td.words{white-space:normal;text-align:left;min-width:220px}
ul.defs{padding-left:20px;max-width:88ch} ul.defs li{margin-bottom:5px}
footer{margin-top:44px;color:var(--mute);font-size:13px;border-top:1px solid var(--line);padding-top:12px}
.only-print{display:none}
@media print{:root{color-scheme:light;
--bg:#fff;--card:#fff;--fg:#000;--mute:#444;--line:#bbb;--grid:#ddd;--soft:#fff;--other:#aaa;
--c0:#0060a8;--c1:#be3e00;--c2:#008f66;--c3:#772a6b;--c4:#c98600;--c5:#20242a;--layer:#b9c6d4;--layer2:#97a9bc;--on:#fff}
@page{size:A4 landscape;margin:12mm}
body{font-size:11px;-webkit-print-color-adjust:exact;print-color-adjust:exact}
main{max-width:none;padding:0} section{margin-top:20px} .bar,#tip,.no-print{display:none!important} .only-print{display:block}
figure,.keep,tr{break-inside:avoid} .legend,section>p{break-after:avoid;break-inside:avoid} figure+.legend{break-after:auto;break-before:avoid}
.two{grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:8px 20px} .three{grid-template-columns:1fr 1fr 1fr;gap:8px 20px} figure{margin-top:4px} figure>svg{width:100%}
h1{font-size:20px} h2{font-size:15px} h2,h3,figcaption,caption{break-after:avoid} figcaption,.legend{font-size:10px}
dl.facts{margin-top:8px;grid-template-columns:repeat(auto-fit,minmax(160px,1fr))} dl.facts div{padding:4px 8px} dl.facts dt{font-size:9px} dl.facts dd{font-size:11px} pre{padding:4px 8px;font-size:9px}
.wide{overflow:visible;border:0;margin-top:4px} table{font-size:8.5px;line-height:1.3} table.long{font-size:8px;line-height:1.2} table.long th,table.long td{padding:0 4px} caption{padding:2px 4px;font-size:9px} caption b{font-size:11px} caption br{display:none} caption b:after{content:"  "} th,td{padding:1px 4px} td.code,td.words{min-width:0} tbody th{position:static}
tbody th small{display:inline;font-size:inherit;margin-left:1em}
ul.defs{max-width:none;margin:4px 0} section>ul.defs.cols{columns:2;column-gap:28px} ul.defs.sub{font-size:8.5px} footer{margin-top:14px;font-size:9px;padding-top:4px}}
)css";

} // namespace sluice::detail
