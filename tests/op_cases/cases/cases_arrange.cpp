// Rows of the operators that rearrange.
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

void add_unfold(std::vector<OpCase>& rows) {
  OpCase c{"unfold", {"unfold_backward"}, kAll};
  OpCase b{"unfold_backward", {"unfold_backward"}, kFloats};
  struct Case {
    Shape in, out;
    i64 axis, size, step;
  };
  for (const Case& k :
       {Case{{3, 7}, {3, 3, 3}, 1, 3, 2}, Case{{5, 4}, {4, 4, 2}, 0, 2, 1},
        Case{{31}, {9, 7}, 0, 7, 3}, Case{{2, 3, 257}, {2, 3, 64, 5}, -1, 5, 4},
        Case{{3, 1, 4}, {3, 1, 4, 1}, 1, 1, 5}, Case{{}, {1}, 0, 1, 2},
        Case{{0, 4}, {0, 2, 2}, 1, 2, 2}, Case{{6, 2}, {1, 2, 6}, 0, 6, 100},
        Case{{2, 9}, {2, 2, 2}, 1, 2, 4}, Case{{33, 2, 3}, {8, 2, 3, 5}, -3, 5, 4}}) {
    const int n = k.in.ndim(), a = n == 0 ? 0 : int(k.axis < 0 ? k.axis + n : k.axis);
    const auto place = [k, n, a](Place i) {
      const i64 in_window = i.back();
      i.pop_back();
      if (n == 0) return Place{};
      i[size_t(a)] = i[size_t(a)] * k.step + in_window;
      return i;
    };
    c.samples.push_back(one_input(
        str("a.unfold(", k.axis, ", ", k.size, ", ", k.step, ")"), k.in,
        [k](const Tensor& x) { return unfold(x, k.axis, k.size, k.step); }, moved(k.out, place)));
    b.samples.push_back(one_input(
        "", k.out,
        [k](const Tensor& x) { return unfold_backward(x, k.in, k.axis, k.size, k.step); },
        [k, place](const std::vector<Array>& in) {
          Array r{k.in, std::vector<double>(size_t(count(k.in))), 0};
          r.magnitude = r.v;
          for (i64 e = 0; e < count(k.out); ++e) {
            const size_t to = size_t(ravel(place(unravel(e, k.out)), k.in));
            r.v[to] += in[0].v[size_t(e)];
            r.magnitude[to] += std::fabs(in[0].v[size_t(e)]);
          }
          r.terms = kTermsOfFormula + double(k.size);
          return r;
        }));
  }
  c.errors = {
      undefined_input("unfold", [](const Tensor& x) { return unfold(x, 0, 1, 1); }),
      fails<ShapeError>("size", "[unfold] the size must be in [1, 3], the size of axis 1, got 4",
                        {2, 3}, [](const Tensor& x) { return unfold(x, 1, 4, 1); }),
      fails<ShapeError>("no size", "[unfold] the size must be in [1, 2]", {2, 3},
                        [](const Tensor& x) { return unfold(x, 0, 0, 1); }),
      fails<ShapeError>("step", "[unfold] the step must be at least 1, got 0", {2, 3},
                        [](const Tensor& x) { return unfold(x, 0, 1, 0); }),
      fails<ShapeError>("axis", "axis 2", {2, 3},
                        [](const Tensor& x) { return unfold(x, 2, 1, 1); }),
      fails<ShapeError>("dims", "[unfold] the result would have 9 dimensions",
                        {1, 1, 1, 1, 1, 1, 1, 1},
                        [](const Tensor& x) { return unfold(x, 0, 1, 1); })};
  b.errors = {
      undefined_input("unfold_backward",
                      [](const Tensor& x) { return unfold_backward(x, {3}, 0, 2, 1); }),
      fails<ShapeError>("shape",
                        "[unfold_backward] the windows of a tensor of shape [5] have shape [4, 2]",
                        {4, 3}, [](const Tensor& x) { return unfold_backward(x, {5}, 0, 2, 1); }),
      error_input<DtypeError>(
          "integers", "[unfold_backward] expected a gradient of floats, got i64", [](Device d) {
            const Tensor g = zeros({2, 2}, {.dtype = DType::i64, .device = d});
            (void)unfold_backward(g, {3}, 0, 2, 1);
          })};
  rows.push_back(std::move(c));
  rows.push_back(std::move(b));
}

