// Rows of the operators that pick and write by index along one axis, and by mask.
#include "warptape/autograd/ops/gather.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

const std::vector<std::string> kKernels{"gather", "scatter"};

// Calls with f32 ones of a shape and an i64 index full of one value, on the device.
using WithIndex = std::function<Tensor(const Tensor& x, const Tensor& index)>;
template <class E>
ErrorInput fails_at(const std::string& label, const std::string& text, const Shape& shape,
                    const Shape& index, i64 value, const WithIndex& f) {
  return error_input<E>(label, text, [=](Device d) {
    (void)f(ones(shape, {.device = d}), full(index, value, {.dtype = DType::i64, .device = d}))
        .template to_vector<double>();
  });
}
ErrorInput undefined_first(const std::string& op, const WithIndex& f) {
  return undefined_operand(op, [f](const Tensor& a, const Tensor& b) { (void)f(a, b); });
}

struct Case {
  Shape x, index;
  i64 axis;
  std::vector<double> values{};  // of the index: such that none is named twice
  Shape source{};                // empty: index's
  size_t along() const { return size_t(axis < 0 ? axis + x.ndim() : axis); }
  Input index_of() const {
    Input i = index_input(index, x.empty() ? 1 : x[int(along())]);
    i.values = values;
    return i;
  }
};

// The place that element `i` of the index names.
Place named(const Case& k, const Array& index, Place i) {
  if (!i.empty()) i[k.along()] = i64(at(index, i));
  return i;
}

void add_gather(std::vector<OpCase>& rows) {
  OpCase c{"gather", kKernels, kAll};
  for (const Case& k :
       {Case{{3, 5}, {3, 4}, 1}, Case{{5, 4}, {3, 4}, 0}, Case{{2, 3, 4}, {2, 2, 3}, 1},
        Case{{7}, {33}, 0}, Case{{}, {}, 0}, Case{{0, 3}, {0, 2}, 1}, Case{{3, 4}, {0, 4}, 0},
        Case{{4, 3}, {4, 7}, -1}, Case{{257, 3}, {31, 2}, 0}, Case{{3, 1, 5}, {2, 1, 5}, -3},
        Case{{1, 31}, {1, 31}, 1}})
    c.samples.push_back(two_inputs(
        str("torch.gather(a, ", k.axis, ", b)"), {k.x}, k.index_of(),
        [k](const Tensor& x, const Tensor& i) { return gather(x, k.axis, i); },
        elements(k.index, [k](const std::vector<Array>& in, const Place& i) {
          return at(in[0], named(k, in[1], i));
        })));
  // One index for a row of neighbours.
  c.samples.push_back(two_inputs(
      "", {{5, 16}}, index_input({3, 1}, 5),
      [](const Tensor& x, const Tensor& i) {
        return gather(x, 0, i.expand({3, 16}));
      },
      elements({3, 16}, [](const std::vector<Array>& in, const Place& i) {
        return at(in[0], {i64(at(in[1], {i[0], 0})), i[1]});
      })));
  const WithIndex call = [](const Tensor& x, const Tensor& i) { return gather(x, 1, i); };
  c.errors = {
      undefined_first("gather", call),
      fails_at<IndexError>("large", "[gather] index 5 at ", {3, 5}, {3, 2}, 5, call),
      fails_at<IndexError>("negative", "[gather] index -1 at ", {3, 5}, {3, 2}, -1, call),
      fails_at<IndexError>("nothing", "is outside [0, 0)", {3, 0}, {3, 2}, 0, call),
      fails_at<ShapeError>("dims", "[gather] the index has 1 dimensions, the tensor 2", {3, 5}, {2},
                           0, call),
      fails_at<ShapeError>("size", "[gather] the index has size 4 along axis 0, the tensor 3",
                           {3, 5}, {4, 2}, 0, call),
      fails_at<ShapeError>("axis", "[gather] axis 1", {3}, {2}, 0, call),
      fails<DtypeError>("dtype", "[gather] indices must be i64 or i32, got f32", {2, 2},
                        [](const Tensor& x) { return gather(x, 0, x); })};
  rows.push_back(std::move(c));
}

// x with the elements of source written or added in the order of the index.
Oracle scattered(const Case& k, bool adds) {
  return [k, adds](const std::vector<Array>& in) {
    Array r = in[0];
    r.magnitude = r.v;
    for (double& m : r.magnitude) m = std::fabs(m);
    for (i64 e = 0; e < count(k.index); ++e) {
      const Place i = unravel(e, k.index);
      const size_t to = size_t(ravel(named(k, in[1], i), k.x));
      const double v = in.size() > 2 ? at(in[2], i) : 2;
      r.v[to] = adds ? r.v[to] + v : v;
      r.magnitude[to] = adds ? r.magnitude[to] + std::fabs(v) : std::fabs(v);
    }
    if (adds) r.terms = kTermsOfFormula + double(count(k.index));
    return r;
  };
}

