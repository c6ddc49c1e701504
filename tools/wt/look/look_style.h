// Style sheet of the page of `wt look`, behind the reports' (reports/report_style.h).
#pragma once

namespace wt::tools {

inline constexpr char kLookStyle[] = R"css(
:root{--device:#1f6feb;--shared:#0f8a6d;--lanes:#8250df;--waste-ink:#b4430a;--hot:194 65 12}
@media (prefers-color-scheme:dark){:root{--device:#6cb0ff;--shared:#4fd1a5;--lanes:#c4a0ff;
--waste-ink:#ff9d5c;--hot:255 157 92}}
.cards{margin-bottom:16px}
.legend{flex-wrap:wrap;gap:2px 14px}.legend span{white-space:nowrap}
.roofline{max-width:760px}
.kernel{font-size:19px;margin:26px 0 2px;overflow-wrap:anywhere}
.kernel+.sub{margin:0 0 12px}
.waste{color:var(--waste-ink)}
.listing{width:100%;margin:4px 0 8px;font:12.5px/1.5 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
.listing th,.listing td{border:0;padding:0 8px;width:auto;white-space:pre;overflow-wrap:normal}
.listing thead th{color:var(--soft);font:12px/1.4 system-ui,"DejaVu Sans",sans-serif;
border-bottom:1px solid var(--edge);text-align:right;white-space:nowrap}
.listing thead th:nth-child(1),.listing thead th:nth-child(6){text-align:left}
.listing td{text-align:right}
.listing td:nth-child(1),.listing td:nth-child(6){text-align:left}
.listing td:nth-child(1){font-family:system-ui,"DejaVu Sans",sans-serif;font-size:12px}
.listing td:nth-child(5){color:var(--soft);border-right:1px solid var(--edge);user-select:none}
.listing .counted{background:rgb(var(--hot)/var(--v,0))}
.listing .skip td{color:var(--soft);text-align:center}
.listing a{color:inherit;text-decoration:underline;text-decoration-color:var(--edge)}
.listing a:hover{text-decoration-color:currentColor}
.patterns{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,480px),1fr));gap:16px}
.patterns figure{margin:0;min-width:0;scroll-margin-top:12px;border-top:1px solid var(--grid);padding-top:8px}
.patterns figure:target{outline:2px solid var(--accent);outline-offset:4px;border-radius:4px}
.patterns figcaption{display:block;font-size:13px}
.patterns code{font:12px ui-monospace,"DejaVu Sans Mono",monospace;display:block;color:var(--soft);
overflow:hidden;text-overflow:ellipsis;white-space:pre}
.access,.phases,.roofline{display:block;width:100%;height:auto;margin:4px 0}
.in{font-size:10px;fill:var(--soft);text-anchor:middle;font-variant-numeric:tabular-nums;pointer-events:none}
.in.on{fill:var(--card)}
.lane{fill:var(--lanes)}.bank{fill:var(--shared)}.bank.later{fill:var(--waste-ink)}
.off{fill:none;stroke:var(--edge)}
.sector{fill:none;stroke:var(--device)}.used{fill:var(--device);fill-opacity:.75;pointer-events:none}
.wire{stroke:var(--soft);stroke-opacity:.55;fill:none}
.on-device{fill:var(--device)}.on-shared{fill:var(--shared)}.on-lanes{fill:var(--lanes)}
.waits{fill:var(--grid)}
.barrier{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:3 2}
.mid{text-anchor:middle}.end{text-anchor:end}
.roof{stroke:var(--accent);stroke-width:1.8;fill:none}
.spot{stroke:var(--card);stroke-width:1.5}.spot.contract{fill:var(--device)}.spot.touched{fill:var(--waste-ink)}
.swatch{display:inline-block;width:12px;height:12px;border-radius:3px;margin:0 5px 0 0;vertical-align:-1px}
.swatch.d{background:var(--device)}.swatch.s{background:var(--shared)}.swatch.l{background:var(--lanes)}
.swatch.w{background:var(--grid);border:1px solid var(--edge)}.swatch.t{background:var(--waste-ink)}
.warps{display:flex;height:14px;border:1px solid var(--edge);border-radius:4px;overflow:hidden;margin:6px 0 8px}
.warps i{display:block;background:var(--device)}
.ptx summary{cursor:pointer;margin:6px 0 8px}
.ptx-lines td{width:auto;padding:1px 14px 1px 0;border-top:0;text-align:right;white-space:nowrap}
.ptx-lines td:last-child{text-align:left}.ptx-lines th{width:auto;padding:1px 14px 1px 0;text-align:right}
.ptx-lines th:last-child,.ptx-lines .from th{text-align:left}
.ptx-lines .from th{padding-top:8px;white-space:pre}.ptx-lines .never{opacity:.55}
/* Narrow: the source first, what it does below it. */
@media (max-width:720px){.listing,.listing tbody{display:block}.listing thead,.listing td:empty{display:none}
.listing tr{display:flex;flex-wrap:wrap}
.listing td:nth-child(5),.listing td:nth-child(6){order:-1}
.listing td:nth-child(5){flex:0 0 44px}
.listing td:nth-child(6){flex:1 1 calc(100% - 44px);white-space:pre-wrap;overflow-wrap:anywhere}
.listing td:nth-child(1){white-space:normal}
.listing td:nth-child(2)::after{content:" warps"}.listing td:nth-child(3)::after{content:" lanes"}
.phases{min-width:640px}.access,.roofline{min-width:520px}
.patterns figure{overflow-x:auto}}
)css";

}  // namespace wt::tools
