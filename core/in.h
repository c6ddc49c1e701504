// Operand types: how operators take tensors. They record the line where the user wrote the operand
// (default arguments are impossible on operators, but not on a converting constructor), and know
// whether it was an rvalue, whose storage and node the operator may take over.
#pragma once
#include <concepts>

#include "warptape/core/tensor.h"

namespace wt {

// Parameters of modules: they stand for a tensor without being one.
template <class P>
concept TensorHolder = requires(const P& p) {
  { p.tensor() } -> std::same_as<const Tensor&>;
};
// Losses: they convert to a tensor that they make on the spot.
template <class L>
concept TensorMaker = requires(const L& l) {
  { l.mean() } -> std::same_as<Tensor>;
};

// A parameter type: make one only by passing an argument. A local `In x(std::move(t))` is right
// only while `t` lives; `In x(f())` dangles.
class In {
 public:
  WT_HOT In(const Tensor& t, const char* file = __builtin_FILE(),  // NOLINT: implicit by design
            u32 line = __builtin_LINE())
      : p_(t.p_), frame_{file, line} {}
  WT_HOT In(Tensor&& t, const char* file = __builtin_FILE(), u32 line = __builtin_LINE())  // NOLINT
      : p_(t.p_), frame_{file, line}, source_(&t) {}
  template <TensorHolder P>
  WT_HOT In(const P& p, const char* file = __builtin_FILE(), u32 line = __builtin_LINE())  // NOLINT
      : p_(p.tensor().impl()), frame_{file, line} {}
  In(const In&) = delete;
  In& operator=(const In&) = delete;
  WT_HOT ~In() {
    if (source_ == taken() && p_) [[unlikely]]
      release(p_);
  }

  WT_HOT TensorImpl* impl() const { return p_; }
  WT_HOT Frame frame() const { return frame_; }
  // The user gave it up: it is emptied when the operator succeeds and untouched when it throws.
  WT_HOT bool is_rvalue() const { return source_ != nullptr; }
  // Nobody else holds the handle.
  WT_HOT bool is_sole() const { return is_rvalue() && p_->refs.sole(); }

  // --- for the prologue and the recorder ---
  // Empties the user's rvalue; from here on this object owns the reference.
  WT_HOT void take() const {
    if (source_ && source_ != taken()) {
      source_->p_ = nullptr;
      source_ = taken();
    }
  }
  // Hands the reference on (after take()).
  WT_HOT TensorImpl* give() const {
    TensorImpl* p = p_;
    p_ = nullptr;
    return p;
  }
  // Replaces the operand by a converted one, which is then an rvalue of its own. The user's rvalue
  // is emptied only by finish(), as ever.
  void replace(Tensor converted) const {
    if (source_ && source_ != taken()) pending_ = source_;
    if (source_ == taken() && p_) release(p_);
    p_ = converted.release_impl();
    source_ = taken();
  }
  // Empties the rvalue that replace() set aside.
  WT_HOT void finish_replaced() const {
    if (pending_) [[unlikely]]
      *pending_ = Tensor();
  }
  bool same_tensor(const In& o) const { return p_ == o.p_; }

 protected:
  WT_HOT In(TensorImpl* owned, const char* file, u32 line)
      : p_(owned), frame_{file, line}, source_(taken()) {}

 private:
  static Tensor* taken() { return reinterpret_cast<Tensor*>(8); }  // never dereferenced

  mutable TensorImpl* p_;
  Frame frame_;
  mutable Tensor* source_ = nullptr;   // the user's rvalue; taken(): this object owns p_
  mutable Tensor* pending_ = nullptr;  // the user's rvalue that replace() set aside
};

// An In that may also be a number or a Loss (which then stands for its mean).
class Operand : public In {
 public:
  using In::In;
  template <TensorHolder P>  // clang does not inherit a constructor with a constraint
  WT_HOT Operand(const P& p, const char* file = __builtin_FILE(),  // NOLINT
                 u32 line = __builtin_LINE())
      : In(p, file, line) {}
  template <Number T>
  WT_HOT Operand(T v, const char* file = __builtin_FILE(), u32 line = __builtin_LINE())  // NOLINT
      : In(nullptr, file, line), number_(v), is_scalar_(true) {}
  WT_HOT Operand(Scalar v, const char* file = __builtin_FILE(),
                 u32 line = __builtin_LINE())  // NOLINT
      : In(nullptr, file, line), number_(v), is_scalar_(true) {}
  template <TensorMaker L>
  Operand(const L& loss, const char* file = __builtin_FILE(),
          u32 line = __builtin_LINE())  // NOLINT
      : In(loss.mean().release_impl(), file, line) {}

  WT_HOT bool is_scalar() const { return is_scalar_; }
  WT_HOT Scalar scalar() const { return number_.value; }

 private:
  union MaybeNumber {  // not initialised for tensors, the common case
    WT_HOT MaybeNumber() {}
    WT_HOT MaybeNumber(Scalar v) : value(v) {}  // NOLINT: implicit by design
    Scalar value;
  };
  MaybeNumber number_;
  bool is_scalar_ = false;
};

}  // namespace wt
