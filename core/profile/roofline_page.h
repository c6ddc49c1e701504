// Style sheet, body and script of the roofline page. Internal.
#pragma once

namespace wt::profiler {

inline constexpr char kRooflineStyle[] = R"css(
:root{--c0:#1f6feb;--c1:#0e7490;--c2:#b45309;--roof:#c81e4a}
@media (prefers-color-scheme:dark){:root{--c0:#6cb0ff;--c1:#4fd1d9;--c2:#ffb366;--roof:#ff7a9a}}
main{max-width:1240px;margin:0 auto;padding:24px 20px 48px}
h1{font-size:22px;margin:0 0 2px}
.sub{color:var(--soft);margin:0 0 14px;font-size:13px}
.bar{display:flex;flex-wrap:wrap;align-items:center;gap:8px 12px;margin:0 0 12px}
.bar input{flex:0 1 280px;min-width:0}
.pick{display:flex}
.pick button{border-radius:0;margin-left:-1px}
.pick button:first-child{border-radius:6px 0 0 6px;margin:0}.pick button:last-child{border-radius:0 6px 6px 0}
.pick button[aria-pressed=true]{background:var(--accent);border-color:var(--accent);color:var(--card)}
.why{background:var(--card);border:1px solid var(--edge);border-left:4px solid var(--c2);border-radius:8px;
padding:8px 14px;margin:0 0 12px;overflow-wrap:anywhere;white-space:pre-wrap}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:12px 14px;margin:0 0 16px}
.head{display:flex;flex-wrap:wrap;justify-content:space-between;gap:4px 16px}
h2{font-size:15px;margin:0}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;color:var(--soft);font-size:13px}
.legend i{display:inline-block;width:10px;height:10px;border-radius:50%;margin-right:5px}
#frame{position:relative;margin-top:6px}
svg{display:block;width:100%}
.grid{stroke:var(--grid)}.axis{stroke:var(--soft);stroke-opacity:.6}
.tick{fill:var(--soft);font-size:11.5px;font-variant-numeric:tabular-nums}
.roof{fill:none;stroke:var(--roof);stroke-width:1.8;stroke-linejoin:round}
.roof.other{stroke-dasharray:6 4;stroke-width:1.4}
.said{fill:var(--roof);font-size:12px}
.halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
.label{fill:var(--ink);font-size:11.5px;pointer-events:none}
.point{stroke-width:1.5;fill-opacity:.35;cursor:pointer}
.k0{fill:var(--c0);stroke:var(--c0)}.k1{fill:var(--c1);stroke:var(--c1)}.k2{fill:var(--c2);stroke:var(--c2)}
.off{opacity:.13}
.point.at{fill-opacity:.85;stroke:var(--ink);stroke-width:2}
.drop{stroke:var(--soft);stroke-dasharray:2 3;pointer-events:none}
.scroll{overflow-x:auto;margin:0 -14px;padding:0 14px}
table{width:100%;border-collapse:collapse;font-size:13.5px}
th,td{padding:4px 0 4px 14px;text-align:right;border-top:1px solid var(--grid);white-space:nowrap;
font-variant-numeric:tabular-nums}
thead th{border:0;font-weight:400;color:var(--soft);padding-bottom:6px}
thead button{border:0;padding:0;background:none;color:inherit;font-size:13px}
thead button:hover{color:var(--ink)}
th[aria-sort] button{color:var(--ink);font-weight:600}
th[aria-sort=descending] button::after{content:" \2193"}th[aria-sort=ascending] button::after{content:" \2191"}
.text{text-align:left}th,td{vertical-align:top}tbody th{white-space:normal;overflow-wrap:anywhere}
thead th:first-child{padding-left:0}tbody th{min-width:176px}td.text{color:var(--soft)}
tbody th{position:sticky;left:0;text-align:left;font-weight:400;padding-left:16px;background:inherit}
tbody th i{position:absolute;left:0;top:9px;width:9px;height:9px;border-radius:50%}
tbody tr{cursor:pointer;background:var(--card)}tbody tr:hover,tr.at{background:var(--grid)}
.meter{display:inline-block;vertical-align:middle;width:44px;height:7px;margin-left:7px;border-radius:4px;
background:var(--grid);overflow:hidden}
tr:hover .meter,tr.at .meter{background:var(--card)}
.meter i{display:block;height:100%;background:var(--roof)}
.share .meter i{background:var(--accent)}
.note{color:var(--soft);font-size:13px;margin:8px 0 0}
.tip dl{display:grid;grid-template-columns:auto auto;gap:0 12px;margin:3px 0 0}
.tip dt{color:var(--soft)}.tip dd{margin:0;font-variant-numeric:tabular-nums}
@media (max-width:560px){main{padding:16px 10px 32px}.card{padding:10px}.scroll{margin:0 -10px;padding:0 10px}
.bar input{flex:1 1 100%}td.text{white-space:normal;min-width:110px}}
)css";

inline constexpr char kRooflineBody[] = R"html(
<div class="bar"><div class="pick" id="pick" role="group" aria-label="Rows"></div>
<input id="search" type="search" placeholder="search: name, module, line" aria-label="Search">
<output id="hits" aria-live="polite"></output></div>
<p class="why" id="why" hidden></p>
<section class="card"><div class="head"><h2>What its kernels reach, and what this machine allows</h2>
<span class="legend" id="legend"></span></div>
<div id="frame"><svg id="chart" role="img" aria-label="Roofline"></svg><div id="tip" class="tip" hidden></div></div>
<p class="note" id="note"></p></section>
<section class="card" id="table"><div class="scroll" tabindex="0" aria-label="Table"><table><thead id="head"></thead>
<tbody id="rows"></tbody></table></div></section></main>
)html";

