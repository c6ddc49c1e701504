// Rows of the operators that view or copy.
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

// The result's element at an index is the input's element at source(index).
using Source = std::function<std::vector<i64>(std::vector<i64>)>;
Oracle gather(const Shape& out, const Source& source) {
  return [out, source](const std::vector<Array>& in) {
    return filled(out, [&](const std::vector<i64>& i) { return at(in[0], source(i)); });
  };
}
// The same elements in logical order under another shape.
Oracle reshaped(const Shape& out) {
  return [out](const std::vector<Array>& in) { return Array{out, in[0].v}; };
}
Oracle same() {
  return [](const std::vector<Array>& in) { return in[0]; };
}

using Function = std::function<Tensor(const Tensor&)>;
Sample one(const std::string& label, const Shape& in, const Function& f, Oracle oracle,
           bool layouts = true) {
  return {label,
          {{in}},
          [f](std::span<const Tensor> x) { return f(x[0]); },
          std::move(oracle),
          layouts};
}

OpCase row(const std::string& name, std::vector<std::string> contracts = {}) {
  return {name, std::move(contracts), kAll};
}
// An undefined operand, and a call that throws E with `text`.
template <class E>
void errors(OpCase& c, const std::string& text, const Function& f, const Shape& shape) {
  c.errors = {undefined_operand(c.name, [f](const Tensor& a, const Tensor&) { (void)f(a); }),
              error_input<E>("argument", text,
                             [f, shape](Device d) { (void)f(ones(shape, {.device = d})); })};
}

// No memory for the result: nothing leaks, and the operand is as it was.
ErrorInput no_memory(const std::string& op, void (*call)(const Tensor&)) {
  return error_input<OutOfMemory>("no memory", "[" + op + "] asked for", [call](Device d) {
    const Tensor x = ones({2, 3}, {.device = d});
    memory::fail_nth_request(1);
    call(x);
  });
}

