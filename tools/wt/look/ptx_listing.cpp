#include "warptape/tools/wt/look/ptx_listing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>

#include "warptape/core/chart.h"
#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/look/source_counts.h"
#include "warptape/tools/wt/look/source_lines.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

using chart::html_escape;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line)
    if (c == '\t')
      fields.emplace_back();
    else
      fields.back() += c;
  return fields;
}

template <class T>
bool read_number(const std::string& text, T& to) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, to);
  return error == std::errc() && at == end;
}

// "ld.param.u64 %rd1, [param_0];" of "... [_ZN2wt4cuda4expfEPf_param_0];"
std::string without_function(std::string ptx) {
  const size_t end = ptx.find("_param_");
  if (end == ptx.npos) return ptx;
  const size_t from = ptx.find_last_of(" [(", end);
  return from == ptx.npos ? ptx : ptx.erase(from + 1, end - from);
}

bool line_of_fields(const std::vector<std::string>& f, LookPtxLine& to) {
  if (f.size() != 7) return false;
  to.file = f[4], to.text = without_function(f[6]);
  return read_number(f[0], to.executed) && read_number(f[1], to.lanes) &&
         read_number(f[2], to.requests) && read_number(f[3], to.units) &&
         read_number(f[5], to.line);
}

// "ld.global.nc.f32" of "@%p2 ld.global.nc.f32 %f1, [%rd4];"
std::string opcode_of(const std::string& ptx) {
  size_t from = 0;
  if (ptx.starts_with('@')) from = std::min(ptx.find(' '), ptx.size());
  from = std::min(ptx.find_first_not_of(" \t", from), ptx.size());
  return ptx.substr(from, ptx.find_first_of(" \t;", from) - from);
}

// The first whose prefix an opcode has; the last takes all.
constexpr std::pair<const char*, const char*> kKinds[] = {{"ld.global", "global memory"},
                                                          {"st.global", "global memory"},
                                                          {"ld.shared", "shared memory"},
                                                          {"st.shared", "shared memory"},
                                                          {"ld.local", "local memory"},
                                                          {"st.local", "local memory"},
                                                          {"ld.param", "parameters"},
                                                          {"ld.const", "constants"},
                                                          {"atom", "atomics"},
                                                          {"red.", "atomics"},
                                                          {"cp.async", "asynchronous copies"},
                                                          {"mma", "tensor cores"},
                                                          {"wmma", "tensor cores"},
                                                          {"ldmatrix", "tensor cores"},
                                                          {"fma", "fused multiply-add"},
                                                          {"mad", "integer multiply-add"},
                                                          {"ex2", "special functions"},
                                                          {"lg2", "special functions"},
                                                          {"rcp", "special functions"},
                                                          {"rsqrt", "special functions"},
                                                          {"sqrt", "special functions"},
                                                          {"sin", "special functions"},
                                                          {"cos", "special functions"},
                                                          {"tanh", "special functions"},
                                                          {"bar", "barriers"},
                                                          {"shfl", "lanes to lanes"},
                                                          {"vote", "lanes to lanes"},
                                                          {"redux", "lanes to lanes"},
                                                          {"bra", "branches"},
                                                          {"ret", "branches"},
                                                          {"setp", "comparisons"},
                                                          {"selp", "comparisons"},
                                                          {"cvt", "conversions"},
                                                          {"mov", "moves"},
                                                          {"", "other arithmetic"}};

std::string kind_of_opcode(const std::string& opcode) {
  for (const auto& [prefix, kind] : kKinds)
    if (opcode.starts_with(prefix)) return kind;
  return "";
}

// Whole but for launches that were not alike.
std::string count_text(double n) { return std::to_string(std::llround(n)); }
std::string ratio_text(double of, double by) { return by > 0 ? three_digits(of / by) : ""; }

std::string ptx_rows(const LookPtx& p, const FindSource& find) {
  std::string out;
  const LookPtxLine* above = nullptr;
  for (const LookPtxLine& l : p.lines) {
    if (l.line && (!above || above->line != l.line || above->file != l.file)) {
      out +=
          str("<tr class=\"from\"><th colspan=\"4\">", html_escape(base_name(l.file)), ":", l.line,
              " <code>", html_escape(line_text(find(l.file), l.line)), "</code></th></tr>\n");
      above = &l;
    }
    out += str("<tr", l.executed > 0 ? "" : " class=\"never\"", "><td>",
               l.executed > 0 ? count_text(l.executed) : "", "</td><td>",
               ratio_text(l.lanes, l.executed), "</td><td>", ratio_text(l.units, l.requests),
               "</td><td><code>", html_escape(l.text), "</code></td></tr>\n");
  }
  return out;
}