inline constexpr char kRooflineScript[] = R"js(
const D=JSON.parse($('data').textContent),N='http://www.w3.org/2000/svg',KINDS=['operator','backward','kernel'],
FIELDS=['name','module','line','kind','calls','ns','bytes','flops','roof','bound'],
groups=D.groups.map(([name,list])=>{const all=list.reduce((n,r)=>n+r[5],0),
 rows=list.map(r=>{const o={};FIELDS.forEach((f,i)=>o[f]=r[i]);
  o.share=o.ns/all;o.at=o.bytes>0?o.flops/o.bytes:0;o.gf=o.flops/o.ns;o.gb=o.bytes/o.ns;o.on=true;return o});
 return{name,rows:rows.sort((a,b)=>b.ns-a.ns)}}),
percent=v=>v>0&&v<.0005?'<0.1 %':(100*v).toFixed(1)+' %',
shape=(tag,into,a,text)=>{const e=document.createElementNS(N,tag);for(const k in a)e.setAttribute(k,a[k]);
 if(text!==undefined)e.textContent=text;into.append(e);return e};
let group=groups[0],selected=null,hovered=null,sort='ns',down=true;
const drawn=r=>r.flops>0&&r.bytes>0;
const products=D.roofs.filter(r=>r.gf).sort((a,b)=>b.gf-a.gf),copies=D.roofs.filter(r=>!r.gf),
// What the machine allows at an intensity: of the roofs that are drawn solid the highest.
best=at=>Math.max(0,...copies.map(c=>Math.min(c.gb*at,products.find(p=>p.gb===c.gb)?.gf??1/0)));
function range(){let x0=1/0,x1=0,y0=1/0,y1=0;
 for(const r of group.rows)if(drawn(r)){x0=Math.min(x0,r.at);x1=Math.max(x1,r.at);y0=Math.min(y0,r.gf);y1=Math.max(y1,r.gf)}
 for(const r of products){y1=Math.max(y1,r.gf);if(r.gb){x1=Math.max(x1,2*r.gf/r.gb);x0=Math.min(x0,r.gf/r.gb/4)}}
 if(!(x1>0)){x0=.1;x1=10}
 for(const r of copies){y1=Math.max(y1,products.length?0:r.gb*x1);y0=Math.min(y0,r.gb*x0)}
 if(!(y1>0)||!(y0<1/0)){y0=Math.min(y0,.1);y1=Math.max(y1,10)}
 return[x0/2.2,x1*1.7,y0/2.2,y1*1.9]}
