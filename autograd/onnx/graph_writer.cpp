#include <algorithm>
#include <bit>

#include "warptape/autograd/onnx/export.h"
#include "warptape/core/factories.h"

namespace wt::onnx {

std::string GraphWriter::unique(const std::string& wanted) {
  if (taken_.insert(wanted).second) return wanted;
  for (int& n = counts_[wanted];;) {
    std::string name = str(wanted, "_", ++n);
    if (taken_.insert(name).second) return name;
  }
}

Texts GraphWriter::nodes(const char* op, Texts inputs, Attributes attributes, size_t results) {
  NodeProto n{.op_type = op};
  n.name = unique(str(prefix_, "/", op));
  n.inputs = std::move(inputs);
  for (size_t k = 0; k < results; ++k) n.outputs.push_back(unique(str(n.name, "_output_", k)));
  n.attributes = std::move(attributes);
  graph.nodes.push_back(std::move(n));
  return graph.nodes.back().outputs;
}
std::string GraphWriter::node(const char* op, Texts inputs, Attributes attributes) {
  return nodes(op, std::move(inputs), std::move(attributes), 1)[0];
}

void GraphWriter::initializer(const std::string& name, const Tensor& t) {
  graph.initializers.push_back({name, t});
}
std::string GraphWriter::constant(const Tensor& t) {
  const std::string name = unique("constant");
  initializer(name, t);
  return name;
}
std::string GraphWriter::integers(const std::vector<i64>& values) {
  std::string key = "i";
  for (const i64 v : values) key += str(" ", v);
  std::string& name = numbers_[key];
  if (name.empty()) name = constant(tensor(values, {.device = Device::cpu()}));
  return name;
}
std::string GraphWriter::number(DType t, Scalar v) {
  const bool whole = v.kind != Scalar::Kind::floating;
  std::string& name =
      numbers_[str("n", int(t), whole ? str("i", v.i) : str("f", std::bit_cast<u64>(v.f)))];
  if (name.empty()) name = constant(full({}, v, {.dtype = t, .device = Device::cpu()}));
  return name;
}

// --- an operator ---

std::string_view OpExport::kind() const {
  std::string_view name = own_.op.info->name;
  if (own_.op.info->in_place && name.ends_with('_')) name.remove_suffix(1);
  return name;
}

const TracedKernel* OpExport::find(const TracedOp& op, std::string_view contract) {
  for (const TracedKernel& k : op.kernels)
    if (k.contract == contract && !k.args.empty()) return &k;
  return nullptr;
}

void OpExport::refuse(const std::string& why) const { throw NoForm{why}; }
void OpExport::no_kernel(std::string_view contract) const {
  refuse(str("it did not run its kernel ", contract, ": is a tensor without elements?"));
}

std::string OpExport::cast(const std::string& name, DType from, DType to) const {
  if (from == to) return name;
  return w.node("Cast", {name}, {attribute("to", onnx_dtype(to))});
}

std::string OpExport::shape_like_out(bool zero_copies) {
  const Geometry &x = of(0).geometry(), &x2 = twin_of(0).geometry();
  const Geometry &y = out().geometry(), &y2 = twin_out().geometry();
  if (y.numel == 0) refuse("a result without elements");
  std::vector<i64> sizes;
  std::vector<int> from;  // the operand's axis whose size a dynamic one is; -1: a number
  bool plain = true;
  int open = 0;
  for (int d = 0; d < y.ndim; ++d) {
    sizes.push_back(y.shape[d]), from.push_back(-1);
    if (!dynamic(0, d)) continue;
    const auto is = [&](int a) {
      return a < x.ndim && x.shape[a] == y.shape[d] && x2.shape[a] == y2.shape[d];
    };
    int axis = is(d) ? d : -1;
    for (int a = 0; a < x.ndim && axis < 0; ++a)
      if (is(a)) axis = a;
    from[size_t(d)] = axis;
    if (zero_copies && axis == d) {
      sizes[size_t(d)] = 0;
    } else if (zero_copies && open++ == 0) {
      sizes[size_t(d)] = -1;
    } else {
      plain = false;
    }
  }
  if (plain) return w.integers(sizes);
  if (std::count(sizes.begin(), sizes.end(), -1) > 0 && !zero_copies)
    refuse("its shape is dynamic");
  Texts parts;
  const std::string shape = w.node("Shape", {in(0)});
  for (int d = 0; d < y.ndim; ++d) {
    const int axis = from[size_t(d)];
    if (!dynamic(0, d))
      parts.push_back(w.integers({y.shape[d]}));
    else if (axis >= 0)
      parts.push_back(write_slice(w, shape, 0, axis, axis + 1));
    else if (sizes[size_t(d)] == -1)
      parts.push_back(w.integers({-1}));
    else
      parts.push_back(size_of_inputs(y.shape[d], y2.shape[d]));
  }
  return w.node("Concat", parts, {attribute("axis", i64{0})});
}

// Of a size that is dynamic and none of the operand's: a list of one.
std::string OpExport::size_of_inputs(i64 size, i64 twin_size) {
  for (size_t i = 0; i < trace().inputs.size(); ++i) {
    const int v = trace().inputs[i];
    const Geometry &x = value(own_, v).geometry(), &x2 = value(twin_, v).geometry();
    for (int a = 0; a < x.ndim; ++a)
      if (x.shape[a] == size && x2.shape[a] == twin_size)
        return write_slice(w, w.node("Shape", {value_name(v)}), 0, a, a + 1);
  }
  refuse("a size of it is dynamic and that of no input");
}

std::string write_slice(GraphWriter& w, const std::string& x, i64 axis, i64 begin, i64 end,
                        i64 step) {
  return w.node(
      "Slice", {x, w.integers({begin}), w.integers({end}), w.integers({axis}), w.integers({step})});
}

}  // namespace wt::onnx
