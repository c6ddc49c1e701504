// Style sheet, body and script of the timeline page. Internal.
#pragma once

namespace wt::profiler {

inline constexpr char kTimelineStyle[] = R"css(
:root{--on:#fff;--operator:#1f6feb;--backward:#0e7490;--kernel:#b45309;--range:#7c3aed;--memory:#15803d;
--mark:#c81e4a}
@media (prefers-color-scheme:dark){:root{--on:#10151c;--operator:#6cb0ff;--backward:#4fd1d9;
--kernel:#ffb366;--range:#b79bff;--memory:#5fd38d;--mark:#ff7a9a}}
html,body{height:100%}
body{display:flex;flex-direction:column;font-size:14px;line-height:1.4}
header{display:flex;flex-wrap:wrap;align-items:center;gap:6px 14px;padding:10px 16px}
h1{font-size:18px;margin:0}
.sub,.legend,.note{color:var(--soft);font-size:13px}
.bar{display:flex;flex-wrap:wrap;align-items:center;gap:6px;margin-left:auto}
.bar input{width:250px}
output{min-width:84px;text-align:right}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px;padding:0 16px 8px}
.legend i{display:inline-block;width:12px;height:10px;border-radius:2px;margin-right:5px}
.note{padding:0 16px 8px;margin:0}
#frame{position:relative;flex:1 1 auto;min-height:160px;background:var(--card);
border-top:1px solid var(--edge);border-bottom:1px solid var(--edge);overflow:hidden}
canvas{position:absolute;inset:0;width:100%;height:100%;cursor:grab;touch-action:none;display:block}
canvas.dragging{cursor:grabbing}
aside{flex:0 0 auto;height:188px;overflow:auto;padding:10px 16px}
aside h2{font-size:15px;margin:0 0 6px;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(270px,1fr));gap:2px 24px;margin:0}
dl div{display:flex;gap:10px}
dt{color:var(--soft);flex:0 0 96px}
dd{margin:0;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
aside button{margin:0 6px 6px 0}aside .note{padding:0}
@media (max-width:560px){header{padding:10px}.legend,.note{padding:0 10px 8px}.how{display:none}.bar{margin:0}
.bar input{flex:1 1 180px;min-width:0}output{min-width:0}aside{padding:10px}}
)css";

inline constexpr char kTimelineBody[] = R"html(
<div class="bar" role="toolbar" aria-label="View">
<input id="search" type="search" placeholder="search: name, module, line" aria-label="Search">
<output id="hits" aria-live="polite"></output>
<button id="back" title="previous hit (shift+enter)">&#8593;</button>
<button id="on" title="next hit (enter)">&#8595;</button>
<button id="in" title="zoom in (+)">+</button><button id="out" title="zoom out (-)">&#8722;</button>
<button id="all" title="all of it (0)">all</button></div></header>
<div class="legend"><span><i style="background:var(--operator)"></i>operator</span>
<span><i style="background:var(--backward)"></i>backward</span>
<span><i style="background:var(--kernel)"></i>kernel</span>
<span><i style="background:var(--range)"></i>range</span>
<span><i style="background:var(--memory)"></i>memory held</span>
<span class="how">wheel or <kbd>+</kbd> <kbd>-</kbd> zoom, drag or arrows move, <kbd>0</kbd> all,
<kbd>/</kbd> search</span></div>
)html";