void add_views(std::vector<OpCase>& rows) {
  OpCase view_row = row("view");
  for (const auto& [in, out] :
       {std::pair<Shape, Shape>{{3, 4}, {2, 6}}, {{6}, {1, 6, 1}}, {{}, {1}}, {{0, 3}, {3, 0}}})
    view_row.samples.push_back(one(
        "", in, [out = out](const Tensor& x) { return view(x, out); }, reshaped(out), false));
  errors<ShapeError>(view_row, "[view] cannot see 6 elements of shape [2, 3] as [4]",
                     [](const Tensor& x) { return view(x, {4}); }, {2, 3});
  rows.push_back(view_row);

  OpCase t = row("transpose");
  t.samples = {one(
                   "0, 1", {3, 5}, [](const Tensor& x) { return transpose(x, 0, 1); },
                   gather({5, 3},
                          [](auto i) {
                            return std::vector{i[1], i[0]};
                          })),
               one(
                   "0, -1", {2, 3, 4}, [](const Tensor& x) { return transpose(x, 0, -1); },
                   gather({4, 3, 2},
                          [](auto i) {
                            return std::vector{i[2], i[1], i[0]};
                          })),
               one(
                   "0, 1", {0, 2}, [](const Tensor& x) { return transpose(x, 0, 1); },
                   gather({2, 0}, [](auto i) {
                     return std::vector{i[1], i[0]};
                   }))};
  errors<ShapeError>(t, "axis 2", [](const Tensor& x) { return transpose(x, 0, 2); }, {2, 3});
  rows.push_back(t);

  OpCase p = row("permute");
  p.samples = {one(
                   "2, 0, 1", {2, 3, 4},
                   [](const Tensor& x) {
                     return permute(x, {2, 0, 1});
                   },
                   gather({4, 2, 3},
                          [](auto i) {
                            return std::vector{i[1], i[2], i[0]};
                          })),
               one(
                   "0, 1", {1, 5},
                   [](const Tensor& x) {
                     return permute(x, {0, 1});
                   },
                   same())};
  errors<ShapeError>(p, "[permute] 1 axes for a 2-dimensional tensor",
                     [](const Tensor& x) { return permute(x, {0}); }, {2, 3});
  rows.push_back(p);

  OpCase e = row("expand");
  e.samples = {one(
                   "3, 4", {3, 1},
                   [](const Tensor& x) {
                     return expand(x, {3, 4});
                   },
                   gather({3, 4}, [](auto i) { return i; })),
               one(
                   "2, 3, 1", {3, 1},
                   [](const Tensor& x) {
                     return expand(x, {2, 3, 1});
                   },
                   gather({2, 3, 1}, [](auto i) { return i; })),
               one(
                   "0, 3", {1, 3},
                   [](const Tensor& x) {
                     return expand(x, {0, 3});
                   },
                   gather({0, 3}, [](auto i) { return i; })),
               one(
                   "7", {}, [](const Tensor& x) { return expand(x, {7}); },
                   gather({7}, [](auto i) { return i; }))};
  for (Sample& s : e.samples) s.layouts = false;
  errors<ShapeError>(e, "[expand] shape [2, 3] does not expand to [4, 3]",
                     [](const Tensor& x) {
                       return expand(x, {4, 3});
                     },
                     {2, 3});
  rows.push_back(e);

  OpCase sq = row("squeeze");
  sq.samples = {
      one(
          "", {3, 1, 2, 1}, [](const Tensor& x) { return squeeze(x); }, reshaped({3, 2})),
      one(
          "axis 1", {3, 1, 2}, [](const Tensor& x) { return squeeze(x, 1); }, reshaped({3, 2})),
      one(
          "axis 0 of 3", {3, 1}, [](const Tensor& x) { return squeeze(x, 0); }, reshaped({3, 1}))};
  errors<ShapeError>(sq, "axis 5", [](const Tensor& x) { return squeeze(x, 5); }, {2, 1});
  rows.push_back(sq);

  OpCase un = row("unsqueeze");
  un.samples = {
      one(
          "1", {3, 2}, [](const Tensor& x) { return unsqueeze(x, 1); }, reshaped({3, 1, 2})),
      one(
          "-1", {4}, [](const Tensor& x) { return unsqueeze(x, -1); }, reshaped({4, 1})),
      one(
          "0", {}, [](const Tensor& x) { return unsqueeze(x, 0); }, reshaped({1}))};
  errors<ShapeError>(un, "axis 3", [](const Tensor& x) { return unsqueeze(x, 3); }, {2, 3});
  rows.push_back(un);

  OpCase se = row("select");
  se.samples = {one(
                    "0, 1", {3, 5}, [](const Tensor& x) { return select(x, 0, 1); },
                    gather({5},
                           [](auto i) {
                             return std::vector<i64>{1, i[0]};
                           })),
                one(
                    "-1, -2", {2, 3, 4}, [](const Tensor& x) { return select(x, -1, -2); },
                    gather({2, 3}, [](auto i) {
                      return std::vector<i64>{i[0], i[1], 2};
                    }))};
  errors<IndexError>(se, "[select] index 2 is outside [-2, 2) of axis 0",
                     [](const Tensor& x) { return select(x, 0, 2); }, {2, 3});
  rows.push_back(se);

  OpCase sl = row("slice");
  const auto every = [](i64 axis, Slice s) {
    return [axis, s](const Tensor& x) { return slice(x, axis, s); };
  };
  sl.samples = {one("0, 1:3", {5, 3}, every(0, {1, 3}),
                    gather({2, 3},
                           [](auto i) {
                             return std::vector<i64>{i[0] + 1, i[1]};
                           })),
                one("1, ::2", {3, 5}, every(1, {.step = 2}),
                    gather({3, 3},
                           [](auto i) {
                             return std::vector<i64>{i[0], 2 * i[1]};
                           })),
                one("0, -2:", {5}, every(0, {.begin = -2}),
                    gather({2}, [](auto i) { return std::vector<i64>{i[0] + 3}; })),
                one("0, 3:3", {5}, every(0, {3, 3}), gather({0}, [](auto i) { return i; }))};
  errors<ShapeError>(sl, "[slice] the step must be at least 1, got 0", every(0, {.step = 0}), {4});
  rows.push_back(sl);

  OpCase sb = row("slice_backward", {"copy", "fill"});
  sb.samples = {
      one(
          "5, 1:3", {2, 3},
          [](const Tensor& x) {
            return slice_backward(x, {5, 3}, 0, {1, 3});
          },
          [](const std::vector<Array>& in) {
            return filled({5, 3}, [&](const std::vector<i64>& i) {
              return i[0] < 1 || i[0] > 2 ? 0.0 : at(in[0], {i[0] - 1, i[1]});
            });
          }),
      one(
          "7, ::3", {3}, [](const Tensor& x) { return slice_backward(x, {7}, 0, {.step = 3}); },
          [](const std::vector<Array>& in) {
            return filled({7}, [&](const std::vector<i64>& i) {
              return i[0] % 3 ? 0.0 : in[0].v[size_t(i[0] / 3)];
            });
          })};
  errors<ShapeError>(sb, "", [](const Tensor& x) { return slice_backward(x, {5}, 0, {.step = 0}); },
                     {2});
  rows.push_back(sb);
}

