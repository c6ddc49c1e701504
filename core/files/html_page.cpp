#include "warptape/core/files/html_page.h"

#include "warptape/core/chart.h"
#include "warptape/core/str.h"

namespace wt {
namespace {

constexpr std::string_view kPageStyle = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--edge:#dfe3e8;--ink:#1c2330;--soft:#5b6675;
--grid:#e8ebef;--accent:#1f6feb}
@media (prefers-color-scheme:dark){:root{--page:#12161c;--card:#1a2029;--edge:#2c3440;--ink:#e6eaf0;
--soft:#9aa5b4;--grid:#28303b;--accent:#6cb0ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{overflow-wrap:anywhere}
input,button{font:inherit;color:var(--ink);background:var(--card);border:1px solid var(--edge);
border-radius:6px;padding:3px 9px}
button{cursor:pointer}button:hover{border-color:var(--soft)}
input::placeholder{color:var(--soft);opacity:1}
:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
output{color:var(--soft);font-size:13px;font-variant-numeric:tabular-nums}
[hidden]{display:none!important}
kbd{border:1px solid var(--edge);border-radius:4px;padding:0 4px;font:12px ui-monospace,monospace}
.tip{position:absolute;z-index:2;pointer-events:none;max-width:min(460px,calc(100% - 12px));
background:var(--card);border:1px solid var(--edge);border-radius:6px;padding:6px 10px;font-size:12.5px;
overflow-wrap:anywhere;box-shadow:0 2px 8px rgb(0 0 0/.18)}
.tip b{display:block}
)css";

constexpr std::string_view kPageFunctions = R"js(const $=i=>document.getElementById(i),
element=(tag,text,into,name)=>{const e=document.createElement(tag);e.textContent=text;if(name)e.className=name;
 into.append(e);return e},
num=(v,n=3)=>+v.toPrecision(n)+'',time=ns=>{const a=Math.abs(ns);return a>=1e9?num(ns/1e9,4)+' s':a>=1e6?
 num(ns/1e6,4)+' ms':a>=1e3?num(ns/1e3,4)+' µs':num(ns,4)+' ns'},
bytes=v=>{const a=Math.abs(v);return a>=2**30?num(v/2**30)+' GiB':a>=2**20?num(v/2**20)+' MiB':a>=1024?
 num(v/1024)+' KiB':v+' B'},
count=v=>v>=1e12?num(v/1e12)+' T':v>=1e9?num(v/1e9)+' G':v>=1e6?num(v/1e6)+' M':v>=1e3?num(v/1e3)+' k':num(v),
place_tip=(tip,x,y,w,h)=>{tip.style.left=Math.max(4,Math.min(x+14,w-tip.offsetWidth-6))+'px';
 tip.style.top=(y+22+tip.offsetHeight>h?Math.max(2,y-tip.offsetHeight-10):y+18)+'px'};
)js";

}  // namespace

std::string page_begin(const PageHead& head) {
  return str(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'",
      head.script ? "; script-src 'unsafe-inline'" : "", head.pictures ? "; img-src data:" : "",
      "\">\n<title>", chart::html_escape(head.title), "</title>\n<style>", kPageStyle, head.style,
      "</style></head>\n<body>");
}

std::string page_end(std::string_view script) {
  if (script.empty()) return "</body></html>\n";
  return str("<script>'use strict';(()=>{", kPageFunctions, script,
             "})();</script></body></html>\n");
}

std::string page_data(std::string_view json) {
  std::string text = "<script type=\"application/json\" id=\"data\">";
  text.reserve(text.size() + json.size() + 16);
  for (const char c : json) c == '<' ? text += "\\u003c" : text += c;
  return text + "</script>\n";
}

}  // namespace wt
