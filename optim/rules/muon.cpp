#include "warptape/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/suggest.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/muon.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/optim_step.h"
#include "warptape/kernels/run.h"
#include "warptape/nn/name_pattern.h"
#include "warptape/optim/kind.h"
#include "warptape/optim/rules/rule_args.h"

namespace wt::optim {

using detail::Entry;
using detail::Run;
using detail::state_at;

namespace {

// Of the quintic, from Jordan's article: the slope at zero is as large as it can be while the
// values of [0, 1] end up in about [0.7, 1.2].
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

// A parameter as its memory has it: a transposed one is the transposed matrix, whose direction is
// the transposed direction.
struct Matrix {
  i64 rows = 0, columns = 0;
  i64 shown_rows = 0;  // of the shape that the user sees
  i64 least() const { return std::min(rows, columns); }
};
bool is_matrix(const Entry& e) { return e.tensor.ndim() >= 2; }

Matrix matrix_of(const Geometry& g) {
  const i64 rows = g.shape[0], columns = rows == 0 ? 0 : g.numel / rows;
  if (g.numel == 0) return {};
  const bool transposed = rows > 1 && columns > 1 && g.strides[0] == 1;
  return transposed ? Matrix{columns, rows, rows} : Matrix{rows, columns, rows};
}

void check_layout(const Entry& e) {
  const Geometry& g = e.tensor.impl()->geometry;
  const i64 rows = g.shape[0], columns = rows == 0 ? 0 : g.numel / rows;
  if (rows <= 1 || columns <= 1 || g.strides[0] == columns || g.strides[0] == 1) return;
  throw UsageError(str("[Muon] the first dimension of ", e.name, " ", e.tensor.shape(),
                       " has stride ", g.strides[0], " and must have ", columns, " or 1", at_line(),
                       "\n  Try contiguous()"));
}

// The first of the groups that names a parameter, counted from 1; 0: none does.
size_t group_of(const std::string& name, const std::vector<ParamGroup>& groups) {
  for (size_t k = 0; k < groups.size(); ++k)
    for (const std::string& pattern : groups[k].names)
      if (nn::fits_pattern(pattern, name)) return k + 1;
  return 0;
}

void check_names(const std::vector<Entry>& entries, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (std::any_of(entries.begin(), entries.end(),
                    [&](const Entry& e) { return nn::fits_pattern(pattern, e.name); }))
      continue;
    std::vector<std::string_view> names;
    for (const Entry& e : entries) names.push_back(e.name);
    throw UsageError(str("[Muon] '", pattern, "' of adamw.names matches none of the ",
                         entries.size(), " parameters", did_you_mean(pattern, names), at_line()));
  }
}

// Throws for an option that the rule of group number k does not have.
void check_options(const ParamGroup& g, size_t k, bool muon) {
  const char* wrong = muon ? (g.betas ? "betas"
                              : g.eps ? "eps"
                                      : nullptr)
                           : (g.momentum ? "momentum" : nullptr);
  if (wrong)
    throw UsageError(str("[Muon] group ", k, " sets ", wrong, ", and its parameters are ",
                         muon ? "Muon's" : "AdamW's", at_line()));
}

// What the group does not say is AdamW's.
ParamGroup with_defaults(ParamGroup g, const MuonAdamWOptions& o) {
  if (!g.lr) g.lr = o.lr;
  if (!g.weight_decay) g.weight_decay = o.weight_decay;
  if (!g.eps) g.eps = o.eps;
  if (!g.betas) g.betas = o.betas;
  return g;
}

}  // namespace

// --- which rule takes what ---

struct Muon::Plan {
  std::vector<ParamGroup> groups;
  std::vector<bool> muon;  // of group 0 and these
};

Muon::Plan Muon::plan(const std::vector<Entry>& entries, const MuonOptions& o) {
  if (o.ns_steps < 1 || o.ns_steps > 99)
    throw UsageError(str("[Muon] ns_steps must be 1 to 99, got ", o.ns_steps, at_line()));
  if (!(o.eps > 0)) throw UsageError(str("[Muon] eps must be above 0, got ", o.eps, at_line()));
  check_names(entries, o.adamw.names);
  std::vector<const Entry*> first(o.groups.size() + 1);  // of each group
  std::vector<bool> muon(o.groups.size() + 1, true);
  ParamGroup rest;
  bool any = false;
  for (const Entry& e : entries) {
    const bool named = std::any_of(o.adamw.names.begin(), o.adamw.names.end(),
                                   [&](const auto& p) { return nn::fits_pattern(p, e.name); });
    const bool is_muon = is_matrix(e) && !named;
    const size_t k = group_of(e.name, o.groups);
    if (is_muon) check_layout(e);
    any |= is_muon;
    if (k == 0) {
      if (!is_muon) rest.names.push_back(e.name);
      continue;
    }
    if (first[k] && muon[k] != is_muon)
      throw UsageError(str("[Muon] group ", k, " has ", (is_muon ? e : *first[k]).name,
                           ", which is Muon's, and ", (is_muon ? *first[k] : e).name,
                           ", which is AdamW's", at_line(), "\n  Try a group for each"));
    first[k] = &e;
    muon[k] = is_muon;
  }
  if (!any)
    throw UsageError(str("[Muon] none of the ", entries.size(),
                         " parameters is a matrix that adamw.names leaves", at_line(),
                         "\n  Try optim::AdamW"));
  Plan p{{}, muon};
  for (size_t k = 1; k <= o.groups.size(); ++k) {
    const ParamGroup& g = o.groups[k - 1];
    check_options(g, k, muon[k]);
    p.groups.push_back(muon[k] ? g : with_defaults(g, o.adamw));
  }
  if (!rest.names.empty()) {
    p.groups.push_back(with_defaults(std::move(rest), o.adamw));
    p.muon.push_back(false);
  }
  return p;
}

