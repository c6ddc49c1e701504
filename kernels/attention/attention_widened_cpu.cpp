// Attention of 16-bit floats on the cpu: operands are widened to f32 copies, go through the f32
// kernels and are rounded once. The copies are whole tensors, of B H (L + S) vectors: what is
// spared is the matrix of L S scores, which the f32 kernels do not make.
#include <optional>

#include "warptape/kernels/attention/attention_cpu.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/dispatch/run_inner.h"

namespace wt::attention {
namespace {

i64 padded(i64 elements) { return (elements + 15) / 16 * 16; }

// A dense f32 tensor of v's shape at `elements` floats of the workspace. Axes along which v is
// expanded have one place only, and stride 0.
class WideCopy {
 public:
  WideCopy(const View& v, i64& elements) : narrow_(v), at_(elements), places_(*v.geometry) {
    places_.dtype = DType::f32;
    i64 step = 1;
    for (int d = places_.ndim; d-- > 0;) {
      if (v.stride(d) == 0) places_.shape[d] = v.size(d) ? 1 : 0;
      places_.strides[d] = step;
      step *= places_.shape[d];
    }
    finish_geometry(places_);
    from_ = *v.geometry;
    whole_ = places_;
    for (int d = 0; d < places_.ndim; ++d) {
      from_.shape[d] = places_.shape[d];
      whole_.shape[d] = v.size(d);
      if (v.stride(d) == 0) whole_.strides[d] = 0;
    }
    finish_geometry(from_);
    finish_geometry(whole_);
    elements += padded(places_.numel);
  }
  // As an operand; `base` is the workspace.
  View view(float* base) const { return {base + at_, &whole_}; }
  void widen(const Launch& l, float* base) const {
    inner_run(CopyArgs{{base + at_, &places_}, {narrow_.data, &from_}}, l, nullptr);
  }
  void round(const Launch& l, float* base) const {
    inner_run(CopyArgs{{narrow_.data, &from_}, {base + at_, &places_}}, l, nullptr);
  }

 private:
  View narrow_;
  i64 at_;
  Geometry places_, from_, whole_;
};

// The scores' operands. A mask of bool stays as it is.
struct WideScores {
  WideCopy q, k;
  std::optional<WideCopy> mask;
  WideScores(const AttentionScores& s, i64& elements) : q(s.q, elements), k(s.k, elements) {
    if (s.mask && s.mask.dtype() != DType::boolean) mask.emplace(s.mask, elements);
  }
  void put(AttentionScores& s, float* base) const {
    s.q = q.view(base), s.k = k.view(base);
    if (mask) s.mask = mask->view(base);
  }
  void widen(const Launch& l, float* base) const {
    q.widen(l, base), k.widen(l, base);
    if (mask) mask->widen(l, base);
  }
};

struct WideForward {
  i64 elements = 0;
  WideScores scores;
  WideCopy v, out;
  explicit WideForward(const AttentionForwardArgs& a)
      : scores(a.scores, elements), v(a.v, elements), out(a.out, elements) {}
  AttentionForwardArgs args(AttentionForwardArgs a, float* base) const {
    scores.put(a.scores, base);
    a.v = v.view(base), a.out = out.view(base);
    return a;
  }
};

struct WideBackward {
  i64 elements = 0;
  WideScores scores;
  WideCopy v, out, gout, gq, gk, gv;
  explicit WideBackward(const AttentionBackwardArgs& a)
      : scores(a.scores, elements),
        v(a.v, elements),
        out(a.out, elements),
        gout(a.gout, elements),
        gq(a.gq, elements),
        gk(a.gk, elements),
        gv(a.gv, elements) {}
  AttentionBackwardArgs args(AttentionBackwardArgs a, float* base) const {
    scores.put(a.scores, base);
    a.v = v.view(base), a.out = out.view(base), a.gout = gout.view(base);
    a.gq = gq.view(base), a.gk = gk.view(base), a.gv = gv.view(base);
    return a;
  }
};

// The copies, and what the f32 kernel wants behind them.
template <class Wide, class Args>
i64 workspace_of(const Args& a) {
  static float none;  // only its address is asked for
  const Wide w(a);
  return 4 * w.elements + inner_workspace(w.args(a, &none));
}

}  // namespace

const char* widened_why_not(const AttentionForwardArgs& a) {
  return is_half(a.scores.q.dtype()) ? nullptr : "takes f16 and bf16 only";
}
const char* widened_why_not(const AttentionBackwardArgs& a) {
  return is_half(a.scores.q.dtype()) ? nullptr : "takes f16 and bf16 only";
}
i64 widened_workspace(const AttentionForwardArgs& a) { return workspace_of<WideForward>(a); }
i64 widened_workspace(const AttentionBackwardArgs& a) { return workspace_of<WideBackward>(a); }

void widened_forward(const AttentionForwardArgs& a, const Launch& l) {
  float* const base = static_cast<float*>(l.workspace);
  const WideForward w(a);
  w.scores.widen(l, base);
  w.v.widen(l, base);
  inner_run(w.args(a, base), l, base + w.elements);
  w.out.round(l, base);
}

void widened_backward(const AttentionBackwardArgs& a, const Launch& l) {
  float* const base = static_cast<float*>(l.workspace);
  const WideBackward w(a);
  w.scores.widen(l, base);
  for (const WideCopy* t : {&w.v, &w.out, &w.gout}) t->widen(l, base);
  inner_run(w.args(a, base), l, base + w.elements);
  for (const WideCopy* t : {&w.gq, &w.gk, &w.gv}) t->round(l, base);
}

}  // namespace wt::attention