void add_scatter(std::vector<OpCase>& rows, bool adds) {
  const std::string name = adds ? "scatter_add" : "scatter";
  OpCase c{name, kKernels, adds ? kNumbers : kAll};
  const auto f = [adds](const Tensor& x, i64 axis, const Tensor& i, const Tensor& s) {
    return adds ? scatter_add(x, axis, i, s) : scatter(x, axis, i, s);
  };
  for (const Case& k :
       {Case{{3, 5}, {3, 3}, 1, {4, 0, 2, 1, 3, 0, 2, 4, 1}},
        Case{{5, 3}, {2, 3}, 0, {4, 0, 2, 1, 3, 0}}, Case{{3, 4}, {3, 6}, 1},
        Case{{4, 2, 3}, {7, 2, 2}, 0, {}, {8, 2, 3}}, Case{{2, 3}, {2, 0}, 1}, Case{{}, {}, 0},
        Case{{7}, {33}, -1}, Case{{0, 3}, {0, 5}, 1}, Case{{1, 31}, {1, 17}, 1},
        Case{{4, 3, 2}, {3, 2, 2}, -2, {}, {4, 2, 5}}, Case{{33, 3}, {257, 3}, 0}}) {
    const bool repeats = k.values.empty(), exact = k.source.empty();
    Sample s{str(name, " along ", k.axis),
             {{k.x}, k.index_of(), {exact ? k.index : k.source}},
             [f, k](std::span<const Tensor> in) { return f(in[0], k.axis, in[1], in[2]); },
             scattered(k, adds)};
    // PyTorch's gradient wants a source of the index's shape.
    const char* source = adds ? ", b, c[tuple(slice(n) for n in b.shape)])" : ", b, c)";
    if (adds || !repeats) s.torch = str("torch.", name, "(a, ", k.axis, source);
    c.samples.push_back(std::move(s));
  }
  if (!adds)
    for (const Case& k : {Case{{3, 5}, {3, 3}, 1}, Case{{4, 3}, {2, 2}, 0}}) {
      Sample s{"a number",
               {{k.x}, k.index_of()},
               [k](std::span<const Tensor> in) { return scatter(in[0], k.axis, in[1], 2); },
               scattered(k, false)};
      s.torch = str("torch.scatter(a, ", k.axis, ", b, 2)");
      c.samples.push_back(std::move(s));
    }
  const auto with = [f](const Shape& source, DType t = f32) -> WithIndex {
    return [=](const Tensor& x, const Tensor& i) {
      return f(x, 1, i, ones(source, {.dtype = t, .device = i.device()}));
    };
  };
  const std::string op = "[" + name + "] ";
  c.errors = {
      undefined_first(name, with({2, 2})),
      fails_at<IndexError>("large", op + "index 5 at ", {3, 5}, {3, 2}, 5, with({3, 2})),
      fails_at<IndexError>("negative", op + "index -1 at ", {3, 5}, {3, 2}, -1, with({3, 2})),
      fails_at<ShapeError>("source", op + "the source must be at least as large as the index",
                           {3, 5}, {3, 2}, 0, with({3, 1})),
      fails_at<ShapeError>("size", op + "the index has size 4 along axis 0, the tensor 3", {3, 5},
                           {4, 2}, 0, with({4, 2})),
      fails_at<DtypeError>("dtypes", op + "the source is f64, the tensor f32", {3, 5}, {3, 2}, 0,
                           with({3, 2}, f64)),
      fails<DtypeError>("index dtype", op + "indices must be i64 or i32, got f32", {2, 2},
                        [f](const Tensor& x) { return f(x, 0, x, x); })};
  const auto of_dtype = [f](DType t) {
    return [=](Device d) {
      const Tensor i = zeros({2}, {.dtype = DType::i64, .device = d});
      const Tensor x = i.to(t);
      if (t == DType::boolean)
        (void)f(x, 0, i, x);
      else
        (void)scatter(x, 0, i, 1.5);
    };
  };
  if (adds)
    c.errors.push_back(error_input<DtypeError>("bool", op + "adds floats and integers, got bool",
                                               of_dtype(DType::boolean)));
  else
    c.errors.push_back(error_input<DtypeError>("number", op + "i64 cannot hold the number 1.5",
                                               of_dtype(DType::i64)));
  rows.push_back(std::move(c));
}

