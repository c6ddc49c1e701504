// docs/operators.md: written from OpInfo, the doc comments of autograd/ops/*.h, the formulas of
// kernels/pointwise_*.h and what the checks prove. WT_WRITE_OP_DOCS=1 writes it, otherwise it is
// compared.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "warptape/autograd/node.h"
#include "warptape/autograd/op_list.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/op_cases/inputs.h"
#include "warptape/tests/op_cases/support.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt_test;

namespace {

namespace fs = std::filesystem;
fs::path source_root() { return fs::path(WT_SOURCE_DIR); }
std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

struct Doc {
  std::string family, text, declaration;
};
struct Docs : std::map<std::string, Doc> {
  std::map<std::string, std::string> introductions{};  // of families
};

// --- doc comments ---

// "// text" to "text"; false when the line is no comment of its own.
bool is_comment(const std::string& line, std::string& text) {
  const size_t at = line.find_first_not_of(' ');
  if (at == std::string::npos || line.compare(at, 2, "//") != 0) return false;
  text = line.substr(at + 2);
  if (!text.empty() && text[0] == ' ') text.erase(0, 1);
  return true;
}
std::string joined_until_semicolon(const std::vector<std::string>& lines, size_t i) {
  std::string text;
  for (; i < lines.size(); ++i) {
    const size_t at = lines[i].find_first_not_of(' ');
    text += (text.empty() ? "" : " ") + (at == std::string::npos ? "" : lines[i].substr(at));
    if (lines[i].find(';') != std::string::npos || lines[i].ends_with('{')) break;
  }
  static const std::regex member(R"re(WT_(?:IN_PLACE|WRITES)\((\w+), (.*)\);)re");
  text = std::regex_replace(text, member, "Tensor& $1($2) &;\nTensor $1($2) &&;");
  return std::regex_replace(text, std::regex("WT_API |inline | \\{$"), "");
}

// The comment above a declaration is that function's, with its overloads below it, and nobody
// else's; a comment of its own, with a blank line below, is about the family. Of members
// (`grouped`) it holds for all declarations up to the next blank line or comment.
void read_header(const fs::path& file, const std::string& family, bool grouped, Docs& docs) {
  static const std::regex declares(
      R"re((?:WT_API|inline|WT_IN_PLACE\(|WT_WRITES\().*?\b(\w+)(?:\(|, ))re");
  std::string doc;
  bool in_comment = false;
  const std::vector<std::string> lines = lines_of(file);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string text;
    if (is_comment(lines[i], text)) {
      const bool is_banner = text.rfind("---", 0) == 0;
      doc = is_banner ? "" : in_comment ? doc + "\n" + text : text;
      in_comment = !is_banner;
      continue;
    }
    if ((lines[i].empty() && in_comment) || lines[i] == "#pragma once") {
      std::string& all = docs.introductions[family];
      all += (all.empty() ? "" : "\n\n") + doc;
    }
    if (lines[i].empty() || lines[i].rfind("#pragma", 0) == 0) doc.clear();
    if (!grouped && lines[i].rfind("namespace detail", 0) == 0) return;
    std::smatch m;
    if (std::regex_search(lines[i], m, declares)) {
      Doc& d = docs[m[1]];
      if (d.text.empty()) d = {family, grouped || in_comment ? doc : "", d.declaration};
      d.declaration += joined_until_semicolon(lines, i) + "\n";
    }
    in_comment = false;
  }
}

// --- formulas of elementwise entries ---