std::string mix_rows(const LookPtx& p) {
  double all = 0;
  const std::vector<PtxMix> mix = ptx_mix(p);
  for (const PtxMix& m : mix) all += m.executed;
  std::string out;
  for (const PtxMix& m : mix)
    out += str("<tr><td>", m.kind, "</td><td>", count_text(m.executed), "</td><td>",
               three_digits(100 * m.executed / all), " %</td></tr>");
  return out;
}

}  // namespace

std::vector<LookPtx> read_ptx_profile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) data_error(path, 0, "cannot be read");
  std::vector<LookPtx> kernels;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::vector<std::string> f = fields_of(line);
    LookPtxLine l;
    int launches = 0, registers = 0;
    if (f.size() == 4 && f[0] == "kernel" && read_number(f[2], launches) && launches > 0 &&
        read_number(f[3], registers))
      kernels.push_back({f[1], launches, registers});
    else if (!kernels.empty() && line_of_fields(f, l))
      kernels.back().lines.push_back(std::move(l));
    else
      throw DataError(str(printable_path(path), ": line ", number, " is none of a profile of PTX"));
  }
  return kernels;
}

void take_ptx(Look& look, const std::vector<LookPtx>& all) {
  for (const LookKernel& k : look.kernels) {
    const std::string name = k.counts.kernel.substr(0, k.counts.kernel.find(" ["));
    for (LookPtx p : all) {
      if (p.kernel != name) continue;
      for (LookPtxLine& l : p.lines)
        for (double* n : {&l.executed, &l.lanes, &l.requests, &l.units})
          *n = *n * double(k.counts.launches) / p.launches;
      p.launches = int(k.counts.launches);
      look.ptx.push_back(std::move(p));
    }
  }
  if (look.ptx.empty()) look.no_ptx = "on cuda other kernels do this";
}

std::vector<PtxMix> ptx_mix(const LookPtx& p) {
  std::vector<PtxMix> mix;
  for (const auto& [prefix, kind] : kKinds)
    if (std::none_of(mix.begin(), mix.end(), [&](const PtxMix& m) { return m.kind == kind; }))
      mix.push_back({kind});
  for (const LookPtxLine& l : p.lines) {
    const std::string kind = kind_of_opcode(opcode_of(l.text));
    std::find_if(mix.begin(), mix.end(), [&](const PtxMix& m) {
      return m.kind == kind;
    })->executed += l.executed;
  }
  std::erase_if(mix, [](const PtxMix& m) { return m.executed == 0; });
  return mix;
}

std::string ptx_cards(const Look& look, const FindSource& find) {
  std::string out;
  for (const LookPtx& p : look.ptx)
    out +=
        str("<section class=\"card wide ptx\"><h2>PTX of ", html_escape(p.kernel),
            "</h2><p class=\"note\">What nvcc made of the source, run on the emulated device: how "
            "often warps executed each instruction, with how many lanes, and what a request to "
            "memory took (sectors, or passes over banks). About ",
            p.registers,
            " registers a thread.</p><div class=\"scroll\"><table class=\"numbers mix\">"
            "<thead><tr><th>instructions</th><th>executed</th><th>share</th></tr></thead><tbody>",
            mix_rows(p), "</tbody></table></div><details><summary>", p.lines.size(),
            " instructions</summary><div class=\"scroll\"><table class=\"ptx-lines\"><thead><tr>"
            "<th>executed</th><th>lanes</th><th>units</th><th>PTX</th></tr></thead><tbody>\n",
            ptx_rows(p, find), "</tbody></table></div></details></section>\n");
  if (look.ptx.empty() && !look.no_ptx.empty())
    out = str("<section class=\"card wide ptx\"><h2>PTX</h2><p class=\"note\">Not here: ",
              html_escape(look.no_ptx), "</p></section>\n");
  return out;
}

}  // namespace wt::tools
