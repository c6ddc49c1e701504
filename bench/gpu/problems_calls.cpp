// How operators are called for the contracts that they launch.
#include <algorithm>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/bench/gpu/launched.h"
#include "warptape/core/str.h"

namespace wt::bench {
namespace {

using T = Tensor;
using Ts = std::vector<Tensor>;
using Sizes = std::vector<Shape>;
const std::vector<DType> kTwo{DType::f32, DType::bf16}, kThree{DType::f32, DType::f16, DType::bf16},
    kFloat{DType::f32};

std::string text(const Shape& s) {
  std::string all;
  for (i64 n : s) all += str(all.empty() ? "" : "x", n);
  return all;
}
std::string picks(const Shape& s) { return str(s[2], " of ", s[0], "x", s[1]); }

// On the host as many rows as make 2^24 elements.
Sizes fewer_rows(Sizes sizes) {
  for (Shape& s : sizes) s[0] = std::min(s[0], (i64{1} << 24) / (numel_of(s) / s[0]));
  return sizes;
}
// One size in the ways 0, 1, 2.
Sizes each(i64 rows, i64 columns) {
  return {{rows, columns, 0}, {rows, columns, 1}, {rows, columns, 2}};
}

using MakeCall = std::function<Call(const Shape&)>;
MakeCall one(Tensor (*f)(const T&)) {
  return [f](const Shape& s) {
    return Call{text(s), {{s}}, [f](const Ts& in) { return f(in[0]); }};
  };
}

struct Rows {
  std::vector<CallRow>& rows;
  void add(std::vector<std::string> contracts, std::vector<DType> dtypes, Sizes small, Sizes host,
           Sizes real, MakeCall call) {
    rows.push_back({std::move(contracts), std::move(dtypes), std::move(small), std::move(host),
                    std::move(real), std::move(call)});
  }
  void add(std::vector<std::string> contracts, std::vector<DType> dtypes, Sizes small, Sizes real,
           MakeCall call) {
    add(std::move(contracts), std::move(dtypes), std::move(small), fewer_rows(real), real,
        std::move(call));
  }
};

const Sizes kOdd{{7, 333}}, kPlane{{8192, 8192}};

// --- copies, reductions ---
Call copy_call(const Shape& s) {
  static const char* const kWhat[] = {" plain", " to the other type", " transposed"};
  const auto run = [what = s[2]](const Ts& in) {
    const Tensor x = in[0].detach();
    if (what == 0) return x.clone();
    if (what == 1) return x.to(x.dtype() == DType::f32 ? DType::bf16 : DType::f32);
    return x.transpose(0, 1).contiguous();
  };
  return {text({s[0], s[1]}) + kWhat[s[2]], {{{s[0], s[1]}}}, run};
}
using Reduce = Tensor (*)(const In&, const Dims&, SumOptions);
const std::pair<const char*, Reduce> kReductions[] = {
    {"sum", sum},
    {"max", max},
    {"argmax", argmax},
    {"any", any},
    {"logsumexp", logsumexp},
    {"prod", prod},
    {"norm", [](const In& x, const Dims& d, SumOptions) { return norm(x, 2, d); }},
    {"variance", [](const In& x, const Dims& d, SumOptions) { return var(x, d); }}};

void add_elements(Rows to) {
  to.add({"copy"}, kTwo, each(67, 129), each(2048, 8192), each(8192, 8192), copy_call);
  to.add({"fill"}, kFloat, {{67, 129}}, kPlane, one([](const T& x) { return full_like(x, 1.5); }));
  to.add({"dropout"}, kTwo, kOdd, kPlane, one([](const T& x) { return dropout(x, 0.1); }));
  for (const auto& [contract, reduce] : kReductions) {
    // `any` may stop where it found one: only of zeros it reads everything.
    const Fill fill = std::string(contract) == "any" ? Fill::zeros : Fill::normal;
    const auto call = [fill, reduce = reduce](const Shape& s) {
      static const char* const kOver[] = {" over rows", " over columns", " over all"};
      const Dims dims = s[2] == 2 ? Dims::all() : Dims(s[2]);
      return Call{text({s[0], s[1]}) + kOver[s[2]], {{{s[0], s[1]}, fill}}, [=](const Ts& in) {
                    return reduce(in[0], dims, {});
                  }};
    };
    to.add({contract}, kTwo, each(37, 130), each(2048, 8192), each(8192, 8192), call);
  }
}

// --- products ---
// m, n, k, Activation: a linear layer with all that an epilogue has.
Call fused_linear_call(const Shape& s) {
  const auto f = Activation(s[3]);
  static const char* const kNames[] = {"", " relu", " gelu", " gelu_tanh", " silu"};
  return {text({s[0], s[1], s[2]}) + " nt bias residual" + kNames[s[3]],
          {{{s[0], s[2]}}, {{s[1], s[2]}}, {{s[1]}}, {{s[0], s[1]}}},
          [f](const Ts& in) {
            return fused_linear(in[0], in[1], {.bias = in[2], .residual = in[3], .activation = f});
          }};
}
// m, n, k, Layout
Call matmul_call(const Shape& s) {
  static const char* const kNames[] = {" nn", " nt", " tn"};
  const auto layout = Layout(s[3]);
  const Shape a = layout == Layout::tn ? Shape{s[2], s[0]} : Shape{s[0], s[2]};
  const Shape b = layout == Layout::nt ? Shape{s[1], s[2]} : Shape{s[2], s[1]};
  const auto run = [layout](const Ts& in) {
    if (layout == Layout::nt) return linear(in[0], in[1]);
    return matmul(layout == Layout::tn ? in[0].transpose(0, 1) : in[0], in[1]);
  };
  return {text({s[0], s[1], s[2]}) + kNames[s[3]], {{a}, {b}}, run};
}
// batch, heads, queries, width, is causal
Call attention_call(const Shape& s) {
  const Shape q{s[0], s[1], s[2], s[3]};
  const auto run = [o = AttentionOptions{.causal = s[4] == 1}](const Ts& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2], o);
  };
  return {text(q) + (s[4] ? " causal" : ""), {{q}, {q}, {q}}, run};
}
void add_products(Rows to) {
  to.add({"matmul"}, kThree, {{33, 65, 47, 0}, {64, 128, 64, 1}, {1, 40, 72, 1}, {64, 40, 1096, 2}},
         {{1024, 1024, 1024, 0}, {2048, 3072, 768, 1}, {128, 512, 784, 1}, {256, 256, 8192, 2}},
         // The second a transformer's layer, the third mlp_small's, the fourth a weight's gradient,
         // whose few tiles the rungs of split-K are for.
         {{4096, 4096, 4096, 0}, {8192, 3072, 768, 1}, {128, 512, 784, 1}, {256, 256, 8192, 2}},
         matmul_call);
  // A transformer's first layer of two, as large as the one above, and a classifier's.
  const i64 relu = i64(Activation::relu), gelu = i64(Activation::gelu_tanh);
  to.add({"matmul"}, kThree, {{33, 64, 48, gelu}, {30, 17, 9, relu}},
         {{2048, 3072, 768, gelu}, {128, 512, 784, relu}},
         {{8192, 3072, 768, gelu}, {128, 512, 784, relu}}, fused_linear_call);
  add_conv_call_rows(to.rows);
  to.add({"attention_forward", "attention_backward"}, kTwo, {{1, 2, 33, 16, 0}, {1, 2, 33, 16, 1}},
         {{8, 8, 256, 64, 0}, {2, 8, 1024, 64, 1}}, {{16, 16, 1024, 64, 0}, {8, 16, 2048, 64, 1}},
         attention_call);
}