void add_pieces(std::vector<OpCase>& rows) {
  OpCase c{"chunk", {}, kAll};
  struct Case {
    Shape in, out;
    i64 chunks, axis, piece, begin;
  };
  for (const Case& k :
       {Case{{3, 7}, {3, 3}, 3, 1, 1, 3}, Case{{5, 3}, {2, 3}, 2, 0, 1, 3},
        Case{{7, 2}, {3, 2}, 3, 0, 0, 0}, Case{{33}, {5}, 5, -1, 4, 28}, Case{{2}, {1}, 7, 0, 1, 1},
        Case{{3, 0}, {3, 0}, 2, 1, 1, 0}, Case{{4, 5, 1}, {4, 1, 1}, 3, 1, 2, 4},
        Case{{257, 3}, {65, 3}, 4, 0, 2, 130}})
    c.samples.push_back(one_input(
        str("torch.chunk(a, ", k.chunks, ", ", k.axis, ")[", k.piece, "]"), k.in,
        [k](const Tensor& x) { return chunk(x, k.chunks, k.axis)[size_t(k.piece)]; },
        moved(k.out, [k](Place i) {
          i[size_t(k.axis < 0 ? k.axis + k.in.ndim() : k.axis)] += k.begin;
          return i;
        })));
  const auto chunked = [](i64 n, i64 axis) {
    return [=](const Tensor& x) { return chunk(x, n, axis)[0]; };
  };
  c.errors = {
      undefined_input("chunk", chunked(2, 0)),
      fails<ShapeError>("chunks", "[chunk] chunks must be at least 1, got 0", {4}, chunked(0, 0)),
      fails<ShapeError>("0-d", "[chunk] needs at least one dimension", {}, chunked(1, 0)),
      fails<ShapeError>("axis", "[chunk] axis 1", {4}, chunked(2, 1))};
  rows.push_back(std::move(c));

  OpCase u{"unbind", {}, kAll};
  for (const auto& [in, axis, piece] : {std::tuple<Shape, i64, i64>{{3, 5}, 0, 2},
                                        {{3, 5}, 1, 3},
                                        {{2, 3, 4}, -2, 1},
                                        {{7}, 0, 6},
                                        {{1, 31}, 0, 0},
                                        {{2, 0}, 0, 1},
                                        {{3, 1, 2}, -1, 1},
                                        {{5, 33}, -1, 32}}) {
    const int a = int(axis < 0 ? axis + in.ndim() : axis);
    Shape out = in;
    out.erase(a);
    u.samples.push_back(one_input(
        str("torch.unbind(a, ", axis, ")[", piece, "]"), in,
        [axis = axis, piece = piece](const Tensor& x) { return unbind(x, axis)[size_t(piece)]; },
        moved(out, [a, piece = piece](Place i) {
          i.insert(i.begin() + a, piece);
          return i;
        })));
  }
  const auto unbound = [](i64 axis) { return [=](const Tensor& x) { return unbind(x, axis)[0]; }; };
  u.errors = {undefined_input("unbind", unbound(0)),
              fails<ShapeError>("0-d", "[unbind] needs at least one dimension", {}, unbound(0)),
              fails<ShapeError>("axis", "[unbind] axis -3", {4, 2}, unbound(-3))};
  rows.push_back(std::move(u));
}

