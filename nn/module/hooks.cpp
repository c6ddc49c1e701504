// Hooks of modules. Those of a backward hang at views of what goes into a call and of what comes
// out: a view is this call's alone, whoever else uses the tensor.
#include <algorithm>
#include <atomic>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/module.h"
#include "warptape/nn/module_state.h"

namespace wt::nn {

u64 ModuleBase::add_hook(detail::HookKind kind, detail::HookFunction call) const {
  static constinit std::atomic<u64> ids{0};
  const u64 id = ++ids;
  state_->hooks.push_back({id, kind, std::make_shared<detail::HookFunction>(std::move(call))});
  return id;
}

void ModuleBase::remove_hook(u64 id) const {
  std::erase_if(state_->hooks, [id](const detail::HookEntry& h) { return h.id == id; });
}

namespace detail {
namespace {

bool has_backward_hooks(const ModuleState& m) {
  return std::any_of(m.hooks.begin(), m.hooks.end(), [](const HookEntry& h) {
    return h.kind == HookKind::backward_pre || h.kind == HookKind::backward;
  });
}

// Calls the hooks of a kind as f(module, tensors...), each on what the one before returned in place
// of `t`. True when one did.
template <class Call>
bool run_hooks(const ModuleBase& m, HookKind kind, Tensor& t, Call&& call) {
  const std::vector<HookEntry> hooks = m.state()->hooks;  // a hook may remove itself
  bool changed = false;
  for (const HookEntry& h : hooks) {
    if (h.kind != kind) continue;
    Tensor result = call(*h.call, t);
    if (!result.defined()) continue;
    t = std::move(result);
    changed = true;
  }
  return changed;
}

}  // namespace

// Lives as long as the graph of the call.
struct HookedCall::Watch {
  ModuleBase module;
  bool input_wanted = false;
  Tensor gradient{};  // of the output, between its hook and that of the input

  explicit Watch(const ModuleBase& m) : module(m) {}

  Tensor arrived_at_output(const Tensor& g) {
    Tensor gy = g;
    const bool changed =
        run_hooks(module, HookKind::backward_pre, gy,
                  [this](const HookFunction& f, const Tensor& t) { return f(module, t, {}); });
    // Its graph would hold this call's, and with it this object.
    gradient = gy.requires_grad() ? detach(gy) : gy;
    if (!input_wanted) (void)arrived_at_input({});
    return changed ? gy : Tensor();
  }
  Tensor arrived_at_input(const Tensor& g) {
    Tensor gx = g;
    const Tensor gy = std::move(gradient);
    const bool changed =
        run_hooks(module, HookKind::backward, gx,
                  [&](const HookFunction& f, const Tensor& t) { return f(module, t, gy); });
    return changed ? gx : Tensor();
  }
};

HookedCall::HookedCall(const ModuleBase& m, Tensor& x) : module_(m) {
  run_hooks(m, HookKind::forward_pre, x,
            [&m](const HookFunction& f, const Tensor& t) { return f(m, t, {}); });
  input_ = x;
  if (!mode.grad || !has_backward_hooks(*m.state())) return;
  watch_ = std::make_shared<Watch>(m);
  if (!x.defined() || !x.requires_grad()) return;
  watch_->input_wanted = true;
  x = view(x, x.shape());
  register_hook(x, [w = watch_](const Tensor& g) { return w->arrived_at_input(g); });
}

void HookedCall::finish(Tensor* y) const {
  Tensor seen = y ? *y : Tensor();
  run_hooks(module_, HookKind::watch, seen,
            [this](const HookFunction& f, const Tensor& t) { return f(module_, input_, t); });
  const auto& hooks = module_.state()->hooks;
  const auto watches = [](const HookEntry& h) { return h.kind == HookKind::watch; };
  if (!y && std::all_of(hooks.begin(), hooks.end(), watches)) return;
  if (!y)
    throw UsageError(str("[", module_.state()->type,
                         "] has hooks, but forward returns neither a tensor nor a struct with a "
                         "tensor `output` or `first`"));
  run_hooks(module_, HookKind::forward, *y,
            [this](const HookFunction& f, const Tensor& t) { return f(module_, input_, t); });
  if (!watch_ || !y->defined() || !y->requires_grad()) return;
  *y = view(*y, y->shape());
  register_hook(*y, [w = watch_](const Tensor& g) { return w->arrived_at_output(g); });
}

}  // namespace detail
}  // namespace wt::nn
