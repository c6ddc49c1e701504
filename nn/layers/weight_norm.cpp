#include "warptape/nn/weight_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "warptape/autograd/ops/linalg.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/module_state.h"

namespace wt::nn::utils {
namespace {

using nn::detail::HookEntry;
using nn::detail::HookFunction;
using nn::detail::ParamSlot;

std::shared_ptr<ParamSlot> find_slot(const ModuleBase& m, const std::string& name) {
  for (const auto& s : m.state()->slots)
    if (s->name == name) return s;
  return nullptr;
}
Tensor tensor_of(const ModuleBase& m, const std::string& name) {
  return find_slot(m, name)->tensor;
}

[[noreturn]] void refuse(const char* op, const std::string& why) {
  throw UsageError(str("[", op, "] ", why, at_line()));
}
void require_free(const char* op, const ParamSlot& s) {
  if (s.held) refuse(op, str("parameter ", s.name, " belongs to an optimizer"));
}

// The slot of a parameter that is to be computed from `parts`.
std::shared_ptr<ParamSlot> slot_to_replace(const char* op, const ModuleBase& m,
                                           const std::string& name,
                                           const std::vector<std::string>& parts) {
  std::shared_ptr<ParamSlot> slot = find_slot(m, name);
  if (!slot || slot->is_buffer) refuse(op, str(m.type(), " has no parameter '", name, "'"));
  if (!slot->tensor.defined())
    refuse(op, str("parameter '", name, "' of ", m.type(), " is undefined or computed already"));
  require_free(op, *slot);
  for (const std::string& part : parts)
    if (find_slot(m, name + part)) refuse(op, str(m.type(), " has a '", name, part, "' already"));
  return slot;
}

int checked_axis(const char* op, i64 dim, const Tensor& weight) {
  const i64 n = weight.ndim();
  if (dim < -n || dim >= n)
    throw ShapeError(str("[", op, "] dim ", dim, " of a parameter ", weight.shape(), at_line()));
  return int(dim < 0 ? dim + n : dim);
}

void add_slot(const ModuleBase& m, const std::string& name, Tensor t, bool is_buffer) {
  if (!is_buffer) t.set_requires_grad();
  m.state()->slots.push_back(std::make_shared<ParamSlot>(ParamSlot{name, std::move(t), is_buffer}));
}

// The weight's slot is empty outside calls, so that nothing takes it for a parameter. Hooks find
// their module's slots by name: clones share the hooks.
struct Forget {
  std::string name;
  Tensor operator()(const ModuleBase& m, const Tensor&, const Tensor&) const {
    find_slot(m, name)->tensor = {};
    return {};
  }
};

// `hook` has a name and the weight of a module.
template <class Hook>
struct Compute {
  Hook hook;
  Tensor operator()(const ModuleBase& m, const Tensor&, const Tensor&) const {
    find_slot(m, hook.name)->tensor = hook.weight(m, m.is_training());
    return {};
  }
};

template <class Hook>
void add_hooks(const ModuleBase& m, const Hook& hook) {
  const auto last_is = [&m](HookFunction f) {
    m.state()->hooks.back().call = std::make_shared<HookFunction>(std::move(f));
  };
  m.register_forward_pre_hook([](const ModuleBase&, const Tensor&) {});
  last_is(Compute<Hook>{hook});
  m.register_forward_hook([](const ModuleBase&, const Tensor&) {});
  last_is(Forget{hook.name});
}

// Makes the weight a parameter of its own again.
template <class Hook>
void remove_hooks(const char* op, const ModuleBase& m, const std::string& name,
                  const std::vector<std::string>& parts) {
  auto& hooks = m.state()->hooks;
  const auto computes = [&name](const HookEntry& h) {
    const auto* c = h.call->template target<Compute<Hook>>();
    return c && c->hook.name == name;
  };
  const auto at = std::find_if(hooks.begin(), hooks.end(), computes);
  if (at == hooks.end()) refuse(op, str(m.type(), " does not compute '", name, "' so"));
  for (const std::string& part : parts) require_free(op, *find_slot(m, name + part));
  Tensor weight;
  {
    const NoGrad no_grad;
    weight = at->call->template target<Compute<Hook>>()->hook.weight(m, false);
  }
  weight = weight.detach();
  weight.set_requires_grad();
  std::erase_if(hooks, [&](const HookEntry& h) {
    const auto* f = h.call->target<Forget>();
    return computes(h) || (f && f->name == name);
  });
  find_slot(m, name)->tensor = weight;
  std::erase_if(m.state()->slots, [&](const auto& s) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const std::string& part) { return s->name == name + part; });
  });
}

// --- weight norm ---