void add_movedim(std::vector<OpCase>& rows) {
  OpCase c{"movedim", {}, kAll};
  struct Case {
    std::vector<i64> from, to;
    Shape in;
    std::vector<int> order;  // axis i of the result is axis order[i]
  };
  for (const Case& k :
       {Case{{0}, {-1}, {2, 3, 5}, {1, 2, 0}}, Case{{2}, {0}, {3, 4, 2}, {2, 0, 1}},
        Case{{0, 1}, {2, 0}, {2, 3, 4}, {1, 2, 0}}, Case{{-1, 0}, {1, 2}, {3, 1, 5}, {1, 2, 0}},
        Case{{}, {}, {3, 2}, {0, 1}}, Case{{0}, {1}, {0, 3}, {1, 0}},
        Case{{3, 0}, {0, 3}, {2, 1, 3, 7}, {3, 1, 2, 0}}, Case{{1}, {1}, {5, 31}, {0, 1}}}) {
    Shape out;
    for (const int a : k.order) out.push_back(k.in[a]);
    const auto list = [](const std::vector<i64>& v) {
      std::string s;
      for (const i64 x : v) s += str(x, ", ");
      return "(" + s + ")";
    };
    c.samples.push_back(one_input(
        str("torch.movedim(a, ", list(k.from), ", ", list(k.to), ")"), k.in,
        [k](const Tensor& x) { return movedim(x, k.from, k.to); }, moved(out, [k](const Place& i) {
          Place from(i.size());
          for (size_t d = 0; d < i.size(); ++d) from[size_t(k.order[d])] = i[d];
          return from;
        })));
  }
  const auto call = [](const Dims& a, const Dims& b) {
    return [=](const Tensor& x) { return movedim(x, a, b); };
  };
  c.errors = {
      undefined_input("movedim", call(0, 0)),
      fails<ShapeError>("lengths", "[movedim] source and destination must name equally many axes",
                        {2, 3}, call({0, 1}, 0)),
      fails<ShapeError>("twice", "[movedim] axis -1 is named twice", {2, 3}, call({1, -1}, {0, 1})),
      fails<ShapeError>("axis", "[movedim] axis 2", {2, 3}, call(0, 2))};
  rows.push_back(std::move(c));
}

void add_meshgrid(std::vector<OpCase>& rows) {
  OpCase c{"meshgrid", {"copy"}, kAll};
  for (const bool xy : {false, true})
    for (const std::vector<i64>& sizes :
         {std::vector<i64>{3, 5}, {4}, {2, 3, 4}, {0, 3}, {7, 31}}) {
      Sample s;
      const int n = int(sizes.size());
      Shape out{n};
      std::string names;
      for (int d = 0; d < n; ++d) {
        s.inputs.push_back({{sizes[size_t(d)]}});
        out.push_back(sizes[size_t(xy && n > 1 && d < 2 ? 1 - d : d)]);
        names += str(char('a' + d), ", ");
      }
      s.label = s.torch =
          str("torch.stack(torch.meshgrid(", names, "indexing='", xy ? "xy" : "ij", "'))");
      s.call = [xy](std::span<const Tensor> in) {
        return stack(meshgrid(in, {xy ? Indexing::xy : Indexing::ij}));
      };
      s.oracle = elements(out, [xy, n](const std::vector<Array>& in, const Place& i) {
        const i64 list = i[0], axis = xy && n > 1 && list < 2 ? 1 - list : list;
        return in[size_t(list)].v[size_t(i[size_t(axis + 1)])];
      });
      c.samples.push_back(std::move(s));
    }
  c.errors = {
      undefined_operand("meshgrid",
                        [](const Tensor& a, const Tensor& b) {
                          (void)meshgrid({a, b});
                        }),
      error_input<UsageError>("none", "[meshgrid] no tensors given",
                              [](Device) { (void)meshgrid(std::span<const Tensor>{}); }),
      fails<ShapeError>("rank", "[meshgrid] list 0 must be 1-d or 0-d, got 2 dimensions", {2, 2},
                        [](const Tensor& x) { return meshgrid({x})[0]; }),
      fails<DtypeError>("dtypes", "[meshgrid] operands differ in dtype", {2}, [](const Tensor& x) {
        return meshgrid({x, x.to(DType::i64)})[0];
      })};
  rows.push_back(std::move(c));
}

