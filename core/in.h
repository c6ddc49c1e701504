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
  { l.mean(Frame{}) } -> std::same_as<Tensor>;
};

// A parameter type: make one only by passing an argument. A local `In x(std::move(t))` is right
// only while `t` lives; `In x(f())` dangles.
//
// It keeps where the user's handle lies, not what is in it: C++ does not say in which order the
// arguments of a call are evaluated, and in `exp(std::move(x)) - x` another one may empty the
// handle after this object was made. Whoever reads it, reads it inside the operator, when all
// arguments have been evaluated: an operand that was moved from is then undefined, in every order.
class In {
 public:
  WT_HOT In(const Tensor& t, const char* file = __builtin_FILE(),  // NOLINT: implicit by design
            u32 line = __builtin_LINE())
      : at_(const_cast<TensorImpl**>(&t.p_)), file_(file), line_(line) {}
  WT_HOT In(Tensor&& t, const char* file = __builtin_FILE(), u32 line = __builtin_LINE())  // NOLINT
      : at_(&t.p_), file_(file), line_(line), hold_(Hold::rvalue) {}
  template <TensorHolder P>
  WT_HOT In(const P& p, const char* file = __builtin_FILE(), u32 line = __builtin_LINE())  // NOLINT
      : In(p.tensor(), file, line) {}
  In(const In&) = delete;
  In& operator=(const In&) = delete;
  WT_HOT ~In() {
    if (owns() && p_) [[unlikely]]
      release(p_);
  }

  // Null: undefined, or moved from since.
  WT_HOT TensorImpl* impl() const { return *at_; }
  WT_HOT Frame frame() const { return {file_, line_}; }
  // The user gave it up: it is emptied when the operator succeeds and untouched when it throws.
  WT_HOT bool is_rvalue() const { return hold_ != Hold::lvalue; }

  // --- for the prologue and the recorder ---
  // Reads the user's handle; opened() is what was in it, without looking again.
  WT_HOT TensorImpl* open() const { return p_ = *at_; }
  WT_HOT TensorImpl* opened() const { return p_; }
  // Empties the user's rvalue; from here on this object owns the reference.
  WT_HOT void take() const {
    if (hold_ != Hold::rvalue) return;
    p_ = *at_;  // null for the second one of f(std::move(x), std::move(x))
    *at_ = nullptr;
    own();
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
    if (owns() && p_) release(p_);
    p_ = converted.release_impl();
    if (hold_ == Hold::rvalue) users_ = at_;
    const bool users = hold_ == Hold::rvalue || hold_ == Hold::converted;
    own();
    if (users) hold_ = Hold::converted;
  }
  // Empties the rvalue in whose place a converted one stood.
  WT_HOT void finish_replaced() const {
    if (hold_ != Hold::converted) [[likely]]
      return;
    hold_ = Hold::owned;
    TensorImpl* const users = *users_;
    *users_ = nullptr;
    if (users) release(users);
  }

 protected:
  WT_HOT In(TensorImpl* owned, const char* file, u32 line)
      : p_(owned), at_(&p_), file_(file), line_(line), hold_(Hold::owned) {}

 private:
  // The user's tensor, to be left or to be emptied; a reference of this object's own; the same,
  // and the user's rvalue that it stands for is still to be emptied.
  enum class Hold : u8 { lvalue, rvalue, owned, converted };
  WT_HOT bool owns() const { return hold_ >= Hold::owned; }
  WT_HOT void own() const {
    at_ = &p_;
    hold_ = Hold::owned;
  }

  mutable TensorImpl* p_;       // what open() found, or what this object owns
  mutable TensorImpl** at_;     // the pointer in the user's handle; its own where it owns
  mutable TensorImpl** users_;  // under Hold::converted the user's; else never read
  const char* file_;
  u32 line_;
  mutable Hold hold_ = Hold::lvalue;
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
      : In(loss.mean(Frame{file, line}).release_impl(), file, line) {}

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
