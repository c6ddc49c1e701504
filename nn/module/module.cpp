#include "warptape/nn/module.h"

#include <algorithm>
#include <optional>
#include <set>

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/at_line.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/nn/module_state.h"
#include "warptape/nn/name_lookups.h"
#include "warptape/nn/type_name.h"

namespace wt::nn {
namespace {

using detail::ModuleState;
using detail::ParamSlot;
using detail::visit_modules;

std::vector<NamedTensor> collect(const std::shared_ptr<ModuleState>& m, bool parameters,
                                 bool buffers, bool tied_once) {
  const detail::CountedLookup counted;
  std::vector<NamedTensor> all;
  std::set<const TensorImpl*> seen;
  visit_modules(m, "", [&](const std::shared_ptr<ModuleState>& s, const std::string& prefix) {
    for (const auto& slot : s->slots) {
      if (!(slot->is_buffer ? buffers : parameters) || !slot->tensor.defined()) continue;
      if (tied_once && !seen.insert(slot->tensor.impl()).second) continue;
      all.push_back({detail::join_names(prefix, slot->name), slot->tensor});
    }
  });
  return all;
}

void check_name(const ModuleState& m, const std::string& name) {
  const bool fits = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_';
  });
  if (!fits)
    throw UsageError(str("[", m.type, "] '", name,
                         "' is no name for a member: letters, digits and '_' only", at_line()));
  for (const auto& s : m.slots)
    if (s->name == name)
      throw UsageError(str("[", m.type, "] '", name, "' is registered twice", at_line()));
  for (const auto& c : m.children)
    if (c.first == name)
      throw UsageError(str("[", m.type, "] '", name, "' is registered twice", at_line()));
}

void set_name(ModuleState& m, const std::string& name) {
  m.name = name;
  m.path = nullptr;
  if (!m.is_list) return;
  for (const auto& [key, child] : m.children) set_name(*child, name + "." + key);
}

bool has_state(const ModuleState& m) {
  for (const auto& s : m.slots)
    if (s->tensor.defined()) return true;
  return std::any_of(m.children.begin(), m.children.end(),
                     [](const auto& c) { return has_state(*c.second); });
}

}  // namespace

// --- parameters ---

Param& Param::operator=(const Param& o) {
  if (slot_ == o.slot_) return *this;  // net = net.to(device), with an optimizer too
  return *this = o.tensor();
}

Param& Param::operator=(const Tensor& t) {
  if (slot_->held)
    throw UsageError(str(
        "[", slot_->name, "] this parameter belongs to an optimizer and cannot be assigned",
        at_line(),
        "\n  Try "
        "assigning it (tying weights) before the optimizer is made, or copy_() for its values"));
  if (slot_->tensor.defined() && t.defined() && t.shape() != slot_->tensor.shape())
    throw ShapeError(str("[", slot_->name, "] shape ", t.shape(), " cannot take the place of ",
                         slot_->tensor.shape(), at_line()));
  if (!slot_->is_buffer && t.defined() && !t.requires_grad() && slot_->tensor.defined() &&
      slot_->tensor.requires_grad()) {
    Tensor leaf = t;
    leaf.set_requires_grad();
  }
  if (!slot_->is_buffer && t.defined() && !t.is_leaf())
    throw UsageError(str("[", slot_->name,
                         "] a parameter is a leaf, this is the result of an operator", at_line(),
                         "\n  Try "
                         ".detach().clone()"));
  slot_->tensor = t;
  return *this;
}

bool LoadStateResult::complete() const {
  return missing.empty() && unexpected.empty() && misshapen.empty();
}

ModuleBase::ModuleBase(std::shared_ptr<detail::ModuleState> state) : state_(std::move(state)) {}
std::string_view ModuleBase::type() const { return state_->type; }
const std::string& ModuleBase::name() const { return state_->name; }
void ModuleBase::set_type(const char* type) {
  state_->type = type;
  state_->type_given = true;
}
void ModuleBase::set_class(const char* signature) {
  state_->type = detail::find_type_name(signature);
}
bool ModuleBase::is_training() const { return state_->training; }
void ModuleBase::set_list() { state_->is_list = true; }
ModuleBase::ModuleBase() : state_(std::make_shared<ModuleState>()) {}

Param ModuleBase::add(const char* name, Tensor parameter) {
  check_name(*state_, name);
  if (parameter.defined()) parameter.set_requires_grad();
  auto slot = std::make_shared<ParamSlot>(ParamSlot{name, std::move(parameter)});
  state_->slots.push_back(slot);
  return Param(std::move(slot));
}

Buffer ModuleBase::add_buffer(const char* name, Tensor buffer) {
  check_name(*state_, name);
  auto slot = std::make_shared<ParamSlot>(ParamSlot{name, std::move(buffer), true});
  state_->slots.push_back(slot);
  return Buffer(std::move(slot));
}

void ModuleBase::add_child(const std::string& name, const ModuleBase& child) {
  check_name(*state_, name);
  if (child.state().get() == state_.get())
    throw UsageError(str("a module cannot be its own child", at_line()));
  set_name(*child.state(),
           state_->is_list && !state_->name.empty() ? state_->name + "." + name : name);
  child.state()->registered = true;
  state_->children.emplace_back(name, child.state());
}

std::vector<NamedTensor> ModuleBase::named_parameters() const {
  return collect(state_, true, false, true);
}
std::vector<NamedTensor> ModuleBase::named_buffers() const {
  return collect(state_, false, true, true);
}
std::vector<NamedTensor> ModuleBase::state_dict() const {
  return collect(state_, true, true, false);
}