void add_repeats(std::vector<OpCase>& rows) {
  OpCase c{"repeat", {"copy"}, kAll};
  for (const auto& [in, times, out] :
       {std::tuple<Shape, Shape, Shape>{{3, 2}, {2, 3}, {6, 6}},
        {{3, 5}, {1, 2}, {3, 10}},
        {{3}, {2, 1, 2}, {2, 1, 6}},
        {{}, {3, 2}, {3, 2}},
        {{2, 3}, {1, 1}, {2, 3}},
        {{2, 3}, {0, 2}, {0, 6}},
        {{0, 3}, {2, 2}, {0, 6}},
        {{1, 7, 1}, {3, 1, 5}, {3, 7, 5}},
        {{2, 1, 1, 3, 1, 1, 1, 2}, {2, 1, 2, 1, 1, 3, 1, 2}, {4, 1, 2, 3, 1, 3, 1, 4}},
        {{31, 33}, {2, 1}, {62, 33}}})
    c.samples.push_back(one_input(
        str("a.repeat(", to_string(times), ")"), in,
        [times = times](const Tensor& x) { return repeat(x, times); },
        moved(out, [in = in](const Place& i) {
          const size_t lead = i.size() - in.size();
          Place from;
          for (int d = 0; d < in.ndim(); ++d) from.push_back(i[lead + size_t(d)] % in[d]);
          return from;
        })));
  const auto times = [](const Shape& r) { return [=](const Tensor& x) { return repeat(x, r); }; };
  const i64 huge = i64(1) << 62;
  c.errors = {
      undefined_input("repeat", times({2, 2})),
      fails<ShapeError>("few", "[repeat] repeats [2] has fewer entries than the 2 dimensions",
                        {2, 3}, times({2})),
      fails<ShapeError>("negative", "[repeat] repeats [2, -1]: entry 1 is negative or too large",
                        {2, 3}, times({2, -1})),
      fails<ShapeError>("large", "entry 0 is negative or too large", {2}, times({huge})),
      fails<ShapeError>("product", "[repeat] the result would be [1073741824, 17179869184]", {1, 1},
                        times({i64(1) << 30, i64(1) << 34}))};
  rows.push_back(std::move(c));

  OpCase r{"repeat_interleave", {"copy"}, kAll};
  struct Case {
    Shape in, out;
    i64 times, axis;
  };
  for (const Case& k :
       {Case{{3, 5}, {3, 10}, 2, 1}, Case{{4, 3}, {12, 3}, 3, 0}, Case{{2, 3, 4}, {2, 6, 4}, 2, -2},
        Case{{3, 2}, {3, 2}, 1, 1}, Case{{3, 2}, {0, 2}, 0, 0}, Case{{0, 2}, {0, 2}, 3, 0},
        Case{{}, {2}, 2, 0}, Case{{1, 33}, {1, 231}, 7, -1}}) {
    const int n = k.in.ndim(), a = int(k.axis < 0 ? k.axis + n : k.axis);
    r.samples.push_back(one_input(
        n == 0 ? "" : str("torch.repeat_interleave(a, ", k.times, ", ", k.axis, ")"), k.in,
        [k](const Tensor& x) { return repeat_interleave(x, k.times, k.axis); },
        moved(k.out, [k, a, n](Place i) {
          if (n == 0) return Place{};
          i[size_t(a)] /= k.times;
          return i;
        })));
  }
  r.samples.push_back(one_input(
      "torch.repeat_interleave(a, 3)", {2, 5},
      [](const Tensor& x) { return repeat_interleave(x, 3); }, moved({30}, [](const Place& i) {
        return Place{i[0] / 15, i[0] / 3 % 5};
      })));
  r.errors = {
      undefined_input("repeat_interleave",
                      [](const Tensor& x) { return repeat_interleave(x, 2, 0); }),
      fails<ShapeError>("negative", "[repeat_interleave] repeats must be at least 0, got -2", {3},
                        [](const Tensor& x) { return repeat_interleave(x, -2); }),
      fails<ShapeError>("overflow", "the size of axis 1 overflows", {1, 3},
                        [](const Tensor& x) { return repeat_interleave(x, huge, 1); }),
      fails<ShapeError>("axis", "[repeat_interleave] axis 1", {3},
                        [](const Tensor& x) { return repeat_interleave(x, 2, 1); })};
  rows.push_back(std::move(r));
}

std::string list_of(const std::vector<i64>& v) {
  std::string s;
  for (const i64 x : v) s += str(s.empty() ? "" : ", ", x);
  return s;
}

