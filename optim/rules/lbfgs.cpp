#include "warptape/optim/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/rules/line_search.h"

namespace wt::optim {

namespace info {
constexpr OpInfo lbfgs{.name = "lbfgs", .derivative = Derivative::none};
}

namespace {

using detail::Arena;
using detail::Entry;
using detail::LinePoint;

double dot(const Tensor& a, const Tensor& b) { return sum(mul(a, b)).item(); }
double longest(const Tensor& v) { return max(abs(v)).item(); }

void check(const LbfgsOptions& o) {
  const auto refuse = [](const char* name, const char* must, const auto& got) {
    throw UsageError(str("[Lbfgs] ", name, " must be ", must, ", got ", got, at_line()));
  };
  if (!(o.lr >= 0)) refuse("lr", "at least 0", o.lr);
  if (o.max_iter < 1) refuse("max_iter", "at least 1", o.max_iter);
  if (o.max_eval < 0) refuse("max_eval", "at least 0", o.max_eval);
  if (!(o.tolerance_grad >= 0)) refuse("tolerance_grad", "at least 0", o.tolerance_grad);
  if (!(o.tolerance_change >= 0)) refuse("tolerance_change", "at least 0", o.tolerance_change);
  if (o.history_size < 1) refuse("history_size", "at least 1", o.history_size);
}

std::vector<Entry> of_one_dtype(std::vector<Entry> entries) {
  for (const Entry& e : entries)
    if (e.tensor.dtype() != entries.front().tensor.dtype())
      throw UsageError(str("[Lbfgs] parameters have several dtypes: ", entries.front().name, " is ",
                           dtype_name(entries.front().tensor.dtype()), ", ", e.name, " is ",
                           dtype_name(e.tensor.dtype()), at_line()));
  return entries;
}

}  // namespace

// What a step leaves behind. Vectors are never written in place, so that a copy is a snapshot.
struct LbfgsHistory {
  Tensor direction, prev_grad;  // undefined before the first iteration
  std::vector<Tensor> old_dirs, old_steps;
  std::vector<double> ro;
  double step_size = 0, h_diag = 1;
  i64 iterations = 0, evaluations = 0;
};

struct Lbfgs::Impl {
  LbfgsOptions options;
  detail::Arenas arenas;
  LbfgsHistory history;

  Impl(std::vector<Entry> entries, const LbfgsOptions& o)
      : options(o), arenas(std::move(entries), {0}) {
    if (options.max_eval == 0) options.max_eval = options.max_iter * 5 / 4;
  }

