// The table of operator cases: one row an operator. A row says how inputs are made, how the
// operator is called and what must come out, by an oracle in double that is written from the
// formula and calls nothing of the library. Values, layouts, dtypes, devices, variants, both
// derivatives and errors follow from it (runner.h). An operator without a row fails the suite.
#pragma once
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "warptape/autograd/grad_check.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/in.h"
#include "warptape/core/op_info.h"
#include "warptape/core/operators.h"
#include "warptape/tests/tolerance.h"

namespace wt_test {

using namespace wt;

// Values of a tensor for the oracle; of a result also how exact it can be.
struct Array {
  Shape shape;
  std::vector<double> v;
  double terms = kTermsOfFunction;
  std::vector<double> magnitude{};  // empty: |v|
  // Absolute values that a variant may round to 16 bits on the way, where the operands have as
  // many; empty: none.
  std::vector<double> rounded{};
};

// Value: of the dtype under test. Index: i64. Truth: bool.
enum class Role : u8 { value, index, truth };

struct Input {
  Shape shape;
  double low = -2, high = 2;  // values lie in [low, high); an index among the integers there
  Role role = Role::value;
  std::vector<double> kinks{};   // the derivative jumps here: values keep away
  std::vector<double> values{};  // given ones instead of random ones
  bool wants_grad = true;
  bool whole = false;  // integers, whatever the dtype
};
inline Input index_input(const Shape& shape, i64 limit) {
  return {shape, 0, double(limit), Role::index, {}, {}, false};
}
inline Input truth_input(const Shape& shape) { return {shape, 0, 2, Role::truth, {}, {}, false}; }

using Oracle = std::function<Array(const std::vector<Array>&)>;

// One way to call the operator.
struct Sample {
  std::string label;  // attributes, for the reproducer line
  std::vector<Input> inputs;
  CheckedFunction call;
  Oracle oracle;
  bool layouts = true;            // false: contiguous only
  bool gradients = true;          // false: values only
  bool integers = true;           // false: floats only
  bool constant = false;          // nearly all results are equal, and that is right
  std::optional<DType> result{};  // another dtype than the row says
  bool second_is_zero = false;    // linear in this way of calling it, whatever the operator is
  // The same call in PyTorch, of its inputs a, b, c, ...: "torch.gather(a, 1, b)". Its numbers are
  // in tests/reference/torch (tools/generators/make_torch_cases.py).
  std::string torch{};
};

// A call that must throw.
struct ErrorInput {
  std::string label;
  std::function<void(Device)> call;
  std::function<bool(const Error&)> is_type;
  std::string text;  // part of the message
};

// What comes out of operands of one dtype. loss: f64 for f64, else f32.
enum class ResultType : u8 { promoted, floating, boolean, i64, loss, sum };

struct OpCase {
  std::string name;                    // the OpInfo's
  std::vector<std::string> contracts;  // kernels behind it, forward and backward
  std::vector<DType> dtypes{};
  ResultType result = ResultType::promoted;
  std::vector<Sample> samples{};
  std::vector<ErrorInput> errors{};
  // The gradient is a difference of terms as large as the incoming gradient (tanh: 1 - y^2):
  // roundings are relative to that.
  bool cancels = false;
  bool mostly_constant =
      false;  // the results have few distinct values (comparisons of few numbers)
  // Where a device lacks the contracts, the operator is made of others: its cases run there too.
  bool composed_elsewhere = false;
};

const std::vector<OpCase>& op_cases();
// A file of rows lists them itself: `const CaseFile file{add_softmax_cases};` at its end.
struct CaseFile {
  explicit CaseFile(void (*add)(std::vector<OpCase>& rows));
};

inline const std::vector<DType> kFloats{f64, f32, f16, bf16};
inline const std::vector<DType> kNumbers{f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8};
inline const std::vector<DType> kAll{f64,        f32,        f16,       bf16,
                                     DType::i64, DType::i32, DType::u8, DType::boolean};

// --- errors ---
template <class E>
ErrorInput error_input(std::string label, std::string text, std::function<void(Device)> call) {
  return {std::move(label), std::move(call),
          [](const Error& e) { return dynamic_cast<const E*>(&e) != nullptr; }, std::move(text)};
}
// Two errors that every operator of one or more tensors has: an undefined operand, and operands on
// two devices.
using Apply = std::function<void(const Tensor&, const Tensor&)>;
ErrorInput undefined_operand(const std::string& op, const Apply& call);
// The same of an operator that looks at the tensor before its prologue.
ErrorInput undefined_tensor(const Apply& call);
ErrorInput two_devices(const std::string& op, const Apply& call);
// A storage-only dtype.
ErrorInput storage_dtype(const std::string& op, const std::string& text, const Apply& call);

// --- for oracles ---
i64 count(const Shape& s);
// The position of element `flat` in logical order, and back; with broadcasting: axes of size 1 and
// missing leading axes of `s` are ignored.
std::vector<i64> unravel(i64 flat, const Shape& s);
i64 ravel(const std::vector<i64>& at, const Shape& s);
double at(const Array& x, const std::vector<i64>& index);
Shape broadcast(const Shape& a, const Shape& b);
Array filled(const Shape& s, const std::function<double(const std::vector<i64>&)>& value);

}  // namespace wt_test