void add_orders(std::vector<OpCase>& rows) {
  OpCase c{"flip", {"copy"}, kAll};
  for (const auto& [in, axes] : {std::pair<Shape, std::vector<i64>>{{3, 5}, {1}},
                                 {{2, 3, 4}, {0, -1}},
                                 {{7}, {0}},
                                 {{3, 2}, {}},
                                 {{}, {0}},
                                 {{0, 3}, {0, 1}},
                                 {{1, 33}, {0, 1}},
                                 {{4, 1, 3, 2}, {-2, 0}},
                                 {{31, 17}, {0}}})
    c.samples.push_back(one_input(
        in.empty() ? "" : str("torch.flip(a, [", list_of(axes), "])"), in,
        [axes = axes](const Tensor& x) { return flip(x, axes); },
        moved(in, [in = in, axes = axes](Place i) {
          if (in.empty()) return i;
          for (const i64 a : axes) {
            const int d = int(a < 0 ? a + in.ndim() : a);
            i[size_t(d)] = in[d] - 1 - i[size_t(d)];
          }
          return i;
        })));
  c.errors = {
      undefined_input("flip", [](const Tensor& x) { return flip(x, 0); }),
      fails<ShapeError>("axis", "[flip] axis 2", {2, 3},
                        [](const Tensor& x) { return flip(x, 2); }),
      fails<ShapeError>("twice", "[flip] axis -2 is named twice", {2, 3}, [](const Tensor& x) {
        return flip(x, {0, -2});
      })};
  rows.push_back(std::move(c));

  OpCase r{"roll", {"copy"}, kAll};
  for (const auto& [in, shifts, axes] :
       {std::tuple<Shape, std::vector<i64>, std::vector<i64>>{{3, 5}, {2}, {1}},
        {{4, 3}, {1, -1}, {0, 1}},
        {{7}, {-9}, {0}},
        {{2, 3}, {0}, {1}},
        {{0, 3}, {2}, {0}},
        {{1, 33}, {40}, {-1}},
        {{5, 2}, {1, 1}, {0, 0}},
        {{31, 17}, {30}, {0}}})
    r.samples.push_back(one_input(
        str("torch.roll(a, (", list_of(shifts), ",), (", list_of(axes), ",))"), in,
        [shifts = shifts, axes = axes](const Tensor& x) { return roll(x, shifts, axes); },
        moved(in, [in = in, shifts = shifts, axes = axes](Place i) {
          for (size_t k = 0; k < axes.size(); ++k) {
            const int d = int(axes[k] < 0 ? axes[k] + in.ndim() : axes[k]);
            i[size_t(d)] = ((i[size_t(d)] - shifts[k]) % in[d] + in[d]) % in[d];
          }
          return i;
        })));
  for (const Shape& in : {Shape{3, 4}, Shape{}, Shape{2, 0}})
    r.samples.push_back(one_input(
        "torch.roll(a, 5)", in, [](const Tensor& x) { return roll(x, 5); },
        moved(in, [in](const Place& i) {
          const i64 n = count(in);
          return unravel(((ravel(i, in) - 5) % n + n) % n, in);
        })));
  const auto rolled = [](const Dims& shifts, const Dims& axes) {
    return [=](const Tensor& x) { return roll(x, shifts, axes); };
  };
  r.errors = {undefined_input("roll", rolled(1, 0)),
              fails<ShapeError>("lengths", "[roll] shifts and dims must name equally many axes",
                                {2, 3}, rolled({1, 2}, 0)),
              fails<ShapeError>("flat", "[roll] shifts and dims must name equally many axes, got 2",
                                {2, 3}, rolled({1, 2}, Dims::all())),
              fails<ShapeError>("axis", "[roll] axis 2", {2, 3}, rolled(1, 2))};
  rows.push_back(std::move(r));
}

