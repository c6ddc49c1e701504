// From ONNX's operators to ours: what each family's file is given. Internal to autograd/onnx.h.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "warptape/autograd/onnx/model.h"
#include "warptape/core/error.h"

namespace wt::onnx {

// A node that is about to run: its attributes and what its inputs are now.
class NodeCall {
 public:
  NodeCall(const NodeProto& n, i64 opset, std::vector<Tensor> inputs, Device d)
      : node_(n), opset_(opset), device_(d), inputs_(std::move(inputs)) {}

  const NodeProto& node() const { return node_; }
  i64 opset() const { return opset_; }
  Device device() const { return device_; }
  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return node_.outputs.size(); }
  // Whether the node has input i: the last ones may be left out, others have an empty name.
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  const Tensor& in(size_t i) const;

  i64 integer(std::string_view name, i64 otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, const char* otherwise) const;
  std::vector<i64> integers(std::string_view name) const;  // none: empty
  // Numbers that the host needs: an input's elements. On a device this waits.
  std::vector<i64> values(size_t i) const;
  i64 value(size_t i) const;  // one number
  // An attribute of older opsets that has become an input; neither: empty.
  std::vector<i64> integers_or_input(std::string_view name, size_t i) const;
  // In [0, ndim) of input 0.
  int axis(i64 axis) const;
  void require(bool holds, const std::string& what) const;
  [[noreturn]] void fail(const std::string& what) const;
  // What an operator has thrown, once more, with the node's name. Within its handler alone.
  [[noreturn]] void pass_on(const Error& e) const;

 private:
  std::string name() const;
  const NodeProto& node_;
  i64 opset_;
  Device device_;
  std::vector<Tensor> inputs_;
};

struct Importer {
  using Run = std::vector<Tensor> (*)(const NodeCall& c);
  Run run;
  // Attributes that it reads, with spaces between; others are refused when a file is loaded.
  std::string_view attributes{};
  size_t least = 1, most = 1;  // inputs
  u32 read_on_host = 0;        // a bit an input: numbers that decide shapes
  // What of the node's attributes is not read, though it has none but those above: "mode cubic";
  // empty: nothing. Asked when a file is loaded, of a node without its inputs.
  std::string (*unread)(const NodeCall& c) = nullptr;
  size_t results = 1;  // at most
};
constexpr u32 input_bit(int i) { return 1u << i; }
using Importers = std::unordered_map<std::string_view, Importer>;
void add_pointwise_importers(Importers& to);
void add_shape_importers(Importers& to);
void add_reduce_importers(Importers& to);
void add_layer_importers(Importers& to);

// All operators that are read.
const Importers& importers();

}  // namespace wt::onnx
