// Reductions, scans and orders.
#include <algorithm>

#include "warptape/autograd/onnx/export.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/reduce.h"
#include "warptape/kernels/scan.h"
#include "warptape/kernels/sort.h"

namespace wt::onnx {
namespace {

struct Over {
  std::vector<i64> axes;
  bool keep;
};
template <class Args>
Over over(OpExport& e) {
  const u32 mask = e.args<Args>().mask;
  Over o{{}, e.out().geometry().ndim == e.of(0).geometry().ndim};
  for (int d = 0; d < e.of(0).geometry().ndim; ++d)
    if (mask >> d & 1) o.axes.push_back(d);
  return o;
}

// Of no axis nothing is reduced, but elementwise. ReduceSum has its axes as an operand since opset
// 13, the others since 18.
std::string reduced(OpExport& e, const char* op, const std::string& x, const Over& o) {
  if (o.axes.empty()) return x;
  const AttributeProto keep = attribute("keepdims", i64(o.keep));
  if (std::string_view(op) == "ReduceSum") return e.w.node(op, {x, e.w.integers(o.axes)}, {keep});
  return e.w.node(op, {x}, {attribute("axes", o.axes), keep});
}

void sum(OpExport& e) {
  const Over o = over<SumArgs>(e);
  const char* op = e.kind() == "mean" ? "ReduceMean" : "ReduceSum";
  e.put(e.w.node("Identity", {reduced(e, op, e.in(0, e.out().dtype()), o)}));
}
void prod(OpExport& e) {
  e.put(e.w.node("Identity",
                 {reduced(e, "ReduceProd", e.in(0, e.out().dtype()), over<ProdArgs>(e))}));
}
void extreme(OpExport& e) {
  const MaxArgs& a = e.args<MaxArgs>();
  const DType t = e.out().dtype(), wide = t == DType::boolean ? DType::i32 : t;
  const std::string y =
      reduced(e, a.f.least ? "ReduceMin" : "ReduceMax", e.in(0, wide), over<MaxArgs>(e));
  e.put(e.w.node("Identity", {e.cast(y, wide, t)}));
}

void place(OpExport& e) {
  const ArgmaxArgs& a = e.args<ArgmaxArgs>();
  const char* op = a.f.least ? "ArgMin" : "ArgMax";
  Over o = over<ArgmaxArgs>(e);
  const DType t = e.of(0).dtype() == DType::boolean ? DType::u8 : e.of(0).dtype();
  std::string x = e.in(0, t);
  const int ndim = e.of(0).geometry().ndim;
  if (ndim > 1 && int(o.axes.size()) == ndim) {  // of all: as if it were flat
    x = e.w.node("Reshape", {x, e.w.integers({-1})});
    std::string y = e.w.node(op, {x}, {attribute("axis", i64{0}), attribute("keepdims", i64{0})});
    if (o.keep) y = e.w.node("Reshape", {y, e.w.integers(std::vector<i64>(size_t(ndim), 1))});
    return e.put(y);
  }
  if (o.axes.size() != 1) e.refuse("of several axes");
  e.put(e.w.node(op, {x}, {attribute("axis", o.axes[0]), attribute("keepdims", i64(o.keep))}));
}

void truth(OpExport& e) {
  const AnyArgs& a = e.args<AnyArgs>();
  const std::string x = e.cast(e.in(0, DType::boolean), DType::boolean, DType::i32);
  const std::string y = reduced(e, a.f.all ? "ReduceMin" : "ReduceMax", x, over<AnyArgs>(e));
  e.put(e.cast(y, DType::i32, DType::boolean));
}

// Mean of the squared distances, times n / (n - correction).
void spread(OpExport& e) {
  const VarianceArgs& a = e.args<VarianceArgs>();
  const DType t = e.out().dtype();
  const Over o = over<VarianceArgs>(e);
  double n = 1;
  for (const i64 d : o.axes) {
    e.same(!e.dynamic_in(0, int(d)), "the number of elements");
    n *= double(e.of(0).geometry().shape[d]);
  }
  const std::string x = e.in(0, t);
  const std::string distance = e.w.node("Sub", {x, reduced(e, "ReduceMean", x, {o.axes, true})});
  std::string y = reduced(e, "ReduceMean", e.w.node("Mul", {distance, distance}), o);
  if (a.f.correction != 0)
    y = e.w.node("Mul", {y, e.w.number(t, n / std::max(0.0, n - a.f.correction))});
  e.put(a.f.root ? e.w.node("Sqrt", {y}) : e.w.node("Identity", {y}));
}

void norm(OpExport& e) {
  const NormArgs& a = e.args<NormArgs>();
  const Over o = over<NormArgs>(e);
  const std::string x = e.in(0, e.out().dtype());
  if (o.axes.empty()) return e.put(e.w.node("Abs", {x}));
  e.put(reduced(e, a.f.absolute ? "ReduceL1" : "ReduceL2", x, o));
}
void logsumexp(OpExport& e) {
  const Over o = over<LogsumexpArgs>(e);
  e.put(e.w.node("Identity", {reduced(e, "ReduceLogSumExp", e.in(0, e.out().dtype()), o)}));
}

void cumsum(OpExport& e) {
  const ScanArgs& a = e.args<ScanArgs>();
  if (e.of(0).geometry().ndim == 0) e.refuse("of a 0-d tensor");
  e.put(e.w.node("CumSum", {e.in(0, e.out().dtype()), e.w.number(DType::i64, a.axis)},
                 {attribute("reverse", i64(a.reverse))}));
}

void argsort(OpExport& e) {
  const SortArgs& a = e.args<SortArgs>();
  if (e.of(0).geometry().ndim == 0) e.refuse("of a 0-d tensor");
  const i64 n = e.of(0).geometry().shape[a.axis];
  e.same(!e.dynamic_in(0, a.axis), "the number of elements");
  e.put(e.w.nodes("TopK", {e.in(0), e.w.integers({n})},
                  {attribute("axis", i64{a.axis}), attribute("largest", i64(a.descending)),
                   attribute("sorted", i64{1})},
                  2)[1]);
}

}  // namespace

void add_reduce_exporters(Exporters& to) {
  to["sum"] = to["mean"] = sum, to["prod"] = prod;
  to["max"] = to["min"] = extreme, to["argmax"] = to["argmin"] = place;
  to["any"] = to["all"] = truth, to["var"] = to["std"] = spread, to["norm"] = norm;
  to["logsumexp"] = logsumexp, to["cumsum"] = cumsum, to["argsort"] = argsort;
}

}  // namespace wt::onnx