function draw(){
 const svg=$('chart'),W=Math.max(280,$('frame').clientWidth),H=Math.round(Math.min(470,Math.max(300,W*.5))),
 L=58,R=12,T=12,B=44,[x0,x1,y0,y1]=range(),lg=Math.log10,
 X=v=>L+(lg(v)-lg(x0))/(lg(x1)-lg(x0))*(W-L-R),Y=v=>H-B-(lg(v)-lg(y0))/(lg(y1)-lg(y0))*(H-B-T);
 svg.replaceChildren();svg.setAttribute('viewBox','0 0 '+W+' '+H);svg.style.height=H+'px';
 const ticks=(a,b,room,put)=>{const decades=lg(b)-lg(a),per=room/decades,
  digits=per>150?[1,2,5]:[1],every=Math.max(1,Math.ceil(46/per));
  for(let e=Math.floor(lg(a));e<=lg(b);e++)for(const d of digits){const v=d*10**e;
   if(v>=a&&v<=b&&e%every===0)put(v)}},
 text=v=>v>=1e6?num(v/1e6)+'M':v>=1e4?num(v/1e3)+'k':num(v);
 ticks(x0,x1,W-L-R,v=>{shape('line',svg,{class:'grid',x1:X(v),x2:X(v),y1:T,y2:H-B});
  shape('text',svg,{class:'tick',x:X(v),y:H-B+17,'text-anchor':'middle'},text(v))});
 ticks(y0,y1,H-T-B,v=>{shape('line',svg,{class:'grid',x1:L,x2:W-R,y1:Y(v),y2:Y(v)});
  shape('text',svg,{class:'tick',x:L-7,y:Y(v)+4,'text-anchor':'end'},text(v))});
 shape('path',svg,{class:'axis',fill:'none',d:'M'+L+' '+T+'V'+(H-B)+'H'+(W-R)});
 shape('text',svg,{class:'tick',x:(L+W-R)/2,y:H-8,'text-anchor':'middle'},'FLOPs a byte');
 shape('text',svg,{class:'tick',transform:'translate(14 '+(T+H-B)/2+') rotate(-90)','text-anchor':'middle'},'GFLOP/s');
 // Roofs: each device's copy rises to its quickest product; slower products leave it earlier.
 const taken=[];
 for(const c of copies){
  const flat=products.filter(p=>p.gb===c.gb),top=flat[0],end=top?Math.min(x1,top.gf/top.gb):x1,
  bottom=Math.max(x0,y0/c.gb),high=Math.min(end,y1/c.gb);
  shape('path',svg,{class:'roof','data-roof':c.name,d:'M'+X(bottom)+' '+Y(c.gb*bottom)+'L'+X(high)+' '+Y(c.gb*high)+
   (top&&top.gf<y1?'H'+(W-R):'')});
  const mid=Math.sqrt(bottom*high),angle=Math.atan2(Y(c.gb*high)-Y(c.gb*bottom),X(high)-X(bottom))*180/Math.PI;
  if(X(high)-X(bottom)>90)shape('text',svg,{class:'said halo','text-anchor':'middle',
   transform:'translate('+X(mid)+' '+Y(c.gb*mid)+') rotate('+angle+') translate(0 -7)'},c.name+' '+num(c.gb)+' GB/s')}
 products.forEach(p=>{const from=p.gb?p.gf/p.gb:x0;
  if(products.find(q=>q.gb===p.gb)!==p||!p.gb)
   shape('path',svg,{class:'roof other','data-roof':p.name,d:'M'+X(Math.max(from,x0))+' '+Y(p.gf)+'H'+(W-R)});
  shape('text',svg,{class:'said halo',x:W-R-4,y:Y(p.gf)-6,'text-anchor':'end'},p.name+' products '+num(p.gf)+' GFLOP/s');
  taken.push([W-R-190,Y(p.gf)-18,W-R,Y(p.gf)])});
 const marks=shape('g',svg,{}),list=group.rows.filter(drawn);
 for(const r of[...list].reverse()){  // the largest below
  r.x=X(r.at);r.y=Y(r.gf);r.size=Math.max(4.5,Math.min(22,36*Math.sqrt(r.share)))}
 for(const r of[...list].sort((a,b)=>b.size-a.size)){
  r.mark=shape('circle',marks,{class:'point k'+r.kind,cx:r.x,cy:r.y,r:r.size,'data-name':r.name});
  r.mark.onpointerenter=()=>hover(r);r.mark.onpointerleave=()=>hover(null);
  r.mark.onclick=()=>select(r,true)}
 for(const r of group.rows)if(r.mark&&!drawn(r))r.mark=null;
 // Names of what takes most time, where there is room.
 let named=0;
 for(const r of list){if(named===10||r.share<.02)break;const w=6.6*r.name.length,
  places=[[r.x+r.size+4,r.y+4],[r.x-r.size-4-w,r.y+4],[r.x-w/2,r.y-r.size-5],[r.x-w/2,r.y+r.size+13]];
  for(const[x,y]of places){const box=[x,y-11,x+w,y+3];
   if(x<L+2||x+w>W-R||y<T+10||y>H-B-4||taken.some(t=>t[0]<box[2]&&box[0]<t[2]&&t[1]<box[3]&&box[1]<t[3]))continue;
   if(list.some(o=>o!==r&&o.x>box[0]-3&&o.x<box[2]+3&&o.y>box[1]-3&&o.y<box[3]+3))continue;
   r.label=shape('text',svg,{class:'label halo',x,y},r.name);taken.push(box);named++;break}}
 if(!list.length)shape('text',svg,{class:'tick halo',x:(L+W-R)/2,y:H/2-10,'text-anchor':'middle'},
  'Nothing here has FLOPs');
 svg.drop=shape('path',svg,{class:'drop',fill:'none'});svg.roofY=r=>{const v=best(r.at);return v>0?Y(v):0};
 paint()}