void add_copies(std::vector<OpCase>& rows) {
  const Shape shapes[] = {{3, 5}, {2, 3, 4}, {}, {0}, {1}, {33}, {3, 257}, {31, 17}};
  OpCase co = row("contiguous", {"copy"});
  OpCase cl = row("clone", {"copy"});
  for (const Shape& s : shapes) {
    co.samples.push_back(one(
        "", s, [](const Tensor& x) { return contiguous(x); }, same()));
    cl.samples.push_back(one(
        "", s, [](const Tensor& x) { return clone(x); }, same()));
  }
  co.samples.push_back(one(
      "channels_last", {2, 3, 2, 2},
      [](const Tensor& x) { return contiguous(x, MemoryFormat::channels_last); }, same()));
  errors<ShapeError>(co, "[contiguous] channels_last needs 4 dimensions, got 2",
                     [](const Tensor& x) { return contiguous(x, MemoryFormat::channels_last); },
                     {2, 2});
  co.errors[0] = undefined_tensor([](const Tensor& a, const Tensor&) { (void)contiguous(a); });
  cl.errors = {undefined_operand("clone", [](const Tensor& a, const Tensor&) { (void)clone(a); }),
               no_memory("clone", [](const Tensor& x) { (void)clone(x); })};
  rows.push_back(co);
  rows.push_back(cl);

  OpCase ca = row("cat", {"copy"});
  const auto joined = [](i64 axis) {
    return [axis](std::span<const Tensor> in) { return cat(in, axis); };
  };
  const auto along = [](size_t axis, const Shape& out) {
    return [axis, out](const std::vector<Array>& in) {
      return filled(out, [&](std::vector<i64> i) {
        for (const Array& x : in) {
          if (i[axis] < x.shape[int(axis)]) return at(x, i);
          i[axis] -= x.shape[int(axis)];
        }
        return double(NAN);
      });
    };
  };
  ca.samples = {{"0", {{{2, 3}}, {{1, 3}}}, joined(0), along(0, {3, 3})},
                {"1", {{{2, 3}}, {{2, 2}}, {{2, 1}}}, joined(1), along(1, {2, 6})},
                {"0", {{{0, 3}}, {{2, 3}}}, joined(0), along(0, {2, 3})}};
  ca.errors = {
      two_devices("cat",
                  [](const Tensor& a, const Tensor& b) {
                    (void)cat({a, b});
                  }),
      error_input<ShapeError>("shapes", "[cat] shapes may differ only along axis 0", [](Device d) {
        (void)cat({ones({2, 3}, {.device = d}), ones({2, 4}, {.device = d})});
      })};
  rows.push_back(ca);

  OpCase td = row("to_dtype", {"copy"});
  for (const Shape& s : {Shape{3, 5}, Shape{33}, Shape{}, Shape{0}})
    for (DType t : kAll) {
      const bool round = !is_floating(t), truth = t == DType::boolean;
      td.samples.push_back(one(
          dtype_name(t), s, [t](const Tensor& x) { return to_dtype(x, t); },
          [round, truth](const std::vector<Array>& in) {
            Array r = in[0];
            for (double& v : r.v) v = round && !truth ? std::trunc(v) : v;
            return r;
          }));
      td.samples.back().result = t;
      td.samples.back().inputs[0].low = 0;  // all dtypes have these
    }
  td.errors = {
      undefined_operand("to_dtype", [](const Tensor& a, const Tensor&) { (void)to_dtype(a, f32); }),
      no_memory("to_dtype", [](const Tensor& x) { (void)to_dtype(x, f64); })};
  rows.push_back(td);

  OpCase dev = row("to_device", {"copy"});
  for (const Shape& s : {Shape{3, 5}, Shape{}, Shape{0}})
    dev.samples.push_back(one(
        "cpu and back", s,
        [](const Tensor& x) {
          const Device there = x.device() == Device::cpu() ? Device::simt() : Device::cpu();
          return to_device(to_device(x, there), x.device());
        },
        same()));
  dev.errors = {
      error_input<PlacementError>("meta", "[to_device] a meta tensor has no values to move to",
                                  [](Device d) {
                                    (void)to_device(
                                        ones({2}, {.device = Device::meta(DeviceKind::cpu)}), d);
                                  }),
      {"no such device",
       [](Device d) { (void)to_device(ones({2}, {.device = d}), Device::parse("cuda:63")); },
       [](const Error&) { return true; },  // of another type where there is a GPU
       "cuda:63"}};
  rows.push_back(dev);
}

