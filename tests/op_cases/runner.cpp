#include "warptape/tests/op_cases/runner.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <tuple>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/node.h"
#include "warptape/autograd/op_list.h"
#include "warptape/core/philox.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/op_cases/inputs.h"
#include "warptape/tests/op_cases/support.h"

namespace wt_test {
namespace {

std::string joined(const Shape& s) {
  std::string text;
  for (i64 size : s) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text.empty() ? "-" : text;  // 0-d
}

std::string joined(const std::vector<std::string>& list, const char* between) {
  std::string text;
  for (const std::string& s : list) text += (text.empty() ? "" : between) + s;
  return text;
}

// Some families have kernels on the cpu alone.
bool built(DeviceKind k) {
  for (const ContractInfo& c : all_contracts())
    if (c.count(k) > 0) return true;
  return false;
}

const ContractInfo* find_contract(const std::string& name) {
  for (const ContractInfo& c : all_contracts())
    if (name == c.name) return &c;
  return nullptr;
}
DType expected_dtype(const OpCase& row, DType t) {
  switch (row.result) {
    case ResultType::promoted:
      return t;
    case ResultType::floating:
      return is_floating(t) ? t : f32;
    case ResultType::boolean:
      return DType::boolean;
    case ResultType::i64:
      return DType::i64;
    case ResultType::loss:
      return t == f64 ? f64 : f32;
    case ResultType::sum:
      return is_floating(t) ? t : DType::i64;
  }
  return t;
}

// "" or the first element that is off.
std::string compare(const char* what, const std::vector<double>& got,
                    const std::vector<double>& want, const std::function<double(size_t)>& bound) {
  if (got.size() != want.size())
    return str(what, ": ", got.size(), " elements, expected ", want.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!within(got[i], want[i], bound(i)))
      return str(what, ", element ", i, ": ", got[i], ", expected ", want[i], ", off by ",
                 std::fabs(got[i] - want[i]), ", bound ", bound(i));
  return "";
}

// What must come out of a case, on every device and by every variant: computed once.
struct Expected {
  Array value;
  std::vector<std::vector<double>> gradients{};  // empty until check_gradients() needs them
};
// Of one row at a time.
Expected& expected_of(const Case& c, const std::vector<Array>& in) {
  static const OpCase* row = nullptr;
  static std::map<std::tuple<int, DType, char, u64>, Expected> known;
  if (row != c.row) known.clear();
  row = c.row;
  const auto key = std::make_tuple(c.sample, c.dtype, c.layout, c.seed);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, Expected{c.call().oracle(in)}).first->second;
}

std::string check_values(const Case& c, const Tensor& y, const std::vector<Array>& in) {
  const Array& want = expected_of(c, in).value;
  const DType t = c.call().result.value_or(expected_dtype(*c.row, c.dtype));
  if (y.dtype() != t) return str("dtype ", dtype_name(y.dtype()), ", expected ", dtype_name(t));
  if (y.shape() != want.shape) return str("shape ", y.shape(), ", expected ", want.shape);
  std::vector<double> v;
  for (double x : want.v) v.push_back(stored_as(x, t));
  // oneDNN calls such a comparison MISTRUSTED: a result of one value proves little.
  bool empty = false;
  for (const Array& x : in) empty |= x.v.empty();
  if (v.size() > 8 && !empty && !c.row->mostly_constant && !c.call().constant && is_floating(t) &&
      c.layout != 'e' && std::count(v.begin(), v.end(), v[0]) * 10 > i64(v.size()) * 9)
    return "mistrusted: nearly all expected values are equal";
  const std::vector<double> got = y.to_vector<double>();
  return compare("value", got, v, [&](size_t i) {
    // Only 16 bits are fewer than what is computed in.
    const bool rounds = !want.rounded.empty() && item_size(c.dtype) == 2;
    const double on_the_way = rounds ? precision_of(c.dtype).u * want.rounded[i] : 0;
    return on_the_way + value_bound(t, c.dtype, want.terms, v[i],
                                    want.magnitude.empty() ? std::fabs(v[i]) : want.magnitude[i]);
  });
}

// Weights in [0.5, 1.5) that make the output one number.
Tensor weights(const Tensor& y, u64 seed) {
  std::vector<double> w;
  for (i64 i = 0; i < y.numel(); ++i)
    w.push_back(0.5 + double(mix64(seed + u64(i)) >> 11) * 0x1p-53);
  return tensor(w).reshape(y.shape()).to(y.dtype()).to(y.device());
}
std::vector<Tensor> leaves(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> r;
  for (const Tensor& x : inputs)
    if (x.requires_grad()) r.push_back(x);
  return r;
}
std::vector<Tensor> gradients(const Tensor& y, const Tensor& w, const std::vector<Tensor>& of,
                              bool create_graph) {
  return grads({&y, 1}, of,
               {.grad_outputs = {w},
                .create_graph = create_graph,
                .retain_graph = true,
                .allow_unused = true});
}
std::vector<double> doubles(const Tensor& g, const Tensor& like) {
  return g.defined() ? g.to_vector<double>() : std::vector<double>(size_t(like.numel()), 0.0);
}

bool is_emulated(Device d) {
  static const bool emulated = std::getenv("WT_EMU_SUMMARY") != nullptr;
  return emulated && d.kind == DeviceKind::cuda;
}

// What ran under the variant in question. The reference must not: it is computed afterwards.
struct Results {
  Tensor y, weights;
  std::vector<Tensor> fused, composite;  // gradients without and with create_graph
};
// The composite backward once a device: what it is made of are operators, and each has a row that
// runs all variants. Not on an emulated one: what it proves beyond them is the same on cpu and
// simt.
Results run_operator(const Case& c, const Place& p, const Inputs& in) {
  std::optional<VariantScope> scope;
  if (const size_t colon = p.variant.find(':'); colon != std::string::npos)
    scope.emplace(p.variant.substr(0, colon), p.variant.substr(colon + 1));
  Results r;
  r.y = c.call().call(in.tensors);
  if (!r.y.requires_grad()) return r;
  r.weights = weights(r.y, c.seed);
  const std::vector<Tensor> x = leaves(in.tensors);
  r.fused = gradients(r.y, r.weights, x, false);
  if (p.variant.empty() && !is_emulated(p.device)) r.composite = gradients(r.y, r.weights, x, true);
  return r;
}

// By the cpu in f64, of what check_values() has found right: the weights are those of every run.
std::vector<std::vector<double>> reference_gradients(const Case& c, const Tensor& weights,
                                                     const Inputs& in) {
  std::vector<Tensor> x64 = reference_inputs(c.call(), in.arrays);
  const Tensor y64 = c.call().call(x64);
  const Tensor w64 = weights.to(Device::cpu()).to(y64.dtype());
  const std::vector<Tensor> x = leaves(in.tensors), g = gradients(y64, w64, leaves(x64), false);
  std::vector<std::vector<double>> all;
  for (size_t i = 0; i < g.size(); ++i) all.push_back(doubles(g[i], x[i]));
  return all;
}

std::string check_gradients(const Case& c, const Results& r, const Inputs& in) {
  const std::vector<Tensor> x = leaves(in.tensors);
  Expected& expected = expected_of(c, in.arrays);
  if (expected.gradients.empty()) expected.gradients = reference_gradients(c, r.weights, in);
  const double terms = expected.value.terms + double(r.y.numel());
  for (const bool composite : {false, true}) {
    const std::vector<Tensor>& got = composite ? r.composite : r.fused;
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i].defined() && got[i].dtype() != x[i].dtype()) return "the gradient's dtype";
      const std::vector<double>& g = expected.gradients[i];
      double largest = c.row->cancels ? 1.5 : 0;  // the largest weight
      for (double v : g) largest = std::max(largest, std::fabs(v));
      const std::string what = str(composite ? "composite " : "", "gradient ", i);
      std::string wrong = compare(what.c_str(), doubles(got[i], x[i]), g, [&](size_t k) {
        return gradient_bound(c.dtype, terms, g[k], largest);
      });
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

bool differentiable(const Case& c) {
  return c.call().gradients && is_floating(c.dtype) &&
         info_of(c.row->name)->derivative != Derivative::none;
}

u64 seed_of(const OpCase& row, size_t sample) {
  if (const auto s = selection().wanted.find("seed"); s != selection().wanted.end())
    return std::strtoull(s->second.c_str(), nullptr, 10);
  u64 h = sample;
  for (char ch : row.name) h = h * 131 + u64(ch);
  return mix64(h) % 100000;
}

}  // namespace

