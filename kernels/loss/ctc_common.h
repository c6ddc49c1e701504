// Connectionist temporal classification (kernels/ctc.h): the states of a sample and the sums of its
// recursions, for all devices. No STL: device code includes this.
#pragma once
#include <math.h>

#include "warptape/core/geometry.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

// One sample, computed in A.
template <class T, class A>
struct CtcSample {
  const T* y;
  i64 step, class_step;  // strides of y
  const i64* target;
  i64 target_step;
  i64 classes, steps, labels, blank;

  WT_HD i64 states() const { return 2 * labels + 1; }
  // Of label k; class 0 stands for one that is none.
  WT_HD i64 label(i64 k) const {
    const i64 c = target[k * target_step];
    return c >= 0 && c < classes ? c : 0;
  }
  WT_HD i64 class_of(i64 s) const { return s % 2 == 0 ? blank : label(s / 2); }
  // A path may come from two states before.
  WT_HD bool skips(i64 s) const { return s % 2 == 1 && s >= 2 && class_of(s) != class_of(s - 2); }
  WT_HD A at(i64 t, i64 s) const { return A(y[t * step + class_of(s) * class_step]); }
};

// A list of numbers of any stride.
struct CtcLengths {
  const i64* data;
  i64 step;
  explicit CtcLengths(const View& v) : data(v.as<const i64>()), step(v.stride(0)) {}
  WT_HD i64 operator[](i64 n) const { return data[n * step]; }
};

// What a sample's loss is multiplied by.
template <class A>
WT_HD A ctc_scale(bool divide_by_length, i64 labels) {
  return divide_by_length && labels > 1 ? A(1) / A(labels) : A(1);
}

// The operands of either contract.
template <class T, class A>
struct CtcOperands {
  const T* y;
  i64 step, sample_step, class_step;
  const i64* target;
  i64 target_row, target_step;
  i64 row_labels;  // in a row of targets; -1: they lie one after another
  CtcLengths input_lengths, target_lengths;
  i64 samples, classes, blank;
  bool divide_by_length;

  template <class Args>
  explicit CtcOperands(const Args& a)
      : y(a.log_probs.template as<const T>()),
        step(a.log_probs.stride(0)),
        sample_step(a.log_probs.stride(1)),
        class_step(a.log_probs.stride(2)),
        target(a.targets.template as<const i64>()),
        target_row(a.targets.ndim() == 2 ? a.targets.stride(0) : 0),
        target_step(a.targets.stride(a.targets.ndim() - 1)),
        row_labels(a.targets.ndim() == 2 ? a.targets.size(1) : -1),
        input_lengths(a.input_lengths),
        target_lengths(a.target_lengths),
        samples(a.log_probs.size(1)),
        classes(a.log_probs.size(2)),
        blank(a.blank),
        divide_by_length(a.divide_by_length) {}
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(target), f(input_lengths.data), f(target_lengths.data);
  }

  // Labels of the samples before n, which only a list without rows asks for.
  WT_HD i64 labels_before(i64 n) const {
    i64 before = 0;
    if (row_labels < 0)
      for (i64 k = 0; k < n; ++k) before += target_lengths[k];
    return before;
  }
  WT_HD CtcSample<T, A> sample(i64 n, i64 before) const {
    return {y + n * sample_step,
            step,
            class_step,
            target + (row_labels < 0 ? before * target_step : n * target_row),
            target_step,
            classes,
            input_lengths[n],
            target_lengths[n],
            blank};
  }
  // Where the sample's first label stands in targets, counted as if they were contiguous.
  WT_HD i64 first_place(i64 n, i64 before) const {
    return row_labels < 0 ? before : n * row_labels;
  }
  WT_HD A scale(i64 n) const { return ctc_scale<A>(divide_by_length, target_lengths[n]); }
};

// log(exp(a) + exp(b) + exp(c)), -inf for three of those.
template <class A>
WT_HD A log_sum(A a, A b, A c) {
  A m = a > b ? a : b;
  m = m > c ? m : c;
  // A comparison with NaN is false, so one among the three may hide behind a largest of -inf.
  if (m == -A(INFINITY)) return a + b + c;
  return m + ::log(::exp(a - m) + ::exp(b - m) + ::exp(c - m));
}

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