void add_writing(std::vector<OpCase>& rows) {
  OpCase copy{"copy_", {"copy"}, kAll};
  for (const auto& [a, b] :
       {std::pair<Shape, Shape>{{3, 5}, {3, 5}}, {{2, 3, 4}, {3, 1}}, {{0}, {1}}})
    copy.samples.push_back(
        {"",
         {{a}, {b}},
         [](std::span<const Tensor> in) {
           Tensor y = clone(in[0]);
           y.copy_(in[1]);
           return y;
         },
         [](const std::vector<Array>& in) {
           return filled(in[0].shape, [&](const std::vector<i64>& i) { return at(in[1], i); });
         }});
  copy.errors = {
      error_input<ShapeError>("shapes", "[copy_] shapes [2] and [3] do not broadcast",
                              [](Device d) {
                                Tensor x = ones({2}, {.device = d});
                                x.copy_(ones({3}, {.device = d}));
                              }),
      error_input<InplaceError>("leaf", "[copy_] in-place operation on a leaf", [](Device d) {
        Tensor x = ones({2}, {.device = d, .requires_grad = true});
        x.copy_(ones({2}, {.device = d}));
      })};
  rows.push_back(copy);

  OpCase fill{"fill_", {"fill"}, kAll};
  for (const Shape& s : {Shape{3, 5}, Shape{}, Shape{0}, Shape{257}})
    fill.samples.push_back({"1",
                            {{s}},
                            [](std::span<const Tensor> in) {
                              Tensor y = clone(in[0]);
                              y.fill_(1);
                              return y;
                            },
                            [](const std::vector<Array>& in) {
                              return filled(in[0].shape, [](const auto&) { return 1.0; });
                            }});
  fill.mostly_constant = true;
  fill.errors = {error_input<InplaceError>("leaf", "[fill_] in-place operation on a leaf",
                                           [](Device d) {
                                             Tensor x =
                                                 ones({2}, {.device = d, .requires_grad = true});
                                             x.fill_(1);
                                           }),
                 undefined_operand("fill_", [](const Tensor& none, const Tensor&) {
                   Tensor x = none;
                   x.fill_(1);
                 })};
  rows.push_back(fill);
}