const Selection& selection() {
  static const Selection s = [] {
    Selection r;
    const char* text = std::getenv("WT_OPTEST");
    std::istringstream words(text ? text : "");
    for (std::string key, value; words >> key >> value;)
      r.wanted[key.substr(key.find_first_not_of('-'))] = value;
    return r;
  }();
  return s;
}

std::string reproducer(const Case& c, const Place& p) {
  const Shape shape = c.call().inputs[0].shape;
  return str("reproduce: WT_OPTEST='--op ", c.row->name, " --sample ", c.sample, " --dtype ",
             dtype_name(c.dtype), " --shape ", joined(shape), " --layout ", c.layout, " --seed ",
             c.seed, " --device ", device_kind_name(p.device.kind),
             p.variant.empty() ? "" : " --variant ", p.variant, "' wt_tests '[ops]'  (",
             c.call().label, ")");
}

const OpInfo* info_of(const std::string& op) {
  for (const OpInfo* i : all_ops())
    if (op == i->name) return i;
  throw UsageError("no operator is called " + op);
}

std::vector<Device> test_devices() {
  const char* wanted = std::getenv("WT_TEST_DEVICES");
  const std::string text = str(",", wanted ? wanted : "cpu,simt,cuda", ",");
  std::vector<Device> devices;
  for (const Device& d : {Device::cpu(), Device::simt(), Device::cuda()}) {
    const std::string name = device_kind_name(d.kind);
    if (text.find("," + name + ",") == std::string::npos || !selection().fits("device", name))
      continue;
    const bool there = built(d.kind) && (d.kind != DeviceKind::cuda || cuda::is_available());
    if (!there && wanted)
      throw NotAvailable("WT_TEST_DEVICES names " + name + ", which is not there");
    if (there) devices.push_back(d);
  }
  return devices;
}

