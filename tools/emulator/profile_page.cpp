#include "profile_page.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace emu {
namespace {

// One page without anything from elsewhere: it opens from a disk, and from a mail.
constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Profile of the emulator</title><style>
:root { --ink: #1c1e21; --soft: #6a7079; --line: #e3e5e8; --page: #fff; --hot: 226, 98, 38; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e7e9; --soft: #9aa1ab; --line: #33373d; --page: #16181b; --hot: 240, 130, 60; }
}
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page);
  margin: 2em auto; max-width: 1800px; padding: 0 1.5em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin: 2.2em 0 .3em; }
p, figcaption { color: var(--soft); max-width: 70em; }
table { border-collapse: collapse; } td, th { padding: .15em .6em; text-align: right;
  vertical-align: top; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; color: var(--soft); } td.t, th.t { text-align: left; }
td.code { text-align: left; font: 12.5px/1.4 ui-monospace, monospace; white-space: pre; }
.panes { display: grid; grid-template-columns: 3fr 2fr; gap: 1.5em; align-items: start; }
.pane { overflow: auto; max-height: 75vh; border: 1px solid var(--line); border-radius: 6px; }
.pane table { width: 100%; } .pane th { position: sticky; top: 0; background: var(--page); }
tr.at { outline: 2px solid rgb(var(--hot)); outline-offset: -2px; } tr[data-l] { cursor: pointer; }
details > summary { cursor: pointer; font-weight: 600; margin-top: 1.6em; }
@media (max-width: 900px) { .panes { grid-template-columns: 1fr; } }
</style></head><body>
<h1>What the emulator counted</h1>
<p>Counts of what ran, not times: instructions are nvcc's PTX, a warp's step each. <b>Lanes</b> are the
active ones of 32; <b>sectors</b> the 32-byte stretches that a request to global memory touches (4 for
32 floats side by side); <b>wavefronts</b> the turns that a request to shared memory takes (1 without
bank conflicts, more for 8 or 16 bytes a lane); <b>units</b> are either, of the line's requests. A click
on a line marks what belongs to it.</p>
)";
constexpr const char* kTail = R"(<script>
document.addEventListener('click', e => {
  const row = e.target.closest('tr[data-l]'); if (!row) return;
  const box = row.closest('.panes'), key = row.dataset.l;
  box.querySelectorAll('tr.at').forEach(r => r.classList.remove('at'));
  box.querySelectorAll('.pane').forEach(pane => {
    const rows = [...pane.querySelectorAll('tr[data-l]')].filter(r => r.dataset.l === key);
    rows.forEach(r => r.classList.add('at'));
    if (rows.length && !pane.contains(row)) rows[0].scrollIntoView({ block: 'center' });
  });
});
</script></body></html>
)";

std::string escaped(const std::string& s) {
  std::string r;
  for (char c : s) {
    if (c == '&')
      r += "&amp;";
    else if (c == '<')
      r += "&lt;";
    else if (c == '>')
      r += "&gt;";
    else if (c == '"')
      r += "&quot;";
    else
      r += c;
  }
  return r;
}

std::string number(u64 n) {  // 1234567 to "1,234,567"
  std::string s = std::to_string(n);
  for (i32 i = i32(s.size()) - 3; i > 0; i -= 3) s.insert(size_t(i), ",");
  return s;
}
std::string decimal(u64 a, u64 b) {
  if (!b) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", double(a) / double(b));
  return text;
}
std::string heat(u64 part, u64 most) {
  if (!part || !most) return "";
  char text[64];
  std::snprintf(text, sizeof text, " style=\"background:rgba(var(--hot),%.2f)\"",
                0.06 + 0.5 * double(part) / double(most));
  return text;
}

void add(LineCounts& to, const LineCounts& from) {
  to.executed += from.executed;
  to.lanes += from.lanes;
  to.requests += from.requests;
  to.units += from.units;
}

std::string cells(const LineCounts& c, u64 most) {
  return "<td" + heat(c.executed, most) + ">" + (c.executed ? number(c.executed) : "") +
         "</td><td>" + decimal(c.lanes, c.executed) + "</td><td>" + decimal(c.units, c.requests) +
         "</td>";
}

// The line of the kernel's own file: where an inlined function was called.
std::pair<u32, u32> line_of(const ptx::Instruction& in) {
  if (in.at.outer_line) return {in.at.outer_file, in.at.outer_line};
  return {in.at.file, in.at.line};
}

std::string ptx_text(const ptx::Module& m, const ptx::Instruction& in) {
  const char *begin = m.text.data(), *end = begin + m.text.size();
  const char* at = in.opcode.empty() ? nullptr : in.opcode[0].data();
  if (!at || at < begin || at >= end) return "";
  while (at > begin && at[-1] != '\n') --at;
  const char* stop = std::find(at, end, '\n');
  std::string s(at, stop);
  s.erase(0, s.find_first_not_of(" \t"));
  return s;
}

void ptx_pane(std::ostream& out, const KernelProfile& k) {
  u64 most = 0;
  for (const LineCounts& c : k.lines) most = std::max(most, c.executed);
  out << "<div class=pane><table><tr><th>executed<th>lanes<th>units<th class=t>PTX</tr>\n";
  for (size_t i = 0; i < k.lines.size(); ++i) {
    const ptx::Instruction& in = k.kernel->body.code[i];
    const auto [file, line] = line_of(in);
    out << "<tr data-l=\"" << file << ":" << line << "\">" << cells(k.lines[i], most)
        << "<td class=code>" << escaped(ptx_text(*k.kernel->module, in)) << "</td></tr>\n";
  }
  out << "</table></div>\n";
}

