// For rows of operators that move elements about: an oracle that says where each element of the
// result comes from.
#pragma once
#include <utility>

#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

using Place = std::vector<i64>;
// The element of the result at a place, from the inputs.
using Element = std::function<double(const std::vector<Array>&, const Place&)>;
inline Oracle elements(const Shape& out, const Element& element) {
  return [out, element](const std::vector<Array>& in) {
    return filled(out, [&](const Place& i) { return element(in, i); });
  };
}
// The same of one input, by the place it comes from.
inline Oracle moved(const Shape& out, const std::function<Place(Place)>& source) {
  return elements(
      out, [source](const std::vector<Array>& in, const Place& i) { return at(in[0], source(i)); });
}

using OfOne = std::function<Tensor(const Tensor&)>;
// `torch` is the label too.
inline Sample one_input(const std::string& torch, const Shape& in, const OfOne& f, Oracle oracle) {
  Sample s{torch, {{in}}, [f](std::span<const Tensor> x) { return f(x[0]); }, std::move(oracle)};
  s.torch = torch;
  return s;
}
inline Sample two_inputs(const std::string& torch, Input a, Input b,
                         const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                         Oracle oracle) {
  Sample s{torch,
           {std::move(a), std::move(b)},
           [f](std::span<const Tensor> x) { return f(x[0], x[1]); },
           std::move(oracle)};
  s.torch = torch;
  return s;
}

// A call with a tensor of ones of `shape` that throws E with `text`.
template <class E>
ErrorInput fails(const std::string& label, const std::string& text, const Shape& shape,
                 const OfOne& f) {
  return error_input<E>(label, text, [f, shape](Device d) { (void)f(ones(shape, {.device = d})); });
}
inline ErrorInput undefined_input(const std::string& op, const OfOne& f) {
  return undefined_operand(op, [f](const Tensor& a, const Tensor&) { (void)f(a); });
}

}  // namespace wt_test