// view where the strides allow it, else a copy: the layouts are both.
void add_reshapes(std::vector<OpCase>& rows) {
  OpCase r = row("reshape", {"copy"});
  for (const auto& [in, wanted, out] : {std::tuple<Shape, Shape, Shape>{{3, 4}, {2, 6}, {2, 6}},
                                        {{2, 3, 4}, {-1, 2}, {12, 2}},
                                        {{6}, {1, 6, 1}, {1, 6, 1}},
                                        {{}, {1}, {1}},
                                        {{1}, {}, {}},
                                        {{0, 3}, {3, 0}, {3, 0}},
                                        {{33, 2}, {66}, {66}},
                                        {{31, 1, 7}, {7, -1}, {7, 31}}}) {
    r.samples.push_back(one(
        str("to ", wanted), in, [w = wanted](const Tensor& x) { return reshape(x, w); },
        reshaped(out)));
    r.samples.back().torch = str("a.reshape(", to_string(wanted), ")");
  }
  errors<ShapeError>(r, "cannot see 6 elements of shape [2, 3] as [4, -1]",
                     [](const Tensor& x) {
                       return reshape(x, {4, -1});
                     },
                     {2, 3});
  r.errors[0] = undefined_tensor([](const Tensor& a, const Tensor&) { (void)reshape(a, {4}); });
  rows.push_back(r);

  OpCase f = row("flatten", {"copy"});
  for (const auto& [in, first, last, out] :
       {std::tuple<Shape, i64, i64, Shape>{{3, 5}, 0, -1, {15}},
        {{2, 3, 4}, 1, 2, {2, 12}},
        {{2, 3, 1, 2}, 0, -3, {6, 1, 2}},
        {{}, 0, -1, {1}},
        {{7}, 0, 0, {7}},
        {{2, 0, 3}, 0, 1, {0, 3}},
        {{31, 1, 3}, 1, -1, {31, 3}},
        {{3, 257}, 0, 1, {771}}}) {
    f.samples.push_back(one(
        str(first, ", ", last), in,
        [a = first, b = last](const Tensor& x) { return flatten(x, a, b); }, reshaped(out)));
    f.samples.back().torch = str("torch.flatten(a, ", first, ", ", last, ")");
  }
  errors<ShapeError>(f, "[flatten] the first axis, 1, comes after the last, 0",
                     [](const Tensor& x) { return flatten(x, 1, 0); }, {2, 3});
  f.errors[0] = undefined_tensor([](const Tensor& a, const Tensor&) { (void)flatten(a); });
  rows.push_back(f);
}

