// From bytes to messages. Everything is checked against what is left of the file before memory is
// taken for it; names that stand twice and references to nothing are for import.cpp to refuse.
#include <bit>

#include "warptape/autograd/onnx/model.h"
#include "warptape/autograd/onnx/proto.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/half.h"
#include "warptape/core/input_file.h"

namespace wt::onnx {
namespace {

static_assert(std::endian::native == std::endian::little);

// The numbers of a TensorProto, wherever they stand.
struct Payload {
  bool has_raw = false, outside = false;
  std::string_view raw{};
  std::vector<float> floats{};
  std::vector<i64> int32s{}, int64s{};
  std::vector<double> doubles{};
};

template <class To, class From>
void put(Tensor& t, const std::vector<From>& from) {
  To* to = static_cast<To*>(t.impl()->data);
  for (const From v : from) *to++ = static_cast<To>(v);
}

// int32_data has the bits of 16-bit floats.
void put_numbers(Tensor& t, const Payload& p) {
  switch (t.dtype()) {
    case DType::f32:
      return put<float>(t, p.floats);
    case DType::f64:
      return put<double>(t, p.doubles);
    case DType::i64:
      return put<i64>(t, p.int64s);
    case DType::i32:
      return put<i32>(t, p.int32s);
    case DType::u8:
      return put<u8>(t, p.int32s);
    case DType::boolean: {
      u8* to = static_cast<u8*>(t.impl()->data);
      for (const i64 v : p.int32s) *to++ = v != 0;
      return;
    }
    default:
      return put<u16>(t, p.int32s);
  }
}
size_t numbers_in(DType t, const Payload& p) {
  return t == DType::f32   ? p.floats.size()
         : t == DType::f64 ? p.doubles.size()
         : t == DType::i64 ? p.int64s.size()
                           : p.int32s.size();
}

TensorProto parse_tensor(ProtoReader r) {
  TensorProto t;
  Payload p;
  std::vector<i64> sizes;
  const u64 before = r.source().taken;
  i64 dtype = 0;
  while (r.next()) switch (r.field()) {
      case 1:
        r.numbers(sizes, kMaxDims);
        break;
      case 2:
        dtype = r.number();
        break;
      case 3:
        r.fail("a tensor in segments");
      case 4:
        r.reals(p.floats);
        break;
      case 5:
        r.numbers(p.int32s);
        break;
      case 7:
        r.numbers(p.int64s);
        break;
      case 8:
        t.name = r.text();
        break;
      case 9:
        p.raw = r.bytes(), p.has_raw = true;
        break;
      case 10:
        r.doubles(p.doubles);
        break;
      case 13:
        p.outside = true;
        break;
      case 14:
        p.outside |= r.number() != 0;
        break;
    }
  const std::string who = str("tensor '", printable(t.name), "'");
  if (p.outside) r.fail(str(who, " lies in a file of its own, which is not read"));
  const std::optional<DType> is = dtype_of_onnx(dtype);
  if (!is) r.fail(str(who, " has dtype ", onnx_dtype_name(dtype), ", which is not read"));
  u64 bytes = u64(item_size(*is));
  bool countable = true;
  for (const i64 n : sizes) {
    if (n < 0) r.fail(str(who, " has the size ", n));
    i64 product = 0;
    countable &= mul_fits(i64(bytes), n, product) && product <= i64{1} << 48;
    bytes = u64(product);
  }
  const u64 have = p.has_raw ? p.raw.size() : u64(numbers_in(*is, p)) * u64(item_size(*is));
  if (!countable || have != bytes)
    r.fail(str(who, " of shape ", Shape(sizes), " has ", have, " bytes"));
  r.source().taken = before;  // the lists go
  r.source().take(r, bytes);
  t.value = empty(Shape(sizes), {.dtype = *is, .device = Device::cpu()});
  if (p.has_raw && bytes > 0)
    p.raw.copy(static_cast<char*>(t.value.impl()->data), p.raw.size());
  else if (bytes > 0)
    put_numbers(t.value, p);
  if (p.has_raw && *is == DType::boolean)
    for (const char c : p.raw)
      if (u8(c) > 1) r.fail(str(who, " has a bool that is neither 0 nor 1"));
  return t;
}

AttributeProto parse_attribute(ProtoReader r) {
  AttributeProto a;
  i64 kind = 0;
  const char* unread = nullptr;
  while (r.next()) switch (r.field()) {
      case 1:
        a.name = r.text();
        break;
      case 2:
        a.f = r.real();
        break;
      case 3:
        a.i = r.number();
        break;
      case 4:
        a.s = r.text();
        break;
      case 5:
        a.t = parse_tensor(r.message()).value;
        break;
      case 7:
        r.reals(a.floats);
        break;
      case 8:
        r.numbers(a.ints);
        break;
      case 6:
      case 11:
        unread = "a graph";
        break;
      case 9:
        unread = "a list of texts";
        break;
      case 10:
        unread = "a list of tensors";
        break;
      case 14:
      case 15:
        unread = "a type";
        break;
      case 22:
      case 23:
        unread = "a sparse tensor";
        break;
      case 20:
        kind = r.number();
        break;
    }
  if (unread)
    a.unread = unread;
  else if (kind < 1 || kind > 7 || kind == 5)
    r.fail(str("attribute '", printable(a.name), "' has the type ", kind));
  else
    a.kind = AttributeProto::Kind(kind);
  if (a.unread.empty() && a.kind == AttributeProto::Kind::tensor && !a.t.defined())
    r.fail(str("attribute '", printable(a.name), "' has no tensor"));
  return a;
}

void count(const ProtoReader& r, size_t n) {
  if (n > r.source().limits.max_items)
    r.fail(str("more than ", r.source().limits.max_items, " of one kind"));
}

NodeProto parse_node(ProtoReader r) {
  NodeProto n;
  while (r.next()) switch (r.field()) {
      case 1:
        n.inputs.push_back(r.text());
        count(r, n.inputs.size());
        break;
      case 2:
        n.outputs.push_back(r.text());
        count(r, n.outputs.size());
        break;
      case 3:
        n.name = r.text();
        break;
      case 4:
        n.op_type = r.text();
        break;
      case 5:
        n.attributes.push_back(parse_attribute(r.message()));
        count(r, n.attributes.size());
        break;
      case 7:
        n.domain = r.text();
        break;
    }
  return n;
}

void parse_shape(ProtoReader r, ValueProto& v) {
  v.has_shape = true;
  while (r.next()) {
    if (r.field() != 1) continue;
    DimProto d;
    ProtoReader dim = r.message();
    while (dim.next()) {
      if (dim.field() == 1) d.size = dim.number();
      if (dim.field() == 2) d.name = dim.text();
    }
    v.shape.push_back(std::move(d));
    if (v.shape.size() > size_t(kMaxDims))
      r.fail(str("'", printable(v.name), "' has more than ", kMaxDims, " dimensions"));
  }
}

ValueProto parse_value(ProtoReader r) {
  ValueProto v;
  while (r.next()) {
    if (r.field() == 1) v.name = r.text();
    if (r.field() != 2) continue;
    ProtoReader type = r.message();
    bool tensor = false;
    while (type.next()) {
      if (type.field() != 1) continue;
      tensor = true;
      ProtoReader t = type.message();
      while (t.next()) {
        if (t.field() == 1) v.dtype = t.number();
        if (t.field() == 2) parse_shape(t.message(), v);
      }
    }
    if (!tensor) r.fail(str("'", printable(v.name), "' is no tensor"));
  }
  return v;
}

GraphProto parse_graph(ProtoReader r) {
  GraphProto g;
  while (r.next()) switch (r.field()) {
      case 1:
        g.nodes.push_back(parse_node(r.message()));
        count(r, g.nodes.size());
        break;
      case 2:
        g.name = r.text();
        break;
      case 5:
        g.initializers.push_back(parse_tensor(r.message()));
        count(r, g.initializers.size());
        break;
      case 11:
        g.inputs.push_back(parse_value(r.message()));
        count(r, g.inputs.size());
        break;
      case 12:
        g.outputs.push_back(parse_value(r.message()));
        count(r, g.outputs.size());
        break;
      case 15:
        r.fail("a sparse tensor, which is not read");
    }
  return g;
}

}  // namespace

ModelProto parse_model(const std::string& path, std::string_view file, const ParseLimits& limits) {
  const ProtoSource source{path, file, limits};
  ProtoReader r(source);
  ModelProto m;
  bool graph = false;
  while (r.next()) switch (r.field()) {
      case 1:
        m.ir_version = r.number();
        break;
      case 2:
        m.producer = r.text();
        break;
      case 3:
        m.producer_version = r.text();
        break;
      case 7:
        if (graph) r.fail("a second graph");
        graph = true;
        m.graph = parse_graph(r.message());
        break;
      case 8: {
        ProtoReader opset = r.message();
        std::string domain;
        i64 version = 0;
        while (opset.next()) {
          if (opset.field() == 1) domain = opset.text();
          if (opset.field() == 2) version = opset.number();
        }
        if (domain.empty() || domain == "ai.onnx")
          m.opset = version;
        else
          m.other_domains.push_back(domain);
        count(r, m.other_domains.size());
        break;
      }
      case 25:
        r.fail("functions of the model's own, which are not read");
    }
  if (!graph || m.ir_version <= 0) r.fail("no ONNX model: it has no graph, or no ir_version");
  if (m.opset <= 0) r.fail("no version of ONNX's operators (opset_import)");
  return m;
}

}  // namespace wt::onnx