std::string replaced(std::string text, const char* pattern, const char* by) {
  return std::regex_replace(text, std::regex(pattern), by);
}
std::string readable(std::string f) {
  f = replaced(f, R"(\s+)", " ");
  for (int nested = 0; nested < 3; ++nested) f = replaced(f, R"((?:num<T>|\bT)\(([^()]*)\))", "$1");
  f = replaced(f, R"((\w|\))\s*\*\s*)", "$1 * ");
  const std::pair<const char*, const char*> names[] = {{R"(\bplus\((\w), (\w)\))", "$1 + $2"},
                                                       {R"(\bminus\((\w), (\w)\))", "$1 - $2"},
                                                       {R"(\btimes\((\w), (\w)\))", "$1 * $2"},
                                                       {R"(\bnegative\((\w)\))", "-$1"},
                                                       {R"(\btake\(gy\))", "gy"},
                                                       {R"(\b(?:not_below|within)\(x\))", "x"},
                                                       {"kSqrtHalf", "sqrt(1 / 2)"},
                                                       {"kInvSqrtTwoPi", "1 / sqrt(2 pi)"},
                                                       {"kTwoOverSqrtPi", "2 / sqrt(pi)"},
                                                       {"kSqrtTwoOverPi", "sqrt(2 / pi)"},
                                                       {"kInfinite", "inf"},
                                                       {"round_even", "round"}};
  for (const auto& [pattern, by] : names) f = replaced(f, pattern, by);
  return replaced(f, R"(^ | $)", "");
}
// The arguments of a macro call from `at`, its opening parenthesis, on.
std::vector<std::string> arguments_at(const std::string& text, size_t at) {
  std::vector<std::string> args(1);
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    depth += (c == '(') - (c == ')');
    if (depth == 0) break;
    if (depth == 1 && c == ',')
      args.emplace_back();
    else if (depth > 1 || c != '(')
      args.back() += c;
  }
  return args;
}
// The body of the first function called `name` after `from`, when it is one return.
std::string returned_by(const std::string& text, size_t from, const std::string& name) {
  const size_t end = text.find("\n};", from);
  const size_t at = text.find(" " + name + "(", from);
  if (at == std::string::npos || at > end) return "";
  const size_t open = text.find('{', at), close = text.find("\n  }", open);
  const std::string body = readable(text.substr(open + 1, close - open - 1));
  if (body.find(';') != body.size() - 1 || body.rfind("return ", 0) != 0) return "";
  return body.substr(7, body.size() - 8);
}
std::string comment_before(const std::string& text, size_t at) {
  std::vector<std::string> lines;
  for (size_t end = text.rfind('\n', at); end != std::string::npos && end > 0;) {
    const size_t begin = text.rfind('\n', end - 1) + 1;
    std::string line;
    if (!is_comment(text.substr(begin, end - begin), line) || line.rfind("---", 0) == 0) break;
    lines.insert(lines.begin(), line);
    end = begin - 1;
  }
  std::string all;
  for (const std::string& l : lines) all += (all.empty() ? "" : " ") + l;
  return all;
}

struct Formula {
  std::string comment, value, derivatives;
};
std::map<std::string, Formula> read_formulas() {
  std::string text;
  for (const char* file : {"pointwise/pointwise_formulas.h", "pointwise_activations.h"})
    text += text_of(source_root() / "kernels" / file);
  std::map<std::string, Formula> found;
  static const std::regex entry(R"re(\n(?:(WT_\w+)\((\w+)|struct (\w+) :))re");
  for (std::sregex_iterator m(text.begin(), text.end(), entry), end; m != end; ++m) {
    const size_t at = size_t(m->position()) + 1;
    const std::string macro = (*m)[1], name = macro.empty() ? (*m)[3] : (*m)[2];
    Formula f{comment_before(text, at), "", ""};
    if (macro.empty()) {
      f.value = returned_by(text, at, "value");
      f.derivatives = returned_by(text, at, "d0");
      const std::string second = returned_by(text, at, "d1");
      if (!second.empty()) f.derivatives += "; " + second;
    } else {
      const std::vector<std::string> a = arguments_at(text, text.find('(', at));
      if (macro == "WT_UNARY") f.value = readable(a[3]), f.derivatives = readable(a[4]);
      if (macro == "WT_BINARY")
        f.value = readable(a[4]), f.derivatives = readable(a[5]) + "; " + readable(a[6]);
      if (macro == "WT_STEP") f.value = readable(a[2]), f.derivatives = "0";
      if (macro.find("PREDICATE") != std::string::npos) f.value = readable(a[1]);
    }
    found[name] = f;
  }
  return found;
}