void add_lists(std::vector<OpCase>& rows) {
  OpCase sp = row("split");
  for (const auto& [in, size, axis, piece] : {std::tuple<Shape, i64, i64, i64>{{5, 3}, 2, 0, 1},
                                              {{3, 7}, 3, 1, 2},
                                              {{2, 3, 4}, 1, -2, 2},
                                              {{7}, 9, 0, 0},
                                              {{0, 3}, 2, 0, 0},
                                              {{33}, 8, 0, 4},
                                              {{1, 5}, 1, 0, 0},
                                              {{257, 2}, 100, 0, 2}}) {
    const int a = int(axis < 0 ? axis + in.ndim() : axis);
    Shape out = in;
    out[a] = std::min(size, in[a] - size * piece);
    sp.samples.push_back(one(
        str(size, " along ", axis, ", piece ", piece), in,
        [size = size, axis = axis, piece = piece](const Tensor& x) {
          return split(x, size, axis)[size_t(piece)];
        },
        gather(out, [a, begin = size * piece](auto i) {
          i[size_t(a)] += begin;
          return i;
        })));
    sp.samples.back().torch = str("torch.split(a, ", size, ", ", axis, ")[", piece, "]");
  }
  for (const auto& [in, sizes, axis, piece] :
       {std::tuple<Shape, std::vector<i64>, i64, i64>{{5, 3}, {2, 0, 3}, 0, 2},
        {{3, 7}, {1, 4, 2}, -1, 1},
        {{33}, {33}, 0, 0},
        {{0, 3}, {0, 0}, 0, 1}}) {
    const int a = int(axis < 0 ? axis + in.ndim() : axis);
    Shape out = in;
    out[a] = sizes[size_t(piece)];
    i64 begin = 0;
    for (i64 i = 0; i < piece; ++i) begin += sizes[size_t(i)];
    sp.samples.push_back(one(
        str("of a list along ", axis, ", piece ", piece), in,
        [sizes = sizes, axis = axis, piece = piece](const Tensor& x) {
          return split(x, sizes, axis)[size_t(piece)];
        },
        gather(out, [a, begin](auto i) {
          i[size_t(a)] += begin;
          return i;
        })));
    std::string list;
    for (const i64 size : sizes) list += str(size, ", ");
    sp.samples.back().torch = str("torch.split(a, [", list, "], ", axis, ")[", piece, "]");
  }
  errors<ShapeError>(sp, "[split] the size must be at least 1, got 0",
                     [](const Tensor& x) { return split(x, 0)[0]; }, {4});
  sp.errors[0] = undefined_tensor([](const Tensor& a, const Tensor&) { (void)split(a, 1); });
  const auto of_list = [](const std::vector<i64>& sizes) {
    return [sizes](Device d) { (void)split(ones({4}, {.device = d}), sizes); };
  };
  sp.errors.push_back(error_input<ShapeError>(
      "sum", "[split] the sizes add up to 5, the axis has 4", of_list({2, 3})));
  sp.errors.push_back(error_input<ShapeError>(
      "negative", "[split] a size must not be negative, got -1", of_list({5, -1})));
  rows.push_back(sp);

  OpCase st = row("stack", {"copy"});
  for (const auto& [in, n, axis] : {std::tuple<Shape, int, i64>{{3, 5}, 2, 0},
                                    {{2, 3}, 3, 1},
                                    {{4, 2}, 2, -1},
                                    {{}, 3, 0},
                                    {{0, 3}, 2, 1},
                                    {{7}, 1, -2},
                                    {{1, 33}, 4, 2},
                                    {{3, 1, 5}, 2, -2}}) {
    const int a = int(axis < 0 ? axis + in.ndim() + 1 : axis);
    Shape out = in;
    out.insert(a, n);
    Sample s{str(n, " along ", axis), std::vector<Input>(size_t(n), Input{in}),
             [axis = axis](std::span<const Tensor> x) { return stack(x, axis); },
             [out, a](const std::vector<Array>& x) {
               return filled(out, [&](std::vector<i64> i) {
                 const size_t which = size_t(i[size_t(a)]);
                 i.erase(i.begin() + a);
                 return at(x[which], i);
               });
             }};
    s.torch = str("torch.stack((", std::string("a, b, c, d, ").substr(0, size_t(n) * 3), "), ",
                  axis, ")");
    st.samples.push_back(std::move(s));
  }
  st.errors = {
      error_input<UsageError>("none", "[stack] no tensors given",
                              [](Device) { (void)stack(std::span<const Tensor>{}); }),
      error_input<ShapeError>("shapes", "[stack] shapes differ: [2] and [3]",
                              [](Device d) {
                                (void)stack({ones({2}, {.device = d}), ones({3}, {.device = d})});
                              }),
      two_devices("cat", [](const Tensor& a, const Tensor& b) {
        (void)stack({a, b});
      })};
  rows.push_back(st);
}

void add_shape_cases(std::vector<OpCase>& rows) {
  add_views(rows);
  add_copies(rows);
  add_reshapes(rows);
  add_lists(rows);
  add_writing(rows);
}

const CaseFile file{add_shape_cases};

}  // namespace
}  // namespace wt_test