static std::vector<std::vector<const char*>> slots_of(const std::vector<bool>& muon) {
  std::vector<std::vector<const char*>> slots;
  for (const bool m : muon)
    slots.push_back(m ? std::vector<const char*>{"momentum_buffer"}
                      : std::vector<const char*>{"exp_avg", "exp_avg_sq"});
  return slots;
}

Muon::Muon(std::vector<Entry> entries, const MuonOptions& o)
    : Muon(std::move(entries), o, plan(entries, o)) {}
Muon::Muon(std::vector<Entry>&& entries, const MuonOptions& o, Plan&& p)
    : Optimizer(std::move(entries),
                {.name = "Muon",
                 .slots = {},
                 .scalars = {{"lr", &OptimBlock::lr},
                             {"lr_factor", &OptimBlock::lr_factor},
                             {"momentum", &OptimBlock::momentum},
                             {"beta1", &OptimBlock::beta1},
                             {"beta2", &OptimBlock::beta2},
                             {"eps", &OptimBlock::eps},
                             {"weight_decay", &OptimBlock::weight_decay}},
                 .group_slots = slots_of(p.muon)},
                {.lr = o.lr,
                 .momentum = o.momentum,
                 .weight_decay = o.weight_decay,
                 .beta1 = o.adamw.betas.first,
                 .beta2 = o.adamw.betas.second,
                 .eps = o.adamw.eps},
                p.groups),
      muon_(std::move(p.muon)),
      nesterov_(o.nesterov),
      ns_steps_(o.ns_steps),
      eps_(o.eps),
      bf16_products_(o.bf16_products),
      match_rms_adamw_(o.match_rms_adamw) {}
Muon::Muon(const nn::ModuleBase& m, const MuonOptions& o, const CallLine&)
    : Muon(entries_of(m), o) {}
Muon::Muon(std::span<const nn::NamedTensor> p, const MuonOptions& o, const CallLine&)
    : Muon(entries_of(p), o) {}

MuonOptions torch_muon() { return {.lr = 1e-3, .weight_decay = 0.1, .bf16_products = true}; }

bool Muon::is_muon(i64 group) const {
  hyper(group);  // throws for a group that is not there
  return muon_[size_t(group)];
}
void Muon::set_momentum(double v, i64 group) {
  if (!is_muon(group))
    throw UsageError(str("[Muon] group ", group, " is AdamW's and has no momentum", at_line()));
  set(&OptimBlock::momentum, v, group);
}

// --- a step ---

// What the Newton-Schulz steps of one matrix after the other work in.
struct Muon::Buffers {
  Tensor gram, square, other, third, partials;  // third: only for an even number of steps
};

namespace {

template <class F>
void for_each_matrix(const Run& r, F f) {
  for (const detail::Slot& s : r.arena->slots) {
    if (s.offset < r.begin || s.offset >= r.begin + r.count) continue;
    const Geometry& g = s.entry.tensor.impl()->geometry;
    if (g.numel > 0) f(s, matrix_of(g));
  }
}
void* data_of(const Tensor& t) { return t.impl()->data; }

MatmulArgs product(void* out, const void* a, const void* b, i64 m, i64 n, i64 k, DType t) {
  MatmulArgs p;
  p.out = out, p.a = a, p.b = b;
  p.m = m, p.n = n, p.k = k;
  p.out_row = n, p.a_row = k, p.b_row = n;
  p.dtype = t;
  return p;
}
// x x^T, or x^T x of a tall x: the smaller of the two.
MatmulArgs gram_of(void* out, const void* x, const Matrix& m, DType t) {
  const bool wide = m.rows <= m.columns;
  MatmulArgs p = product(out, x, x, m.least(), m.least(), std::max(m.rows, m.columns), t);
  p.a_row = wide ? m.columns : 1, p.a_column = wide ? 1 : m.columns;
  p.b_row = wide ? 1 : m.columns, p.b_column = wide ? m.columns : 1;
  return p;
}

}  // namespace

