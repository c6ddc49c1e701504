// Modules that hold modules. All are handles: a copy holds the same ones.
#pragma once
#include <initializer_list>

#include "warptape/nn/module.h"

namespace wt::nn {

namespace detail {
[[noreturn]] WT_COLD WT_API void no_such_module(const ModuleBase& dict, std::string_view name);
}

// A module, or any callable from tensor to tensor: what a Sequential takes.
template <class M>
concept Step = std::derived_from<M, ModuleBase> || std::is_invocable_r_v<Tensor, M&, Tensor>;

// One step of a Sequential: a handle to its module that can be called. A function is one of type
// "Function" without parameters.
class WT_API SequentialStep : public Derived<SequentialStep, ModuleBase> {
 public:
  // What the step makes of x: a module is called with its hooks, and its errors have the caller's
  // line.
  Tensor operator()(const In& x) const;

 private:
  friend class Sequential;
  using Call = std::function<Tensor(Tensor)>;
  explicit SequentialStep(const ModuleBase* module);  // null: of a function

  detail::Shared<Call> call_;
};

// Modules, or any callables from tensor to tensor, one after the other; children are named "0",
// "1"..., or as push_back says.
class WT_API Sequential : public Module<Sequential> {
 public:
  // Takes each of `modules` as push_back does: all handles, so the modules are the caller's own.
  template <class... M>
  requires((sizeof...(M) != 1 || (!std::same_as<std::remove_cvref_t<M>, Sequential> && ...)) &&
           (Step<std::remove_cvref_t<M>> && ...)) explicit Sequential(M&&... modules) {
    (push_back(std::forward<M>(modules)), ...);
  }
  // Appends a step under `name`, by default the number of steps before it. Throws UsageError for a
  // name that is there already or is none (letters, digits, '_').
  template <Step M>
  void push_back(M module) {
    push_back(std::to_string(size()), std::move(module));
  }
  template <Step M>
  void push_back(const std::string& name, M module) {
    const ModuleBase* child = nullptr;
    if constexpr (std::derived_from<M, ModuleBase>) {
      detail::check_forward<M>();
      add_child(name, module);
      child = &module;
    }
    // A copy, which a handle is made for: `child` is read after it was made.
    add_step(child, [call = module](Tensor x) mutable { return call(std::move(x)); });
  }
  // x through all steps in their order; x itself where there are none.
  Tensor forward(Tensor x);
  // The number of steps, functions too.
  size_t size() const;
  // Step i, a function too; negative counts from the end. Throws IndexError.
  SequentialStep operator[](Position i) const;

 private:
  void add_step(const ModuleBase* child, SequentialStep::Call call);
  detail::Shared<std::vector<SequentialStep>> steps_;
};

// Modules of one type, registered as "0", "1"...; the caller says how they are called.
//
//   nn::ModuleList<Block> blocks = add("blocks", nn::ModuleList<Block>(layers, [&] {
//     return Block{width}; }));
//   for (Block& block : blocks) x = block(x);
template <class M>
class ModuleList : public Module<ModuleList<M>> {
 public:
  static_assert(std::derived_from<M, ModuleBase>, "a ModuleList holds modules");
  ModuleList() {
    this->set_type("ModuleList");  // of any M
    this->set_list();
  }
  // These modules, in this order.
  ModuleList(std::initializer_list<M> modules) : ModuleList() {
    for (const M& m : modules) push_back(m);
  }
  // `count` modules, each made by a call of its own: copies would share parameters.
  template <class Make>
  requires std::is_invocable_r_v<M, Make&> ModuleList(i64 count, Make make) : ModuleList() {
    for (i64 i = 0; i < count; ++i) push_back(make());
  }
  // Appends a handle of the module, registered under its place: "0", "1"...
  void push_back(M module) {
    detail::check_forward<M>();
    this->add_child(std::to_string(modules_->size()), module);
    modules_->push_back(std::move(module));
  }
  // size is the number of modules, empty whether there is none.
  size_t size() const { return modules_->size(); }
  bool empty() const { return modules_->empty(); }
  // Module i, from 0 on, by reference. Throws IndexError.
  M& operator[](size_t i) const {
    if (i >= size())
      throw IndexError(str("[ModuleList] index ", i, " is outside [0, ", size(), ")"));
    return (*modules_)[i];
  }
  // begin and end make `for (Block& block : blocks)` go over the modules in their order.
  auto begin() const { return modules_->begin(); }
  auto end() const { return modules_->end(); }

 private:
  detail::Shared<std::vector<M>> modules_;
};

// Modules of one type by name, in the order in which they came.
template <class M>
class ModuleDict : public Module<ModuleDict<M>> {
 public:
  static_assert(std::derived_from<M, ModuleBase>, "a ModuleDict holds modules");
  // A name and its module.
  using Entry = std::pair<std::string, M>;
  ModuleDict() {
    this->set_type("ModuleDict");
    this->set_list();
  }
  // These entries, in this order. Throws as insert.
  ModuleDict(std::initializer_list<Entry> entries) : ModuleDict() {
    for (const auto& [name, m] : entries) insert(name, m);
  }
  // Adds a module under a name, behind the others. Throws UsageError for a name that is there
  // already or is none (letters, digits, '_').
  void insert(const std::string& name, M module) {
    detail::check_forward<M>();
    this->add_child(name, module);
    entries_->emplace_back(name, std::move(module));
  }
  // size is the number of modules; contains tells whether one has that name.
  size_t size() const { return entries_->size(); }
  bool contains(std::string_view name) const { return find(name) != entries_->end(); }
  // The module of a name, by reference. Throws UsageError, with the near name, for one that is not
  // there.
  M& operator[](std::string_view name) const {
    const auto at = find(name);
    if (at == entries_->end()) detail::no_such_module(*this, name);
    return at->second;
  }
  // The names, in the order in which they came.
  std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const Entry& e : *entries_) all.push_back(e.first);
    return all;
  }
  // begin and end make `for (auto& [name, module] : dict)` go over the entries in their order.
  auto begin() const { return entries_->begin(); }
  auto end() const { return entries_->end(); }

 private:
  auto find(std::string_view name) const {
    auto at = entries_->begin();
    while (at != entries_->end() && at->first != name) ++at;
    return at;
  }
  detail::Shared<std::vector<Entry>> entries_;
};

}  // namespace wt::nn