std::vector<Case> all_cases(const OpCase& row) {
  std::vector<Case> cases;
  for (size_t k = 0; k < row.samples.size(); ++k) {
    const Sample& s = row.samples[k];
    for (DType t : row.dtypes) {
      if (!is_floating(t) && !s.integers) continue;
      for (const char* layout = kLayouts; *layout; ++layout) {
        // Other layouts: the first samples, and two dtypes of different size.
        if (*layout != 'c' && (!s.layouts || k > 1 || (t != f32 && t != f16))) continue;
        if (*layout == 'f' && t != f32) continue;
        cases.push_back({&row, int(k), t, *layout, seed_of(row, k)});
      }
    }
  }
  return cases;
}

std::vector<std::string> variants_of(const OpCase& row, Device d) {
  std::vector<std::string> names{""};
  for (const std::string& contract : row.contracts)
    if (const ContractInfo* c = find_contract(contract))
      for (int i = 0; i < c->count(d.kind); ++i)
        names.push_back(contract + ":" + c->variant(d.kind, i).name);
  return names;
}

bool runs_on(const Case& c, Device d) { return c.layout != 'f' || d.kind == DeviceKind::cpu; }

bool has_kernels(const OpCase& row, Device d) {
  if (row.composed_elsewhere && d.kind != DeviceKind::cpu) return true;
  for (const std::string& contract : row.contracts)
    if (const ContractInfo* c = find_contract(contract); c && c->count(d.kind) == 0) return false;
  return true;
}

std::string missing_on_cpu() {
  std::string missing;
  for (const OpCase& row : op_cases())
    if (selection().fits("op", row.name) && !has_kernels(row, Device::cpu()))
      missing += " " + row.name;
  return missing.empty() ? missing : "this build has no kernels of" + missing;
}

Outcome run_case(const Case& c, const Place& p) {
  try {
    const Inputs in = make_inputs(c, p.device, differentiable(c));
    const Results r = run_operator(c, p, in);
    std::string wrong = check_values(c, r.y, in.arrays);
    if (wrong.empty() && r.y.requires_grad()) wrong = check_gradients(c, r, in);
    return {wrong};
  } catch (const UsageError& e) {
    const std::string text = e.what();
    const bool refused = text.find("does not take these arguments") != std::string::npos;
    // Of kernels/device/tensor_map.cpp and kernels/matmul/matmul_hopper.cu.
    const bool lacks = refused && (text.find("needs a CUDA driver that") != std::string::npos ||
                                   text.find("this build has no code for") != std::string::npos);
    return {refused ? "" : text, refused, false, lacks};
  } catch (const NotAvailable& e) {
    const bool missing = std::string(e.what()).find("] has no kernel for ") != std::string::npos;
    return {missing ? "" : e.what(), false, missing};
  } catch (const std::exception& e) {
    return {e.what()};
  }
}

namespace {

// A derivative that is zero whatever the input (fill_) has nothing to differentiate.
bool independent(const Sample& s, const Inputs& in) {
  const Tensor y = s.call(in.tensors);
  for (const Tensor& g : gradients(y, weights(y, 1).set_requires_grad(), leaves(in.tensors), true))
    if (g.defined() && g.requires_grad()) return false;
  return true;
}

// "" when both derivatives of a sample are right; raises `proved`.
std::string check_sample(const Sample& s, const Inputs& in, bool second_is_zero, int& proved) {
  proved = 0;
  if (const GradCheck first = grad_check(s.call, in.tensors); !first) return first.message;
  proved = 1;
  if (!second_is_zero || !independent(s, in)) {
    const GradCheck second =
        grad_grad_check(s.call, in.tensors, {.second_is_zero = second_is_zero});
    if (!second) return "second derivative: " + second.message;
  }
  proved = 2;
  return "";
}

}  // namespace