inline constexpr char kTimelineScript[] = R"js(
const D=JSON.parse($('data').textContent),
KINDS=['operator','backward','kernel','range'],ROW=20,TOP=28,MEM=64,
canvas=$('c'),g=canvas.getContext('2d');
// Tracks with their rows; a slice has one number on the page.
let LEFT=150,letter=6.5,lanes=[],slices=0,y=0,from=Infinity,to=-Infinity,selected=-1,hovered=-1,query='',match=null,hits=[];
const owner=[];
for(const p of D.processes){
 if(D.processes.length>1){lanes.push({title:p.name,y,h:24});y+=24}
 for(const t of p.tracks){
  const n=t.s.length/3,b=new Float64Array(n),e=new Float64Array(n),d=new Uint32Array(n),
  self=new Float64Array(n),rows=[],stack=[];
  let at=0;
  for(let i=0;i<n;i++){
   at+=t.s[3*i];b[i]=at;e[i]=at+t.s[3*i+1];d[i]=t.s[3*i+2];self[i]=e[i]-b[i];
   if(t.flat)stack.length=0;else while(stack.length&&e[stack[stack.length-1]]<=b[i]&&(e[stack[stack.length-1]]<b[i]||e[i]>b[i]||
    b[stack[stack.length-1]]<b[i]))stack.pop();
   if(stack.length)self[stack[stack.length-1]]-=self[i];
   (rows[stack.length]||=[]).push(i);stack.push(i);
   from=Math.min(from,b[i]);to=Math.max(to,e[i])}
  const lane={name:t.name,y,h:Math.max(1,rows.length)*ROW,b,e,d,self,rows,first:slices,process:p.name};
  lanes.push(lane);owner.push(lane);slices+=n;y+=lane.h+10}
 for(const m of p.memory){
  const ts=[],v=[];let at=0,high=0,low=0;
  for(let i=0;i<m.p.length;i+=2){at+=m.p[i];ts.push(at);v.push(m.p[i+1]);
   high=Math.max(high,m.p[i+1]);low=Math.min(low,m.p[i+1])}
  lanes.push({name:'memory',sub:m.name,y,h:MEM,ts,v,high,low});y+=MEM+10}}
const height=y;
if(!(from<to)){if(!(from<=to))from=0;to=from+1000}
const pad=(to-from)*.01,full=[from-pad,to+pad];
let view=full.slice(),top=0,W=0,H=0,dirty=false,color={};
const laneOf=s=>{let a=0,b=owner.length-1;while(a<b){const m=a+b+1>>1;owner[m].first<=s?a=m:b=m-1}return owner[a]},
 at=s=>{const l=laneOf(s),i=s-l.first;return{l,i,b:l.b[i],e:l.e[i],d:D.details[l.d[i]],self:l.self[i]}};
const partners=new Map,link=(a,b,k,back)=>{(partners.get(a)||partners.set(a,[]).get(a)).push([b,k,back])};
for(let i=0;i<D.arrows.length;i+=3){link(D.arrows[i],D.arrows[i+1],D.arrows[i+2],0);
 link(D.arrows[i+1],D.arrows[i],D.arrows[i+2],1)}
function colors(){const s=getComputedStyle(document.documentElement);
 for(const n of['page','card','edge','ink','soft','grid','on','memory','mark',...KINDS])color[n]=s.getPropertyValue('--'+n).trim()}
function mark(){canvas.dataset.from=view[0];canvas.dataset.to=view[1];canvas.dataset.hits=hits.length;
 canvas.dataset.selected=selected;canvas.dataset.top=top}
function redraw(){if(!dirty){dirty=true;requestAnimationFrame(draw)}mark()}
function clamp(){
 let span=Math.min(Math.max(view[1]-view[0],20),full[1]-full[0]);
 if(!(span>0))span=full[1]-full[0];
 view[0]=Math.min(Math.max(view[0],full[0]),full[1]-span);view[1]=view[0]+span;
 top=Math.max(0,Math.min(top,height-(H-TOP)))}
// By keys and buttons what is selected stays where it is, if it can be seen.
function middle(){if(selected>=0){const a=at(selected),t=(a.b+a.e)/2;if(t>view[0]&&t<view[1])return t}
 return(view[0]+view[1])/2}
