// From a trace to a file.
#include "warptape/autograd/onnx/export.h"

#include <algorithm>
#include <cstring>

#include "warptape/autograd/onnx.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/core/build_info.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/mode.h"

namespace wt::onnx {
namespace {

const Exporters& exporters() {
  static const Exporters all = [] {
    Exporters r;
    add_pointwise_exporters(r), add_shape_exporters(r), add_index_exporters(r);
    add_reduce_exporters(r), add_layer_exporters(r), add_norm_exporters(r);
    add_product_exporters(r);
    return r;
  }();
  return all;
}

Tensor on_host(const std::vector<char>& bytes, const Shape& shape, DType t) {
  Tensor host = empty(shape, {.dtype = t, .device = Device::cpu()});
  if (!bytes.empty()) std::memcpy(host.impl()->data, bytes.data(), bytes.size());
  return host;
}

// --- which values the results need ---

class Liveness {
 public:
  explicit Liveness(const Trace& t) : trace_(t), ops_(t.ops.size(), false) {
    for (const int v : t.results) need(v);
  }
  bool op(size_t i) const { return ops_[i]; }

  // A constant whose elements are known is written as it is, not computed.
  static bool stands_alone(const TracedValue& v) {
    return v.producer < 0 || (v.constant && v.version == v.tensor.impl()->cell->version);
  }

 private:
  void need(int v) {
    std::vector<int> todo{v};
    while (!todo.empty()) {
      const TracedValue& value = trace_.values[size_t(todo.back())];
      todo.pop_back();
      if (stands_alone(value) || ops_[size_t(value.producer)]) continue;
      ops_[size_t(value.producer)] = true;
      for (const int o : trace_.ops[size_t(value.producer)].operands) todo.push_back(o);
    }
  }
  const Trace& trace_;
  std::vector<bool> ops_;
};

// --- the export ---

class Export {
 public:
  // `twin`: of other sizes, or the same trace.
  Export(const Trace& t, const Trace& twin, const SaveOptions& o)
      : trace_(t), twin_(twin), options_(o), live_(t), names_(t.values.size()) {}

  ModelProto model();

 private:
  void name_inputs();
  void name_results();
  std::string name_of(int v);
  std::string constant_of(int v);
  void write(size_t op);
  void check_twin() const;
  ValueProto described(const std::string& name, int v, int twin) const;
  std::string dim_name(i64 size, i64 twin_size) const;

