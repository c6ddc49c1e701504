// Style sheet and hover script of report.html and of what the measuring tools write, beside what
// all pages have (core/files/html_page.h).
#pragma once

namespace wt::tools {

inline constexpr char kReportStyle[] = R"css(
:root{--train:#1f6feb;--eval:#c2410c;--base:#5b6675;--right:31 111 235;--wrong:194 65 12;--strong:#fff}
@media (prefers-color-scheme:dark){:root{--train:#6cb0ff;--eval:#ff9d5c;--base:#9aa5b4;
--right:108 176 255;--wrong:255 157 92;--strong:#10151c}}
main{max-width:1120px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:24px;margin:0 0 2px}
.sub{color:var(--soft);margin:0 0 20px}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:0 0 16px;padding:0;list-style:none}
.tiles li{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:10px 16px;
min-width:120px}
.tiles b{display:block;font-size:20px;font-variant-numeric:tabular-nums}
.tiles span{color:var(--soft);font-size:13px}
.cards{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));grid-auto-flow:dense;
align-items:start;gap:16px}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;margin:0;
padding:12px 14px 6px}
.wide{grid-column:1/-1}
@media (max-width:720px){.cards{grid-template-columns:minmax(0,1fr)}
.card{overflow-x:auto}.wide .chart{min-width:760px}.grown{min-width:640px}}
figcaption{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:baseline;gap:4px 16px}
h2{font-size:15px;margin:0;font-weight:600}
small{color:var(--soft);font-weight:400;font-size:13px}
.legend{display:flex;gap:16px;color:var(--soft);font-size:13px}
.key{width:30px;height:10px;margin-right:6px}
.chart{display:block;width:100%;height:auto;margin-top:4px}
.grid{stroke:var(--grid)}
.axis{stroke:var(--soft);stroke-opacity:.6}
.tick{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}
.line{fill:none;stroke:var(--train);stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.line.raw{stroke-width:1;stroke-opacity:.35}
.line.thin{stroke-width:1.4}
.line.eval{stroke:var(--eval);stroke-dasharray:6 4}
.mark.train{fill:var(--card);stroke:var(--train);stroke-width:1.8}
.mark.eval{fill:var(--card);stroke:var(--eval);stroke-width:1.8}
.line.best{stroke:none}
.mark.best{fill:var(--eval);stroke:var(--card);stroke-width:1.5}
.mark.best circle{r:5px}
line.base{stroke:var(--base);stroke-width:1.2;stroke-dasharray:2 3}
text.base{fill:var(--base);font-size:11.5px}
.hover line{stroke:var(--soft)}
.hover rect{fill:var(--card);stroke:var(--edge)}
.hover text{fill:var(--ink);font-size:12px;font-variant-numeric:tabular-nums}
table{width:100%;border-collapse:collapse;margin:6px 0 8px}
th,td{text-align:left;padding:4px 0;border-top:1px solid var(--grid);vertical-align:top}
th{font-weight:400;color:var(--soft);width:42%;padding-right:12px}
td{font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
tr:first-child th,tr:first-child td{border-top:0}
.numbers th,.numbers td{width:auto;text-align:right;padding:3px 0 3px 12px}
.numbers th:first-child{text-align:left;padding-left:0;overflow-wrap:anywhere}
.numbers td{overflow-wrap:normal;white-space:nowrap}
.numbers td:first-child{text-align:left;padding-left:0}
.numbers thead th{border-top:0}.numbers thead th:first-child{overflow-wrap:normal}
.grown th,.grown td{width:auto;padding-right:16px}.grown td:first-child,.grown td:nth-child(2){white-space:nowrap}
.numbers tbody tr:first-child th,.numbers tbody tr:first-child td{border-top:1px solid var(--edge)}
.numbers .averages tr:first-child th,.numbers .averages tr:first-child td{border-top-color:var(--soft)}
.note{color:var(--soft);font-size:13px;margin:0 0 8px}
.scroll{overflow-x:auto;padding-bottom:6px}
.heat{width:auto;border-collapse:separate;border-spacing:2px;font-size:12px}
.heat th,.heat td{border:0;width:auto}
.heat tbody th{text-align:right;padding:0 6px 0 0;white-space:nowrap;vertical-align:middle}
.heat thead th{text-align:center;padding:2px;vertical-align:bottom;white-space:nowrap}
.heat.upright thead th:not(.corner) span{display:inline-block;writing-mode:vertical-rl;
transform:rotate(180deg)}
.heat .corner{font-size:11px;text-align:right;padding-right:6px}
.heat td{min-width:42px;height:30px;padding:0 3px;text-align:center;vertical-align:middle;
border-radius:4px;overflow-wrap:normal;white-space:nowrap}
.close td{min-width:35px;font-size:11.5px;padding:0 1px}
.heat .none{color:var(--soft);opacity:.55}
.heat .right{background:rgb(var(--right)/var(--v))}
.heat .wrong{background:rgb(var(--wrong)/var(--v))}
.heat .strong{color:var(--strong)}
.exponents{display:block;width:100%;height:auto;margin-top:4px}
.exponents .heat{fill:rgb(var(--right)/var(--v))}
.exponents .bad{fill:rgb(var(--wrong)/var(--v))}
pre{font:13px/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;margin:8px 0;
white-space:pre-wrap;overflow-wrap:anywhere;max-height:480px;overflow-y:auto}
.code{color:var(--eval);font-size:.85em}
.seek{display:flex;flex-wrap:wrap;align-items:center;gap:8px 12px;margin:0 0 12px}
.seek input{flex:0 1 300px;min-width:0}
.card .seek{margin:8px 0 4px}
@media (max-width:560px){main{padding:18px 10px 32px}.seek input{flex:1 1 100%}}
)css";

// Values under the pointer; without it the page only loses that.
inline constexpr char kReportScript[] = R"js(
for(const c of document.querySelectorAll('.chart')){const S=JSON.parse(c.dataset.s),g=c.querySelector('.hover'),
V=c.viewBox.baseVal,N='http://www.w3.org/2000/svg',add=(t,a)=>{const e=document.createElementNS(N,t);
for(const k in a)e.setAttribute(k,a[k]);g.append(e);return e};
c.onmouseleave=()=>g.replaceChildren();
c.onmousemove=m=>{const r=c.getBoundingClientRect(),x=(m.clientX-r.left)*V.width/r.width;g.replaceChildren();
const hits=S.filter(s=>s.px.length).map(s=>{let b=0;s.px.forEach((p,i)=>{if(Math.abs(p-x)<Math.abs(s.px[b]-x))b=i});return[s,b]});
if(!hits.length)return;const p=hits[0][0].px[hits[0][1]];
add('line',{x1:p,x2:p,y1:12,y2:V.height-34});
const t=hits.map(([s,b])=>(S.length>1?s.n+' ':'')+s.y[b]+' at '+s.x[b]),w=14+7*Math.max(...t.map(s=>s.length)),
l=p+w+12>V.width?p-w-10:p+10;add('rect',{x:l,y:14,width:w,height:8+17*t.length,rx:5});
t.forEach((s,i)=>{add('text',{x:l+7,y:30+17*i}).textContent=s})}}
)js";

// A search over the children of what is marked as data-searched: those without the text are hidden.
inline constexpr char kSearchBar[] = R"html(<div class="seek">
<input id="search" type="search" placeholder="search: any words" aria-label="Search">
<output id="hits" aria-live="polite"></output></div>
)html";
inline constexpr char kSearchScript[] = R"js(
const search=$('search'),searched=[...document.querySelectorAll('[data-searched]>*')];
function look(){const q=search.value.trim().toLowerCase();let n=0;
 for(const e of searched){e.hidden=!e.textContent.toLowerCase().includes(q);n+=!e.hidden}
 $('hits').textContent=q?(n?n+' of '+searched.length:'no hit'):''}
if(search){search.oninput=look;
 addEventListener('keydown',m=>{if(m.ctrlKey||m.metaKey||m.altKey)return;const typing=m.target===search;
  if(m.key==='/'&&!typing){search.focus();m.preventDefault()}
  else if(m.key==='Escape'&&typing){search.value='';look()}})}
)js";

}  // namespace wt::tools
