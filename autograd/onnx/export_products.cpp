// Matrix products and attention.
#include <cmath>

#include "warptape/autograd/onnx/export.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/attention.h"
#include "warptape/kernels/matmul.h"

namespace wt::onnx {
namespace {

void matmul(OpExport& e) {
  const DType t = e.out().dtype();
  // Backward's form multiplies a transposed operand; forward's shapes are those of the operands.
  const Geometry &a = e.of(0).geometry(), &b = e.of(1).geometry();
  if (a.ndim >= 2 && b.ndim >= 2 && a.shape[a.ndim - 1] != b.shape[b.ndim - 2])
    e.refuse("of a transposed operand");
  e.put(e.w.node("MatMul", {e.in(0, t), e.in(1, t)}));
}

// x w^T + bias: of a matrix one node.
std::string linear_of(OpExport& e, const std::string& x, int ndim, int weight, int bias) {
  const DType t = e.out().dtype();
  const std::string w = e.in(weight, t);
  if (ndim == 2) {
    Texts inputs{x, w};
    if (bias >= 0) inputs.push_back(e.in(bias, t));
    return e.w.node("Gemm", inputs, {attribute("transB", i64{1})});
  }
  const std::string turned =
      e.w.node("Transpose", {w}, {attribute("perm", std::vector<i64>{1, 0})});
  const std::string y = e.w.node("MatMul", {x, turned});
  return bias < 0 ? y : e.w.node("Add", {e.in(bias, t), y});
}

void linear(OpExport& e) {
  const DType t = e.out().dtype();
  if (!is_floating(t)) e.refuse("of integers");
  e.put(linear_of(e, e.in(0, t), e.of(0).geometry().ndim, 1, e.operands() > 2 ? 2 : -1));
}

void fused_linear(OpExport& e) {
  const MatmulArgs& a = e.args<MatmulArgs>();
  const DType t = e.out().dtype();
  int next = 2;
  const int bias = a.bias ? next++ : -1;
  std::string y = linear_of(e, e.in(0, t), e.of(0).geometry().ndim, 1, bias);
  if (a.epilogue.residual) y = e.w.node("Add", {y, e.in(next, t)});
  e.put(write_activation(e.w, a.epilogue.activation, y, t));
}

// Operands: x, two weights, and those of bias1, bias2 and residual that are given. Its launches
// are the two layers.
void feed_forward(OpExport& e) {
  std::vector<const MatmulArgs*> layers;
  for (const TracedKernel& k : e.op().kernels)
    if (k.contract == ContractTable<MatmulArgs>::kName)
      layers.push_back(reinterpret_cast<const MatmulArgs*>(k.args.data()));
  if (layers.size() != 2) e.refuse("it did not run two products");
  const DType t = e.out().dtype();
  const int ndim = e.of(0).geometry().ndim;
  int next = 3;
  const int bias1 = layers[0]->bias ? next++ : -1, bias2 = layers[1]->bias ? next++ : -1;
  std::string h = linear_of(e, e.in(0, t), ndim, 1, bias1);
  h = write_activation(e.w, layers[0]->epilogue.activation, h, t);
  std::string y = linear_of(e, h, ndim, 2, bias2);
  if (layers[1]->epilogue.residual) y = e.w.node("Add", {y, e.in(next, t)});
  e.put(y);
}

// --- attention ---

// Which pairs may attend, of causal attention: bool [L, S].
std::string causal_mask(OpExport& e) {
  const Geometry &q = e.of(0).geometry(), &k = e.of(1).geometry();
  const int n = q.ndim;
  if (!e.dynamic_in(0, n - 2) && !e.dynamic_in(1, n - 2)) {
    const i64 rows = q.shape[n - 2], columns = k.shape[n - 2];
    Tensor mask = empty({rows, columns}, {.dtype = DType::boolean, .device = Device::cpu()});
    bool* to = mask.mutable_data<bool>();
    for (i64 i = 0; i < rows; ++i)
      for (i64 j = 0; j < columns; ++j) *to++ = j <= i;
    return e.w.constant(mask);
  }
  // From the sizes, where these are dynamic.
  const auto count = [&](int operand) {
    const std::string shape = e.w.node("Shape", {e.in(operand)});
    const std::string size =
        e.w.node("Gather", {shape, e.w.number(DType::i64, n - 2)}, {attribute("axis", i64{0})});
    return e.w.node("Range", {e.w.number(DType::i64, 0), size, e.w.number(DType::i64, 1)});
  };
  const std::string rows = e.w.node("Unsqueeze", {count(0), e.w.integers({1})});
  return e.w.node("GreaterOrEqual", {rows, count(1)});
}

// key or value with a head for every head of query.
std::string spread_heads(OpExport& e, int i, DType t) {
  const Geometry &x = e.of(i).geometry(), &q = e.of(0).geometry();
  const int n = x.ndim, head = n - 3;
  const std::string name = e.in(i, t);
  if (n < 3 || x.shape[head] == q.shape[head]) return name;
  const i64 shared = q.shape[head] / x.shape[head];
  std::vector<i64> split(size_t(n) + 1, 1), joined(size_t(n), 0);
  split[size_t(head) + 1] = shared;
  joined[size_t(head)] = q.shape[head];
  for (const int d : {n - 2, n - 1}) {
    e.same(!e.dynamic_in(i, d), "the size of shared heads");
    joined[size_t(d)] = x.shape[d];
  }
  const std::string wide = e.w.node("Unsqueeze", {name, e.w.integers({head + 1})});
  const std::string all = e.w.node("Expand", {wide, e.w.integers(split)});
  return e.w.node("Reshape", {all, e.w.integers(joined)});
}

// softmax(query key^T scale + mask) value. A query that sees no key gives zeros.
void attention(OpExport& e) {
  const AttentionScores& s = e.args<AttentionForwardArgs>().scores;
  e.same(s.scale == e.twin_args<AttentionForwardArgs>().scores.scale, "its scale");
  if (s.threshold != 0) e.refuse("with dropout");
  const DType t = e.out().dtype();
  const int n = e.of(1).geometry().ndim;
  std::vector<i64> order;
  for (int d = 0; d < n; ++d) order.push_back(d < n - 2 ? d : 2 * n - 3 - d);
  const std::string key =
      e.w.node("Transpose", {spread_heads(e, 1, t)}, {attribute("perm", order)});
  const std::string query = e.w.node("Mul", {e.in(0, t), e.w.number(t, s.scale)});
  std::string scores = e.w.node("MatMul", {query, key}), seen;
  if (s.causal) seen = causal_mask(e);
  if (e.operands() > 3) {
    std::string visible = e.in(3);
    if (e.of(3).dtype() != DType::boolean) {
      scores = e.w.node("Add", {scores, e.in(3, t)});
      visible = e.w.node("Not", {e.w.node("Equal", {e.in(3, t), e.w.number(t, -INFINITY)})});
    }
    seen = seen.empty() ? visible : e.w.node("And", {seen, visible});
  }
  if (!seen.empty()) scores = e.w.node("Where", {seen, scores, e.w.number(t, -INFINITY)});
  std::string weights = e.w.node("Softmax", {scores}, {attribute("axis", i64{-1})});
  if (e.operands() > 3) weights = e.w.node("Where", {seen, weights, e.w.number(t, 0.0)});
  e.put(e.w.node("MatMul", {weights, spread_heads(e, 2, t)}));
}

}  // namespace

void add_product_exporters(Exporters& to) {
  to["matmul"] = matmul, to["linear"] = linear, to["fused_linear"] = fused_linear;
  to["feed_forward"] = feed_forward, to["scaled_dot_product_attention"] = attention;
}

}  // namespace wt::onnx
