// A module's tree: the modules below it as handles, and what lies in it by name.
#include <set>

#include "warptape/core/suggest.h"
#include "warptape/nn/module.h"
#include "warptape/nn/module_state.h"
#include "warptape/nn/name_lookups.h"

namespace wt::nn {
namespace {

using detail::ModuleState;
using detail::ParamSlot;
using detail::visit_modules;
using State = std::shared_ptr<ModuleState>;

std::vector<ModuleBase> without_names(std::vector<NamedModule> named) {
  std::vector<ModuleBase> all;
  for (NamedModule& m : named) all.push_back(std::move(m.module));
  return all;
}

// f(module) of m and what is below it, children before their parent, once each.
template <class F>
void visit_children_first(const State& m, std::set<const ModuleState*>& seen, F& f) {
  if (!seen.insert(m.get()).second) return;
  for (const auto& child : m->children) visit_children_first(child.second, seen, f);
  f(m);
}

// The slot of a name, of parameters or of buffers. Throws UsageError.
std::shared_ptr<ParamSlot> slot_of(const ModuleBase& m, std::string_view name, bool buffer,
                                   Frame at) {
  const detail::CountedLookup counted;
  std::shared_ptr<ParamSlot> found;
  std::vector<std::string> names;
  bool other_kind = false;
  visit_modules(m.state(), "", [&](const State& s, const std::string& prefix) {
    for (const auto& slot : s->slots) {
      std::string full = detail::join_names(prefix, slot->name);
      if (slot->is_buffer != buffer) {
        other_kind |= full == name;
        continue;
      }
      if (!found && full == name) found = slot;
      names.push_back(std::move(full));
    }
  });
  if (found) return found;
  throw UsageError(
      str("[", m.type(), "] there is no ", buffer ? "buffer" : "parameter", " '", printable(name),
          "'", other_kind ? "" : did_you_mean(name, names), "\n  at ", describe(at),
          !other_kind ? "" : str("\n  Try ", buffer ? "parameter" : "buffer", "(\"", name, "\")")));
}

}  // namespace

std::vector<NamedModule> ModuleBase::named_children() const {
  std::vector<NamedModule> all;
  std::set<const ModuleState*> seen;
  for (const auto& [name, child] : state_->children)
    if (seen.insert(child.get()).second) all.push_back({name, ModuleBase(child)});
  return all;
}

std::vector<NamedModule> ModuleBase::named_modules() const {
  std::vector<NamedModule> all;
  std::set<const ModuleState*> seen;
  visit_modules(state_, "", [&](const State& m, const std::string& name) {
    if (seen.insert(m.get()).second) all.push_back({name, ModuleBase(m)});
  });
  return all;
}

std::vector<ModuleBase> ModuleBase::children() const { return without_names(named_children()); }
std::vector<ModuleBase> ModuleBase::modules() const { return without_names(named_modules()); }

std::vector<ModuleBase> ModuleBase::children_first() const {
  std::vector<ModuleBase> all;
  std::set<const ModuleState*> seen;
  const auto keep = [&all](const State& m) { all.push_back(ModuleBase(m)); };
  visit_children_first(state_, seen, keep);
  return all;
}

Param ModuleBase::parameter(std::string_view name, Frame at) const {
  return Param(slot_of(*this, name, false, at));
}
Buffer ModuleBase::buffer(std::string_view name, Frame at) const {
  return Buffer(slot_of(*this, name, true, at));
}

}  // namespace wt::nn