void add_pointwise(Docs& docs) {
  const std::map<std::string, Formula> formulas = read_formulas();
  const std::string list = text_of(source_root() / "kernels/pointwise/pointwise_list.h");
  static const std::regex line(R"re(X\(M, (\w+), (\w+)\))re");
  for (std::sregex_iterator m(list.begin(), list.end(), line), end; m != end; ++m) {
    const auto f = formulas.find((*m)[2]);
    if (f == formulas.end()) continue;
    const std::string name = (*m)[1];
    Doc& d = docs[name];
    d.family = "pointwise";
    if (d.declaration.empty()) {
      const size_t above = list.rfind("#define WT_POINTWISE_", size_t(m->position()));
      const bool two = list.compare(above + 21, 6, "BINARY") == 0;
      d.declaration =
          "Tensor " + name + (two ? "(const Operand& a, const Operand& b);\n" : "(const In& x);\n");
    }
    std::string text = d.text;
    if (!f->second.comment.empty() && text.empty()) text = f->second.comment;
    if (!f->second.value.empty())
      text += (text.empty() ? "" : "\n\n") + ("Value: `" + f->second.value + "`");
    if (!f->second.derivatives.empty()) {
      const bool of_value = std::regex_search(f->second.derivatives, std::regex(R"re(\by\b)re"));
      text += str("\n\nDerivatives, of the incoming gradient gy",
                  of_value ? " (y is the value)" : "", ": `", f->second.derivatives, "`");
    }
    d.text = text.rfind("\n\n", 0) == 0 ? text.substr(2) : text;
  }
}

// The forms in place of what has a page: relu_.
void add_members(Docs& docs) {
  Docs members;
  read_header(source_root() / "core/tensor.h", "in place", true, members);
  for (auto& [name, d] : members) {
    const std::string base = name.substr(0, name.size() - 1);
    if (docs.count(name) || !name.ends_with('_')) continue;
    if (docs.count(base)) d.text = "`" + base + "` in the memory of the operand.\n\n" + d.text;
    docs[name] = std::move(d);
  }
}

Docs read_docs() {
  Docs docs;
  std::vector<fs::path> headers;
  for (const auto& f : fs::directory_iterator(source_root() / "autograd/ops"))
    if (f.path().extension() == ".h") headers.push_back(f.path());
  std::sort(headers.begin(), headers.end());
  for (const fs::path& h : headers) read_header(h, h.stem().string(), false, docs);
  add_pointwise(docs);
  add_members(docs);
  return docs;
}

// --- what running it shows ---

std::string slot_text(const SavedSlot& slot, const std::vector<Tensor>& in, const Tensor& y) {
  if (slot.kind == SlotKind::empty || !slot.tensor) return "";
  for (size_t i = 0; i < in.size(); ++i)
    if (slot.tensor->storage == in[i].impl()->storage) return "operand " + std::to_string(i);
  if (slot.tensor->storage == y.impl()->storage) return "the result";
  return "values of its own";
}
// What the node keeps, from the first sample that records one; nodes inside a composite.
std::string saved_by(const OpCase& row) {
  const OpInfo& info = *info_of(row.name);
  if (info.derivative == Derivative::none) return "nothing";
  for (size_t k = 0; k < row.samples.size(); ++k) {
    if (!row.samples[k].gradients) continue;
    const Inputs in = make_inputs({&row, int(k), f64, 'c', 1}, Device::cpu(), true);
    bool empty = false;
    for (const Array& a : in.arrays) empty |= a.v.empty();
    if (empty) continue;
    const Tensor y = row.samples[k].call(in.tensors);
    const Node* n = y.impl()->node;
    if (!n || n->is_leaf()) continue;
    if (n->info != &info) continue;
    std::string text;
    for (u32 s = 0; s < n->n_slots; ++s) {
      const std::string one = slot_text(n->slots[s], in.tensors, y);
      if (!one.empty() && text.find(one) == std::string::npos)
        text += (text.empty() ? "" : ", ") + one;
    }
    return text.empty() ? "nothing" : text;
  }
  return "what its parts save";
}

