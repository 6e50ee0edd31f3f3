// SPDX-License-Identifier: Apache-2.0
// The style of the live page: light and dark, wide and narrow.
#pragma once

#include <string_view>

namespace sluice::detail {

/// The colours are those of report.html (report/html_style.hpp, which stands on a layer above this one). Nothing is
/// told by colour alone: a layer's place by its height, a line by its dashes, an SLO by a word.
inline constexpr std::string_view live_style = R"css(
:root{color-scheme:light dark;
--bg:#fff;--card:#fff;--fg:#1b1f24;--mute:#57606a;--line:#d3d9e0;--grid:#e8ecf0;--soft:#f3f5f8;
--c0:#0060a8;--c1:#be3e00;--c2:#008f66;--c3:#772a6b;--good:#00724f;--bad:#a83200;--badsoft:#fdeee6;--on:#fff}
@media(prefers-color-scheme:dark){:root{
--bg:#12161c;--card:#171c23;--fg:#e6eaef;--mute:#9aa5b1;--line:#39424d;--grid:#27303a;--soft:#1d242d;
--c0:#3f8fd8;--c1:#f57a2c;--c2:#36d6a6;--c3:#c77bb0;--good:#36d6a6;--bad:#ff9a5c;--badsoft:#33221a;--on:#12161c}}
*{box-sizing:border-box}
[hidden]{display:none!important}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif}
main{max-width:1340px;margin:0 auto;padding:20px 20px 64px}
h1{font-size:26px;line-height:1.2;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:19px;margin:0 0 2px;letter-spacing:-.005em}
p{margin:0 0 8px;max-width:110ch} .sub{color:var(--mute)}
a{color:var(--c0)}
section,aside{margin-top:30px}
header{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:center}
header>div{flex:1 1 320px;min-width:0} header p{margin:0}
#status{display:flex;align-items:center;gap:8px;font-size:14px}
.dot{width:11px;height:11px;border-radius:50%;background:var(--mute);flex:none}
.dot.good{background:var(--good)} .dot.bad{background:var(--bad);border-radius:1px}
.skip{position:absolute;left:-9999px} .skip:focus{left:8px;top:8px;background:var(--card);padding:6px 10px;z-index:9}
.alert{max-width:none;margin:14px 0 0;padding:9px 12px;border:1px solid var(--bad);border-left-width:5px;border-radius:8px;background:var(--badsoft);overflow-wrap:anywhere}
#all.old{opacity:.55}
dl.facts{display:grid;grid-template-columns:repeat(6,1fr);margin:16px 0 0;border:1px solid var(--line);border-radius:8px;overflow:hidden}
dl.facts div{padding:8px 12px;box-shadow:0 0 0 .5px var(--line)}
dt{font-size:12px;color:var(--mute)}
dd{margin:0;font-weight:600;font-size:16px;font-variant-numeric:tabular-nums}
dd small{display:block;font-weight:400;font-size:12px;color:var(--mute);line-height:1.35}
code,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.88em}
pre{margin:8px 0 0;padding:10px 12px;background:var(--soft);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;font-size:12.5px}
button{font:inherit;font-size:13px;color:var(--fg);background:var(--card);border:1px solid var(--line);border-radius:6px;padding:4px 11px;cursor:pointer;min-height:32px}
button:hover{border-color:var(--mute)} button[aria-pressed=true]{border-color:var(--fg);box-shadow:inset 0 0 0 1px var(--fg);font-weight:600}
:focus-visible{outline:2px solid var(--c0);outline-offset:1px}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;margin:4px 0 8px;padding:0;list-style:none;color:var(--mute)}
.legend li{display:flex;align-items:center;gap:6px}
.legend svg{flex:none} #more{margin:8px 10px 0}
.columns{display:flex;gap:24px;align-items:flex-start} .columns>section{flex:1 1 0;min-width:0}
.row{display:grid;grid-template-columns:62px 92px minmax(90px,1fr) 92px 78px 78px 78px 118px;gap:0 12px;align-items:center;padding:5px 10px;font-size:14px;font-variant-numeric:tabular-nums}
.heads{font-size:12px;color:var(--mute)} .n{text-align:right}
#rows{border:1px solid var(--line);border-radius:8px;overflow:hidden;max-height:600px;overflow-y:auto} #rows:empty{display:none}
#rows .row{border-top:1px solid var(--grid);cursor:pointer;background:var(--card)} #rows .row:first-child{border-top:0}
#rows .row:hover{background:var(--soft)} #rows .row[aria-selected=true]{background:var(--soft);box-shadow:inset 3px 0 0 var(--c0)}
#rows .row:focus-visible{outline-offset:-2px}
.row .id{font-weight:600} .row i{font-style:normal;color:var(--mute);display:none}
.row .slo{white-space:nowrap} .met{color:var(--good)} .missed{color:var(--bad);font-weight:600} .none{color:var(--mute)}
.bar{display:block;width:100%;height:18px} .bar text{font-size:11px} .said{color:var(--mute);font-size:13px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.d{fill:var(--c0)} .h{fill:var(--c1)} .s{fill:var(--c3)} .x{fill:none;stroke:var(--mute)}
aside{flex:0 0 330px;position:sticky;top:12px;border:1px solid var(--line);border-radius:8px;padding:12px 14px;background:var(--card);max-height:calc(100vh - 24px);overflow:auto}
aside h2{padding-right:80px} #close{position:absolute;right:10px;top:10px}
aside .bar{height:34px;margin:8px 0} aside dl{margin:8px 0 0;display:grid;grid-template-columns:auto 1fr;gap:3px 14px;align-items:baseline} aside dd{font-size:14px;font-weight:400;text-align:right;overflow-wrap:anywhere} aside dt{font-size:13px}
#plan{margin-top:8px;padding:10px 14px;border:1px solid var(--line);border-radius:8px;background:var(--soft)} #plan p{margin:0} #plan p+p{margin-top:4px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:14px 26px}
figure{margin:8px 0 0;min-width:0} figcaption{font-size:13px;font-weight:600}
figcaption .legend{font-weight:400;margin:0 0 2px} figcaption b{color:var(--fg);font-variant-numeric:tabular-nums}
figure>svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,Arial,"DejaVu Sans",sans-serif;fill:var(--mute);font-variant-numeric:tabular-nums}
.g{stroke:var(--grid);stroke-width:1;shape-rendering:crispEdges}
.logs{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:16px 24px}
.logs h3{font-size:14px;margin:8px 0 4px}
.logs ol{margin:0;padding:4px 0;list-style:none;border:1px solid var(--line);border-radius:8px;max-height:260px;overflow-y:auto;font-size:13px;font-variant-numeric:tabular-nums}
.logs li{padding:3px 12px 3px 92px;text-indent:-80px;overflow-wrap:anywhere} .logs time{display:inline-block;width:80px;text-indent:0;color:var(--mute)} .logs li.sub{padding-left:12px;text-indent:0}
footer{margin-top:40px;color:var(--mute);font-size:13px;border-top:1px solid var(--line);padding-top:12px}
@media(prefers-reduced-motion:no-preference){.dot{transition:background .2s} #all{transition:opacity .2s}}
@media(max-width:1100px){dl.facts{grid-template-columns:repeat(4,1fr)} aside{flex-basis:290px} .columns.open .row{grid-template-columns:56px 86px minmax(70px,1fr) 60px 104px} .columns.open .opt{display:none}}
@media(max-width:760px){
main{padding:14px 12px 48px} h1{font-size:22px}
header>div{flex-basis:100%} #status{flex:1}
dl.facts{grid-template-columns:1fr 1fr} dl.facts div{padding:6px 10px}
.heads{display:none} #rows{max-height:none}
.row,.columns.open .row{grid-template-columns:auto 1fr auto auto;grid-template-areas:"id phase phase slo" "bar bar bar bar" "made given held times";gap:3px 10px;padding:9px 10px}
.row .id{grid-area:id} .row .phase{grid-area:phase} .row .slo{grid-area:slo;text-align:right} .row .place{grid-area:bar}
.row .made{grid-area:made} .row .given{grid-area:given} .row .held{grid-area:held} .row .times{grid-area:times}
.row .n{text-align:left;font-size:12.5px} .row .n.times{text-align:right} .row i{display:inline} .columns.open .opt{display:block}
.columns{display:block}
aside{position:fixed;left:0;right:0;bottom:0;top:auto;z-index:5;max-height:58vh;margin:0;border-radius:12px 12px 0 0;border-width:2px 0 0;box-shadow:0 -6px 24px rgba(0,0,0,.28)}
#big{margin-top:14px} .logs ol{max-height:220px} button{min-height:40px}}
)css";

} // namespace sluice::detail