function zoom(f,t=middle()){view=[t-(t-view[0])*f,t+(view[1]-t)*f];clamp();redraw()}
function pan(part){const s=(view[1]-view[0])*part;view=[view[0]+s,view[1]+s];clamp();redraw()}
function all(){view=full.slice();top=0;clamp();redraw()}
const X=t=>LEFT+(t-view[0])/(view[1]-view[0])*(W-LEFT),T=x=>view[0]+(x-LEFT)/(W-LEFT)*(view[1]-view[0]);
// The first of a row's slices that ends behind t: those of a row follow one another.
function firstAfter(l,r,t,a=0){let b=r.length;while(a<b){const m=a+b>>1;l.e[r[m]]<t?a=m+1:b=m}return a}
// Narrow neighbours of one kind become one bar, and what ends within a pixel that is drawn is jumped
// over: a row costs as many steps as it has pixels.
function bars(l,r,y,dim){
 const k=(W-LEFT)/(view[1]-view[0]),texts=[];let kind=-1,x=0,until=-9;
 const flush=()=>{if(kind>=0){g.fillStyle=color[KINDS[kind]];g.fillRect(x,y+1,Math.max(1,until-x),ROW-3)}kind=-1};
 g.globalAlpha=dim?.22:1;
 for(let n=firstAfter(l,r,view[0],0);n<r.length;n++){
  const i=r[n];if(l.b[i]>view[1])break;
  const x0=Math.max(LEFT,LEFT+(l.b[i]-view[0])*k),x1=Math.min(W,LEFT+(l.e[i]-view[0])*k);
  if(x1<until+.5){n=Math.max(n,firstAfter(l,r,view[0]+(until+.5-LEFT)/k,n+1)-1);continue}
  const det=D.details[l.d[i]];
  if(x1-x0>3){flush();kind=det[0];x=x0;until=x1-1;flush();until=x1;if(x1-x0>26)texts.push(x0,x1-x0,det);continue}
  if(kind!==det[0]||x0>until+.8){flush();kind=det[0];x=x0}
  until=Math.max(x1,x0+1)}
 flush();g.globalAlpha=dim?.5:1;g.fillStyle=dim?color.ink:color.on;
 for(let n=0;n<texts.length;n+=3){const room=Math.floor((texts[n+1]-8)/letter);
  if(room>2)g.fillText(short(texts[n+2],room),texts[n]+4,y+14)}
 g.globalAlpha=1}
// What is most worth of a title where there is room for so many letters: its line goes first, then its module.
function short(d,room){const S=D.strings,whole=S[d[1]],name=whole.split(' <- ')[0],module=S[d[2]]+'.',
 own=name.startsWith(module)?name.slice(module.length):name,
 fits=[whole,name,own].find(t=>t.length<=room);
 return fits??own.slice(0,room-1)+'…'}
function label(text,y){let t=text,room=LEFT-16;
 while(t.length>1&&g.measureText(t).width>room)t=t.slice(0,t.endsWith('…')?-2:-1)+'…';
 g.fillText(t,8,y)}
function box(s,c){const a=at(s),row=a.l.rows.findIndex(r=>{const n=firstAfter(a.l,r,a.b);
  for(let k=n;k<r.length&&a.l.b[r[k]]<=a.b;k++)if(r[k]===a.i)return true;return false}),
 x0=X(a.b),x1=X(a.e),yy=TOP+a.l.y-top+row*ROW;
 if(c&&x1>=LEFT&&x0<=W){g.strokeStyle=c;g.lineWidth=2;g.strokeRect(Math.max(LEFT,x0)-.5,yy+.5,Math.max(2,Math.min(W,x1)-Math.max(LEFT,x0)),ROW-2)}
 return[Math.max(x0,LEFT-9),yy+ROW/2,x1]}
function arrows(s){for(const[o,,back]of partners.get(s)||[]){
 const a=back?o:s,b=back?s:o,[ax,ay]=box(a),[bx,by]=box(b,color.mark),m=Math.max(24,Math.abs(bx-ax)/3);
 g.strokeStyle=color.mark;g.lineWidth=1.5;g.beginPath();g.moveTo(ax,ay);g.bezierCurveTo(ax+m,ay,bx-m,by,bx-5,by);g.stroke();
 g.fillStyle=color.mark;g.beginPath();g.moveTo(bx,by);g.lineTo(bx-7,by-4);g.lineTo(bx-7,by+4);g.fill()}}
