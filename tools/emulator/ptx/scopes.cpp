#include "ptx/scopes.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "ptx/lexer.h"

namespace emu::ptx {
namespace {

constexpr u32 kMostRegisters = 1u << 22;  // of one range: a mistyped count must not eat the memory

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Scopes::Scopes(const Module& module, Function& f) : module_(module), f_(f) {
  open();
  for (const auto* list : {&f.params, &f.returns}) {
    for (const Variable& v : *list) scopes_.back().names[v.name] = {Named::Kind::symbol, 0};
  }
}

void Scopes::add(std::string_view name, Named n, u32 line) {
  if (!scopes_.back().names.emplace(std::string(name), n).second) {
    fail_at(line, std::string(name) + " is declared twice");
  }
}

void Scopes::add_registers(std::string_view prefix, u32 count, Type type, u32 line) {
  if (count > kMostRegisters) fail_at(line, "too many registers: " + std::to_string(count));
  scopes_.back().ranges.push_back({prefix, count, u32(f_.registers.size())});
  f_.registers.reserve(f_.registers.size() + count);
  for (u32 i = 0; i < count; ++i) {
    f_.registers.push_back({std::string(prefix) + std::to_string(i), type});
  }
}

void Scopes::add_register(std::string_view name, Type type, u32 line) {
  add(name, {Named::Kind::reg, u32(f_.registers.size())}, line);
  f_.registers.push_back({std::string(name), type});
}

void Scopes::add_variable(Variable v, u32 line) {
  const std::string name = v.name;
  add(name, {Named::Kind::variable, u32(f_.variables.size())}, line);
  // A point is in no name of PTX, so a numbered name meets no other.
  const u32 n = repeats_[name]++ + (in_module(name) ? 1 : 0);
  if (n > 0) v.name += "." + std::to_string(n);
  f_.variables.push_back(std::move(v));
}

void Scopes::add_symbol(std::string_view name, u32 line) {
  add(name, {Named::Kind::symbol, 0}, line);
}

void Scopes::add_label(std::string_view name, u32 line) {
  if (!scopes_.back().labels.emplace(name, u32(f_.code.size())).second) {
    fail_at(line, "label " + std::string(name) + " stands twice");
  }
}

void Scopes::add_targets(std::string_view name, std::vector<std::string_view> labels, u32 line) {
  if (!scopes_.back().targets.emplace(name, std::move(labels)).second) {
    fail_at(line, "label " + std::string(name) + " stands twice");
  }
}

const Scopes::Range* Scopes::find_range(const Scope& s, std::string_view name, u32* number) {
  // The prefix may end in digits itself (%f16<3>): each split between prefix and number is tried.
  for (u64 at = name.size(); at > 1 && is_digit(name[at - 1]);) {
    --at;
    if (name[at] == '0' && at + 1 < name.size()) continue;  // numbers have no leading zero
    for (const Range& r : s.ranges) {
      if (r.prefix != name.substr(0, at)) continue;
      const auto [end, error] =
          std::from_chars(name.data() + at, name.data() + name.size(), *number);
      if (error == std::errc() && *number < r.count) return &r;
    }
  }
  return nullptr;
}

Named Scopes::find(std::string_view name) const {
  for (u64 i = scopes_.size(); i-- > 0;) {
    const Scope& s = scopes_[i];
    u32 number = 0;
    if (const Range* r = s.ranges.empty() ? nullptr : find_range(s, name, &number)) {
      return {Named::Kind::reg, r->first + number};
    }
    if (s.names.empty()) continue;  // saves the hash: most scopes are an asm without names
    if (const auto it = s.names.find(name); it != s.names.end()) return it->second;
  }
  return {};
}

bool Scopes::in_module(std::string_view name) const {
  const auto same = [&](const Variable& v) { return v.name == name; };
  return std::any_of(module_.variables.begin(), module_.variables.end(), same) ||
         std::any_of(f_.params.begin(), f_.params.end(), same) ||
         std::any_of(f_.returns.begin(), f_.returns.end(), same) || module_.find(name) != nullptr;
}

void Scopes::refer(std::string_view label, u32 instruction, u32 operand, u32 line) {
  scopes_.back().references.push_back({label, instruction, operand, -1, line});
}

bool Scopes::resolve(Scope& s, const Reference& r) {
  Operand& whole = f_.code[r.instruction].operands[r.operand];
  Operand& o = r.element < 0 ? whole : whole.elements[u32(r.element)];
  if (const auto it = s.labels.find(r.label); it != s.labels.end()) {
    o.kind = Operand::Kind::label;
    o.index = it->second;
    return true;
  }
  const auto it = s.targets.find(r.label);
  if (it == s.targets.end() || r.element >= 0) return false;
  o.kind = Operand::Kind::list;
  o.elements.resize(it->second.size());
  for (u32 i = 0; i < o.elements.size(); ++i) {
    s.references.push_back({it->second[i], r.instruction, r.operand, i32(i), r.line});
  }
  return true;
}

void Scopes::close() {
  Scope s = std::move(scopes_.back());
  scopes_.pop_back();
  for (u64 i = 0; i < s.references.size(); ++i) {  // which grows as lists are met
    const Reference r = s.references[i];
    if (resolve(s, r)) continue;
    if (scopes_.empty()) fail_at(r.line, std::string(r.label) + " is not declared");
    scopes_.back().references.push_back(r);
  }
}

bool is_special_register(std::string_view name) {
  static const std::unordered_set<std::string_view> known = {"%tid",
                                                             "%ntid",
                                                             "%laneid",
                                                             "%warpid",
                                                             "%nwarpid",
                                                             "%ctaid",
                                                             "%nctaid",
                                                             "%smid",
                                                             "%nsmid",
                                                             "%gridid",
                                                             "%is_explicit_cluster",
                                                             "%clusterid",
                                                             "%nclusterid",
                                                             "%cluster_ctaid",
                                                             "%cluster_nctaid",
                                                             "%cluster_ctarank",
                                                             "%cluster_nctarank",
                                                             "%lanemask_eq",
                                                             "%lanemask_le",
                                                             "%lanemask_lt",
                                                             "%lanemask_ge",
                                                             "%lanemask_gt",
                                                             "%clock",
                                                             "%clock_hi",
                                                             "%clock64",
                                                             "%globaltimer",
                                                             "%globaltimer_lo",
                                                             "%globaltimer_hi",
                                                             "%total_smem_size",
                                                             "%aggr_smem_size",
                                                             "%dynamic_smem_size",
                                                             "%current_graph_exec",
                                                             "%reserved_smem_offset_begin",
                                                             "%reserved_smem_offset_end",
                                                             "%reserved_smem_offset_cap"};
  if (known.contains(name)) return true;
  for (std::string_view numbered : {"%envreg", "%pm", "%reserved_smem_offset_"}) {
    if (!name.starts_with(numbered) || name.size() == numbered.size()) continue;
    name.remove_prefix(numbered.size());
    if (name.ends_with("_64")) name.remove_suffix(3);
    return !name.empty() && std::all_of(name.begin(), name.end(), is_digit);
  }
  return false;
}

}  // namespace emu::ptx
