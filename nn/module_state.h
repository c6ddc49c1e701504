// What the handles of a module share.
#pragma once
#include <any>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/mode.h"
#include "warptape/nn/handle.h"

namespace wt::nn {

namespace detail {

struct HookEntry {
  u64 id;
  HookKind kind;
  std::shared_ptr<HookFunction> call;
};

struct ModuleState {
  std::string name;                  // within its parent; empty at the root
  std::string_view type = "Module";  // of a literal: never freed
  bool type_given = false;           // by set_type(), not by the class's name
  bool registered = false;
  bool training = true;
  bool is_list = false;  // never called itself: its children's names begin with its own
  std::vector<std::shared_ptr<ParamSlot>> slots;
  std::vector<std::pair<std::string, std::shared_ptr<ModuleState>>> children;
  std::vector<HookEntry> hooks;
  std::any own;  // what the module's class keeps beside its tensors, for all handles
  // Where it was called last: the interned path and mode id, so that a call looks nothing up. Many
  // threads may call one module.
  std::atomic<const ModulePath*> path{nullptr};
  ModuleScope::Cache cache;
};

// "head.2.weight" of "head.2" and "weight"; nothing stands before the names of the root.
inline std::string join_names(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// f(module, name) depth first, a parent before its children, under every name that a module has.
template <class F>
void visit_modules(const std::shared_ptr<ModuleState>& m, const std::string& prefix, F&& f) {
  f(m, prefix);
  for (const auto& [name, child] : m->children) visit_modules(child, join_names(prefix, name), f);
}

}  // namespace detail
}  // namespace wt::nn
