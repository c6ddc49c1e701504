// From a file to a graph that runs.
#include "warptape/autograd/onnx/import.h"

#include <algorithm>
#include <map>
#include <set>

#include "warptape/autograd/onnx.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/error.h"
#include "warptape/core/input_file.h"

namespace wt::onnx {

const Importers& importers() {
  static const Importers all = [] {
    Importers r;
    add_pointwise_importers(r), add_shape_importers(r);
    add_reduce_importers(r), add_layer_importers(r);
    return r;
  }();
  return all;
}

// --- the graph ---

struct Graph::State {
  struct Step {
    const NodeProto* node;
    Importer::Run run;
    u32 read_on_host;
    std::vector<int> inputs, outputs;  // places; -1: none
    std::vector<int> last;             // places that nobody reads after it
  };
  std::string path;
  Device device;
  ModelProto model;
  std::vector<Step> steps;
  std::vector<int> inputs, results;
  std::map<std::string, int> places;
  // By place. Beside short lists stand the host's copies, for what is read there.
  std::vector<Tensor> constants, on_host;
  std::vector<std::string> constant_names;
  std::string producer;

  int place(const std::string& name) {
    return places.insert({name, int(places.size())}).first->second;
  }
  void check_operators() const;
  void check_names();
  void fold_constants();
  void link();
  void put_constants();
  std::vector<Tensor> arguments(const Step& s, const std::vector<Tensor>& values) const;
  void check_inputs(const std::vector<Tensor>& given) const;
};

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  data_error(path, 0, what);
}

bool reads(std::string_view list, std::string_view name) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (list.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

// What of a node is not read; empty: nothing.
std::string unread_of(const NodeProto& n, i64 opset) {
  const bool own_domain = !n.domain.empty() && n.domain != "ai.onnx";
  const std::string op =
      own_domain ? str(printable(n.domain), ".", printable(n.op_type)) : printable(n.op_type);
  const auto it = own_domain ? importers().end() : importers().find(n.op_type);
  if (it == importers().end()) return op;
  const Importer& importer = it->second;
  for (const AttributeProto& a : n.attributes)
    if (!reads(importer.attributes, a.name) || !a.unread.empty())
      return str(op, " with ", printable(a.name), a.unread.empty() ? "" : " that is ", a.unread);
  if (n.inputs.size() < importer.least || n.inputs.size() > importer.most)
    return str(op, " with ", n.inputs.size(), " inputs");
  if (n.outputs.empty()) return str(op, " without a result");
  for (size_t k = n.outputs.size(); k-- > importer.results;)
    if (!n.outputs[k].empty()) return str(op, " with ", k + 1, " results");
  if (!importer.unread) return "";
  try {
    const std::string what = importer.unread(NodeCall(n, opset, {}, Device::cpu()));
    return what.empty() ? "" : str(op, " with ", printable(what));
  } catch (const UsageError& e) {  // an attribute of another kind
    return e.what();
  }
}

}  // namespace

void Graph::State::check_operators() const {
  if (model.opset < kOldestOpset || model.opset > kNewestOpset)
    refuse(path, str("opset ", model.opset, ", read are ", kOldestOpset, " to ", kNewestOpset));
  std::map<std::string, i64> unread;
  for (const NodeProto& n : model.graph.nodes)
    if (const std::string what = unread_of(n, model.opset); !what.empty()) ++unread[what];
  for (const ValueProto& v : model.graph.inputs)
    if (!dtype_of_onnx(v.dtype))
      ++unread[str("input '", printable(v.name), "' of dtype ", onnx_dtype_name(v.dtype))];
  if (unread.empty()) return;
  std::string list;
  int shown = 0;
  for (const auto& [what, times] : unread) {
    if (++shown > 100) break;
    list += str("\n  ", what, times > 1 ? str(", ", times, " times") : "");
  }
  refuse(path, str("not read are:", list));
}

// Each name is made once, and before it is read.
void Graph::State::check_names() {
  std::set<std::string> made;
  const auto make = [&](const std::string& name, const char* what) {
    if (name.empty()) refuse(path, str(what, " without a name"));
    if (!made.insert(name).second) refuse(path, str("'", printable(name), "' is made twice"));
  };
  std::set<std::string> initial;
  for (const TensorProto& t : model.graph.initializers) {
    make(t.name, "a tensor");
    initial.insert(t.name);
  }
  // Before IR version 4 constants were inputs too.
  std::erase_if(model.graph.inputs, [&](const ValueProto& v) { return initial.contains(v.name); });
  for (const ValueProto& v : model.graph.inputs) make(v.name, "an input");
  for (const NodeProto& n : model.graph.nodes) {
    for (const std::string& in : n.inputs)
      if (!in.empty() && !made.contains(in))
        refuse(path, str(printable(n.op_type), " reads '", printable(in),
                         "', which nothing before it makes"));
    for (const std::string& out : n.outputs)
      if (!out.empty()) make(out, "a result");
  }
  if (model.graph.outputs.empty()) refuse(path, "a graph without results");
  for (const ValueProto& v : model.graph.outputs)
    if (!made.contains(v.name))
      refuse(path, str("the result '", printable(v.name), "' is made by nothing"));
}