// --- rows: softmax, normalisation, losses ---
// samples, channels, places, groups (0: batch), is NHWC, with relu
Call channel_norm_call(const Shape& s) {
  const Activation f = s[5] ? Activation::relu : Activation::none;
  const auto run = [f, groups = s[3], nhwc = s[4] == 1](const Ts& in) {
    const Tensor x = nhwc ? in[0].transpose(1, 2) : in[0];
    const Tensor y =
        groups ? fused_group_norm(x, groups, f, {.weight = in[1], .bias = in[2]})
               : fused_batch_norm(x, f, {.weight = in[1], .bias = in[2], .training = true});
    return nhwc ? y.transpose(1, 2) : y;
  };
  return {str(text({s[0], s[1], s[2]}), s[4] ? " nhwc" : " nchw",
              s[3] ? str(" groups ", s[3]) : std::string(" batch"), s[5] ? " relu" : ""),
          {{s[4] ? Shape{s[0], s[2], s[1]} : Shape{s[0], s[1], s[2]}}, {{s[1]}}, {{s[1]}}},
          run};
}
Sizes channel_norm_sizes(i64 n) {
  return {{n, 64, 4096, 0, 0, 0},        {n, 64, 4096, 0, 1, 0}, {n, 64, 4096, 16, 0, 0},
          {n, 64, 4096, 16, 1, 0},       {n, 64, 4096, 0, 0, 1}, {n, 64, 4096, 0, 1, 1},
          {n * 5 / 2, 2048, 49, 0, 0, 0}};
}
// Logits or log-probabilities, and labels.
MakeCall loss_of_labels(Loss (*f)(const T&, const T&)) {
  return [f](const Shape& s) {
    return Call{text(s), {{s}, {{s[0]}, Fill::index, s[1]}}, [f](const Ts& in) {
                  return f(in[0], in[1]).sum;
                }};
  };
}
// steps, samples, classes, labels
Call ctc_call(const Shape& s) {
  return {text(s),
          {{{s[0], s[1], s[2]}},
           {{s[1], s[3]}, Fill::index, s[2]},
           {{s[1]}, Fill::lengths, s[0]},
           {{s[1]}, Fill::lengths, s[3]}},
          [](const Ts& in) { return ctc_loss(in[0], in[1], in[2], in[3]).sum; }};
}
void add_rows(Rows to) {
  const Sizes small{{9, 33}, {5, 304}, {3, 1100}};
  to.add({"softmax_forward", "softmax_backward"}, kTwo, small,
         {{65536, 1024}, {8192, 8192}, {4096, 50257}},
         one([](const T& x) { return softmax(x, 1); }));
  to.add({"layer_norm_forward", "layer_norm_backward_input", "layer_norm_backward_params"}, kTwo,
         small, {{65536, 1024}, {65536, 768}, {8192, 8192}}, [](const Shape& s) {
           return Call{text(s), {{s}, {{s[1]}}, {{s[1]}}}, [](const Ts& in) {
                         return layer_norm(in[0], in[1].shape(), in[1], in[2]);
                       }};
         });
  to.add({"rms_norm_forward", "rms_norm_backward_input"}, kTwo, small,
         {{65536, 1024}, {8192, 8192}}, [](const Shape& s) {
           return Call{text(s), {{s}, {{s[1]}}}, [](const Ts& in) {
                         return rms_norm(in[0], in[1].shape(), in[1], {.eps = 1e-5});
                       }};
         });
  const Sizes real{{65536, 1024}, {8192, 8192}};
  to.add({"add_layer_norm_forward", "add_layer_norm_backward_input"}, kTwo, small, real,
         [](const Shape& s) {
           return Call{text(s), {{s}, {s}, {{s[1]}}, {{s[1]}}}, [](const Ts& in) {
                         const AddNormResult r = add_layer_norm(in[0], in[1], in[2].shape(),
                                                                {.weight = in[2], .bias = in[3]});
                         return stack({r.y, r.sum});
                       }};
         });
  to.add({"add_rms_norm_forward", "add_rms_norm_backward_input"}, kTwo, small, real,
         [](const Shape& s) {
           return Call{text(s), {{s}, {s}, {{s[1]}}}, [](const Ts& in) {
                         const AddNormResult r = add_rms_norm(in[0], in[1], in[2].shape(),
                                                              {.weight = in[2], .eps = 1e-5});
                         return stack({r.y, r.sum});
                       }};
         });
  to.add({"channel_stats", "channel_norm_forward", "channel_norm_sums", "channel_norm_backward"},
         kTwo,
         {{3, 8, 33, 0, 0, 0},
          {3, 8, 33, 0, 1, 0},
          {3, 8, 33, 4, 0, 0},
          {3, 8, 33, 4, 1, 0},
          {3, 8, 33, 0, 0, 1},
          {3, 8, 33, 0, 1, 1},
          {3, 8, 49, 4, 0, 0}},
         channel_norm_sizes(64), channel_norm_sizes(256), channel_norm_call);
  to.add({"running_stats"}, kTwo, {{3, 8, 33}}, {{64, 256, 49}}, [](const Shape& s) {
    return Call{text(s), {{s}, {{s[1]}}, {{s[1]}}}, [](const Ts& in) {
                  return batch_norm(in[0].detach(), {.running_mean = in[1].detach(),
                                                     .running_var = in[2].detach(),
                                                     .training = true});
                }};
  });
  to.add({"cross_entropy_forward", "cross_entropy_backward"}, kTwo, small,
         {{8192, 50257}, {65536, 1024}},
         loss_of_labels([](const T& x, const T& y) { return cross_entropy(x, y); }));
  to.add({"nll_forward", "nll_backward"}, kTwo, small, {{65536, 1024}},
         loss_of_labels([](const T& x, const T& y) { return nll_loss(x, y); }));
  to.add({"mse_forward", "mse_backward"}, kTwo, kOdd, kPlane, [](const Shape& s) {
    return Call{text(s), {{s}, {s}}, [](const Ts& in) { return mse_loss(in[0], in[1]).sum; }};
  });
  to.add({"ctc_forward", "ctc_backward"}, kFloat, {{12, 3, 7, 4}}, {{256, 32, 80, 40}},
         {{1024, 64, 80, 100}}, ctc_call);
}

