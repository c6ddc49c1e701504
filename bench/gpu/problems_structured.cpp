// Copies, reductions, products, softmax, losses, embedding, dropout.
#include <algorithm>

#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/dropout.h"
#include "warptape/kernels/embedding.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/mse.h"
#include "warptape/kernels/reduce.h"
#include "warptape/kernels/softmax.h"

namespace wt::bench {
namespace {

const std::vector<DType> kTwo{DType::f32, DType::bf16}, kThree{DType::f32, DType::f16, DType::bf16},
    kFloat{DType::f32};

// Sizes of a problem with rows and columns: small ones first in both lists.
struct Size {
  i64 rows, columns;
};
Size pick(Scale scale, int shape, std::initializer_list<Size> small,
          std::initializer_list<Size> real) {
  const auto& list = scale == Scale::small ? small : real;
  Size s = list.begin()[size_t(shape) < list.size() ? size_t(shape) : list.size() - 1];
  if (scale == Scale::host) s.rows = std::min(s.rows, (i64{1} << 24) / s.columns);
  return s;
}
std::string text(Size s) { return str(s.rows, "x", s.columns); }
Shape shape_of(Size s) { return {s.rows, s.columns}; }
DType accumulator(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

// --- copy, fill ---
Problem copy_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = pick(scale, 0, {{67, 129}}, {{8192, 8192}});
  // 0: plain; 1: to the other type; 2: transposed.
  const DType to = shape == 1 ? (t == DType::f32 ? DType::bf16 : DType::f32) : t;
  const std::string what = shape == 0   ? " plain"
                           : shape == 1 ? std::string(" to ") + dtype_name(to)
                                        : std::string(" transposed");
  return problem_of(d, t, text(s) + what, sets, [&](Maker& m, std::vector<Tensor>& out) {
    Tensor in = m.normal(shape_of(s), t);
    Shape result = shape_of(s);
    if (shape == 2) {
      in = in.transpose(0, 1);
      result = {s.columns, s.rows};
    }
    out = {m.out(result, to)};
    CopyArgs a{view(out[0]), view(in)};
    m.keep_view(in);
    return a;
  });
}
Problem fill_problem(Device d, DType t, Scale scale, int, int sets) {
  const Size s = pick(scale, 0, {{67, 129}}, {{8192, 8192}});
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(shape_of(s), t)};
    return FillArgs{view(out[0]), 1.5, 1};
  });
}

// --- reductions: over the columns, over the rows, over all ---
template <class Args>
Problem reduce_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = pick(scale, 0, {{37, 130}}, {{8192, 8192}});
  static const char* const kOver[] = {" over columns", " over rows", " over all"};
  return problem_of(d, t, text(s) + kOver[shape % 3], sets,
                    [&](Maker& m, std::vector<Tensor>& out) {
                      Args a;
                      if constexpr (std::is_same_v<Args, AnyArgs>) {
                        // It may stop where it found one: only of zeros it reads everything.
                        const Tensor zeros = full(shape_of(s), -0.0, {.dtype = t, .device = d});
                        m.keep_view(zeros);
                        a.in = view(zeros);
                      } else {
                        a.in = view(m.normal(shape_of(s), t));
                      }
                      a.mask = shape % 3 == 0 ? 2u : shape % 3 == 1 ? 1u : 3u;
                      const Shape result = shape % 3 == 0   ? Shape{s.rows}
                                           : shape % 3 == 1 ? Shape{s.columns}
                                                            : Shape{};
                      out = {m.out(result, std::is_same_v<Args, ArgmaxArgs> ? DType::i64
                                           : std::is_same_v<Args, AnyArgs>  ? DType::boolean
                                                                            : t)};
                      a.out = view(out[0]);
                      return a;
                    });
}