std::string variants_of_contract(const std::string& contract, DeviceKind d) {
  std::string text;
  for (const ContractInfo& c : all_contracts())
    if (contract == c.name)
      for (int i = 0; i < c.count(d); ++i)
        text += (i ? ", " : "") + std::string(c.variant(d, i).name);
  return text;
}
// "" where it runs on all devices.
std::string devices_of(const OpCase& row) {
  const Support& simt = support_on(row, Device::simt());
  if (simt.extent == std::string("all")) return "";
  if (simt.extent == std::string("none")) return "- Devices: cpu, not simt and cuda yet\n";
  std::string text;
  for (const std::string& label : simt.lacking) text += (text.empty() ? "" : "; ") + label;
  return "- Devices: cpu; simt and cuda but for: " + text + "\n";
}
std::string kernels_of(const OpCase& row, const OpInfo& info) {
  const std::string devices = devices_of(row);
  if (row.contracts.empty()) {
    const std::vector<std::string>& parts = support_on(row, Device::cpu()).contracts;
    std::string text;
    for (const std::string& c : parts) text += (text.empty() ? " (`" : ", `") + c + "`";
    return "- Kernels: " +
           (info.view       ? "none, a view"
            : parts.empty() ? "none, computed on the cpu and copied"
                            : "those of its parts" + text + ")") +
           "\n" + devices;
  }
  std::string text = devices;
  for (const std::string& c : row.contracts) {
    text += "- Kernel `" + c + "`: cpu " + variants_of_contract(c, DeviceKind::cpu);
    const std::string simt = variants_of_contract(c, DeviceKind::simt);
    text += simt.empty() ? "; not on simt and cuda yet\n" : "; simt and cuda " + simt + "\n";
  }
  return text;
}
const char* derivative_text(const OpInfo& info, int proved) {
  if (info.derivative == Derivative::none) return "none";
  if (proved < 2) return "not proved";
  return info.derivative == Derivative::smooth   ? "2, both checked by finite differences"
         : info.derivative == Derivative::linear ? "2, the second is zero (linear)"
                                                 : "2, the second is zero (piecewise)";
}
std::string section(const OpCase& row, const Doc& d) {
  const OpInfo& info = *info_of(row.name);
  std::string text = "### " + row.name + "\n\n";
  if (!d.declaration.empty()) text += "```cpp\n" + d.declaration + "```\n\n";
  text += d.text + "\n\n- Dtypes:";
  for (DType t : row.dtypes) text += std::string(" ") + dtype_name(t);
  const char* const classes[] = {"as they come", "the 16-bit type", "f32", "the widest operand"};
  text += str("\n- Under autocast: ", classes[int(info.autocast)],
              "\n- Derivatives: ", derivative_text(info, check_derivatives(row).proved),
              "\n- Saved: ", saved_by(row), "\n", kernels_of(row, info), "\n");
  return text;
}

std::string document() {
  const Docs docs = read_docs();
  std::map<std::string, std::string> families;
  for (const OpInfo* op : all_ops())
    for (const OpCase& row : op_cases()) {
      if (row.name != op->name) continue;
      const auto d = docs.find(row.name);
      const bool found = d != docs.end() && !d->second.text.empty();
      INFO("no doc comment above its declaration in autograd/ops/*.h: " << row.name);
      CHECK(found);
      families[d == docs.end() ? "other" : d->second.family] +=
          section(row, d == docs.end() ? Doc{} : d->second);
    }
  // Functions that are no operator of their own: `detach`, `max_pool2d_with_indices`.
  for (const auto& [name, d] : docs) {
    const auto operation = [&](const OpInfo* op) { return name == op->name; };
    if (d.family == "in place" || std::ranges::any_of(all_ops(), operation)) continue;
    INFO("no doc comment above its declaration in autograd/ops/*.h: " << name);
    CHECK(!d.text.empty());
    families[d.family] +=
        "### " + name + "\n\n```cpp\n" + d.declaration + "```\n\n" + d.text + "\n\n";
  }
  std::string text =
      "# Operators\n\nWritten by the operator tests from the sources: do not edit "
      "(tests/op_cases/docs_test.cpp says how).\n\n";
  for (const auto& [family, body] : families) {
    std::string name = family;
    for (char& c : name) c = c == '_' ? ' ' : c;
    name[0] = char(std::toupper(name[0]));
    text += "## " + name + "\n\n";
    const auto introduction = docs.introductions.find(family);
    if (introduction != docs.introductions.end()) text += introduction->second + "\n\n";
    text += body;
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace

TEST_CASE("operators: docs/operators.md is what the sources say", "[ops][docs]") {
  const fs::path file = source_root() / "docs/operators.md";
  if (const std::string why = missing_on_cpu(); !why.empty()) SKIP_TEST(why.c_str());
  const std::string text = document();
  if (std::getenv("WT_WRITE_OP_DOCS")) std::ofstream(file) << text;
  INFO("run wt_tests '[docs]' with WT_WRITE_OP_DOCS=1 and look at the difference");
  CHECK(text_of(file) == text);
}
