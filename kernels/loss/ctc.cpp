// Connectionist temporal classification on the cpu: the recursions of each sample, in logarithms.
#include "warptape/kernels/ctc.h"

#include <algorithm>
#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/loss/ctc_common.h"
#include "warptape/kernels/loss/ctc_cpu.h"

namespace wt {
namespace {

template <class T>
using Sample = CtcSample<T, ComputeType<T>>;
template <class T, class Args>
Sample<T> sample_of(const Args& a, i64 n) {
  const CtcOperands<T, ComputeType<T>> all(a);
  return all.sample(n, all.labels_before(n));
}

// The loss; fills alpha, rows of `width` states.
template <class T, class A>
A run_forward(const Sample<T>& x, A* alpha, i64 width) {
  constexpr A none = -A(INFINITY);
  const i64 states = x.states();
  if (x.steps == 0) return x.labels == 0 ? A(0) : A(INFINITY);
  for (i64 s = 0; s < states; ++s) alpha[s] = s < 2 ? x.at(0, s) : none;
  for (i64 t = 1; t < x.steps; ++t) {
    const A* before = alpha + (t - 1) * width;
    A* now = alpha + t * width;
    for (i64 s = 0; s < states; ++s)
      now[s] = x.at(t, s) +
               log_sum(before[s], s >= 1 ? before[s - 1] : none, x.skips(s) ? before[s - 2] : none);
  }
  const A* last = alpha + (x.steps - 1) * width;
  return -log_sum(last[states - 1], states > 1 ? last[states - 2] : none, none);
}

template <class T>
void report_bad_label(const CtcForwardArgs& a) {
  if (!a.mailbox || a.mailbox->raised != 0) return;
  const CtcOperands<T, ComputeType<T>> all(a);
  i64 before = 0;  // labels of earlier samples
  for (i64 n = 0; n < all.samples; ++n) {
    const Sample<T> x = all.sample(n, before);
    for (i64 k = 0; k < x.labels; ++k) {
      const i64 label = x.target[k * x.target_step];
      if (label >= 0 && label < x.classes) continue;
      *a.mailbox = {i32(MailboxCode::label_out_of_range), a.op_id, all.first_place(n, before) + k,
                    label, x.classes};
      return;
    }
    before += x.labels;
  }
}

void forward_reference(const CtcForwardArgs& a, const Launch&) {
  ctc_forward_samples(a, 0, a.log_probs.size(1));
  ctc_add_losses(a);
}

// gx of one sample for t < T_n. `beta`: two rows of `width`; `sums`: one a class.
template <class T, class A>
void run_backward(const Sample<T>& x, const A* alpha, A* beta, i64 width, A loss, A scale, T* gx,
                  i64 gx_step, i64 gx_class, A* sums) {
  constexpr A none = -A(INFINITY);
  const i64 states = x.states();
  A *later = beta, *now = beta + width;
  for (i64 t = x.steps; t-- > 0;) {
    for (i64 s = 0; s < states; ++s) {
      const auto on = [&](i64 to) { return later[to] + x.at(t + 1, to); };
      if (t + 1 == x.steps)
        now[s] = s + 2 >= states ? A(0) : none;
      else
        now[s] = log_sum(on(s), s + 1 < states ? on(s + 1) : none,
                         s + 2 < states && x.skips(s + 2) ? on(s + 2) : none);
    }
    std::fill(sums, sums + x.classes, A(0));
    for (i64 s = 0; s < states; ++s) {
      const A both = alpha[t * width + s] + now[s];
      if (both != none) sums[x.class_of(s)] += std::exp(both + loss);
    }
    for (i64 c = 0; c < x.classes; ++c) gx[t * gx_step + c * gx_class] = T(-scale * sums[c]);
    std::swap(later, now);
  }
}

void backward_reference(const CtcBackwardArgs& a, const Launch& l) {
  ctc_backward_samples(a, l.workspace, 0, a.log_probs.size(1));
}

}  // namespace

void ctc_forward_samples(const CtcForwardArgs& a, i64 begin, i64 end) {
  const i64 width = a.alpha.size(2);
  dispatch_floating(a.log_probs.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    A *losses = a.losses.as<A>(), *alpha = a.alpha.as<A>();
    for (i64 n = begin; n < end; ++n)
      losses[n] = run_forward(sample_of<T>(a, n), alpha + n * a.alpha.size(1) * width, width);
  });
}

void ctc_add_losses(const CtcForwardArgs& a) {
  dispatch_floating(a.log_probs.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    report_bad_label<T>(a);
    const CtcOperands<T, A> all(a);
    const A* losses = a.losses.as<A>();
    double sum = 0;
    for (i64 n = 0; n < a.log_probs.size(1); ++n)
      if (!(a.zero_infinity && losses[n] == A(INFINITY))) sum += double(all.scale(n) * losses[n]);
    *a.loss_sum.as<A>() = A(sum);
  });
}

i64 ctc_backward_workspace(const CtcBackwardArgs& a) {
  return a.log_probs.size(1) * (2 * a.alpha.size(2) + a.log_probs.size(2)) *
         item_size(a.alpha.dtype());
}
void ctc_backward_samples(const CtcBackwardArgs& a, void* workspace, i64 begin, i64 end) {
  const i64 steps = a.log_probs.size(0), classes = a.log_probs.size(2), width = a.alpha.size(2);
  dispatch_floating(a.log_probs.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A grad = *a.grad.as<const A>();
    const CtcOperands<T, A> all(a);
    for (i64 n = begin; n < end; ++n) {
      T* gx = a.gx.as<T>() + n * a.gx.stride(1);
      const Sample<T> x = sample_of<T>(a, n);
      const A loss = a.losses.as<const A>()[n];
      const A fill = loss == A(INFINITY) && !a.zero_infinity ? A(NAN) : A(0);
      for (i64 t = 0; t < steps; ++t)
        for (i64 c = 0; c < classes; ++c)
          gx[t * a.gx.stride(0) + c * a.gx.stride(2)] = T(t < x.steps ? fill : A(0));
      if (loss == A(INFINITY)) continue;
      A* beta = static_cast<A*>(workspace) + n * (2 * width + classes);
      run_backward(x, a.alpha.as<const A>() + n * a.alpha.size(1) * width, beta, width, loss,
                   grad * all.scale(n), gx, a.gx.stride(0), a.gx.stride(2), beta + 2 * width);
    }
  });
}

WT_VARIANTS(cpu, ctc_forward, CtcForwardArgs,
            {.name = "threaded", .rank = 20, .launch = ctc_forward_threaded},
            {.name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, ctc_backward, CtcBackwardArgs,
            {.name = "threaded",
             .rank = 20,
             .workspace = ctc_backward_workspace,
             .launch = ctc_backward_threaded},
            {.name = "reference",
             .rank = 10,
             .workspace = ctc_backward_workspace,
             .launch = backward_reference});

}  // namespace wt