// Constants that are nodes become those that are not.
void Graph::State::fold_constants() {
  std::vector<NodeProto>& nodes = model.graph.nodes;
  for (NodeProto& n : nodes)
    if (n.op_type == "Constant") {
      const NodeCall call(n, model.opset, {}, Device::cpu());
      try {
        model.graph.initializers.push_back({n.outputs[0], importers().at("Constant").run(call)[0]});
      } catch (const UsageError& e) {
        refuse(path, e.what());
      }
    }
  std::erase_if(nodes, [](const NodeProto& n) { return n.op_type == "Constant"; });
}

void Graph::State::link() {
  for (const TensorProto& t : model.graph.initializers) place(t.name);
  for (const ValueProto& v : model.graph.inputs) inputs.push_back(place(v.name));
  for (const NodeProto& n : model.graph.nodes) {
    const Importer& importer = importers().at(n.op_type);
    Step s{&n, importer.run, importer.read_on_host, {}, {}, {}};
    for (const std::string& in : n.inputs) s.inputs.push_back(in.empty() ? -1 : place(in));
    for (const std::string& out : n.outputs) s.outputs.push_back(out.empty() ? -1 : place(out));
    steps.push_back(std::move(s));
  }
  for (const ValueProto& v : model.graph.outputs) results.push_back(place(v.name));
  std::set<int> later(results.begin(), results.end());
  for (size_t i = steps.size(); i-- > 0;) {
    for (const int p : steps[i].inputs)
      if (p >= 0 && later.insert(p).second) steps[i].last.push_back(p);
    for (const int p : steps[i].outputs)
      if (p >= 0 && later.insert(p).second) steps[i].last.push_back(p);
  }
}

void Graph::State::put_constants() {
  constants.resize(places.size()), on_host.resize(places.size());
  for (TensorProto& t : model.graph.initializers) {
    const size_t p = size_t(places.at(t.name));
    constants[p] = device == Device::cpu() ? t.value : t.value.to(device);
    if (t.value.ndim() <= 1 && t.value.numel() <= kMaxDims * 2) on_host[p] = t.value;
    constant_names.push_back(t.name);
    t.value = {};
  }
}

// What decides shapes stays on the host, which reads it; where it meets a tensor of the device it
// goes there.
std::vector<Tensor> Graph::State::arguments(const Step& s,
                                            const std::vector<Tensor>& values) const {
  std::vector<Tensor> all;
  bool host = false, elsewhere = false;
  const auto read = [&](size_t k) { return k < 32 && (s.read_on_host >> k & 1) != 0; };
  for (size_t k = 0; k < s.inputs.size(); ++k) {
    const int p = s.inputs[k];
    const bool constant = p >= 0 && !values[size_t(p)].defined();
    all.push_back(p < 0 ? Tensor() : constant ? constants[size_t(p)] : values[size_t(p)]);
    if (p < 0 || read(k) || (constant && on_host[size_t(p)].defined())) continue;
    (all.back().device() == device ? elsewhere : host) = true;
  }
  if (device == Device::cpu()) return all;
  for (size_t k = 0; k < all.size(); ++k) {
    if (s.inputs[k] < 0) continue;
    const Tensor& twin = on_host[size_t(s.inputs[k])];
    if (twin.defined() && (read(k) || (host && !elsewhere)))
      all[k] = twin;
    else if (!read(k) && elsewhere && !(all[k].device() == device))
      all[k] = all[k].to(device);
  }
  return all;
}