// --- products ---
Problem matmul_problem(Device d, DType t, Scale scale, int shape, int sets) {
  struct Product {
    i64 m, n, k;
    bool transpose_b;
  };
  static constexpr Product kSmall[] = {{33, 65, 47, false}, {64, 128, 64, true}, {1, 40, 72, true}};
  static constexpr Product kReal[] = {{4096, 4096, 4096, false},
                                      {8192, 3072, 768, true},  // a transformer's layer
                                      {128, 512, 784, true}};   // mlp_small
  static constexpr Product kHost[] = {
      {1024, 1024, 1024, false}, {2048, 3072, 768, true}, {128, 512, 784, true}};
  const Product p = (scale == Scale::small  ? kSmall
                     : scale == Scale::host ? kHost
                                            : kReal)[shape % 3];
  const std::string name = str(p.m, "x", p.n, "x", p.k, p.transpose_b ? " nt" : " nn");
  return problem_of(d, t, name, sets, [&](Maker& m, std::vector<Tensor>& out) {
    MatmulArgs a;
    out = {m.out({p.m, p.n}, t)};
    a.out = out[0].impl()->data;
    a.a = m.normal({p.m, p.k}, t).impl()->data;
    a.b = m.normal(p.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n}, t).impl()->data;
    a.m = p.m, a.n = p.n, a.k = p.k;
    a.out_row = p.n, a.a_row = p.k;
    a.b_row = p.transpose_b ? 1 : p.n;
    a.b_column = p.transpose_b ? p.k : 1;
    a.dtype = t;
    return a;
  });
}

// --- softmax and losses ---
Size softmax_size(Scale scale, int shape) {
  return pick(scale, shape, {{9, 33}, {5, 300}, {3, 1100}},
              {{65536, 1024}, {8192, 8192}, {4096, 50257}});
}
Problem softmax_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = softmax_size(scale, shape);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(shape_of(s), t)};
    return SoftmaxForwardArgs{view(out[0]), view(m.normal(shape_of(s), t)), 1, false};
  });
}
Problem softmax_backward_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = softmax_size(scale, shape);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(shape_of(s), t)};
    return SoftmaxBackwardArgs{view(out[0]), view(m.normal(shape_of(s), t)),
                               view(m.normal(shape_of(s), t, true)), 1, false};
  });
}
Size cross_entropy_size(Scale scale, int shape) {
  return pick(scale, shape, {{9, 33}, {5, 300}, {3, 1100}}, {{8192, 50257}, {65536, 1024}});
}
Problem cross_entropy_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = cross_entropy_size(scale, shape);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    CrossEntropyForwardArgs a;
    const DType wide = accumulator(t);
    out = {m.out({}, wide), m.out({}, wide), m.out({2, s.rows}, wide)};
    a.loss_sum = view(out[0]), a.weight = view(out[1]), a.stats = view(out[2]);
    a.logits = view(m.normal(shape_of(s), t));
    a.labels = view(m.indices({s.rows}, s.columns));
    a.axis = 1;
    return a;
  });
}
Problem cross_entropy_backward_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = cross_entropy_size(scale, shape);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    CrossEntropyBackwardArgs a;
    out = {m.out(shape_of(s), t)};
    a.glogits = view(out[0]);
    a.grad = view(m.scalar(1, accumulator(t)));
    a.stats = view(m.normal({2, s.rows}, accumulator(t), true));
    a.logits = view(m.normal(shape_of(s), t));
    a.labels = view(m.indices({s.rows}, s.columns));
    a.axis = 1;
    return a;
  });
}
Problem mse_problem(Device d, DType t, Scale scale, int, int sets) {
  const Size s = pick(scale, 0, {{7, 333}}, {{8192, 8192}});
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({}, accumulator(t)), m.out({}, accumulator(t))};
    return MseForwardArgs{view(out[0]), view(out[1]), view(m.normal(shape_of(s), t)),
                          view(m.normal(shape_of(s), t))};
  });
}
Problem mse_backward_problem(Device d, DType t, Scale scale, int, int sets) {
  const Size s = pick(scale, 0, {{7, 333}}, {{8192, 8192}});
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(shape_of(s), t)};
    return MseBackwardArgs{view(out[0]), view(m.scalar(0.5, accumulator(t))),
                           view(m.normal(shape_of(s), t)), view(m.normal(shape_of(s), t)), 2};
  });
}

// --- normalisation ---
Size norm_size(Scale scale, int shape) {
  return pick(scale, shape, {{9, 33}, {5, 304}, {3, 1100}},
              {{65536, 1024}, {65536, 768}, {8192, 8192}});
}
Problem layer_norm_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = norm_size(scale, shape);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(shape_of(s), t), m.out({2, s.rows}, accumulator(t))};
    const View x = view(m.normal(shape_of(s), t)), weight = view(m.normal({s.columns}, t));
    return LayerNormForwardArgs{
        view(out[0]), view(out[1]), x, weight, view(m.normal({s.columns}, t)), 1e-5};
  });
}
Problem layer_norm_backward_input_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = norm_size(scale, shape);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(shape_of(s), t)};
    const View gy = view(m.normal(shape_of(s), t)), x = view(m.normal(shape_of(s), t));
    const View stats = view(m.normal({2, s.rows}, accumulator(t), true));
    return LayerNormBackwardInputArgs{view(out[0]), gy, x, stats, view(m.normal({s.columns}, t))};
  });
}
Problem layer_norm_backward_params_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Size s = norm_size(scale, shape);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({s.columns}, t), m.out({s.columns}, t)};
    const View gy = view(m.normal(shape_of(s), t)), x = view(m.normal(shape_of(s), t));
    return LayerNormBackwardParamsArgs{view(out[0]), view(out[1]), gy, x,
                                       view(m.normal({2, s.rows}, accumulator(t), true))};
  });
}