void add_scatters(std::vector<OpCase>& rows) {
  OpCase c{"slice_scatter", {"copy"}, kAll};
  struct Case {
    Shape in, source;
    i64 axis;
    Slice range;
  };
  for (const Case& k : {Case{{3, 5}, {3, 2}, 1, {1, 3}}, Case{{5, 3}, {3, 3}, 0, {0, 5, 2}},
                        Case{{2, 3, 4}, {2, 1, 4}, -2, {-1}}, Case{{7}, {7}, 0, {}},
                        Case{{4}, {0}, 0, {2, 2}}, Case{{0, 3}, {0, 1}, 1, {1, 2}},
                        Case{{1, 31}, {1, 11}, 1, {0, 31, 3}}, Case{{33, 2}, {7, 2}, 0, {5, 12}}})
    c.samples.push_back(two_inputs(
        str("torch.slice_scatter(a, b, ", k.axis, ", ", k.range.begin, ", ",
            k.range.end == INT64_MAX ? std::string("None") : str(k.range.end), ", ", k.range.step,
            ")"),
        {k.in}, {k.source},
        [k](const Tensor& x, const Tensor& y) { return slice_scatter(x, y, k.axis, k.range); },
        elements(k.in, [k](const std::vector<Array>& in, const Place& i) {
          const size_t a = size_t(k.axis < 0 ? k.axis + k.in.ndim() : k.axis);
          const i64 n = k.in[int(a)];
          const i64 begin = k.range.begin < 0 ? k.range.begin + n : k.range.begin;
          const i64 away = i[a] - begin;
          if (away < 0 || i[a] >= std::min(k.range.end, n) || away % k.range.step)
            return at(in[0], i);
          Place from = i;
          from[a] = away / k.range.step;
          return at(in[1], from);
        })));
  const auto written = [](const Shape& source, i64 axis, Slice r) {
    return [=](const Tensor& x) {
      return slice_scatter(x, ones(source, {.device = x.device()}), axis, r);
    };
  };
  c.errors = {
      undefined_operand("slice_scatter",
                        [](const Tensor& a, const Tensor& b) { (void)slice_scatter(a, b, 0, {}); }),
      fails<ShapeError>("shape",
                        "[slice_scatter] the source must have the shape of the slice, [2, 2]",
                        {2, 5}, written({2, 3}, 1, {1, 3})),
      fails<ShapeError>("step", "[slice_scatter] the step must be at least 1, got -1", {5},
                        written({5}, 0, {0, 5, -1})),
      fails<ShapeError>("0-d", "[slice_scatter] a 0-d tensor cannot be sliced", {},
                        written({}, 0, {})),
      fails<DtypeError>("dtype", "[slice_scatter] operands differ in dtype", {2},
                        [](const Tensor& x) { return slice_scatter(x, x.to(f64), 0, {}); })};
  rows.push_back(std::move(c));

  OpCase s{"select_scatter", {"copy"}, kAll};
  for (const auto& [in, axis, index] : {std::tuple<Shape, i64, i64>{{3, 5}, 1, 2},
                                        {{5, 3}, 0, -1},
                                        {{2, 3, 4}, -2, 1},
                                        {{7}, 0, 6},
                                        {{3, 0}, 0, 1},
                                        {{1, 31}, 0, 0},
                                        {{2, 1, 3}, 1, 0},
                                        {{33, 2}, -1, -2}}) {
    const int a = int(axis < 0 ? axis + in.ndim() : axis);
    Shape source = in;
    source.erase(a);
    s.samples.push_back(two_inputs(
        str("torch.select_scatter(a, b, ", axis, ", ", index, ")"), {in}, {source},
        [axis = axis, index = index](const Tensor& x, const Tensor& y) {
          return select_scatter(x, y, axis, index);
        },
        elements(in, [a, wanted = index < 0 ? index + in[a] : index](const std::vector<Array>& x,
                                                                     Place i) {
          if (i[size_t(a)] != wanted) return at(x[0], i);
          i.erase(i.begin() + a);
          return at(x[1], i);
        })));
  }
  const auto selected = [](const Shape& source, i64 axis, i64 i) {
    return [=](const Tensor& x) {
      return select_scatter(x, ones(source, {.device = x.device()}), axis, i);
    };
  };
  s.errors = {
      undefined_operand("select_scatter",
                        [](const Tensor& a, const Tensor& b) { (void)select_scatter(a, b, 0, 0); }),
      fails<ShapeError>("shape",
                        "[select_scatter] the source must have the shape of the selection, [2]",
                        {2, 5}, selected({5}, 1, 0)),
      fails<IndexError>("index", "[select_scatter] index 5 is outside [-5, 5) of axis 1", {2, 5},
                        selected({2}, 1, 5)),
      fails<ShapeError>("axis", "[select_scatter] axis 2", {2, 5}, selected({2}, 2, 0))};
  rows.push_back(std::move(s));
}

void add_arrange_cases(std::vector<OpCase>& rows) {
  add_unfold(rows);
  add_pieces(rows);
  add_movedim(rows);
  add_meshgrid(rows);
  add_repeats(rows);
  add_orders(rows);
  add_scatters(rows);
}

const CaseFile file{add_arrange_cases};

}  // namespace
}  // namespace wt_test