// Upright boxes, not a path: a path of thousands of steps is slow to fill.
function curve(l,y){
 const span=l.high-l.low||1,Y=v=>y+MEM-4-(v-l.low)/span*(MEM-18),base=Y(l.low);
 let a=0,b=l.ts.length;while(a<b){const m=a+b>>1;l.ts[m]<view[0]?a=m+1:b=m}
 let level=a?l.v[a-1]:0,px=LEFT,high=level,low=level;g.fillStyle=color.memory;
 const box=x=>{const t=Y(high);g.globalAlpha=.18;g.fillRect(px,t,x-px,base-t);g.globalAlpha=1;
  g.fillRect(px,t-.75,x-px,Y(low)-t+1.5)};
 for(;a<l.ts.length&&l.ts[a]<=view[1];a++){const x=Math.floor(X(l.ts[a]));
  if(x>px){box(px+1);if(x>px+1){px++;high=low=level;box(x)}px=x;high=low=level}
  level=l.v[a];high=Math.max(high,level);low=Math.min(low,level)}
 box(px+1);px++;high=low=level;box(W);
 g.fillStyle=color.soft;g.fillText(bytes(l.high),LEFT+4,y+11)}
function ticks(){
 const span=view[1]-view[0],raw=span/Math.max(2,(W-LEFT)/110),p=10**Math.floor(Math.log10(raw)),
 step=p*[1,2,5,10].find(m=>m*p>=raw),unit=step>=1e9?[1e9,'s']:step>=1e6?[1e6,'ms']:step>=1e3?[1e3,'µs']:[1,'ns'],
 digits=Math.max(0,-Math.floor(Math.log10(step/unit[0])+1e-9));
 g.strokeStyle=color.grid;g.lineWidth=1;g.beginPath();g.fillStyle=color.soft;
 for(let t=Math.ceil((view[0]-from)/step)*step+from;t<=view[1];t+=step){const x=Math.round(X(t))+.5;
  if(x<LEFT)continue;g.moveTo(x,TOP-4);g.lineTo(x,H);g.fillText(((t-from)/unit[0]).toFixed(digits)+' '+unit[1],x+4,18)}
 g.stroke()}
function draw(){
 dirty=false;const r=devicePixelRatio||1;W=canvas.clientWidth;H=canvas.clientHeight;LEFT=W<560?86:150;
 if(canvas.width!==Math.round(W*r)||canvas.height!==Math.round(H*r)){canvas.width=Math.round(W*r);canvas.height=Math.round(H*r)}
 clamp();g.setTransform(r,0,0,r,0,0);g.fillStyle=color.card;g.fillRect(0,0,W,H);g.font='12px system-ui,sans-serif';
 letter=g.measureText('cross_entropy.backward').width/21;
 ticks();g.save();g.beginPath();g.rect(0,TOP,W,H-TOP);g.clip();
 for(const l of lanes){const y=TOP+l.y-top;if(y>H||y+l.h<TOP)continue;
  if(l.title){g.fillStyle=color.ink;g.font='600 12px system-ui,sans-serif';g.fillText(l.title,8,y+16);
   g.font='12px system-ui,sans-serif';continue}
  g.save();g.beginPath();g.rect(LEFT,TOP,W-LEFT,H-TOP);g.clip();
  if(l.ts)curve(l,y);else l.rows.forEach((row,n)=>{const ry=y+n*ROW;if(ry<H&&ry+ROW>TOP){bars(l,row,ry,match);
   if(match)bars(l,l.found[n],ry,false)}});
  g.restore();g.fillStyle=color.soft;label(l.name,y+14);if(l.sub)label(l.sub,y+29);
  g.strokeStyle=color.grid;g.beginPath();g.moveTo(0,y+l.h+5.5);g.lineTo(W,y+l.h+5.5);g.stroke()}
 g.save();g.beginPath();g.rect(LEFT-10,TOP,W-LEFT+10,H-TOP);g.clip();
 if(selected>=0){arrows(selected);box(selected,color.ink)}
 if(hovered>=0&&hovered!==selected){arrows(hovered);box(hovered,color.soft)}
 g.restore();g.restore();mark()}
