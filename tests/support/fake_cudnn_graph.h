// Inside of the fake cuDNN: descriptors, what they stand for once they are finalized, and how
// operations are computed.
#pragma once
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/kernels/cuda/cudnn_api.h"

namespace wt_test {

using wt::i64;

struct FakeTensor {
  i64 id = 0;
  int type = 0;
  std::vector<i64> dims, strides;
  i64 alignment = 0;
  bool is_virtual = false, by_value = false;
  friend bool operator==(const FakeTensor&, const FakeTensor&) = default;
  size_t item() const;                           // bytes
  i64 span() const;                              // elements from the first to the last, both
  i64 offset(const std::vector<i64>& at) const;  // an axis of one element repeats it
  std::string text() const;
};

// Of a convolution, or of a resampling, whose kernel is `window`.
struct FakeWindows {
  int mode = 0, padding_mode = 0;
  std::vector<i64> window, strides, dilations, before, behind;
};

struct FakeOperation {
  int type = 0, mode = 0;  // descriptor; of pointwise steps and reductions
  i64 axis = -1;
  FakeWindows windows;
  float alpha = 1, beta = 0;
  FakeTensor x, w, t, y;  // in the roles of a convolution; b of a pointwise step and a product is w
  bool has_w = false, has_t = false;
  std::vector<const FakeTensor*> tensors() const;
  const FakeTensor& output() const;
  std::string name() const;
};

struct FakeGraph {
  std::vector<FakeOperation> operations;
  int engine = -1;
};

struct FakeDescriptor {
  explicit FakeDescriptor(int t) : type(t) { ++live; }
  ~FakeDescriptor() { --live; }
  int type;
  bool final = false;
  std::map<int, std::vector<char>> set;
  std::map<int, i64> counts;
  // What it stands for once it is finalized.
  FakeTensor tensor;
  FakeWindows windows;
  FakeOperation operation;
  FakeGraph graph;  // of an engine, too
  int mode = 0;
  static inline int live = 0;

  template <class T>
  std::vector<T> all(int attribute) const {
    const auto at = set.find(attribute);
    if (at == set.end()) return {};
    std::vector<T> v(at->second.size() / sizeof(T));
    if (!v.empty()) std::memcpy(v.data(), at->second.data(), at->second.size());
    return v;
  }
  template <class T>
  T one(int attribute) const {
    const std::vector<T> v = all<T>(attribute);
    return v.empty() ? T{} : v[0];
  }
  const FakeDescriptor& other(int attribute) const {
    return *static_cast<const FakeDescriptor*>(one<void*>(attribute));
  }
};

// --- fake_cudnn_rows.cpp ---

struct FakeRow {
  int descriptor, attribute, type;
  i64 least, most;
  bool mandatory;
};
const std::vector<FakeRow>& fake_rows();
size_t fake_bytes_of(int type);  // of a CudnnAttributeType

// --- fake_cudnn_operations.cpp ---

// Makes of a finalized descriptor (a tensor, an operation, or what one is described by) what it
// stands for. `refuse` takes the status and what is wrong.
using FakeRefuse = std::function<int(int status, std::string text)>;
bool fake_is_operation(int type);
int fake_finish_operation(FakeDescriptor& d, const FakeRefuse& refuse);
int fake_finish_graph(FakeDescriptor& d, const FakeRefuse& refuse);

// --- fake_cudnn_compute.cpp ---

// A tensor's elements.
struct FakeValues {
  const FakeTensor* t = nullptr;
  std::vector<char> bytes;
  std::vector<double> steps;  // of one that is not in memory, rounded as its type says
  void* device = nullptr;
  double get(const std::vector<i64>& at) const;
  void put(const std::vector<i64>& at, double v);
};
void fake_compute(const FakeOperation& op, std::map<i64, FakeValues>& values);

std::string fake_text(const std::vector<i64>& v);

}  // namespace wt_test