Muon::Buffers Muon::buffers() const {
  i64 squares = 0, elements = 0;
  for (const Run& r : arenas().runs())
    if (muon_[size_t(r.arena->group)])
      for_each_matrix(r, [&](const detail::Slot&, const Matrix& m) {
        const i64 bytes = item_size(r.arena->dtype);
        squares = std::max(squares, m.least() * m.least() * bytes);
        elements = std::max(elements, m.rows * m.columns * bytes);
      });
  const TensorOptions raw{.dtype = DType::u8, .device = device()};
  // f32 or f64: as many partial sums as f32 has.
  return {empty({squares}, raw), empty({squares}, raw), empty({elements}, raw),
          empty({ns_steps_ % 2 == 0 ? elements : 0}, raw),
          empty({norm_chunks(elements / 4)}, {.dtype = DType::f64, .device = device()})};
}

// What the step of such a matrix is multiplied by.
static double scale_of(double rows, double columns, bool match_rms_adamw) {
  return match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                         : std::sqrt(std::max(1.0, rows / columns));
}

// The directions of a run's matrices, each where its parameter is in the run; zeros in the gaps.
Tensor Muon::directions(const Run& r, const double* grad_factor, Buffers& b) const {
  const DType t = r.arena->dtype;
  const Launch l = launch();
  Tensor all = empty({r.count}, {.dtype = t, .device = device()});
  run(MuonDirectionArgs{.out = data_of(all),
                        .grad = r.arena->at(r.arena->grad, r.begin),
                        .momentum = state_at(r, 0),
                        .n = r.count,
                        .dtype = t,
                        .block = block(r),
                        .grad_factor = grad_factor,
                        .nesterov = nesterov_},
      l);
  for_each_matrix(r, [&](const detail::Slot& s, const Matrix& m) {
    const i64 n = m.rows * m.columns, least = m.least();
    void* const place =  // null on a meta device
        data_of(all) ? static_cast<char*>(data_of(all)) + (s.offset - r.begin) * item_size(t)
                     : nullptr;
    auto* const partials = static_cast<double*>(data_of(b.partials));
    const bool bf16 = bf16_products_;
    const auto rounded = [&](void* values, i64 rows, i64 columns) {  // to bf16
      if (bf16) run(MuonPolynomialArgs{values, values, rows, t, 0, 0, 1, columns, true}, l);
    };
    rounded(place, m.rows, m.columns);
    run(GradNormArgs{place, n, t, partials}, l);
    void* x = data_of(b.other);
    run(MuonNormalizeArgs{x, place, n, t, partials, norm_chunks(n), eps_, bf16}, l);
    // A value of bf16 times 1 / norm rounds to what the quotient rounds to: that of two numbers of
    // 8 bits is a tie, and then exact here too, or further than 2^-18 from one.
    rounded(x, m.rows, m.columns);
    for (int step = 0; step < ns_steps_; ++step) {
      void *const gram = data_of(b.gram), *const square = data_of(b.square);
      // By turns, so that the last step ends in `place`.
      void* const next = step == 0 && ns_steps_ % 2 == 0 ? data_of(b.third)
                         : x == place                    ? data_of(b.other)
                                                         : place;
      run(gram_of(gram, x, m, t), l);
      rounded(gram, least, least);
      run(product(square, gram, gram, least, least, least, t), l);
      const double scale =
          step + 1 == ns_steps_
              ? scale_of(double(m.shown_rows), double(n) / double(m.shown_rows), match_rms_adamw_)
              : 1;
      // In bf16 x stays outside, where a * x is not rounded: x = a x + (b gram + c square) x.
      run(bf16 ? MuonPolynomialArgs{square, gram, least, t, 0, kB, kC, least, true}
               : MuonPolynomialArgs{square, gram, least, t, kA * scale, kB * scale, kC * scale},
          l);
      const bool wide = m.rows <= m.columns;
      run(product(next, wide ? square : x, wide ? x : square, m.rows, m.columns, least, t), l);
      if (bf16) run(MuonPolynomialArgs{next, x, m.rows, t, 0, kA, 1, m.columns, true, scale}, l);
      x = next;
    }
  });
  return all;
}

// Every product needs memory, so all come before the first write of the update.
void Muon::begin_update(const double* grad_factor) {
  const NoGrad no_grad;
  const CategoryScope scope(Category::workspace);
  directions_.clear();
  next_ = 0;
  Buffers b = buffers();
  std::vector<Tensor> made;
  for (const Run& r : arenas().runs())
    if (muon_[size_t(r.arena->group)]) made.push_back(directions(r, grad_factor, b));
  directions_ = std::move(made);
}

void Muon::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  if (!muon_[size_t(r.arena->group)]) {
    auto args = detail::rule_args<AdamwStepArgs>(r, block(r), grad_factor, flags);
    args.state[0] = state_at(r, 0);
    args.state[1] = state_at(r, 1);
    return run(args, launch());
  }
  Tensor direction = std::move(directions_[next_++]);
  auto args = detail::rule_args<MuonStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  args.state[1] = data_of(direction);
  run(args, launch());
}

double Muon::momentum(i64 group) const { return hyper(group).momentum; }

}  // namespace wt::optim