// Shapes of x and index, and the axis, for one list for all rows.
const std::vector<Case>& selections() {
  static const std::vector<Case> list{
      {{3, 5}, {4}, 1},    {{5, 3}, {7}, 0},      {{2, 3, 4}, {2}, -2}, {{7}, {33}, 0},
      {{3, 4}, {0}, 1},    {{}, {1}, 0},          {{4, 3}, {}, 0},      {{1, 31}, {17}, -1},
      {{2, 1, 3}, {3}, 1}, {{33, 2, 3}, {65}, 0}, {{0, 3}, {2}, 1}};
  return list;
}
Shape selected(const Case& k) {
  Shape s = k.x;
  if (!s.empty()) s[int(k.along())] = count(k.index);
  return s;
}
i64 entry(const Case& k, const Array& index, const Place& i) {
  return i64(index.v[k.x.empty() ? 0 : size_t(i[k.along()])]);
}

void add_index_select(std::vector<OpCase>& rows) {
  OpCase c{"index_select", kKernels, kAll};
  for (const Case& k : selections())
    c.samples.push_back(two_inputs(
        str("torch.index_select(a, ", k.axis, ", b)"), {k.x}, k.index_of(),
        [k](const Tensor& x, const Tensor& i) { return index_select(x, k.axis, i); },
        elements(selected(k), [k](const std::vector<Array>& in, Place i) {
          if (!i.empty()) i[k.along()] = entry(k, in[1], i);
          return at(in[0], i);
        })));
  const WithIndex call = [](const Tensor& x, const Tensor& i) { return index_select(x, 0, i); };
  c.errors = {
      undefined_first("index_select", call),
      fails_at<IndexError>("large", "[index_select] index 3 at position ", {3, 2}, {2}, 3, call),
      fails_at<IndexError>("negative", "[index_select] index -1 ", {3, 2}, {}, -1, call),
      fails_at<ShapeError>("rank", "[index_select] the index must be 1-d or 0-d, got 2 dimensions",
                           {3, 2}, {2, 2}, 0, call),
      fails_at<ShapeError>("0-d", "[index_select] a 0-d tensor has one element to select, not 2",
                           {}, {2}, 0, call)};
  rows.push_back(std::move(c));
}

void add_index_add(std::vector<OpCase>& rows) {
  OpCase c{"index_add", kKernels, kNumbers};
  for (const double alpha : {1.0, 0.5})
    for (const Case& k : selections()) {
      if (alpha != 1 && count(k.x) > 20) continue;
      const std::string scale = alpha == 1 ? "" : str(", alpha=", alpha);
      Sample s{str("along ", k.axis, scale),
               {{k.x}, k.index_of(), {selected(k)}},
               [k, alpha](std::span<const Tensor> in) {
                 return index_add(in[0], k.axis, in[1], in[2], {.alpha = alpha});
               },
               [k, alpha](const std::vector<Array>& in) {
                 Array r = in[0];
                 r.magnitude = r.v;
                 for (double& m : r.magnitude) m = std::fabs(m);
                 for (i64 e = 0; e < i64(in[2].v.size()); ++e) {
                   Place i = unravel(e, in[2].shape);
                   if (!i.empty()) i[k.along()] = entry(k, in[1], i);
                   const size_t to = size_t(ravel(i, k.x));
                   r.v[to] += alpha * in[2].v[size_t(e)];
                   r.magnitude[to] += std::fabs(alpha * in[2].v[size_t(e)]);
                 }
                 r.terms = kTermsOfFormula + double(count(k.index));
                 return r;
               }};
      s.integers = alpha == 1;
      if (!k.x.empty() && !k.index.empty())
        s.torch = str("torch.index_add(a, ", k.axis, ", b, c", scale, ")");
      c.samples.push_back(std::move(s));
    }
  const auto with = [](const Shape& source, DType t = f32) -> WithIndex {
    return [=](const Tensor& x, const Tensor& i) {
      return index_add(x, 0, i, ones(source, {.dtype = t, .device = i.device()}));
    };
  };
  c.errors = {
      undefined_first("index_add", with({2, 2})),
      fails_at<IndexError>("large", "[index_add] index 3 at position ", {3, 2}, {2}, 3,
                           with({2, 2})),
      fails_at<ShapeError>("source",
                           "[index_add] the source must have the shape of what is selected, [2, 2]",
                           {3, 2}, {2}, 0, with({2, 1})),
      fails_at<DtypeError>("dtypes", "[index_add] the source is f64, the tensor f32", {3, 2}, {2},
                           0, with({2, 2}, f64)),
      error_input<DtypeError>("alpha", "[index_add] alpha must be 1 for i64, got 2", [](Device d) {
        const Tensor x = zeros({2}, {.dtype = DType::i64, .device = d});
        (void)index_add(x, 0, x, x, {.alpha = 2});
      })};
  rows.push_back(std::move(c));
}

