// A node that runs: its attributes and inputs as what they must be.
#include <type_traits>
#include <typeinfo>

#include "warptape/autograd/onnx/import.h"
#include "warptape/core/input_file.h"

namespace wt::onnx {

std::string NodeCall::name() const {
  return str("[onnx] ", printable(node_.op_type), " '", printable(node_.name), "': ");
}
void NodeCall::fail(const std::string& what) const { throw UsageError(name() + what); }
template <class... E>
static void throw_again(const Error& e, const std::string& what) {
  const auto as = [&]<class T>(std::type_identity<T>) {
    if (typeid(e) == typeid(T)) throw T(what);
  };
  (as(std::type_identity<E>{}), ...);
}
void NodeCall::pass_on(const Error& e) const {
  const std::string said = e.what(), kind = str(e.kind(), ": ");
  const std::string what = said.starts_with(kind) ? said.substr(kind.size()) : said;
  if (!what.starts_with(name()))
    throw_again<UsageError, ShapeError, DtypeError, IndexError, PlacementError, InplaceError,
                NotAvailable, OutOfMemory, NumericError, DeviceError>(e, name() + what);
  throw;
}
void NodeCall::require(bool holds, const std::string& what) const {
  if (!holds) fail(what);
}
const Tensor& NodeCall::in(size_t i) const {
  if (!has(i)) fail(str("input ", i, " is missing"));
  return inputs_[i];
}
i64 NodeCall::integer(std::string_view name, i64 otherwise) const {
  const AttributeProto* a = node_.find(name);
  if (!a) return otherwise;
  require(a->kind == AttributeProto::Kind::integer, str(name, " is no integer"));
  return a->i;
}
double NodeCall::real(std::string_view name, double otherwise) const {
  const AttributeProto* a = node_.find(name);
  if (!a) return otherwise;
  require(a->kind == AttributeProto::Kind::real, str(name, " is no float"));
  return double(a->f);
}
std::string NodeCall::text(std::string_view name, const char* otherwise) const {
  const AttributeProto* a = node_.find(name);
  if (!a) return otherwise;
  require(a->kind == AttributeProto::Kind::text, str(name, " is no text"));
  return a->s;
}
std::vector<i64> NodeCall::integers(std::string_view name) const {
  const AttributeProto* a = node_.find(name);
  if (!a) return {};
  require(a->kind == AttributeProto::Kind::integers, str(name, " is no list of integers"));
  return a->ints;
}
std::vector<i64> NodeCall::values(size_t i) const {
  const Tensor& t = in(i);
  require(t.ndim() <= 1 && !is_floating(t.dtype()), str("input ", i, " is no list of integers"));
  std::vector<i64> v = t.to(DType::i64).to_vector<i64>();
  require(!v.empty() || t.ndim() == 1, str("input ", i, " is empty"));
  return v;
}
i64 NodeCall::value(size_t i) const {
  const std::vector<i64> v = values(i);
  require(v.size() == 1, str("input ", i, " has ", v.size(), " numbers, not one"));
  return v[0];
}
std::vector<i64> NodeCall::integers_or_input(std::string_view name, size_t i) const {
  return has(i) ? values(i) : integers(name);
}
int NodeCall::axis(i64 axis) const {
  const int n = in(0).ndim();
  require(axis >= -n && axis < n, str("axis ", axis, " is outside of ", n, " dimensions"));
  return int(axis < 0 ? axis + n : axis);
}

}  // namespace wt::onnx