void Graph::State::check_inputs(const std::vector<Tensor>& given) const {
  if (given.size() != inputs.size())
    throw UsageError(str("[onnx] ", inputs.size(), " inputs are needed, got ", given.size()));
  for (size_t i = 0; i < given.size(); ++i) {
    const ValueProto& want = model.graph.inputs[i];
    const Tensor& t = given[i];
    const std::string who = str("[onnx] input '", printable(want.name), "'");
    if (!t.defined()) throw UsageError(str(who, " is undefined"));
    if (!(t.device() == device))
      throw PlacementError(
          str(who, " is on ", to_string(t.device()), ", the graph on ", to_string(device)));
    const DType dtype = *dtype_of_onnx(want.dtype);
    if (t.dtype() != dtype)
      throw DtypeError(
          str(who, " is ", dtype_name(t.dtype()), ", the file says ", dtype_name(dtype)));
    bool fits = !want.has_shape || t.ndim() == int(want.shape.size());
    for (int d = 0; fits && want.has_shape && d < t.ndim(); ++d)
      fits = want.shape[size_t(d)].size < 0 || want.shape[size_t(d)].size == t.size(d);
    if (fits) continue;
    std::string shape;
    for (const DimProto& d : want.shape)
      shape += str(shape.empty() ? "" : ", ", d.size >= 0      ? str(d.size)
                                              : d.name.empty() ? "?"
                                                               : printable(d.name));
    throw ShapeError(str(who, " has shape ", t.shape(), ", the file says [", shape, "]"));
  }
}

Graph::Graph(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::vector<Tensor> Graph::run(const std::vector<Tensor>& inputs, Frame at) const {
  const State& s = *state_;
  s.check_inputs(inputs);
  const FrameScope lines(at);
  std::vector<Tensor> values(s.places.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[size_t(s.inputs[i])] = inputs[i];
  for (const State::Step& step : s.steps) {
    const NodeCall call(*step.node, s.model.opset, s.arguments(step, values), s.device);
    std::vector<Tensor> made;
    try {
      made = step.run(call);
    } catch (const Error& e) {
      call.pass_on(e);
    }
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.outputs[k] < 0) continue;
      WT_INTERNAL_ASSERT(k < made.size());
      values[size_t(step.outputs[k])] = std::move(made[k]);
    }
    for (const int p : step.last) values[size_t(p)] = Tensor();
  }
  std::vector<Tensor> results;
  for (const int p : s.results) {
    const Tensor& v = values[size_t(p)].defined() ? values[size_t(p)] : s.constants[size_t(p)];
    results.push_back(v.device() == s.device ? v : v.to(s.device));
  }
  return results;
}

Tensor Graph::one(const std::vector<Tensor>& inputs) const {
  if (state_->results.size() != 1)
    throw UsageError(str("[onnx] the graph has ", state_->results.size(),
                         " results\n  Try run(), which gives all of them"));
  return run(inputs)[0];
}

static std::vector<Graph::Slot> slots(const std::vector<ValueProto>& values) {
  std::vector<Graph::Slot> all;
  for (const ValueProto& v : values) {
    Graph::Slot s{v.name, dtype_of_onnx(v.dtype).value_or(DType::f32), {}};
    for (const DimProto& d : v.shape) s.shape.push_back(d.size);
    all.push_back(std::move(s));
  }
  return all;
}
std::vector<Graph::Slot> Graph::inputs() const { return slots(state_->model.graph.inputs); }
std::vector<Graph::Slot> Graph::results() const { return slots(state_->model.graph.outputs); }
std::vector<std::pair<std::string, Tensor>> Graph::constants() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const std::string& name : state_->constant_names)
    all.emplace_back(name, state_->constants[size_t(state_->places.at(name))]);
  return all;
}
Device Graph::device() const { return state_->device; }
i64 Graph::nodes() const { return i64(state_->steps.size()); }
const std::string& Graph::producer() const { return state_->producer; }
i64 Graph::opset() const { return state_->model.opset; }

Graph Graph::load(const std::string& path, Device d, const ParseLimits& limits) {
  if (d.is_meta) throw PlacementError("[onnx::load] nothing runs on a meta device");
  const InputFile file(path);
  // The file, and the tensors that are made of it.
  const u64 most = std::min(limits.max_bytes / 2, u64{1} << 31);
  if (file.size() > most) refuse(path, str("a file of ", file.size(), " bytes, at most ", most));
  // A message begins with the number of a field: what does not is not loaded at all.
  std::string bytes(size_t(std::min<u64>(file.size(), 1)), '\0');
  file.read(0, bytes.data(), bytes.size(), "the first byte");
  if (bytes.empty() || (bytes[0] & 7) == 7 || bytes[0] == 0) refuse(path, "no ONNX model");
  bytes.resize(size_t(file.size()));
  file.read(0, bytes.data(), bytes.size(), "the model");
  auto state = std::make_shared<Graph::State>();
  state->path = path, state->device = d;
  state->model = parse_model(path, bytes, limits);
  bytes = {};
  state->check_names();
  state->check_operators();
  state->fold_constants();
  state->link();
  state->put_constants();
  state->producer = str(state->model.producer, state->model.producer_version.empty() ? "" : " ",
                        state->model.producer_version);
  return Graph(std::move(state));
}

}  // namespace wt::onnx