void add_masked_fill(std::vector<OpCase>& rows) {
  OpCase c{"masked_fill", {"where"}, kAll};
  for (const auto& [x, mask, out] : {std::tuple<Shape, Shape, Shape>{{3, 5}, {3, 5}, {3, 5}},
                                     {{2, 3, 4}, {3, 1}, {2, 3, 4}},
                                     {{4}, {3, 4}, {3, 4}},
                                     {{}, {}, {}},
                                     {{5}, {}, {5}},
                                     {{0, 3}, {3}, {0, 3}},
                                     {{31, 7}, {1, 7}, {31, 7}},
                                     {{257}, {257}, {257}}}) {
    c.samples.push_back(two_inputs(
        "a.masked_fill(b, 1)", {x}, truth_input(mask),
        [](const Tensor& a, const Tensor& m) {
          return a.dtype() == DType::boolean ? masked_fill(a, m, true) : masked_fill(a, m, 1);
        },
        elements(out, [](const std::vector<Array>& in, const Place& i) {
          return at(in[1], i) != 0 ? 1.0 : at(in[0], i);
        })));
    c.samples.back().constant = x.ndim() == 1 && mask.ndim() == 0;  // one bool decides
  }
  for (const Shape& x : {Shape{3, 4}, Shape{2, 1, 5}}) {
    Sample s{"a tensor",
             {{x}, truth_input(x), {{}}},
             [](std::span<const Tensor> in) { return masked_fill(in[0], in[1], in[2]); },
             elements(x, [](const std::vector<Array>& in, const Place& i) {
               return at(in[1], i) != 0 ? in[2].v[0] : at(in[0], i);
             })};
    s.torch = "a.masked_fill(b, c)";
    c.samples.push_back(std::move(s));
  }
  c.errors = {undefined_operand("masked_fill", [](const Tensor& a,
                                                  const Tensor& b) { (void)masked_fill(a, b, 1); }),
              fails<DtypeError>("mask", "[masked_fill] the mask must be bool, got f32", {2},
                                [](const Tensor& x) { return masked_fill(x, x, 1); }),
              fails<ShapeError>("shapes", "[masked_fill] shapes [2] and [3]", {2},
                                [](const Tensor& x) {
                                  const Tensor m =
                                      zeros({3}, {.dtype = DType::boolean, .device = x.device()});
                                  return masked_fill(x, m, 1);
                                }),
              fails<ShapeError>(
                  "value", "[masked_fill] the value must be a number or a 0-d tensor, got [2]", {2},
                  [](const Tensor& x) { return masked_fill(x, x.to(DType::boolean), x); }),
              fails<DtypeError>("wide", "[masked_fill] i64 cannot hold the value", {2},
                                [](const Tensor& x) {
                                  return masked_fill(x.to(DType::i64), x.to(DType::boolean), 1.5);
                                })};
  rows.push_back(std::move(c));
}

