// Attention through cuDNN's graphs, forward and backward.
//
// Written out, attention is two products forward and five backward with elementwise steps between
// them. cuDNN knows these graphs as a whole and computes each by one or a few kernels that keep no
// matrix of scores in memory; it does so since 9.0, where the operation of its own for them came
// later. The order of the steps is what it is recognised by.
#include <cfloat>

#include "warptape/kernels/attention.h"
#include "warptape/kernels/cuda/cudnn_variant.h"

namespace wt {
namespace {

enum Id : i64 { kQ = 1, kK, kV, kOut, kLse, kScale, kLowest, kGout, kWhole, kGq, kGk, kGv };

// The stride of an axis of one element is anything in ours.
CudnnTensor tensor_of(Id id, const View& v, bool transposed = false) {
  CudnnTensor t;
  t.id = id, t.type = cudnn_type(v.dtype()), t.ndim = 4;
  t.alignment = cudnn_alignment(v.data);
  i64 end = 1;
  for (int d = 0; d < 4; ++d) {
    t.dims[d] = v.size(d), t.strides[d] = v.stride(d);
    if (t.dims[d] > 1) end = end > t.strides[d] * t.dims[d] ? end : t.strides[d] * t.dims[d];
  }
  for (int d = 0; d < 4; ++d)
    if (t.dims[d] == 1) t.strides[d] = end;
  if (transposed) std::swap(t.dims[2], t.dims[3]), std::swap(t.strides[2], t.strides[3]);
  return t;
}

struct Sizes {
  i64 batch, heads, groups, queries, keys, depth, width;
  int type;
  Sizes(const AttentionScores& s, const View& v)
      : batch(s.q.size(0)),
        heads(s.q.size(1)),
        groups(s.k.size(1)),
        queries(s.q.size(2)),
        keys(s.k.size(2)),
        depth(s.q.size(3)),
        width(v.size(3)),
        type(cudnn_type(s.q.dtype())) {}
  CudnnTensor scores() const {
    return CudnnTensor::packed(0, kCudnnFloat, {batch, heads, queries, keys});
  }
  CudnnTensor rows(i64 id, const void* data = nullptr) const {
    CudnnTensor t = CudnnTensor::packed(id, kCudnnFloat, {batch, heads, queries, 1});
    t.alignment = cudnn_alignment(data);
    return t;
  }
  // Scores seen from the keys.
  CudnnTensor turned() const {
    CudnnTensor t = scores().step(type);
    std::swap(t.dims[2], t.dims[3]), std::swap(t.strides[2], t.strides[3]);
    return t;
  }
};

using Ref = CudnnGraph::Ref;

Ref scaled_scores(CudnnGraph& graph, const Sizes& n, const AttentionScores& s, Ref q) {
  Ref products = graph.matmul(n.scores(), q, graph.tensor(tensor_of(kK, s.k, true)));
  return graph.pointwise(kPointwiseMul, n.scores(), products,
                         graph.tensor(CudnnTensor::number(kScale, 4)));
}
// Not -inf, of which a whole tile of keys that are left out would make NaN inside an engine. Every
// query attends to key 0, beside which the lowest number is a weight of 0.
Ref without_later_keys(CudnnGraph& graph, const Sizes& n, Ref scores) {
  Ref row = graph.index(2, n.scores().step(kCudnnInt32), scores);
  Ref column = graph.index(3, n.scores().step(kCudnnInt32), scores);
  Ref attends =
      graph.pointwise(kPointwiseGreaterEqual, n.scores().step(kCudnnBoolean), row, column);
  return graph.select(n.scores(), attends, scores, graph.tensor(CudnnTensor::number(kLowest, 4)));
}

void describe_forward(CudnnGraph& graph, const void* problem) {
  const auto& a = *static_cast<const AttentionForwardArgs*>(problem);
  const Sizes n(a.scores, a.v);
  const CudnnDescriptor* s =
      &scaled_scores(graph, n, a.scores, graph.tensor(tensor_of(kQ, a.scores.q)));
  if (a.scores.causal) s = &without_later_keys(graph, n, *s);
  Ref most = graph.reduction(kReductionMax, n.rows(0), *s);
  Ref powers = graph.pointwise(kPointwiseExp, n.scores(),
                               graph.pointwise(kPointwiseSub, n.scores(), *s, most));
  Ref sum = graph.reduction(kReductionAdd, n.rows(0), powers);
  // cuDNN 9.19 and 9.26 have no engine for a graph that leaves this out, even where nobody asks.
  graph.pointwise(kPointwiseAdd, n.rows(a.lse ? i64{kLse} : 0, a.lse.data), most,
                  graph.pointwise(kPointwiseLog, n.rows(0), sum));
  Ref p = graph.pointwise(kPointwiseDiv, n.scores().step(n.type), powers, sum);
  graph.matmul(tensor_of(kOut, a.out), p, graph.tensor(tensor_of(kV, a.v)));
}

void describe_backward(CudnnGraph& graph, const void* problem) {
  const auto& a = *static_cast<const AttentionBackwardArgs*>(problem);
  const Sizes n(a.scores, a.v);
  Ref q = graph.tensor(tensor_of(kQ, a.scores.q)), gout = graph.tensor(tensor_of(kGout, a.gout));
  Ref whole = graph.reduction(
      kReductionAdd, n.rows(kWhole),
      graph.pointwise(kPointwiseMul,
                      CudnnTensor::packed(0, kCudnnFloat, {n.batch, n.heads, n.queries, n.width}),
                      gout, graph.tensor(tensor_of(kOut, a.out))));
  // Heads that share a key are added up after the product of each, which is rounded: the graph as
  // NVIDIA's own frontend has it, and engines are tested with it.
  const auto product_with = [&](Ref turned, Ref b, const View& to, Id id) {
    if (n.heads == n.groups) {
      graph.matmul(tensor_of(id, to), turned, b);
      return;
    }
    graph.reduction(
        kReductionAdd, tensor_of(id, to),
        graph.matmul(CudnnTensor::packed(0, n.type, {n.batch, n.heads, n.keys, to.size(3)}), turned,
                     b));
  };
  Ref scale = graph.tensor(CudnnTensor::number(kScale, 4));
  Ref k = graph.tensor(tensor_of(kK, a.scores.k, true));
  Ref products = graph.matmul(n.scores(), q, k);
  const CudnnDescriptor* s = &graph.pointwise(
      kPointwiseSub, n.scores(), graph.pointwise(kPointwiseMul, n.scores(), products, scale),
      graph.tensor(n.rows(kLse, a.lse.data)));
  if (a.scores.causal) s = &without_later_keys(graph, n, *s);
  Ref p = graph.pointwise(kPointwiseExp, n.scores(), *s);
  product_with(graph.reshape(n.turned(), p), gout, a.gv, kGv);

  Ref dp = graph.matmul(n.scores(), gout, graph.tensor(tensor_of(kV, a.v, true)));
  Ref ds =
      graph.pointwise(kPointwiseMul, n.scores(),
                      graph.pointwise(kPointwiseMul, n.scores(),
                                      graph.pointwise(kPointwiseSub, n.scores(), dp, whole), p),
                      scale);
  product_with(graph.reshape(n.turned(), ds), q, a.gk, kGk);
  // Straight into gq: engines repeat their bits so. By way of an f32 tensor, the faster graph,
  // blocks of keys add to it in the order in which they end, and cuDNN's notes do not tell.
  graph.matmul(tensor_of(kGq, a.gq), ds, graph.reshape(tensor_of(kK, a.scores.k).step(n.type), k));
}

const char* why_not(const AttentionScores& s, const View& v) {
  if (s.q.dtype() != DType::f16 && s.q.dtype() != DType::bf16) return "takes f16 and bf16 only";
  // A query all of whose keys a mask leaves out has zeros in ours, NaN in cuDNN's.
  if (s.mask) return "takes no mask beside the causal one";
  if (s.threshold) return "drops nothing out: cuDNN would draw other numbers";
  for (const View* one : {&s.q, &s.k, &v})
    if (one->numel() == 0) return "takes no empty tensors";
  for (const View* one : {&s.q, &v})
    if (one->size(3) % 8 || one->size(3) > 128)
      return "takes heads of 8, 16, 24 ... 128 elements only";
  return nullptr;
}
const char* why_not_laid(std::initializer_list<const View*> views) {
  for (const View* v : views) {
    const CudnnTensor t = tensor_of(kQ, *v);
    if (const char* why = cudnn_why_not(t)) return why;
    bool packs = t.alignment == 16 && t.strides[3] == 1;
    for (int d = 0; d < 3; ++d) packs = packs && t.strides[d] % 8 == 0;
    if (!packs) return "takes rows without gaps that begin at multiples of 16 bytes only";
  }
  return cudnn_why_not();  // last: it looks for the library
}

CudnnCall call_of(const char* name, const AttentionScores& s, const void* problem,
                  void (*describe)(CudnnGraph&, const void*),
                  std::initializer_list<std::pair<Id, const View*>> tensors) {
  CudnnCall call{
      .key = {name, {cudnn_type(s.q.dtype()), s.causal}}, .describe = describe, .problem = problem};
  for (const auto& [id, v] : tensors) {
    call.key.add(tensor_of(id, *v));
    call.bind(id, v->data);
  }
  return call;
}

// Numbers that a graph takes from host memory. They need to live until it is queued.
struct Numbers {
  float scale, lowest = -FLT_MAX;
  void bind(CudnnCall& call, const AttentionScores& s) {
    scale = float(s.scale);
    call.bind(kScale, &scale);
    if (s.causal) call.bind(kLowest, &lowest);
  }
};

}  // namespace

const char* attention_forward_cudnn_why_not(const AttentionForwardArgs& a) {
  const AttentionScores& s = a.scores;
  if (const char* why = why_not(s, a.v)) return why;
  return why_not_laid({&s.q, &s.k, &a.v, &a.out});
}
void attention_forward_cudnn(const AttentionForwardArgs& a, const Launch& l) {
  CudnnCall call = call_of("attention_forward", a.scores, &a, describe_forward,
                           {{kQ, &a.scores.q}, {kK, &a.scores.k}, {kV, &a.v}, {kOut, &a.out}});
  call.key.words.push_back(a.lse ? cudnn_alignment(a.lse.data) : 0);
  if (a.lse) call.bind(kLse, a.lse.data);
  Numbers numbers;
  numbers.bind(call, a.scores);
  std::string reason;
  if (!cudnn_compute(call, l, reason)) launch_without_cudnn(a, l, reason);
}

const char* attention_backward_cudnn_why_not(const AttentionBackwardArgs& a) {
  const AttentionScores& s = a.scores;
  if (const char* why = why_not(s, a.v)) return why;
  return why_not_laid({&s.q, &s.k, &a.v, &a.out, &a.gout, &a.gq, &a.gk, &a.gv});
}
// The sums of gout * out, f32, between cuDNN's kernels.
i64 attention_backward_cudnn_workspace(const AttentionBackwardArgs& a) {
  const View& q = a.scores.q;
  return q.size(0) * q.size(1) * q.size(2) * 4;
}
void attention_backward_cudnn(const AttentionBackwardArgs& a, const Launch& l) {
  CudnnCall call = call_of("attention_backward", a.scores, &a, describe_backward,
                           {{kQ, &a.scores.q},
                            {kK, &a.scores.k},
                            {kV, &a.v},
                            {kOut, &a.out},
                            {kGout, &a.gout},
                            {kGq, &a.gq},
                            {kGk, &a.gk},
                            {kGv, &a.gv}});
  call.key.words.push_back(cudnn_alignment(a.lse.data));
  call.bind(kLse, a.lse.data), call.bind(kWhole, l.workspace);
  Numbers numbers;
  numbers.bind(call, a.scores);
  std::string reason;
  if (!cudnn_compute(call, l, reason)) launch_without_cudnn(a, l, reason);
}

}  // namespace wt