function paint(){
 for(const r of group.rows){const at=r===selected||r===hovered;
  r.mark?.classList.toggle('off',!r.on);r.mark?.classList.toggle('at',at);
  r.label?.classList.toggle('off',!r.on);r.row?.classList.toggle('at',at);if(r.row)r.row.hidden=!r.on}
 const r=hovered||selected,svg=$('chart'),to=r&&drawn(r)?svg.roofY(r):0;
 svg.drop.setAttribute('d',to>0?'M'+r.x+' '+(r.y+(to<r.y?-r.size:r.size))+'V'+to:'')}
function facts(r){const o=[['time',time(r.ns)+', '+percent(r.share)+' of kernels'],['calls',r.calls+''],
 ['module',r.module],['line',r.line],['FLOPs',r.flops?count(r.flops):''],['bytes',r.bytes?bytes(r.bytes):''],
 ['FLOPs a byte',r.flops&&r.bytes?num(r.at):''],['reaches',(r.flops?num(r.gf)+' GFLOP/s, ':'')+num(r.gb)+' GB/s'],
 ['of the roof',r.roof?percent(r.roof):''],['bound by',r.bound]];return o.filter(f=>f[1])}
function hover(r){hovered=r;const tip=$('tip');tip.hidden=!r||!drawn(r);
 if(r&&drawn(r)){tip.replaceChildren();element('b',r.name,tip);const dl=element('dl','',tip);
  for(const[k,v]of facts(r)){element('dt',k,dl);element('dd',v,dl)}
  place_tip(tip,r.x+r.size-6,r.y,$('frame').clientWidth,$('frame').clientHeight)}
 paint()}
function select(r,move){selected=selected===r?null:r;paint();
 if(move&&selected)r.row.scrollIntoView({block:'nearest'})}
const COLUMNS=[['name','name'],['line','line'],['ns','time'],['share','share'],['calls','calls'],['flops','FLOPs'],
 ['bytes','bytes'],['at','FLOP/byte'],['gf','GFLOP/s'],['gb','GB/s'],['roof','of the roof'],['bound','bound by']];