// --- by index ---
void add_indexing(Rows to) {
  // rows, width, positions
  to.add({"embedding_forward", "embedding_backward"}, kTwo, {{37, 48, 100}}, {{50257, 768, 16384}},
         {{50257, 768, 65536}}, [](const Shape& s) {
           return Call{picks(s), {{{s[0], s[1]}}, {{s[2]}, Fill::index, s[0]}}, [](const Ts& in) {
                         return embedding(in[1], in[0]);
                       }};
         });
  to.add({"index_rows"}, kFloat, {{1000, 777, 333}}, {{1000, 777, 1 << 22}}, {{1000, 777, 1 << 25}},
         [](const Shape& s) {
           return Call{picks(s),
                       {{{s[0], s[1]}}, {{s[2]}, Fill::index, s[0]}, {{s[2]}, Fill::index, s[1]}},
                       [](const Ts& in) {
                         return index(in[0], {in[1], in[2]});
                       }};
         });
  // So many positions that every row is written: what is not would be a NaN left over.
  to.add({"index_put"}, kTwo, {{7, 48, 100}}, {{1024, 768, 16384}}, {{4096, 768, 65536}},
         [](const Shape& s) {
           return Call{picks(s),
                       {{{s[0], s[1]}}, {{s[2]}, Fill::index, s[0]}, {{s[2], s[1]}}},
                       [](const Ts& in) { return index_put(in[0], {in[1]}, in[2]); }};
         });
  to.add({"gather", "scatter"}, kTwo, kOdd, kPlane, [](const Shape& s) {
    return Call{text(s), {{s}, {s, Fill::index, s[1]}}, [](const Ts& in) {
                  return gather(in[0], 1, in[1]);
                }};
  });
  to.add({"bit_pack", "bit_gate"}, kTwo, {{1003}}, {{1 << 26}}, one([](const T& x) {
           const SaveScope save(SavePolicy::bit_mask);
           return relu(x);
         }));
  to.add({"activation_inverse"}, kTwo, {{1003}}, {{1 << 26}}, one([](const T& x) {
           const SaveScope save(SavePolicy::invert);
           // No leaf, which would be kept, and away from the minimum, where an inverse is
           // ill-conditioned.
           return gelu(x * x + 1.0);
         }));
}