function find(px,py){
 if(px<LEFT||py<TOP)return-1;const yy=py-TOP+top,t=T(px),near=2*(view[1]-view[0])/(W-LEFT);
 for(const l of owner){if(yy<l.y||yy>=l.y+l.h)continue;const r=l.rows[Math.floor((yy-l.y)/ROW)];if(!r)return-1;
  let best=-1,far=near;
  for(let n=firstAfter(l,r,t-near);n<r.length&&l.b[r[n]]<=t+near;n++){const i=r[n],
   d=l.b[i]>t?l.b[i]-t:l.e[i]<t?t-l.e[i]:0;if(d<=far){best=i;far=d;if(!d)break}}
  return best<0?-1:l.first+best}
 return-1}
// The pairs that say what a slice is.
function facts(s){const a=at(s),d=a.d,ns=a.e-a.b,o=[],S=D.strings,add=(k,v)=>{if(v)o.push([k,v])};
 add('kind',KINDS[d[0]]+(d[7]?', on the device':''));add('begins at',time(a.b-from));add('took',time(ns));
 if(a.self<ns)add('itself',time(a.self));add('module',S[d[2]]);add('line',S[d[3]]);add('variant',S[d[4]]);add('shapes',S[d[8]]);
 if(d[5])add('bytes',count(d[5])+(ns>0?' ('+num(d[5]/ns)+' GB/s)':''));
 if(d[6])add('flops',count(d[6])+(ns>0?' ('+num(d[6]/ns)+' GFLOP/s)':''));
 if(d[9])add('allocated',bytes(d[9]));if(d[10])add('released',bytes(d[10]));
 add('track',(D.processes.length>1?a.l.process+', ':'')+a.l.name);return o}
function show(){const box=$('details');box.replaceChildren();
 if(selected<0){element('p','Select a range for its details: '+slices+' are here.',box).className='note';return}
 const a=at(selected);element('h2',D.strings[a.d[1]],box);
 for(const[o,k,back]of(partners.get(selected)||[]).slice(0,12)){
  const b=element('button',k?(back?'← its launch':'→ its kernel on the device'):(back?'← its forward':'→ its backward'),box);
  b.onclick=()=>select(o,true)}
 const dl=element('dl','',box);let n=0,sum=0;
 for(const l of owner)for(let i=0;i<l.d.length;i++)if(D.details[l.d[i]][1]===a.d[1]&&D.details[l.d[i]][7]===a.d[7]){n++;sum+=l.e[i]-l.b[i]}
 for(const[k,v]of[...facts(selected),['of this name',n+' × '+time(sum/n)+' = '+time(sum)]]){
  const row=element('div','',dl);element('dt',k,row);element('dd',v,row)}}
function select(s,move){selected=s;if(s>=0&&move){const a=at(s),min=(a.e-a.b)*1.2,px=(a.e-a.b)/(view[1]-view[0])*(W-LEFT);
  let span=view[1]-view[0];if(px<4)span=Math.max(20,(a.e-a.b)*40);if(span<min)span=min;
  if(a.b<view[0]||a.e>view[1]||span!==view[1]-view[0]){const m=(a.b+a.e)/2;view=[m-span/2,m+span/2]}
  const row=a.l.y;if(row<top||row+a.l.h>top+H-TOP)top=row-20;clamp()}
 show();redraw()}
function look(text){query=text.trim().toLowerCase();hits=[];match=null;
 if(query){const S=D.strings;match=D.details.map(d=>[1,2,3,4,8].some(k=>S[d[k]].toLowerCase().includes(query)));
  for(const l of owner){for(let i=0;i<l.d.length;i++)if(match[l.d[i]])hits.push(l.first+i);
   l.found=l.rows.map(r=>r.filter(i=>match[l.d[i]]))}}
 $('hits').textContent=query?(hits.length?hits.length+(hits.length>1?' hits':' hit'):'no hit'):'';redraw()}