// --- dropout and embedding ---
Problem dropout_problem(Device d, DType t, Scale scale, int, int sets) {
  const Size s = pick(scale, 0, {{7, 333}}, {{8192, 8192}});
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(shape_of(s), t)};
    DropoutArgs a;
    a.out = view(out[0]), a.in = view(m.normal(shape_of(s), t));
    a.key = philox_key(7, RandomStream::dropout);
    a.call = 3;
    a.threshold = u32(0.1 * (1 << 24)), a.scale = 1 / 0.9;
    return a;
  });
}
struct Table {
  i64 rows, width, picks;
};
Table table_of(Scale scale) {
  return scale == Scale::small  ? Table{37, 48, 100}
         : scale == Scale::host ? Table{50257, 768, 16384}
                                : Table{50257, 768, 65536};
}
std::string text(const Table& t) { return str(t.picks, " of ", t.rows, "x", t.width); }
Problem embedding_problem(Device d, DType t, Scale scale, int, int sets) {
  const Table s = table_of(scale);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    EmbeddingForwardArgs a;
    out = {m.out({s.picks, s.width}, t)};
    a.out = view(out[0]);
    a.weight = view(m.normal({s.rows, s.width}, t));
    a.indices = view(m.indices({s.picks}, s.rows));
    return a;
  });
}
Problem embedding_backward_problem(Device d, DType t, Scale scale, int, int sets) {
  const Table s = table_of(scale);
  return problem_of(d, t, text(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    EmbeddingBackwardArgs a;
    out = {m.out({s.rows, s.width}, t)};
    a.gweight = view(out[0]);
    a.gout = view(m.normal({s.picks, s.width}, t));
    a.indices = view(m.indices({s.picks}, s.rows));
    return a;
  });
}

}  // namespace

void add_structured_rows(std::vector<ProblemRow>& rows) {
  rows.push_back({"copy", kTwo, 3, copy_problem});
  rows.push_back({"fill", kFloat, 1, fill_problem});
  rows.push_back({"sum", kTwo, 3, reduce_problem<SumArgs>});
  rows.push_back({"max", kTwo, 3, reduce_problem<MaxArgs>});
  rows.push_back({"argmax", kTwo, 3, reduce_problem<ArgmaxArgs>});
  rows.push_back({"any", kTwo, 3, reduce_problem<AnyArgs>});
  rows.push_back({"logsumexp", kTwo, 3, reduce_problem<LogsumexpArgs>});
  rows.push_back({"norm", kTwo, 3, reduce_problem<NormArgs>});
  rows.push_back({"prod", kTwo, 3, reduce_problem<ProdArgs>});
  rows.push_back({"variance", kTwo, 3, reduce_problem<VarianceArgs>});
  rows.push_back({"matmul", kThree, 3, matmul_problem});
  rows.push_back({"softmax_forward", kTwo, 3, softmax_problem});
  rows.push_back({"softmax_backward", kTwo, 3, softmax_backward_problem});
  rows.push_back({"layer_norm_forward", kTwo, 3, layer_norm_problem});
  rows.push_back({"layer_norm_backward_input", kTwo, 3, layer_norm_backward_input_problem});
  rows.push_back({"layer_norm_backward_params", kTwo, 3, layer_norm_backward_params_problem});
  rows.push_back({"cross_entropy_forward", kTwo, 2, cross_entropy_problem});
  rows.push_back({"cross_entropy_backward", kTwo, 2, cross_entropy_backward_problem});
  rows.push_back({"mse_forward", kTwo, 1, mse_problem});
  rows.push_back({"mse_backward", kTwo, 1, mse_backward_problem});
  rows.push_back({"dropout", kTwo, 1, dropout_problem});
  rows.push_back({"embedding_forward", kTwo, 1, embedding_problem});
  rows.push_back({"embedding_backward", kTwo, 1, embedding_backward_problem});
}

}  // namespace wt::bench