function table(){
 const head=$('head'),tr=document.createElement('tr');head.replaceChildren(tr);
 for(const[key,title]of COLUMNS){const th=element('th','',tr,key==='name'||key==='line'?'text':'');
  if(sort===key)th.setAttribute('aria-sort',down?'descending':'ascending');
  element('button',title,th).onclick=()=>{const text=typeof group.rows[0]?.[key]==='string';
   down=sort===key?!down:!text;sort=key;table()}}
 const body=$('rows');body.replaceChildren();
 const rows=[...group.rows].sort((a,b)=>(a[sort]<b[sort]?-1:a[sort]>b[sort]?1:0)*(down?-1:1));
 for(const r of rows){const row=r.row=element('tr','',body),cell=t=>element('td',t,row),
  meter=(td,part)=>{const m=element('span','',td,'meter');element('i','',m).style.width=Math.min(100,100*part)+'%'};
  const th=element('th','',row);th.scope='row';element('i','',th).style.background='var(--c'+r.kind+')';
  th.append(r.name);
  cell(r.line).className='text';cell(time(r.ns));const s=cell(percent(r.share));s.className='share';meter(s,r.share);
  cell(r.calls);cell(r.flops?count(r.flops):'');cell(r.bytes?bytes(r.bytes):'');cell(drawn(r)?num(r.at):'');
  cell(r.flops?num(r.gf):'');cell(r.bytes?num(r.gb):'');
  const f=cell(r.roof?percent(r.roof):'');if(r.roof)meter(f,r.roof);cell(r.bound);
  row.onpointerenter=()=>{hovered=r;paint()};row.onpointerleave=()=>{hovered=null;paint()};row.onclick=()=>select(r,false)}
 paint()}
function look(){const q=$('search').value.trim().toLowerCase();let n=0;
 for(const r of group.rows){r.on=[r.name,r.module,r.line,r.bound].some(t=>t.toLowerCase().includes(q));n+=r.on}
 $('hits').textContent=q?(n?n+' of '+group.rows.length:'no hit'):'';paint()}
function choose(g){group=g;selected=hovered=null;
 for(const b of $('pick').children)b.setAttribute('aria-pressed',b.textContent===g.name+'s');
 for(const r of g.rows)r.mark=r.label=null;
 const out=g.rows.filter(r=>!drawn(r)).length,legend=$('legend');legend.replaceChildren();
 for(const k of[...new Set(g.rows.map(r=>r.kind))].sort()){const s=element('span','',legend);
  element('i','',s).style.background='var(--c'+k+')';s.append(g.name==='kernel'||k===1?KINDS[k]:g.name)}
 element('span','area: share of the kernels’ time',legend);
 $('note').textContent=(out?out+' of '+g.rows.length+' have no FLOPs and are in the table alone. ':'')+
  (D.dropped?'The profile has lost '+D.dropped+' older ranges.':'');
 if(!g.rows.length)$('note').textContent='The profile has no kernels.';$('table').hidden=!g.rows.length;
 draw();table();look()}
for(const g of groups)element('button',g.name+'s',$('pick')).onclick=()=>choose(g);
$('why').hidden=!D.why;$('why').textContent=(D.roofs.length?'Not all roofs: ':'No roofs: ')+D.why;
$('search').oninput=look;
addEventListener('keydown',m=>{if(m.ctrlKey||m.metaKey||m.altKey)return;const typing=m.target===$('search');
 if(m.key==='/'&&!typing){$('search').focus();m.preventDefault()}
 else if(m.key==='Escape'){if(typing){$('search').value='';look()}else{selected=null;paint()}}});
choose(group);
let width=$('frame').clientWidth;
new ResizeObserver(()=>{if($('frame').clientWidth!==width){width=$('frame').clientWidth;for(const r of group.rows)r.label=null;draw()}})
 .observe($('frame'));
)js";

}  // namespace wt::profiler
