// What an ONNX file says, between its bytes and the tensors: the messages of onnx.proto that this
// library writes and reads (github.com/onnx/onnx, onnx/onnx.proto). Internal to autograd/onnx.h.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/dtype.h"
#include "warptape/core/parse_limits.h"
#include "warptape/core/shape.h"
#include "warptape/core/tensor.h"

namespace wt::onnx {

// TensorProto.DataType; of a DType that ONNX does not have: 0.
i64 onnx_dtype(DType t);
std::optional<DType> dtype_of_onnx(i64 t);
// "float16 (10)", also of those that are not read.
std::string onnx_dtype_name(i64 t);

// A tensor of the cpu, contiguous, with a name.
struct TensorProto {
  std::string name;
  Tensor value{};
};

struct AttributeProto {
  enum class Kind : u8 { real = 1, integer = 2, text = 3, tensor = 4, reals = 6, integers = 7 };
  std::string name;
  Kind kind = Kind::integer;
  i64 i = 0;
  float f = 0;
  std::string s{};
  std::vector<i64> ints{};
  std::vector<float> floats{};
  Tensor t{};
  // What it is of a kind that is not read: "a graph". Then the rest is empty.
  std::string unread{};
};
AttributeProto attribute(const char* name, i64 v);
AttributeProto attribute(const char* name, double v);
AttributeProto attribute(const char* name, const char* v);
AttributeProto attribute(const char* name, std::vector<i64> v);

struct NodeProto {
  std::string op_type, domain{}, name{};
  std::vector<std::string> inputs{}, outputs{};
  std::vector<AttributeProto> attributes{};
  const AttributeProto* find(std::string_view name) const;
};

// An axis has a size, or a name, or neither.
struct DimProto {
  i64 size = -1;
  std::string name{};
};
struct ValueProto {
  std::string name;
  i64 dtype = 0;  // 0: not said
  bool has_shape = false;
  std::vector<DimProto> shape{};
};

struct GraphProto {
  std::string name{};
  std::vector<NodeProto> nodes{};
  std::vector<TensorProto> initializers{};
  std::vector<ValueProto> inputs{}, outputs{};
};

struct ModelProto {
  i64 ir_version = 0, opset = 0;
  std::string producer{}, producer_version{};
  std::vector<std::string> other_domains{};
  GraphProto graph{};
};

// The file's bytes, in pieces: tensors are not copied together. UsageError for 2 GiB or more, which
// protobuf's readers refuse.
std::vector<std::string> model_bytes(const ModelProto& m, const std::string& path);
// DataError with path and byte for anything but a whole ONNX model.
ModelProto parse_model(const std::string& path, std::string_view file, const ParseLimits& limits);

}  // namespace wt::onnx