const std::vector<std::string> kNormParts{"_g", "_v"};

Tensor norm_over_others(const Tensor& v, const std::optional<i64>& dim) {
  if (!dim) return sqrt(sum(square(v)));
  std::vector<i64> others;
  for (i64 d = 0; d < v.ndim(); ++d)
    if (d != *dim) others.push_back(d);
  return others.empty() ? abs(v) : sqrt(sum(square(v), others, {.keep_dim = true}));
}

struct WeightNorm {
  std::string name;
  std::optional<i64> dim;
  Tensor weight(const ModuleBase& m, bool) const {
    const Tensor g = tensor_of(m, name + "_g"), v = tensor_of(m, name + "_v");
    return mul(v, div(g, norm_over_others(v, dim)));
  }
};

// --- spectral norm ---

const std::vector<std::string> kSpectralParts{"_orig", "_u", "_v"};

Tensor unit(const Tensor& x, double eps) {
  return div(x, clamp(sqrt(sum(square(x))), eps, HUGE_VAL));
}

struct SpectralNorm {
  std::string name;
  SpectralNormOptions o;

  Tensor matrix(const Tensor& w) const {
    const Tensor rows = rows_first(w, *o.dim);
    return reshape(rows, {rows.size(0), -1});
  }
  Tensor weight(const ModuleBase& m, bool iterate) const {
    const Tensor w = tensor_of(m, name + "_orig"), rows = matrix(w);
    Tensor u = tensor_of(m, name + "_u"), v = tensor_of(m, name + "_v");
    if (iterate) improve(rows, u, v);
    // Copies: the next call writes into the buffers, perhaps before this one's backward.
    return div(w, dot(clone(u), matmul(rows, clone(v))));
  }

 private:
  static Tensor rows_first(const Tensor& w, i64 dim) { return dim == 0 ? w : transpose(w, 0, dim); }
  void improve(const Tensor& rows, Tensor& u, Tensor& v) const {
    const NoGrad no_grad;
    Tensor left = u, right = v;
    for (i64 k = 0; k < o.n_power_iterations; ++k) {
      right = unit(matmul(transpose(rows, 0, 1), left), o.eps);
      left = unit(matmul(rows, right), o.eps);
    }
    u.copy_(left);
    v.copy_(right);
  }
};

}  // namespace

namespace detail {

void add_weight_norm(const ModuleBase& m, const std::string& name, const WeightNormOptions& o,
                     Frame at) {
  const FrameScope frame(at);
  const auto slot = slot_to_replace("weight_norm", m, name, kNormParts);
  const Tensor v = slot->tensor;
  WeightNorm hook{name, o.dim};
  if (o.dim) hook.dim = checked_axis("weight_norm", *o.dim, v);
  Tensor g;
  {
    const NoGrad no_grad;
    g = norm_over_others(v, hook.dim);
  }
  add_slot(m, name + "_g", g, false);
  add_slot(m, name + "_v", v, false);
  add_hooks(m, hook);
  slot->tensor = {};
}

void add_spectral_norm(const ModuleBase& m, const std::string& name, const SpectralNormOptions& o,
                       Frame at) {
  const FrameScope frame(at);
  const auto slot = slot_to_replace("spectral_norm", m, name, kSpectralParts);
  if (o.n_power_iterations < 1)
    refuse("spectral_norm",
           str("n_power_iterations must be at least 1, got ", o.n_power_iterations));
  const Tensor w = slot->tensor;
  SpectralNorm hook{name, o};
  hook.o.dim = checked_axis("spectral_norm",
                            o.dim.value_or(m.type().starts_with("ConvTranspose") ? 1 : 0), w);
  const auto start = [&](i64 n) {
    return unit(randn({n}, {.dtype = w.dtype(), .device = w.device()}), o.eps);
  };
  const i64 rows = w.size(*hook.o.dim);
  const NoGrad no_grad;
  const Tensor u = start(rows), v = start(w.numel() / std::max<i64>(rows, 1));
  add_slot(m, name + "_orig", w, false);
  add_slot(m, name + "_u", u, true);
  add_slot(m, name + "_v", v, true);
  add_hooks(m, hook);
  slot->tensor = {};
}

}  // namespace detail

void remove_weight_norm(const ModuleBase& m, const std::string& name, Frame at) {
  const FrameScope frame(at);
  remove_hooks<WeightNorm>("remove_weight_norm", m, name, kNormParts);
}
void remove_spectral_norm(const ModuleBase& m, const std::string& name, Frame at) {
  const FrameScope frame(at);
  remove_hooks<SpectralNorm>("remove_spectral_norm", m, name, kSpectralParts);
}

}  // namespace wt::nn::utils