  const Arena& arena() const { return arenas.all().front(); }
  Launch launch() const { return {&info::lbfgs, mode.native_stream, nullptr, arenas.device()}; }
  // All parameters or gradients as one vector; the gaps are zeros.
  Tensor flat(const detail::StorageRef& s) const {
    Geometry g{};
    set_contiguous(g, &arena().elements, 1, arena().dtype);
    return detail::tensor_over(s.get(), 0, g);
  }
  void write_parameters(const Tensor& v) {
    const Tensor to = flat(arena().param);
    run(CopyArgs{view_of(to.impl()), view_of(v.impl())}, launch());
    arenas.bump_versions();
  }
  void follow_device();
  double evaluate(const std::function<double()>& closure, Tensor& grad);
  void find_direction(const Tensor& grad);
  void iterate(const std::function<double()>& closure, double loss, Tensor grad);
  bool move(const std::function<double()>& closure, double& loss, Tensor& grad, i64& evaluations,
            bool last);
};

// After Module::to.
void Lbfgs::Impl::follow_device() {
  if (!arenas.sync()) return;
  const auto move = [&](Tensor& t) {
    if (t.defined()) t = t.to(arenas.device());
  };
  move(history.direction);
  move(history.prev_grad);
  for (Tensor& t : history.old_dirs) move(t);
  for (Tensor& t : history.old_steps) move(t);
}

double Lbfgs::Impl::evaluate(const std::function<double()>& closure, Tensor& grad) {
  double loss;
  {
    const EnableGrad enable;
    loss = closure();
  }
  if (arenas.sync())
    throw UsageError(str("[Lbfgs] the closure moved the parameters to another device", at_line()));
  arenas.collect();
  arenas.zero_unwritten();
  grad = flat(arena().grad).clone();
  ++history.evaluations;
  return loss;
}

// The two loops of the recursion, after the last step has entered the history.
void Lbfgs::Impl::find_direction(const Tensor& grad) {
  LbfgsHistory& h = history;
  if (h.iterations == 1) {
    h.direction = neg(grad);
    h.old_dirs.clear();
    h.old_steps.clear();
    h.ro.clear();
    h.h_diag = 1;
    return;
  }
  const Tensor y = sub(grad, h.prev_grad), s = mul(h.direction, h.step_size);
  const double ys = dot(y, s);
  if (ys > 1e-10) {
    if (i64(h.ro.size()) == options.history_size) {
      h.old_dirs.erase(h.old_dirs.begin());
      h.old_steps.erase(h.old_steps.begin());
      h.ro.erase(h.ro.begin());
    }
    h.old_dirs.push_back(y);
    h.old_steps.push_back(s);
    h.ro.push_back(1 / ys);
    h.h_diag = ys / dot(y, y);
  }
  const size_t n = h.ro.size();
  std::vector<double> al(n);
  Tensor q = neg(grad);
  for (size_t i = n; i-- > 0;) {
    al[i] = dot(h.old_steps[i], q) * h.ro[i];
    q = sub(q, mul(h.old_dirs[i], al[i]));
  }
  q = mul(q, h.h_diag);
  for (size_t i = 0; i < n; ++i)
    q = add(q, mul(h.old_steps[i], al[i] - dot(h.old_dirs[i], q) * h.ro[i]));
  h.direction = q;
}

// One step along the direction. False when the slope says that there is nowhere to go.
bool Lbfgs::Impl::move(const std::function<double()>& closure, double& loss, Tensor& grad,
                       i64& evaluations, bool last) {
  LbfgsHistory& h = history;
  h.step_size =
      h.iterations == 1 ? std::min(1.0, 1 / sum(abs(grad)).item()) * options.lr : options.lr;
  const double slope = dot(grad, h.direction);
  if (slope > -options.tolerance_change) return false;
  const Tensor from = flat(arena().param).clone();
  const auto go = [&](double t) { write_parameters(add(from, mul(h.direction, t))); };
  if (options.line_search == LineSearch::none) {
    go(h.step_size);
    if (last) return true;
    loss = evaluate(closure, grad);
    ++evaluations;
    return true;
  }
  const auto at = [&](double t) {
    LinePoint p{.t = t};
    go(t);
    p.loss = evaluate(closure, p.grad);
    p.slope = dot(p.grad, h.direction);
    return p;
  };
  const LinePoint start{.t = 0, .loss = loss, .grad = grad, .slope = slope};
  const detail::LineResult r =
      detail::strong_wolfe(at, start, h.step_size, longest(h.direction), options.tolerance_change,
                           options.max_eval - evaluations);
  go(r.best.t);
  h.step_size = r.best.t;
  loss = r.best.loss;
  grad = r.best.grad;
  evaluations += r.evaluations;
  return true;
}

void Lbfgs::Impl::iterate(const std::function<double()>& closure, double loss, Tensor grad) {
  LbfgsHistory& h = history;
  i64 evaluations = 1;
  for (i64 k = 1; k <= options.max_iter; ++k) {
    ++h.iterations;
    find_direction(grad);
    h.prev_grad = grad;
    const double before = loss;
    if (!move(closure, loss, grad, evaluations, k == options.max_iter)) return;
    const double steepest = longest(grad);
    if (!std::isfinite(loss) || !std::isfinite(steepest))
      throw NumericError(str("[Lbfgs] the loss is ", loss, " and the largest gradient ", steepest,
                             " after ", k, " iterations\n  The step changed nothing", at_line(),
                             "\n  Try a lower "
                             "learning rate, or LineSearch::strong_wolfe"));
    if (evaluations >= options.max_eval || steepest <= options.tolerance_grad ||
        longest(h.direction) * std::abs(h.step_size) <= options.tolerance_change ||
        std::abs(loss - before) < options.tolerance_change)
      return;
  }
}

// --- the class ---

Lbfgs::Lbfgs(std::vector<Entry> entries, const LbfgsOptions& o)
    : impl_((check(o), std::make_unique<Impl>(of_one_dtype(std::move(entries)), o))) {}
Lbfgs::Lbfgs(const nn::ModuleBase& m, const LbfgsOptions& o, const CallLine&)
    : Lbfgs(detail::trainable(m), o) {}
Lbfgs::Lbfgs(std::span<const nn::NamedTensor> p, const LbfgsOptions& o, const CallLine&)
    : Lbfgs(detail::leaves(p), o) {}
Lbfgs::~Lbfgs() = default;

void Lbfgs::zero_grad(const ZeroGradOptions& options) {
  if (options.set_to_none)
    impl_->arenas.zero_grad();
  else
    impl_->arenas.fill_grad_zero();
}

double Lbfgs::step_with(const std::function<double()>& closure) {
  const NoGrad no_grad;
  Impl& m = *impl_;
  m.follow_device();
  const Tensor parameters = m.flat(m.arena().param).clone();
  const LbfgsHistory before = m.history;
  try {
    Tensor grad;
    const double loss = m.evaluate(closure, grad);
    const double steepest = longest(grad);
    if (!std::isfinite(loss) || !std::isfinite(steepest))
      throw NumericError(str("[Lbfgs] the first loss is ", loss, " and the largest gradient ",
                             steepest, "\n  The step changed nothing", at_line()));
    if (steepest > m.options.tolerance_grad) m.iterate(closure, loss, grad);
    return loss;
  } catch (...) {
    m.history = before;
    if (parameters.device() == m.arenas.device()) m.write_parameters(parameters);
    throw;
  }
}

double Lbfgs::lr() const { return impl_->options.lr; }
void Lbfgs::set_lr(double lr) {
  LbfgsOptions o = impl_->options;
  o.lr = lr;
  check(o);
  impl_->options = o;
}
i64 Lbfgs::iterations() const { return impl_->history.iterations; }
i64 Lbfgs::evaluations() const { return impl_->history.evaluations; }
Device Lbfgs::device() const { return impl_->arenas.device(); }

std::vector<nn::NamedTensor> Lbfgs::parameters() const {
  std::vector<nn::NamedTensor> all;
  for (const auto& [a, s] : impl_->arenas.in_order())
    all.push_back({s->entry.name, s->entry.tensor});
  return all;
}

// --- state ---

namespace {

Tensor scalar(double v) { return tensor(v, {.dtype = f64}); }
Tensor scalar(i64 v) { return tensor(v, {.dtype = DType::i64}); }

std::vector<nn::NamedTensor> named(const detail::Arenas& arenas, const LbfgsHistory& h, double lr) {
  std::vector<nn::NamedTensor> all;
  const auto vector = [&](const std::string& slot, const Tensor& v) {
    for (const auto& [a, s] : arenas.in_order())
      all.push_back({str("optim.", slot, ".", s->entry.name),
                     detail::tensor_over(v.impl()->storage, s->offset * item_size(a->dtype),
                                         s->entry.tensor.impl()->geometry)});
  };
  if (h.direction.defined()) {
    vector("direction", h.direction);
    vector("prev_grad", h.prev_grad);
  }
  for (size_t k = 0; k < h.ro.size(); ++k) {
    vector(str("old_dirs.", k), h.old_dirs[k]);
    vector(str("old_steps.", k), h.old_steps[k]);
    all.push_back({str("optim.ro.", k), scalar(h.ro[k])});
  }
  all.push_back({"optim.lr", scalar(lr)});
  all.push_back({"optim.step_size", scalar(h.step_size)});
  all.push_back({"optim.h_diag", scalar(h.h_diag)});
  all.push_back({"optim.kind.Lbfgs", scalar(i64{1})});
  all.push_back({"optim.iterations", scalar(h.iterations)});
  all.push_back({"optim.evaluations", scalar(h.evaluations)});
  return all;
}

}  // namespace

std::vector<nn::NamedTensor> Lbfgs::state() const {
  return named(impl_->arenas, impl_->history, lr());
}

void Lbfgs::load_state(const std::vector<nn::NamedTensor>& values, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  Impl& m = *impl_;
  m.follow_device();
  std::map<std::string, Tensor> given;
  for (const nn::NamedTensor& v : values) given[v.name] = v.tensor;
  // A history of the given length, to be filled.
  LbfgsHistory h;
  const Tensor like = m.flat(m.arena().param);
  size_t length = 0;
  while (given.count(str("optim.ro.", length))) ++length;
  // Before memory is taken: each number of the state would ask for two copies of the model.
  if (i64(length) > m.options.history_size)
    throw UsageError(str("[load_state] the state has a history of ", length, ", history_size is ",
                         m.options.history_size, at_line()));
  while (h.ro.size() < length) {
    h.ro.push_back(0);
    h.old_dirs.push_back(zeros_like(like));
    h.old_steps.push_back(zeros_like(like));
  }
  if (given.count("optim.direction." + parameters().front().name)) {
    h.direction = zeros_like(like);
    h.prev_grad = zeros_like(like);
  }
  const std::vector<nn::NamedTensor> mine = named(m.arenas, h, 0);
  detail::check_state("Lbfgs", mine, values);
  const auto number = [&](const char* name) { return given.at(name).item(); };
  LbfgsOptions o = m.options;
  o.lr = number("optim.lr");
  check(o);
  h.iterations = detail::count_of(values, "optim.iterations");
  h.evaluations = detail::count_of(values, "optim.evaluations");
  for (const nn::NamedTensor& t : mine) {
    if (t.tensor.ndim() == 0 && !(t.tensor.impl()->flags & kArena)) continue;  // a scalar
    const Tensor from = given.at(t.name).to(like.dtype()).to(like.device());
    run(CopyArgs{view_of(t.tensor.impl()), view_of(from.impl())}, m.launch());
  }
  for (size_t k = 0; k < h.ro.size(); ++k) h.ro[k] = number(str("optim.ro.", k).c_str());
  h.step_size = number("optim.step_size");
  h.h_diag = number("optim.h_diag");
  m.options = o;
  m.history = std::move(h);
}

}  // namespace wt::optim