// --- order, windows, matrices ---
void add_order(Rows to) {
  to.add({"sort"}, kTwo, kOdd, {{65536, 1024}}, one([](const T& x) { return sort(x).values; }));
  to.add({"scan"}, kTwo, kOdd, kPlane, one([](const T& x) { return cumsum(x, 1); }));
  to.add({"bincount"}, kFloat, {{333, 9}}, {{1 << 24, 1000}}, {{1 << 26, 1000}},
         [](const Shape& s) {
           return Call{str(s[0], " in ", s[1]), {{{s[0]}, Fill::index, s[1]}}, [](const Ts& in) {
                         return bincount(in[0]);
                       }};
         });
  to.add({"random_fill"}, kTwo, kOdd, kPlane, one([](const T& x) { return randn_like(x); }));
  to.add({"sequence"}, kTwo, kOdd, kPlane, one([](const T& x) {
           return arange(0, x.numel(), 1, {.dtype = x.dtype(), .device = x.device()});
         }));
  to.add({"multinomial"}, kFloat, {{5, 33}}, {{65536, 1024}}, [](const Shape& s) {
    return Call{text(s), {{s, Fill::positive}}, [](const Ts& in) {
                  return multinomial(in[0].detach(), 16, {.replacement = true});
                }};
  });
}
void add_windows(Rows to) {
  const Sizes small{{2, 3, 10, 10}}, images{{64, 64, 56, 56}};
  to.add({"max_pool_forward", "max_pool_backward"}, kTwo, small, images,
         one([](const T& x) { return max_pool2d(x, 2); }));
  // The gradient of the gradient with respect to the incoming one.
  to.add({"max_pool_gather"}, kTwo, small, images, [](const Shape& s) {
    return Call{text(s), {{s}, {{s[0], s[1], s[2] / 2, s[3] / 2}}}, [](const Ts& in) {
                  return grad(max_pool2d(in[0], 2), in[0],
                              {.grad_outputs = {in[1]}, .create_graph = true});
                }};
  });
  to.add({"avg_pool_forward", "avg_pool_backward"}, kTwo, small, images,
         one([](const T& x) { return avg_pool2d(x, 2); }));
  to.add({"resize", "resize_backward"}, kTwo, small, images, one([](const T& x) {
           return resize_axis(x, 3, 2 * x.size(3), {.mode = ResizeMode::linear});
         }));
  to.add({"unfold_backward"}, kTwo, kOdd, kPlane,
         one([](const T& x) { return unfold(x, 1, 8, 4); }));
  // Rows, numbers of each: in shared memory, and beyond it.
  to.add({"fft"}, kFloat, {{33, 30}}, {{16384, 1024}}, {{16, 1 << 20}}, [](const Shape& s) {
    return Call{text(s), {{{s[0], s[1], 2}}}, [](const Ts& in) { return fft(in[0]); }};
  });
}
Tensor definite(const Tensor& x) { return matmul(x, x.transpose(0, 1)); }
void add_matrices(Rows to) {
  const Sizes small{{9, 18}}, wide{{256, 512}};
  to.add({"cholesky"}, kFloat, small, wide, one([](const T& x) { return cholesky(definite(x)); }));
  to.add({"solve_triangular"}, kFloat, small, wide,
         one([](const T& x) { return solve_triangular(cholesky(definite(x)), x); }));
  to.add({"lu"}, kFloat, small, wide, one([](const T& x) { return inverse(definite(x)); }));
  to.add({"qr"}, kFloat, small, wide, one([](const T& x) { return qr(x).q; }));
  to.add({"eigh"}, kFloat, small, wide, one([](const T& x) { return eigh(definite(x)).values; }));
  to.add({"svd"}, kFloat, small, wide,
         one([](const T& x) { return svd(x, {.full_matrices = false}).s; }));
  // Points, others, coordinates.
  to.add({"cdist_forward", "cdist_backward"}, kFloat, {{33, 65, 17}}, {{1000, 1000, 64}},
         {{4096, 4096, 128}}, [](const Shape& s) {
           return Call{text(s), {{{s[0], s[2]}}, {{s[1], s[2]}}}, [](const Ts& in) {
                         return cdist(in[0], in[1]);
                       }};
         });
}

}  // namespace

void add_call_rows(std::vector<CallRow>& rows) {
  for (const auto add :
       {add_elements, add_products, add_rows, add_indexing, add_order, add_windows, add_matrices})
    add(Rows{rows});
  add_pointwise_call_rows(rows);
}

Problem matmul_problem(Device d, DType t, i64 m, i64 n, i64 k, Layout layout, int sets) {
  return launched("matmul", matmul_call({m, n, k, i64(layout)}), d, t, sets);
}

}  // namespace wt::bench