void source_pane(std::ostream& out, const KernelProfile& k) {
  std::map<std::pair<u32, u32>, LineCounts> lines;
  for (size_t i = 0; i < k.lines.size(); ++i)
    add(lines[line_of(k.kernel->body.code[i])], k.lines[i]);
  u64 most = 0;
  for (const auto& [at, c] : lines) most = std::max(most, c.executed);
  out << "<div class=pane><table><tr><th>executed<th>lanes<th>units<th>line<th "
         "class=t>source</tr>\n";
  u32 file = ~0u, shown = 0;
  std::vector<std::string> text;
  for (const auto& [at, c] : lines) {
    if (at.second == 0) continue;
    if (at.first != file) {
      file = at.first;
      shown = 0;
      text.clear();
      const std::string name =
          file < k.kernel->module->files.size() ? k.kernel->module->files[file] : "";
      std::ifstream in(name);
      for (std::string line; std::getline(in, line);) text.push_back(line);
      out << "<tr><td colspan=5 class=t><b>"
          << escaped(std::filesystem::path(name).lexically_normal().string()) << "</b>"
          << (text.empty() ? " (not here: lines by number)" : "") << "</td></tr>\n";
    }
    // A few lines around those that ran, for the reader to find the place.
    const u32 from = std::max(shown + 1, at.second > 2 ? at.second - 2 : 1);
    if (from > shown + 1 && shown) out << "<tr><td><td><td><td><td class=code>...</td></tr>\n";
    const auto line = [&](u32 l) {
      out << "<td>" << l << "</td><td class=code>" << (l <= text.size() ? escaped(text[l - 1]) : "")
          << "</td></tr>\n";
    };
    for (u32 l = from; l < at.second; ++l) {
      out << "<tr><td><td><td>";
      line(l);
    }
    out << "<tr data-l=\"" << at.first << ":" << at.second << "\">" << cells(c, most);
    line(at.second);
    shown = at.second;
  }
  out << "</table></div>\n";
}

void summary(std::ostream& out, const std::vector<const KernelProfile*>& kernels, u64 all) {
  out << "<table><tr><th>share<th>launches<th>warp instructions<th>lanes<th>sectors<th>wavefronts"
         "<th>barriers<th>atomics<th class=t>kernel</tr>\n";
  u32 n = 0;
  for (const KernelProfile* k : kernels) {
    const LaunchCounts& c = k->counts;
    out << "<tr><td" << heat(c.warp_instructions, all) << ">"
        << decimal(c.warp_instructions * 100, all) << " %</td><td>" << number(k->launches)
        << "</td><td>" << number(c.warp_instructions) << "</td><td>"
        << decimal(c.lane_instructions, c.warp_instructions) << "</td><td>"
        << decimal(c.global_sectors, c.global_requests) << "</td><td>"
        << decimal(c.shared_wavefronts, c.shared_requests) << "</td><td>" << number(c.barriers)
        << "</td><td>" << number(c.atomics) << "</td><td class=t><a href=\"#k" << n++ << "\">"
        << escaped(k->name) << "</a></td></tr>\n";
  }
  out << "</table>\n";
}

// Of a path or a line of PTX: what would end a field or a row.
std::string field(std::string s) {
  for (char& c : s)
    if (c == '\t' || c == '\n') c = ' ';
  return s;
}

}  // namespace

std::string profile_table(const std::vector<const KernelProfile*>& kernels) {
  std::ostringstream out;
  for (const KernelProfile* k : kernels) {
    out << "kernel\t" << field(k->name) << '\t' << k->launches << '\t' << k->kernel->info.registers
        << '\n';
    for (size_t i = 0; i < k->lines.size(); ++i) {
      const ptx::Instruction& in = k->kernel->body.code[i];
      const auto [file, line] = line_of(in);
      const auto& files = k->kernel->module->files;
      const LineCounts& c = k->lines[i];
      out << c.executed << '\t' << c.lanes << '\t' << c.requests << '\t' << c.units << '\t'
          << (file < files.size() ? field(files[file]) : "") << '\t' << line << '\t'
          << field(ptx_text(*k->kernel->module, in)) << '\n';
    }
  }
  return out.str();
}

std::string profile_page(const std::vector<const KernelProfile*>& kernels, u64 all) {
  std::ostringstream out;
  out << kHead;
  summary(out, kernels, all);
  u32 n = 0;
  for (const KernelProfile* k : kernels) {
    out << "<details id=k" << n << (n == 0 ? " open" : "") << "><summary>" << escaped(k->name)
        << "</summary><p>" << escaped(k->full_name) << "<br>" << number(k->launches)
        << (k->launches == 1 ? " launch of " : " launches, the last of ") << k->grid.x << " x "
        << k->grid.y << " x " << k->grid.z << " blocks of " << k->block.x << " x " << k->block.y
        << " x " << k->block.z << " threads; about " << k->kernel->info.registers << " registers, "
        << number(k->kernel->info.static_shared) << " bytes of static shared memory</p>"
        << "<div class=panes>\n";
    source_pane(out, *k);
    ptx_pane(out, *k);
    out << "</div></details>\n";
    ++n;
  }
  out << kTail;
  return out.str();
}

}  // namespace emu