Derivatives check_derivatives(const OpCase& row, int most) {
  const OpInfo* info = info_of(row.name);
  if (info->derivative == Derivative::none) return {};
  int samples = 0;
  for (size_t k = 0; k < row.samples.size(); ++k) {
    const Sample& s = row.samples[k];
    i64 elements = 0;
    bool empty = false;
    for (const Input& in : s.inputs) elements += count(in.shape), empty |= count(in.shape) == 0;
    if (!s.gradients || empty || elements > 64) continue;
    const Case c{&row, int(k), f64, 'c', seed_of(row, k)};
    const std::string where = str(row.name, " sample ", k, " (", s.label, ") ");
    int proved = 0;
    try {
      const Inputs in = make_inputs(c, Device::cpu(), true);
      const Tensor y = s.call(in.tensors);
      if (!y.requires_grad() || y.numel() == 0 || y.dtype() != f64) continue;
      const bool zero = info->derivative != Derivative::smooth || s.second_is_zero;
      const std::string wrong = check_sample(s, in, zero, proved);
      if (!wrong.empty()) return {proved, where + wrong};
    } catch (const std::exception& e) {
      return {proved, where + e.what()};
    }
    if (++samples == most) break;
  }
  if (samples == 0) return {0, row.name + ": no sample is small enough for finite differences"};
  return {2, ""};
}

// --- what a backward reads ---

namespace {

// The node of that operator, at or behind `n`: what calls of a row wrap around it lies before.
const Node* node_of(const Node* n, const OpInfo* op, int depth = 4) {
  if (!n || n->is_leaf() || depth == 0) return nullptr;
  if (n->info == op) return n;
  for (u32 i = 0; i < n->n_edges; ++i)
    if (const Node* found = node_of(n->edges[i].node, op, depth - 1)) return found;
  return nullptr;
}

std::string name_of_slot(const Node* n, const SavedSlot& s, const Inputs& in) {
  if (s.edge == kSelf)
    return n->info->sign_of_output ? "its result's sign"
           : n->n_outputs > 1      ? str("result ", int(s.output))
                                   : std::string("its result");
  if (s.edge != kNoEdge)  // x.mul_(x) has an operand more than the row has inputs
    return str(n->info->in_place && (s.edge >= in.tensors.size() ||
                                     s.tensor->storage != in.tensors[s.edge].impl()->storage)
                   ? "a copy of "
                   : "",
               "operand ", int(s.edge));
  for (size_t i = 0; i < in.tensors.size(); ++i)
    if (s.tensor->storage == in.tensors[i].impl()->storage) return str("operand ", i);
  return "its own";
}

}  // namespace

// Of all ways in which a row calls the operator.
static std::string held_by(const OpCase& row, const OpInfo* op) {
  if (op->derivative == Derivative::none) return "-";
  std::vector<std::string> names;
  bool recorded = false;
  for (size_t k = 0; k < row.samples.size(); ++k) {
    if (!row.samples[k].gradients) continue;
    const Inputs in = make_inputs({&row, int(k), f64, 'c', seed_of(row, k)}, Device::cpu(), true);
    const Tensor y = row.samples[k].call(in.tensors);
    const Node* n = node_of(y.impl()->node, op);
    if (!n) continue;
    recorded = true;
    for (u32 i = 0; i < n->n_slots; ++i) {
      const SavedSlot& s = n->slots[i];
      if (s.kind == SlotKind::empty || !s.tensor) continue;
      const std::string name = name_of_slot(n, s, in);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (!recorded) return "as its parts";
  std::sort(names.begin(), names.end());
  return names.empty() ? "nothing" : joined(names, ", ");
}

std::string op_facts() {
  std::ostringstream out;
  out << "// Written by the operator tests (tests/op_cases/ops_test.cpp says how): do not edit.\n"
         "// {name, dtypes, derivatives that are proved, cases, contracts, on simt, lacking "
         "there,\n// what is held for backward}\n";
  for (const OpInfo* op : all_ops())
    for (const OpCase& row : op_cases()) {
      if (row.name != op->name) continue;
      out << "{\"" << row.name << "\", \"";
      for (DType t : row.dtypes) out << (t == row.dtypes[0] ? "" : " ") << dtype_name(t);
      out << "\", " << check_derivatives(row).proved << ", " << all_cases(row).size() << ", \"";
      const Support& cpu = support_on(row, Device::cpu());
      const Support& simt = support_on(row, Device::simt());
      out << joined(row.contracts.empty() ? cpu.contracts : row.contracts, " ") << "\", \""
          << simt.extent << "\", \"" << joined(simt.lacking, "; ") << "\", \"" << held_by(row, op)
          << "\"},\n";
    }
  return out.str();
}

}  // namespace wt_test
