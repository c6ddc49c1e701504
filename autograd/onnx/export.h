// From traced operators to ONNX's: what each family's file is given. Internal to autograd/onnx.h.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "warptape/autograd/onnx/model.h"
#include "warptape/autograd/onnx/trace.h"
#include "warptape/core/activation.h"
#include "warptape/kernels/contract.h"

namespace wt::onnx {

using Texts = std::vector<std::string>;
using Attributes = std::vector<AttributeProto>;

// The graph that is being written. Names are unique in it.
class GraphWriter {
 public:
  GraphProto graph;

  void reserve(const std::string& name) { taken_.insert(name); }
  std::string unique(const std::string& wanted);
  // Begins an operator: its nodes are named after it.
  void begin(const std::string& name) { prefix_ = name; }
  // A node; its first result's name.
  std::string node(const char* op, Texts inputs, Attributes attributes = {});
  Texts nodes(const char* op, Texts inputs, Attributes attributes, size_t results);
  // Constants without a name of their own; equal numbers are written once.
  std::string integers(const std::vector<i64>& values);
  std::string number(DType t, Scalar v);
  std::string constant(const Tensor& t);
  void initializer(const std::string& name, const Tensor& t);

 private:
  std::set<std::string> taken_;
  std::unordered_map<std::string, int> counts_;
  std::unordered_map<std::string, std::string> numbers_;
  std::string prefix_;
};

// One traced operator on its way. Where sizes are dynamic, `twin` is the same operator of a second
// trace with other sizes: what differs between the two is not a number of the file's.
class OpExport {
 public:
  struct Side {
    const Trace& trace;
    const TracedOp& op;
  };
  using NameOf = std::function<std::string(int value)>;
  OpExport(GraphWriter& to, Side own, Side twin, NameOf name_of, std::vector<std::string>& names)
      : w(to), own_(own), twin_(twin), name_of_(std::move(name_of)), names_(names) {}

  GraphWriter& w;

  const TracedOp& op() const { return own_.op; }
  const Trace& trace() const { return own_.trace; }
  std::string_view kind()
      const;  // the operator's name, without the underscore of its form in place
  int operands() const { return int(own_.op.operands.size()); }
  const TracedValue& of(int i) const { return value(own_, own_.op.operands[size_t(i)]); }
  const TracedValue& twin_of(int i) const { return value(twin_, twin_.op.operands[size_t(i)]); }
  const TracedValue& out(int k = 0) const { return value(own_, own_.op.results[size_t(k)]); }
  const TracedValue& twin_out(int k = 0) const { return value(twin_, twin_.op.results[size_t(k)]); }
  int results() const { return int(own_.op.results.size()); }

  // The names of operands; of dtype t.
  std::string in(int i) const { return name_of_(own_.op.operands[size_t(i)]); }
  std::string in(int i, DType t) const { return cast(in(i), of(i).dtype(), t); }
  std::string value_name(int v) const { return name_of_(v); }
  std::string cast(const std::string& name, DType from, DType to) const;
  // Result k is this.
  void put(const std::string& name, int k = 0) {
    names_[size_t(own_.op.results[size_t(k)])] = name;
  }

  // A launch of the operator with arguments A; null: none.
  template <class A>
  const TracedKernel* kernel() const {
    return find(own_.op, ContractTable<A>::kName);
  }
  template <class A>
  const TracedKernel* twin_kernel() const {
    return find(twin_.op, ContractTable<A>::kName);
  }
  template <class A>
  const A& args() const {
    return args_of<A>(own_);
  }
  template <class A>
  const A& twin_args() const {
    return args_of<A>(twin_);
  }

  // Axes of results whose sizes are not the file's.
  bool dynamic(int k, int axis) const {
    return out(k).geometry().shape[axis] != twin_out(k).geometry().shape[axis];
  }
  bool dynamic_in(int i, int axis) const {
    return of(i).geometry().shape[axis] != twin_of(i).geometry().shape[axis];
  }
  // The shape of result 0 for Reshape, Expand, .. of operand 0: a constant where it is one, else
  // made of the operand's. `zero_copies`: a 0 stands for the operand's size, as in Reshape.
  std::string shape_like_out(bool zero_copies);
  void same(bool equal, const char* what) {
    if (!equal) refuse(str(what, " depends on a size that is dynamic"));
  }
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::string size_of_inputs(i64 size, i64 twin_size);
  static const TracedValue& value(const Side& s, int v) { return s.trace.values[size_t(v)]; }
  static const TracedKernel* find(const TracedOp& op, std::string_view contract);
  [[noreturn]] void no_kernel(std::string_view contract) const;
  template <class A>
  const A& args_of(const Side& s) const {
    const TracedKernel* k = find(s.op, ContractTable<A>::kName);
    if (!k) no_kernel(ContractTable<A>::kName);
    return *reinterpret_cast<const A*>(k->args.data());
  }

  Side own_, twin_;
  NameOf name_of_;
  std::vector<std::string>& names_;
};

// Why an operator has no form.
struct NoForm {
  std::string why;
};

using Exporter = void (*)(OpExport& e);
using Exporters = std::unordered_map<std::string_view, Exporter>;
void add_pointwise_exporters(Exporters& to);
void add_shape_exporters(Exporters& to);
void add_index_exporters(Exporters& to);
void add_reduce_exporters(Exporters& to);
void add_layer_exporters(Exporters& to);
void add_norm_exporters(Exporters& to);
void add_product_exporters(Exporters& to);

// Equal, or both NaN.
inline bool same_number(double a, double b) { return a == b || (a != a && b != b); }

// f(x), x and the result of dtype t.
std::string write_activation(GraphWriter& w, Activation f, const std::string& x, DType t);
std::string write_gelu(GraphWriter& w, const std::string& x, DType t);
// Elements of an axis: begin, begin + step, .. up to, not with, end.
std::string write_slice(GraphWriter& w, const std::string& x, i64 axis, i64 begin, i64 end,
                        i64 step = 1);

}  // namespace wt::onnx
