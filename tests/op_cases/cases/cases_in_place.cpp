// Rows of arithmetic in place: x op= y.
#include <map>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/tests/op_cases/cases/in_place_case.h"

namespace wt_test {
namespace {

using Write = void (*)(Tensor& x, const Tensor& y);
using Values = double (*)(double x, double y);

Oracle oracle_of(Values f) {
  return [f](const std::vector<Array>& in) {
    return filled(in[0].shape,
                  [&](const std::vector<i64>& i) { return f(at(in[0], i), at(in[1], i)); });
  };
}
CheckedFunction on_a_copy(Write write) {
  return [write](std::span<const Tensor> in) {
    Tensor x = clone(in[0]);
    write(x, in[1]);
    return x;
  };
}

struct Arithmetic {
  const char* name;
  const char* contract;
  Write write;
  Values value;
  void (*with_ones)(Tensor& x);
  const char* torch;
  bool floats = false;  // alone
  double low = -2, high = 2;
};

const Arithmetic kArithmetic[] = {
    {"add_", "add", [](Tensor& x, const Tensor& y) { x.add_(y); },
     [](double x, double y) { return x + y; }, [](Tensor& x) { x.add_(ones_like(x)); },
     "torch.add(a, b)"},
    {"sub_", "sub", [](Tensor& x, const Tensor& y) { x.sub_(y); },
     [](double x, double y) { return x - y; }, [](Tensor& x) { x.sub_(ones_like(x)); },
     "torch.sub(a, b)"},
    {"mul_", "mul", [](Tensor& x, const Tensor& y) { x.mul_(y); },
     [](double x, double y) { return x * y; }, [](Tensor& x) { x.mul_(ones_like(x)); },
     "torch.mul(a, b)"},
    {"div_", "div", [](Tensor& x, const Tensor& y) { x.div_(y); },
     [](double x, double y) { return x / y; }, [](Tensor& x) { x.div_(ones_like(x)); },
     "torch.div(a, b)", true, 0.4, 3},
};

void add_samples(OpCase& c, const Arithmetic& a) {
  for (const auto& [x, y] :
       {std::pair<Shape, Shape>{{3, 5}, {3, 5}}, {{2, 3, 4}, {3, 1}}, {{0, 2}, {2}}, {{}, {}}})
    c.samples.push_back(
        {"", {{x, a.low, a.high}, {y, a.low, a.high}}, on_a_copy(a.write), oracle_of(a.value)});
  for (Sample& s : c.samples) s.torch = a.torch;
}

// By a number, and by what is written itself.
void add_numbers_and_self(OpCase& c, const Arithmetic& a) {
  struct Form {
    const char* label;
    void (*write)(Tensor& x);
    double (*value)(double x);
    bool linear;
  };
  static const std::map<std::string, std::vector<Form>> kForms{
      {"add_",
       {{"3", [](Tensor& x) { x.add_(3); }, [](double x) { return x + 3; }, true},
        {"itself", [](Tensor& x) { x.add_(x); }, [](double x) { return 2 * x; }, true},
        {"itself, alpha 2", [](Tensor& x) { x.add_(x, {.alpha = 2}); },
         [](double x) { return 3 * x; }, true}}},
      {"sub_", {{"3", [](Tensor& x) { x.sub_(3); }, [](double x) { return x - 3; }, true}}},
      {"mul_",
       {{"3", [](Tensor& x) { x.mul_(3); }, [](double x) { return x * 3; }, true},
        {"itself", [](Tensor& x) { x.mul_(x); }, [](double x) { return x * x; }, false}}},
      {"div_", {{"4", [](Tensor& x) { x.div_(4); }, [](double x) { return x / 4; }, true}}},
  };
  for (const Form& f : kForms.at(a.name))
    for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{0}, Shape{}}) {
      c.samples.push_back({std::string("by ") + f.label,
                           {{s, a.low, a.high}},
                           [f](std::span<const Tensor> in) {
                             Tensor x = clone(in[0]);
                             f.write(x);
                             return x;
                           },
                           [f](const std::vector<Array>& in) {
                             Array r = in[0];
                             for (double& x : r.v) x = f.value(x);
                             return r;
                           }});
      c.samples.back().second_is_zero = f.linear;
    }
}

void add_errors(OpCase& c, const Arithmetic& a) {
  const std::string op = std::string("[") + a.name + "] ";
  c.errors.push_back(error_input<ShapeError>("grows", op + "shape [3] does not broadcast to [1]",
                                             [w = a.write](Device d) {
                                               Tensor x = ones({1}, {.device = d});
                                               w(x, ones({3}, {.device = d}));
                                             }));
  c.errors.push_back(
      error_input<DtypeError>("kind", op + "the result would be f", [w = a.write](Device d) {
        Tensor x = ones({2}, {.dtype = int64, .device = d});
        w(x, full({2}, 0.5, {.device = d}));
      }));
}

void add_lerp(std::vector<OpCase>& rows) {
  OpCase c =
      in_place_case("lerp_", [](Tensor& x) { x.lerp_(ones_like(x), 0.5); }, {"lerp", "copy"});
  c.dtypes = kFloats;
  for (const Shape& y : {Shape{2, 3, 4}, Shape{3, 1}})
    c.samples.push_back({"0.25",
                         {{{2, 3, 4}}, {y}},
                         on_a_copy([](Tensor& x, const Tensor& end) { x.lerp_(end, 0.25); }),
                         oracle_of([](double a, double b) { return a + 0.25 * (b - a); })});
  for (Sample& s : c.samples) s.second_is_zero = true, s.torch = "torch.lerp(a, b, 0.25)";
  c.samples.push_back({"tensor",
                       {{{3, 5}}, {{5}}, {{3, 1}, 0, 1}},
                       [](std::span<const Tensor> in) {
                         Tensor x = clone(in[0]);
                         x.lerp_(in[1], in[2]);
                         return x;
                       },
                       [](const std::vector<Array>& in) {
                         Array r = filled(in[0].shape, [&](const std::vector<i64>& i) {
                           return at(in[0], i) + at(in[2], i) * (at(in[1], i) - at(in[0], i));
                         });
                         r.magnitude.assign(r.v.size(), 4);
                         return r;
                       }});
  for (Sample& s : c.samples) {
    const Oracle exact = s.oracle;
    s.oracle = [exact](const std::vector<Array>& in) {  // roundings are relative to the ends
      Array r = exact(in);
      r.magnitude.assign(r.v.size(), 4);
      return r;
    };
  }
  c.errors.push_back(error_input<ShapeError>(
      "grows", "[lerp_] the result would be [3], the tensor is [1] f32", [](Device d) {
        Tensor x = ones({1}, {.device = d});
        x.lerp_(ones({3}, {.device = d}), 0.5);
      }));
  c.errors.push_back(
      error_input<DtypeError>("integers", "[lerp] expected floats, got i64", [](Device d) {
        Tensor x = ones({2}, {.dtype = int64, .device = d});
        x.lerp_(ones({2}, {.dtype = int64, .device = d}), 0.5);
      }));
  rows.push_back(std::move(c));
}

void add_in_place_cases(std::vector<OpCase>& rows) {
  for (const Arithmetic& a : kArithmetic) {
    OpCase c = in_place_case(a.name, a.with_ones, {a.contract});
    if (a.floats) c.dtypes = kFloats;
    add_samples(c, a);
    add_numbers_and_self(c, a);
    add_errors(c, a);
    rows.push_back(std::move(c));
  }
  add_lerp(rows);
}

const CaseFile file{add_in_place_cases};

}  // namespace
}  // namespace wt_test
