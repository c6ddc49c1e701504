// The fake's arithmetic: the plainest loops, in doubles.
#include <cmath>
#include <limits>

#include "warptape/core/half.h"
#include "warptape/tests/support/fake_cudnn_graph.h"

namespace wt_test {

using namespace wt;

namespace {

double rounded(int type, double v) {
  switch (type) {
    case kCudnnFloat:
      return float(v);
    case kCudnnHalf:
      return float(Half(float(v)));
    case kCudnnBfloat16:
      return float(BFloat16(float(v)));
    default:
      return v;
  }
}

template <class F>
void each(const std::vector<i64>& dims, F f) {
  std::vector<i64> at(dims.size(), 0);
  for (;;) {
    f(at);
    size_t d = dims.size();
    while (d > 0 && ++at[d - 1] == dims[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

// Where the tap lies of the window whose result is at `y`; false: in the padding.
bool place(const FakeWindows& w, const std::vector<i64>& y, const i64* tap, const FakeTensor& x,
           std::vector<i64>& at) {
  for (size_t d = 0; d < w.strides.size(); ++d) {
    at[d + 2] = y[d + 2] * w.strides[d] - w.before[d] + tap[d] * w.dilations[d];
    if (at[d + 2] < 0 || at[d + 2] >= x.dims[d + 2]) return false;
  }
  return true;
}

// Adds each product of the convolution where the direction wants it.
void convolve(const FakeOperation& op, FakeValues& x, FakeValues& w, FakeValues& y) {
  const i64 in_group = op.w.dims[1], groups = op.x.dims[1] / in_group,
            out_group = op.w.dims[0] / groups;
  FakeValues& to = op.type == kCudnnConvForward ? y : op.type == kCudnnConvBackwardData ? x : w;
  std::vector<double> sums(size_t(to.t->span()), 0.0);
  std::vector<i64> xat(op.x.dims.size()), wat(op.w.dims.size());
  each(op.y.dims, [&](const std::vector<i64>& yat) {
    std::vector<i64> range(op.w.dims.begin() + 1, op.w.dims.end());
    each(range, [&](const std::vector<i64>& at) {  // channel of the group, place in the kernel
      wat[0] = yat[1];
      xat[0] = yat[0];
      xat[1] = yat[1] / out_group * in_group + at[0];
      for (size_t d = 0; d < at.size(); ++d) wat[d + 1] = at[d];
      if (!place(op.windows, yat, at.data() + 1, op.x, xat)) return;
      if (op.type == kCudnnConvForward)
        sums[size_t(op.y.offset(yat))] += x.get(xat) * w.get(wat);
      else if (op.type == kCudnnConvBackwardData)
        sums[size_t(op.x.offset(xat))] += y.get(yat) * w.get(wat);
      else
        sums[size_t(op.w.offset(wat))] += y.get(yat) * x.get(xat);
    });
  });
  each(to.t->dims, [&](const std::vector<i64>& at) {
    const double before = op.beta != 0 ? op.beta * to.get(at) : 0;
    to.put(at, op.alpha * sums[size_t(to.t->offset(at))] + before);
  });
}

void resample(const FakeOperation& op, FakeValues& x, FakeValues& y) {
  const FakeWindows& w = op.windows;
  const bool back = op.type == kCudnnResampleBackward;
  i64 taps = 1;
  for (const i64 k : w.window) taps *= k;
  std::vector<double> sums(size_t(op.x.span()), 0.0);
  each(op.y.dims, [&](const std::vector<i64>& yat) {
    std::vector<i64> xat = yat;
    double sum = 0, most = -std::numeric_limits<double>::infinity();
    i64 inside = 0;
    each(w.window, [&](const std::vector<i64>& tap) {
      if (!place(w, yat, tap.data(), op.x, xat)) return;
      ++inside;
      if (back) return;
      const double v = x.get(xat);
      sum += v;
      if (v > most || std::isnan(v)) most = v;
    });
    const double count = double(w.mode == kResampleAverageInside ? inside : taps);
    if (!back) y.put(yat, w.mode == kResampleMax ? most : sum / count);
    if (back)
      each(w.window, [&](const std::vector<i64>& tap) {
        if (place(w, yat, tap.data(), op.x, xat))
          sums[size_t(op.x.offset(xat))] += y.get(yat) / count;
      });
  });
  if (back)
    each(op.x.dims, [&](const std::vector<i64>& at) { x.put(at, sums[size_t(op.x.offset(at))]); });
}

double point(int mode, double x, double b, bool t) {
  switch (mode) {
    case kPointwiseAdd:
      return x + b;
    case kPointwiseMul:
      return x * b;
    case kPointwiseDiv:
      return x / b;
    case kPointwiseSub:
      return x - b;
    case kPointwiseExp:
      return std::exp(x);
    case kPointwiseLog:
      return std::log(x);
    case kPointwiseGreaterEqual:
      return x >= b;
    case kPointwiseSelect:
      return t ? x : b;
    default:
      return std::nan("");
  }
}

// Of an axis of several elements that share one: the one that they share.
std::vector<i64> shared(const std::vector<i64>& at, const std::vector<i64>& sizes,
                        const std::vector<i64>& fewer) {
  std::vector<i64> to = at;
  for (size_t d = 0; d < at.size(); ++d) to[d] = at[d] * fewer[d] / sizes[d];
  return to;
}

void reduce(const FakeOperation& op, FakeValues& x, FakeValues& y) {
  const double first = op.mode == kReductionMax ? -std::numeric_limits<double>::infinity() : 0.0;
  std::vector<double> results(size_t(op.y.span()), first);
  each(op.x.dims, [&](const std::vector<i64>& at) {
    double& r = results[size_t(op.y.offset(shared(at, op.x.dims, op.y.dims)))];
    r = op.mode == kReductionMax ? std::fmax(r, x.get(at)) : r + x.get(at);
  });
  each(op.y.dims, [&](const std::vector<i64>& at) { y.put(at, results[size_t(op.y.offset(at))]); });
}

void multiply(const FakeOperation& op, FakeValues& a, FakeValues& b, FakeValues& y) {
  const size_t n = op.y.dims.size();
  each(op.y.dims, [&](const std::vector<i64>& at) {
    std::vector<i64> aat = shared(at, op.y.dims, op.x.dims), bat = shared(at, op.y.dims, op.w.dims);
    aat[n - 2] = at[n - 2], bat[n - 1] = at[n - 1];
    double sum = 0;
    for (i64 k = 0; k < op.x.dims[n - 1]; ++k) {
      aat[n - 1] = bat[n - 2] = k;
      sum += a.get(aat) * b.get(bat);
    }
    y.put(at, sum);
  });
}

}  // namespace

double FakeValues::get(const std::vector<i64>& at) const {
  const i64 o = t->offset(at);
  if (t->is_virtual) return steps[size_t(o)];
  const char* p = bytes.data() + size_t(o) * t->item();
  if (t->type == kCudnnFloat) {
    float f;
    std::memcpy(&f, p, 4);
    return f;
  }
  u16 b;
  std::memcpy(&b, p, 2);
  if (t->type == kCudnnHalf) {
    Half h;
    h.bits = b;
    return float(h);
  }
  BFloat16 h;
  h.bits = b;
  return float(h);
}

void FakeValues::put(const std::vector<i64>& at, double v) {
  const i64 o = t->offset(at);
  if (t->is_virtual) {
    steps[size_t(o)] = rounded(t->type, v);
    return;
  }
  char* p = bytes.data() + size_t(o) * t->item();
  if (t->type == kCudnnFloat) {
    const float f = float(v);
    std::memcpy(p, &f, 4);
  } else {
    const u16 b = t->type == kCudnnHalf ? Half(float(v)).bits : BFloat16(float(v)).bits;
    std::memcpy(p, &b, 2);
  }
}

void fake_compute(const FakeOperation& op, std::map<i64, FakeValues>& values) {
  FakeValues &x = values[op.x.id], &y = values[op.y.id];
  switch (op.type) {
    case kCudnnPointwiseOperation:
      each(op.y.dims, [&](const std::vector<i64>& at) {
        const double b = op.has_w ? values[op.w.id].get(at) : 0;
        const bool t = op.has_t && values[op.t.id].get(at) != 0;
        y.put(at, op.axis >= 0 ? double(at[size_t(op.axis)]) : point(op.mode, x.get(at), b, t));
      });
      break;
    case kCudnnReductionOperation:
      reduce(op, x, y);
      break;
    case kCudnnMatmulOperation:
      multiply(op, x, values[op.w.id], y);
      break;
    case kCudnnReshapeOperation: {  // the elements of memory, as the other strides see them
      std::vector<double> memory(size_t(op.x.span()));
      each(op.x.dims,
           [&](const std::vector<i64>& at) { memory[size_t(op.x.offset(at))] = x.get(at); });
      each(op.y.dims,
           [&](const std::vector<i64>& at) { y.put(at, memory[size_t(op.y.offset(at))]); });
      break;
    }
    case kCudnnResampleForward:
    case kCudnnResampleBackward:
      resample(op, x, y);
      break;
    default:
      convolve(op, x, values[op.w.id], y);
  }
}

}  // namespace wt_test