std::vector<Tensor> ModuleBase::parameters() const {
  std::vector<Tensor> all;
  for (NamedTensor& p : named_parameters()) all.push_back(std::move(p.tensor));
  return all;
}

i64 ModuleBase::parameter_count() const {
  i64 n = 0;
  for (const NamedTensor& p : named_parameters()) n += p.tensor.numel();
  return n;
}

void ModuleBase::train(bool on) const {
  visit_modules(state_, "", [on](const auto& m, const std::string&) { m->training = on; });
}

// --- moves ---

namespace {

// What parameters and buffers are to become; unset: they stay.
struct Target {
  std::optional<Device> device{};
  std::optional<DType> dtype{};  // of floating tensors

  Device device_of(const Tensor& t) const { return device.value_or(t.device()); }
  DType dtype_of(const Tensor& t) const {
    return dtype && is_floating(t.dtype()) ? *dtype : t.dtype();
  }
  bool fits(const Tensor& t) const {
    return t.device() == device_of(t) && t.dtype() == dtype_of(t);
  }
};

// Arenas are of one dtype: an optimizer could not follow, as it follows to another device.
void check_not_held(const ParamSlot& slot, const std::string& name, DType wanted, Frame at) {
  const Leaf* leaf = leaf_of(slot.tensor.impl());
  if (slot.tensor.dtype() == wanted || !(slot.held || (leaf && leaf->holder != 0))) return;
  throw UsageError(str("[to] parameter ", name, " belongs to an optimizer, which keeps it in ",
                       dtype_name(slot.tensor.dtype()), ", not ", dtype_name(wanted), "\n  at ",
                       describe(at), "\n  Try converting the module before the optimizer is made"));
}

// All that may fail comes first.
void move_to(const std::shared_ptr<ModuleState>& m, const Target& target, Frame at) {
  struct Move {
    Tensor tensor, there;
  };
  std::vector<Move> moves;
  std::set<const TensorImpl*> seen;
  const NoGrad no_grad;
  visit_modules(m, "", [&](const auto& s, const std::string& prefix) {
    for (const auto& slot : s->slots) {
      const Tensor& t = slot->tensor;
      if (!t.defined() || target.fits(t)) continue;
      check_not_held(*slot, detail::join_names(prefix, slot->name), target.dtype_of(t), at);
      if (!seen.insert(t.impl()).second) continue;
      const CategoryScope scope(leaf_of(t.impl()) ? Category::parameter : Category::buffer);
      moves.push_back({t, t.to(target.dtype_of(t)).to(target.device_of(t))});
    }
  });
  for (Move& m : moves) wt::detail::replace_data(m.tensor.impl(), m.there.impl());
}

void check_dtype(DType t, Frame at) {
  if (is_floating(t) && computes(t)) return;
  throw DtypeError(str("[to] parameters are f64, f32, f16 or bf16, not ", dtype_name(t), "\n  at ",
                       describe(at)));
}

}  // namespace

void ModuleBase::to(Device d) const {
  require_available(d);
  move_to(state_, {.device = d}, {});
}

void ModuleBase::to(DType t, Frame at) const {
  check_dtype(t, at);
  move_to(state_, {.dtype = t}, at);
}

void ModuleBase::to(Device d, DType t, Frame at) const {
  check_dtype(t, at);
  require_available(d);
  move_to(state_, {.device = d, .dtype = t}, at);
}

void ModuleBase::zero_grad() const {
  for (const Tensor& p : parameters()) p.zero_grad();
}

// --- calls ---

namespace detail {

namespace {
constinit thread_local const CallScope* innermost_call = nullptr;
}

static const ModulePath* path_for_call(ModuleState& m, const ModuleState* caller) {
  if (m.name.empty()) {
    if (caller && has_state(m))
      throw UsageError(str("[", mode.module ? to_string(mode.module) : std::string(caller->type),
                           "] a ", m.type, " with parameters is called but not registered\n  at ",
                           describe_frame(mode.frame),
                           "\n  Try `x = add(\"x\", ...)` where the member is "
                           "declared"));
    return mode.module;
  }
  const ModulePath* path = m.path.load(std::memory_order_acquire);
  if (!path || path->parent != mode.module) {
    path = intern_module_path(mode.module, m.name);
    m.path.store(path, std::memory_order_release);
  }
  return path;
}

CallScope::CallScope(const ModuleBase& m, Frame at)
    : outer_(innermost_call),
      call_{at, module_call},
      module_state_(*m.state()),
      hooked_(!module_state_.hooks.empty()),
      frame_(at),
      module_(path_for_call(module_state_, caller()), module_state_.cache) {
  innermost_call = this;
  module_call = &call_;
}
CallScope::~CallScope() {
  innermost_call = outer_;
  module_call = call_.outer;
}

const ModuleState* CallScope::caller() const {
  for (const CallScope* c = outer_; c; c = c->outer_)
    if (&c->module_state_ == &module_state_) return nullptr;  // it calls itself
  return outer_ ? &outer_->module_state_ : nullptr;
}

}  // namespace detail

struct EvalScope::Flags {
  std::vector<std::pair<std::shared_ptr<detail::ModuleState>, bool>> list{};
};
EvalScope::EvalScope(const ModuleBase& m) : before_(new Flags) {
  visit_modules(m.state(), "", [this](const auto& s, const std::string&) {
    before_->list.emplace_back(s, s->training);
    s->training = false;
  });
}
EvalScope::~EvalScope() {
  for (auto& [m, training] : before_->list) m->training = training;
}

}  // namespace wt::nn
