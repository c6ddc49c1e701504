// The operators that a function runs, written down while it runs, with what they read and make.
// Internal to autograd/onnx.h.
//
// It is about operators that have kernels or are views: those that are made of others are seen
// through. Every tensor that is met is held until the end, so that an address means one tensor;
// operators therefore take no rvalue's storage, which changes no value.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/frame.h"
#include "warptape/core/op_info.h"
#include "warptape/core/tensor.h"

namespace wt::onnx {

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
using Names = std::vector<std::pair<std::string, Tensor>>;

struct TracedValue {
  Tensor tensor;
  u32 version;              // what it had when it was this value
  int producer = -1;        // an operator's number; -1: an input, or there before
  int input = -1;           // which one
  std::string name{};       // of a tensor that the caller has named
  bool constant = false;    // no input had a part in it, nor a tensor with a name
  std::vector<char> old{};  // its elements, where it was written over later

  const Geometry& geometry() const { return tensor.impl()->geometry; }
  Shape shape() const { return shape_of(geometry()); }
  DType dtype() const { return geometry().dtype; }
};

// A launch: its contract's arguments as they were. Views in them point to what may be gone;
// `views` has what is still asked of those.
struct TracedKernel {
  std::string_view contract;
  std::vector<char> args;
  struct Seen {
    bool there;
    const void* data;
    Geometry geometry;
  };
  std::vector<Seen> views;
};

struct TracedOp {
  const OpInfo* info;
  std::string where;   // "net.cpp:57"
  std::string module;  // "layer1.0.conv1", or empty
  std::vector<int> operands{}, results{};
  std::vector<TracedKernel> kernels{};
};

struct Trace {
  std::vector<TracedValue> values;
  std::vector<TracedOp> ops;  // in the order in which they ended
  std::vector<int> inputs, results;
  // The value that lies there, for operands that the operator's list does not have; -1: none.
  int value_at(const void* data, const Geometry& g) const;
};

// Runs f without recording for backward. Throws UsageError, naming operator and line, for what no
// list of operators can say: values on the host, random numbers, writes into tensors that were
// there before or that others view; and what f throws.
Trace trace(const Function& f, const std::vector<Tensor>& inputs, const Names& names);

// Elements in logical order, on the host.
std::vector<char> elements_of(const TensorImpl* p);

}  // namespace wt::onnx