void add_by_values(std::vector<OpCase>& rows) {
  OpCase c{"masked_select", {"index_rows"}, kNumbers};
  for (const auto& [x, mask, both] : {std::tuple<Shape, Shape, Shape>{{3, 5}, {3, 5}, {3, 5}},
                                      {{2, 3, 4}, {3, 1}, {2, 3, 4}},
                                      {{4}, {3, 4}, {3, 4}},
                                      {{}, {}, {1}},
                                      {{}, {7}, {7}},
                                      {{0, 3}, {3}, {0, 3}},
                                      {{31, 7}, {1, 7}, {31, 7}},
                                      {{257}, {257}, {257}}})
    c.samples.push_back(two_inputs(
        "torch.masked_select(a, b)", {x}, truth_input(mask),
        [](const Tensor& a, const Tensor& m) { return masked_select(a, m); },
        [both = both](const std::vector<Array>& in) {
          Array r;
          for (i64 e = 0; e < count(both); ++e)
            if (at(in[1], unravel(e, both)) != 0) r.v.push_back(at(in[0], unravel(e, both)));
          r.shape = {r.v.size()};
          return r;
        }));
  c.errors = {
      undefined_operand("masked_select",
                        [](const Tensor& a, const Tensor& b) { (void)masked_select(a, b); }),
      fails<DtypeError>("mask", "[masked_select] the mask must be bool, got f32", {2},
                        [](const Tensor& x) { return masked_select(x, x); }),
      fails<ShapeError>("shapes", "[masked_select] shapes [2] and [3]", {2},
                        [](const Tensor& x) {
                          const Tensor m =
                              zeros({3}, {.dtype = DType::boolean, .device = x.device()});
                          return masked_select(x, m);
                        }),
      error_input<UsageError>(
          "meta", "[masked_select] the shape of the result depends on values", [](Device) {
            const Tensor m = zeros({2}, {.dtype = DType::boolean, .device = Device::meta()});
            (void)masked_select(m, m);
          })};
  rows.push_back(std::move(c));

  OpCase z{"nonzero", {"copy"}, kAll, ResultType::i64};
  for (const Shape& x : {Shape{3, 5}, {2, 3, 4}, {}, {7}, {0, 3}, {31, 7}, {257}, {1, 1, 2, 33}}) {
    Sample s = one_input(
        "torch.nonzero(a)", x, [](const Tensor& a) { return nonzero(a); },
        [](const std::vector<Array>& in) {
          Array r;
          i64 n = 0;
          for (i64 e = 0; e < i64(in[0].v.size()); ++e) {
            if (in[0].v[size_t(e)] == 0) continue;
            ++n;
            for (const i64 i : unravel(e, in[0].shape)) r.v.push_back(double(i));
          }
          r.shape = {n, in[0].shape.ndim()};
          return r;
        });
    s.inputs[0] = {x, -1, 1};
    s.inputs[0].whole = true;
    z.samples.push_back(std::move(s));
  }
  z.errors = {undefined_input("nonzero", [](const Tensor& x) { return nonzero(x); }),
              error_input<UsageError>(
                  "meta", "[nonzero] the shape of the result depends on values",
                  [](Device) { (void)nonzero(zeros({2}, {.device = Device::meta()})); })};
  rows.push_back(std::move(z));

  OpCase o{"one_hot", {"scatter"}, {DType::i64}, ResultType::i64};
  struct Classes {
    Shape index;
    std::optional<i64> classes;
    std::vector<double> values{};
  };
  std::vector<Classes> ways{{{5}, 4},       {{2, 3}, 3},
                            {{}, 3},        {{0}, 2},
                            {{33}, 7},      {{4}, {}, {2, 0, 5, 1}},
                            {{1}, 1},       {{2, 2}, {}, {0, 0, 0, 0}},
                            {{3, 1, 7}, 31}};
  for (i64 n = 1; n < 12; ++n) ways.push_back({{n, 13 - n}, 2 + n % 5});
  for (const Classes& k : ways) {
    Input in = index_input(k.index, k.classes.value_or(1));
    in.values = k.values;
    double largest = 0;
    for (const double v : k.values) largest = std::max(largest, v);
    Shape out = k.index;
    out.push_back(k.classes.value_or(i64(largest) + 1));
    Sample s{"",
             {in},
             [k](std::span<const Tensor> x) { return one_hot(x[0], k.classes); },
             elements(out, [](const std::vector<Array>& x, Place i) {
               const i64 c = i.back();
               i.pop_back();
               return i64(at(x[0], i)) == c ? 1.0 : 0.0;
             })};
    s.torch = k.classes ? str("F.one_hot(a, ", *k.classes, ")") : "F.one_hot(a)";
    o.samples.push_back(std::move(s));
  }
  const auto hot = [](i64 value, std::optional<i64> classes, const Shape& shape = {2, 2}) {
    return [=](Device d) {
      (void)one_hot(full(shape, value, {.dtype = DType::i64, .device = d}), classes)
          .to_vector<i64>();
    };
  };
  o.errors = {
      undefined_input("one_hot", [](const Tensor& x) { return one_hot(x, 2); }),
      error_input<IndexError>("large", " 3 at ", hot(3, 3)),
      error_input<IndexError>("negative", " -1 at position ", hot(-1, {}, {3})),
      error_input<ShapeError>("classes", "[one_hot] classes must be at least 1, got 0", hot(0, 0)),
      error_input<ShapeError>(
          "none", "[one_hot] the number of classes cannot be told from no index", hot(0, {}, {0})),
      fails<DtypeError>("dtype", "[one_hot] indices must be i64 or i32, got f32", {2},
                        [](const Tensor& x) { return one_hot(x, 2); })};
  rows.push_back(std::move(o));
}

void add_gather_cases(std::vector<OpCase>& rows) {
  add_gather(rows);
  add_scatter(rows, false);
  add_scatter(rows, true);
  add_index_select(rows);
  add_index_add(rows);
  add_masked_fill(rows);
  add_by_values(rows);
}

const CaseFile file{add_gather_cases};

}  // namespace
}  // namespace wt_test
