// Operators of your own. A struct whose members are its attributes:
//
//   struct Swish {
//     double beta = 1;
//     static constexpr OpInfo info{.name = "swish", .autocast = Autocast::f32};
//     Tensor forward(Save& save, const Tensor& x) const { save(x); return x * sigmoid(beta * x); }
//     Grads backward(const Saved& s, const Tensor& gy) const {   // recorded under create_graph
//       const Tensor p = sigmoid(beta * s[0]);
//       return {gy * (p + beta * s[0] * p * (1 - p))};
//     }
//   };
//   Tensor y = apply(Swish{.beta = 1.5}, x);
//
// `forward` records nothing; what `backward` will read goes through `save`, in order. `backward`
// returns one gradient an input (undefined: none) and is written in differentiable operators, so
// higher derivatives follow. An operator with several outputs returns std::vector<Tensor> from
// forward and gets std::vector<Tensor> in backward (zeros where no gradient arrived).
//
// An operator of one input and one output that can be undone says so:
//   Tensor invert(const Tensor& y) const;      // the x of y = forward(x)
// Under SaveScope(SavePolicy::invert) a saved input is then computed from the output in backward,
// and its memory is free meanwhile. It costs rounding: x comes back as exactly as `invert` gives
// it.
#pragma once
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/core/in.h"
#include "warptape/core/op_info.h"

namespace wt {

struct Backward;

// What forward keeps: its inputs, its outputs (call before returning them) or tensors of its own.
class WT_API Save {
 public:
  Save();
  ~Save();
  Save(const Save&);
  Save& operator=(const Save&);
  void operator()(const Tensor& t);
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

// What backward reads: the saved tensors in order, checked against in-place changes.
class WT_API Saved {
 public:
  explicit Saved(Backward& g) : g_(g) {}
  const Tensor& operator[](int i) const;

 private:
  Backward& g_;
};

// One gradient an input.
class WT_API Grads {
 public:
  Grads(std::initializer_list<Tensor> g);
  explicit Grads(std::vector<Tensor> g);
  size_t size() const;
  Tensor take(size_t i);

 private:
  std::vector<Tensor> tensors_;
};

namespace detail {

// The type-free half of apply(): checks, recording, edges and slots (autograd/custom.cpp).
struct CustomCall {
  const OpInfo& info;
  const In* const* inputs;
  int n;
  void (*backward)(Backward&);
  void* op;  // a heap copy of the operator
  void (*deleter)(void*);
  Tensor (*invert)(const void* op, const Tensor& y);  // null: cannot
};
// Runs the forward with recording off; calls inside report the user's line.
class WT_API CustomForward {
 public:
  CustomForward(const OpInfo& info, const In* const* inputs, int n);
  ~CustomForward();
  CustomForward(const CustomForward&) = delete;
  CustomForward& operator=(const CustomForward&) = delete;
  const std::vector<Tensor>& inputs() const { return inputs_; }

 private:
  std::vector<Tensor> inputs_;
  bool grad_before_;
  FrameId frame_before_;
};
WT_API std::vector<Tensor> finish_custom(const CustomCall& call, const Save& save,
                                         std::vector<Tensor> outputs);
WT_API const void* custom_op(const Backward& g);
WT_API std::vector<Tensor> custom_gradients(Backward& g);
WT_API void put_custom(Backward& g, Grads grads);

template <class Op>
void custom_backward(Backward& g) {
  const Op& op = *static_cast<const Op*>(custom_op(g));
  const Saved saved(g);
  std::vector<Tensor> gy = custom_gradients(g);
  if constexpr (requires { op.backward(saved, gy[0]); })
    put_custom(g, op.backward(saved, gy[0]));
  else
    put_custom(g, op.backward(saved, gy));
}

// Null when the operator does not say how its output gives its one input.
template <class Op>
constexpr auto inverse_of() -> Tensor (*)(const void*, const Tensor&) {
  if constexpr (requires(const Op& op, const Tensor& y) {
                  { op.invert(y) } -> std::same_as<Tensor>;
                })
    return [](const void* op, const Tensor& y) { return static_cast<const Op*>(op)->invert(y); };
  else
    return nullptr;
}

template <class Op, size_t... I>
auto apply_custom(const Op& op, const In* const* inputs, std::index_sequence<I...>) {
  Save save;
  std::vector<Tensor> outputs;
  using Result = decltype(op.forward(save, (void(I), std::declval<const Tensor&>())...));
  static_assert(std::is_same_v<Result, Tensor> || std::is_same_v<Result, std::vector<Tensor>>,
                "forward returns a Tensor or a std::vector<Tensor>");
  {
    const CustomForward forward(Op::info, inputs, int(sizeof...(I)));
    if constexpr (std::is_same_v<Result, Tensor>)
      outputs.push_back(op.forward(save, forward.inputs()[I]...));
    else
      outputs = op.forward(save, forward.inputs()[I]...);
  }
  outputs = finish_custom({Op::info, inputs, int(sizeof...(I)), custom_backward<Op>, new Op(op),
                           [](void* p) { delete static_cast<Op*>(p); }, inverse_of<Op>()},
                          save, std::move(outputs));
  if constexpr (std::is_same_v<Result, Tensor>)
    return std::move(outputs[0]);
  else
    return outputs;
}

}  // namespace detail

// Applies a custom operator to one to eight tensors (nn/module.h has a list like this).
template <class Op>
auto apply(const Op& op, const In& a) {
  const In* in[] = {&a};
  return detail::apply_custom(op, in, std::make_index_sequence<1>());
}
template <class Op>
auto apply(const Op& op, const In& a, const In& b) {
  const In* in[] = {&a, &b};
  return detail::apply_custom(op, in, std::make_index_sequence<2>());
}
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c) {
  const In* in[] = {&a, &b, &c};
  return detail::apply_custom(op, in, std::make_index_sequence<3>());
}
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d) {
  const In* in[] = {&a, &b, &c, &d};
  return detail::apply_custom(op, in, std::make_index_sequence<4>());
}
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e) {
  const In* in[] = {&a, &b, &c, &d, &e};
  return detail::apply_custom(op, in, std::make_index_sequence<5>());
}
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
           const In& f) {
  const In* in[] = {&a, &b, &c, &d, &e, &f};
  return detail::apply_custom(op, in, std::make_index_sequence<6>());
}
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
           const In& f, const In& g) {
  const In* in[] = {&a, &b, &c, &d, &e, &f, &g};
  return detail::apply_custom(op, in, std::make_index_sequence<7>());
}
template <class Op>
auto apply(const Op& op, const In& a, const In& b, const In& c, const In& d, const In& e,
           const In& f, const In& g, const In& h) {
  const In* in[] = {&a, &b, &c, &d, &e, &f, &g, &h};
  return detail::apply_custom(op, in, std::make_index_sequence<8>());
}

}  // namespace wt