  const Trace &trace_, &twin_;
  const SaveOptions& options_;
  Liveness live_;
  GraphWriter writer_;
  std::vector<std::string> names_;
  std::vector<std::string> without_form_;
};

std::string default_name(const std::vector<std::string>& given, size_t i, size_t n,
                         const char* word) {
  if (i < given.size()) return given[i];
  return n == 1 ? word : str(word, "_", i);
}

std::string Export::dim_name(i64 size, i64 twin_size) const {
  for (size_t i = 0; i < trace_.inputs.size(); ++i) {
    const auto it = options_.dynamic_axes.find(names_[size_t(trace_.inputs[i])]);
    if (it == options_.dynamic_axes.end()) continue;
    const Shape own = trace_.values[size_t(trace_.inputs[i])].shape();
    const Shape other = twin_.values[size_t(twin_.inputs[i])].shape();
    for (const auto& [axis, name] : it->second) {
      const int a = int(axis < 0 ? axis + own.ndim() : axis);
      if (own[a] == size && other[a] == twin_size) return name;
    }
  }
  return "";
}

ValueProto Export::described(const std::string& name, int v, int twin) const {
  const TracedValue& value = trace_.values[size_t(v)];
  ValueProto p{.name = name, .dtype = onnx_dtype(value.dtype()), .has_shape = true};
  const Shape own = value.shape(), other = twin_.values[size_t(twin)].shape();
  for (int d = 0; d < own.ndim(); ++d) {
    DimProto dim{own[d]};
    if (own[d] != other[d]) {
      dim = {-1, dim_name(own[d], other[d])};
      const auto it = options_.dynamic_axes.find(name);
      if (it != options_.dynamic_axes.end())
        for (const auto& [axis, text] : it->second)
          if ((axis < 0 ? axis + own.ndim() : axis) == d) dim.name = text;
      if (dim.name.empty()) dim.name = str(name, "_dim_", d);
    }
    p.shape.push_back(std::move(dim));
  }
  return p;
}

void Export::name_inputs() {
  for (size_t i = 0; i < trace_.inputs.size(); ++i) {
    const std::string name = default_name(options_.input_names, i, trace_.inputs.size(), "input");
    writer_.reserve(name);
    names_[size_t(trace_.inputs[i])] = name;
    writer_.graph.inputs.push_back(described(name, trace_.inputs[i], twin_.inputs[i]));
  }
}

std::string Export::constant_of(int v) {
  const TracedValue& value = trace_.values[size_t(v)];
  const Tensor host = on_host(value.old.empty() ? elements_of(value.tensor.impl()) : value.old,
                              value.shape(), value.dtype());
  const std::string name = value.name.empty() ? writer_.unique("constant") : value.name;
  writer_.initializer(name, host);
  return name;
}

std::string Export::name_of(int v) {
  std::string& name = names_[size_t(v)];
  if (!name.empty()) return name;
  const TracedValue& value = trace_.values[size_t(v)];
  if (!Liveness::stands_alone(value)) throw NoForm{"an operand of it has no form"};
  if (&trace_ != &twin_ && value.name.empty()) {
    const TracedValue& other = twin_.values[size_t(v)];
    if (value.shape() != other.shape() ||
        elements_of(value.tensor.impl()) != elements_of(other.tensor.impl()))
      throw NoForm{
          str("a constant of shape ", value.shape(), " depends on a size that is dynamic")};
  }
  return name = constant_of(v);
}

void Export::write(size_t i) {
  const TracedOp& op = trace_.ops[i];
  OpExport e(
      writer_, {trace_, op}, {twin_, twin_.ops[i]}, [this](int v) { return name_of(v); }, names_);
  std::string path = op.module;
  std::replace(path.begin(), path.end(), '.', '/');
  writer_.begin(str(path.empty() ? "" : "/", path, "/", op.info->name));
  const auto missing = [&](const std::string& why) {
    for (const int r : op.results)
      if (r >= 0) names_[size_t(r)] = "?";  // what follows from it is no mistake of its own
    without_form_.push_back(str(op.info->name, why.empty() ? "" : ", ", why,
                                op.module.empty() ? "" : str(", in ", op.module), ", at ",
                                op.where));
  };
  const auto it = exporters().find(e.kind());
  if (it == exporters().end()) return missing("");
  try {
    it->second(e);
  } catch (const NoForm& f) {
    missing(f.why);
  }
}

void Export::check_twin() const {
  bool same = trace_.ops.size() == twin_.ops.size() && trace_.values.size() == twin_.values.size();
  for (size_t i = 0; same && i < trace_.ops.size(); ++i)
    same = trace_.ops[i].info == twin_.ops[i].info &&
           trace_.ops[i].operands == twin_.ops[i].operands &&
           trace_.ops[i].results == twin_.ops[i].results;
  for (size_t v = 0; same && v < trace_.values.size(); ++v)
    same = trace_.values[v].geometry().ndim == twin_.values[v].geometry().ndim;
  if (!same)
    throw UsageError(
        "[onnx::save] with other sizes of the dynamic axes the function runs other operators\n"
        "  Try fewer dynamic_axes");
}

// Values get the names of results by a node of their own, so that one may be several results, or
// an input.
void Export::name_results() {
  writer_.begin("/results");
  for (size_t i = 0; i < trace_.results.size(); ++i) {
    const std::string name =
        default_name(options_.output_names, i, trace_.results.size(), "output");
    NodeProto n{.op_type = "Identity", .name = writer_.unique("/results/Identity")};
    n.inputs = {name_of(trace_.results[i])}, n.outputs = {name};
    writer_.graph.nodes.push_back(std::move(n));
    writer_.graph.outputs.push_back(described(name, trace_.results[i], twin_.results[i]));
  }
}

ModelProto Export::model() {
  check_twin();
  for (const auto& [name, t] : options_.names) writer_.reserve(name);
  for (size_t i = 0; i < trace_.results.size(); ++i)
    writer_.reserve(default_name(options_.output_names, i, trace_.results.size(), "output"));
  name_inputs();
  for (size_t i = 0; i < trace_.ops.size(); ++i)
    if (live_.op(i)) write(i);
  if (without_form_.empty()) try {
      name_results();
    } catch (const NoForm& f) {
      without_form_.push_back(str("a result, ", f.why));
    }
  if (!without_form_.empty()) {
    std::string list;
    std::vector<std::string> seen;
    for (const std::string& s : without_form_)
      if (std::find(seen.begin(), seen.end(), s) == seen.end())
        seen.push_back(s), list += str("\n  ", s);
    throw UsageError(str("[onnx::save] without a form in ONNX (opset ", kOpset, "):", list));
  }
  writer_.graph.name = "main";
  return {.ir_version = kIrVersion,
          .opset = kOpset,
          .producer = "warptape",
          .producer_version = build_info().version,
          .graph = std::move(writer_.graph)};
}

// --- options and examples ---

void check(const std::vector<Tensor>& example, const SaveOptions& o) {
  if (example.empty()) throw UsageError("[onnx::save] needs an example of each input");
  for (const Tensor& t : example) {
    if (!t.defined()) wt::detail::use_of_undefined();
    if (t.device().is_meta)
      throw PlacementError("[onnx::save] nothing has values on a meta device");
    if (!(t.device() == example[0].device()))
      throw PlacementError(str("[onnx::save] examples are on ", to_string(example[0].device()),
                               " and ", to_string(t.device())));
    if (onnx_dtype(t.dtype()) == 0)
      throw DtypeError(str("[onnx::save] an example is ", dtype_name(t.dtype())));
  }
  if (o.input_names.size() > example.size())
    throw UsageError(
        str("[onnx::save] ", o.input_names.size(), " names for ", example.size(), " inputs"));
}

void check_names(const Trace& t, const SaveOptions& o) {
  if (o.output_names.size() > t.results.size())
    throw UsageError(
        str("[onnx::save] ", o.output_names.size(), " names for ", t.results.size(), " results"));
  std::set<std::string> seen, ends;
  std::string wrong;
  const auto take = [&](const std::string& name) {
    if (name.empty()) wrong += "\n  a name is empty";
    if (!seen.insert(name).second) wrong += str("\n  '", name, "' stands twice");
  };
  for (size_t i = 0; i < t.inputs.size(); ++i)
    take(default_name(o.input_names, i, t.inputs.size(), "input"));
  for (size_t i = 0; i < t.results.size(); ++i)
    take(default_name(o.output_names, i, t.results.size(), "output"));
  ends = seen;
  for (const auto& [name, tensor] : o.names) take(name);
  for (const auto& [name, axes] : o.dynamic_axes)
    if (!ends.contains(name))
      wrong += str("\n  dynamic_axes has '", name, "', which is neither an input nor a result");
  if (!wrong.empty()) throw UsageError("[onnx::save] names:" + wrong);
}

// The example with twice the size along dynamic axes. A name is one size, wherever it stands.
std::vector<Tensor> doubled(const std::vector<Tensor>& example, const SaveOptions& o) {
  std::vector<Tensor> all;
  std::map<std::string, std::pair<i64, i64>> sizes;  // now, and then
  for (size_t i = 0; i < example.size(); ++i) {
    Tensor t = example[i];
    const std::string name = default_name(o.input_names, i, example.size(), "input");
    if (const auto it = o.dynamic_axes.find(name); it != o.dynamic_axes.end())
      for (const auto& [given, text] : it->second) {
        const i64 axis = given < 0 ? given + t.ndim() : given;
        if (axis < 0 || axis >= t.ndim())
          throw UsageError(
              str("[onnx::save] dynamic_axes: '", name, "' has ", t.ndim(), " axes, not ", given));
        const i64 n = t.size(axis);
        if (n == 0) throw UsageError(str("[onnx::save] '", name, "' has no elements"));
        const auto [at, fresh] = sizes.insert({text, {n, 2 * n + i64(sizes.size())}});
        if (!fresh && at->second.first != n)
          throw UsageError(str("[onnx::save] dynamic axis '", text, "' has the sizes ",
                               at->second.first, " and ", n));
        const NoGrad no_grad;
        std::vector<i64> places;
        for (i64 k = 0; k < at->second.second; ++k) places.push_back(k % n);
        t = index_select(t, axis, tensor(places, {.device = Device::cpu()}).to(t.device()));
      }
    all.push_back(t);
  }
  return sizes.empty() ? std::vector<Tensor>{} : all;
}

}  // namespace

void detail::save(const std::string& path, const Function& f, const std::vector<Tensor>& example,
                  const SaveOptions& o) {
  check(example, o);
  const std::vector<Tensor> other = doubled(example, o);
  const Trace own = trace(f, example, o.names);
  check_names(own, o);
  const Trace twin = other.empty() ? Trace{} : trace(f, other, o.names);
  const ModelProto m = Export(own, other.empty() ? own : twin, o).model();
  AtomicFile file(path);
  for (const std::string& part : model_bytes(m, path)) file.write(part);
  file.commit();
}

}  // namespace wt::onnx