function next(d){if(!hits.length)return;let i=hits.indexOf(selected);
 i=i<0?(d>0?0:hits.length-1):(i+d+hits.length)%hits.length;select(hits[i],true);$('hits').textContent=i+1+' of '+hits.length}
const place=m=>{const r=canvas.getBoundingClientRect();return[m.clientX-r.left,m.clientY-r.top]};
canvas.addEventListener('wheel',m=>{m.preventDefault();const[x]=place(m),unit=m.deltaMode===1?16:m.deltaMode===2?400:1;
 if(m.shiftKey||Math.abs(m.deltaX)>Math.abs(m.deltaY))pan((m.deltaX||m.deltaY)*unit/W);
 else if(x<LEFT){top+=m.deltaY*unit;clamp();redraw()}
 else zoom(Math.exp(Math.max(-1,Math.min(1,m.deltaY*unit*.002))),T(x))},{passive:false});
let drag=null;
canvas.onpointerdown=m=>{if(m.button)return;drag={x:m.clientX,y:m.clientY,moved:false};canvas.setPointerCapture(m.pointerId)};
canvas.onpointermove=m=>{const[x,y]=place(m),tip=$('tip');
 if(drag){const dx=m.clientX-drag.x,dy=m.clientY-drag.y;
  if(drag.moved||Math.abs(dx)+Math.abs(dy)>3){drag.moved=true;canvas.className='dragging';tip.hidden=true;
   drag.x=m.clientX;drag.y=m.clientY;top-=dy;pan(-dx/(W-LEFT))}return}
 const s=find(x,y);if(s!==hovered){hovered=s;redraw()}
 tip.hidden=s<0;if(s>=0){tip.replaceChildren();element('b',D.strings[at(s).d[1]],tip);
  element('span',facts(s).filter(f=>f[0]!=='line'&&f[0]!=='module').slice(0,7).map(f=>f.join(' ')).join(' · '),tip);
  place_tip(tip,x,y,W,H)}};
canvas.onpointerup=m=>{const d=drag;drag=null;canvas.className='';if(d&&!d.moved)select(find(...place(m)),false)};
canvas.onpointercancel=()=>{drag=null;canvas.className=''};
canvas.onpointerleave=()=>{hovered=-1;$('tip').hidden=true;redraw()};
canvas.ondblclick=m=>{const s=find(...place(m));if(s>=0){const a=at(s),p=(a.e-a.b)*.1||10;view=[a.b-p,a.e+p];clamp();redraw()}};
$('search').oninput=m=>look(m.target.value);
$('on').onclick=()=>next(1);$('back').onclick=()=>next(-1);
$('in').onclick=()=>zoom(.5);$('out').onclick=()=>zoom(2);$('all').onclick=all;
addEventListener('keydown',m=>{const typing=m.target===$('search');
 if(m.ctrlKey||m.metaKey||m.altKey)return;
 if(typing){if(m.key==='Enter'){next(m.shiftKey?-1:1);m.preventDefault()}
  else if(m.key==='Escape'){$('search').value='';look('');$('search').blur()}return}
 const act={'+':()=>zoom(.6),'=':()=>zoom(.6),w:()=>zoom(.6),'-':()=>zoom(1/.6),s:()=>zoom(1/.6),ArrowLeft:()=>pan(-.2),a:()=>pan(-.2),
  ArrowRight:()=>pan(.2),d:()=>pan(.2),ArrowUp:()=>{top-=ROW*3;clamp();redraw()},ArrowDown:()=>{top+=ROW*3;clamp();redraw()},
  '0':all,'/':()=>$('search').focus(),n:()=>next(1),Escape:()=>select(-1,false)}[m.key];
 if(act&&!(m.target.tagName==='BUTTON'&&m.key==='Enter')){act();m.preventDefault()}});
matchMedia('(prefers-color-scheme:dark)').addEventListener('change',()=>{colors();redraw()});
new ResizeObserver(redraw).observe(canvas);colors();show();redraw();
)js";

}  // namespace wt::profiler
