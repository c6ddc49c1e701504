// From messages to bytes. The numbers of the fields are those of onnx.proto.
#include "warptape/autograd/onnx/model.h"
#include "warptape/autograd/onnx/proto.h"
#include "warptape/core/error.h"

namespace wt::onnx {
namespace {

struct DTypeName {
  i64 number;
  const char* name;
  std::optional<DType> ours;
};
constexpr DTypeName kDTypes[] = {{1, "float", DType::f32},
                                 {2, "uint8", DType::u8},
                                 {3, "int8", {}},
                                 {4, "uint16", {}},
                                 {5, "int16", {}},
                                 {6, "int32", DType::i32},
                                 {7, "int64", DType::i64},
                                 {8, "string", {}},
                                 {9, "bool", DType::boolean},
                                 {10, "float16", DType::f16},
                                 {11, "double", DType::f64},
                                 {12, "uint32", {}},
                                 {13, "uint64", {}},
                                 {14, "complex64", {}},
                                 {15, "complex128", {}},
                                 {16, "bfloat16", DType::bf16}};

std::string tensor_bytes(const Tensor& t, const std::string& name) {
  ProtoWriter w;
  for (const i64 n : t.shape()) w.number(1, n);
  w.number(2, onnx_dtype(t.dtype()));
  w.text(8, name);
  // Numbers lie in a file as they do in memory: the library is for little-endian machines.
  const size_t bytes = size_t(t.numel() * item_size(t.dtype()));
  w.text(9, {static_cast<const char*>(t.impl()->data), bytes});
  return w.bytes();
}

std::string attribute_bytes(const AttributeProto& a) {
  using Kind = AttributeProto::Kind;
  ProtoWriter w;
  w.text(1, a.name);
  switch (a.kind) {
    case Kind::real:
      w.real(2, a.f);
      break;
    case Kind::integer:
      w.number(3, a.i);
      break;
    case Kind::text:
      w.text(4, a.s);
      break;
    case Kind::tensor:
      w.text(5, tensor_bytes(a.t, ""));
      break;
    case Kind::reals:
      for (const float f : a.floats) w.real(7, f);
      break;
    case Kind::integers:  // proto2: one by one, as every writer does
      for (const i64 i : a.ints) w.number(8, i);
      break;
  }
  w.number(20, i64(a.kind));
  return w.bytes();
}

std::string node_bytes(const NodeProto& n) {
  ProtoWriter w;
  for (const std::string& in : n.inputs) w.text(1, in);
  for (const std::string& out : n.outputs) w.text(2, out);
  if (!n.name.empty()) w.text(3, n.name);
  w.text(4, n.op_type);
  for (const AttributeProto& a : n.attributes) w.text(5, attribute_bytes(a));
  return w.bytes();
}

std::string value_bytes(const ValueProto& v) {
  ProtoWriter shape;
  for (const DimProto& d : v.shape) {
    ProtoWriter dim;
    if (d.size >= 0)
      dim.number(1, d.size);
    else if (!d.name.empty())
      dim.text(2, d.name);
    shape.text(1, dim.bytes());
  }
  ProtoWriter tensor, type, w;
  tensor.number(1, v.dtype);
  tensor.text(2, shape.bytes());
  type.text(1, tensor.bytes());
  w.text(1, v.name);
  w.text(2, type.bytes());
  return w.bytes();
}

// Of a field whose bytes follow elsewhere.
std::string field_head(u32 field, u64 bytes) {
  std::string head;
  const auto varint = [&head](u64 v) {
    for (; v >= 0x80; v >>= 7) head.push_back(char(v | 0x80));
    head.push_back(char(v));
  };
  varint(u64(field) << 3 | 2);
  varint(bytes);
  return head;
}

}  // namespace

i64 onnx_dtype(DType t) {
  for (const DTypeName& d : kDTypes)
    if (d.ours == t) return d.number;
  return 0;
}
std::optional<DType> dtype_of_onnx(i64 t) {
  for (const DTypeName& d : kDTypes)
    if (d.number == t) return d.ours;
  return {};
}
std::string onnx_dtype_name(i64 t) {
  for (const DTypeName& d : kDTypes)
    if (d.number == t) return str(d.name, " (", t, ")");
  return str("number ", t);
}

AttributeProto attribute(const char* name, i64 v) {
  return {.name = name, .kind = AttributeProto::Kind::integer, .i = v};
}
AttributeProto attribute(const char* name, double v) {
  return {.name = name, .kind = AttributeProto::Kind::real, .f = float(v)};
}
AttributeProto attribute(const char* name, const char* v) {
  return {.name = name, .kind = AttributeProto::Kind::text, .s = v};
}
AttributeProto attribute(const char* name, std::vector<i64> v) {
  return {.name = name, .kind = AttributeProto::Kind::integers, .ints = std::move(v)};
}

const AttributeProto* NodeProto::find(std::string_view wanted) const {
  for (const AttributeProto& a : attributes)
    if (a.name == wanted) return &a;
  return nullptr;
}

std::vector<std::string> model_bytes(const ModelProto& m, const std::string& path) {
  constexpr u64 kMost = u64{1} << 31;
  ProtoWriter head, tail, opset;
  head.number(1, m.ir_version);
  head.text(2, m.producer);
  head.text(3, m.producer_version);
  opset.number(2, m.opset);
  tail.text(8, opset.bytes());

  std::vector<std::string> graph;
  ProtoWriter nodes, values;
  u64 payload = 0;
  for (const TensorProto& t : m.graph.initializers)
    payload += u64(t.value.numel() * item_size(t.value.dtype()));
  const auto check = [&path](u64 bytes) {
    if (bytes >= kMost)
      throw UsageError(str("[onnx::save] ", path, " would have ", bytes,
                           " bytes, and an ONNX file must be smaller than 2 GiB: tensors in files "
                           "of their own are not written"));
  };
  check(payload);  // before any of it is copied
  for (const NodeProto& n : m.graph.nodes) nodes.text(1, node_bytes(n));
  nodes.text(2, m.graph.name);
  graph.push_back(nodes.bytes());
  for (const TensorProto& t : m.graph.initializers) {
    std::string bytes = tensor_bytes(t.value, t.name);
    graph.push_back(field_head(5, bytes.size()));
    graph.push_back(std::move(bytes));
  }
  for (const ValueProto& v : m.graph.inputs) values.text(11, value_bytes(v));
  for (const ValueProto& v : m.graph.outputs) values.text(12, value_bytes(v));
  graph.push_back(values.bytes());

  u64 size = 0;
  for (const std::string& s : graph) size += s.size();
  check(size + head.bytes().size() + tail.bytes().size() + 16);
  std::vector<std::string> all{head.bytes() + field_head(7, size)};
  for (std::string& s : graph) all.push_back(std::move(s));
  all.push_back(tail.bytes());
  return all;
}

}  // namespace wt::onnx
