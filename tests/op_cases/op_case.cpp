#include "warptape/tests/op_cases/op_case.h"

#include "warptape/core/device.h"

namespace wt_test {

namespace {
std::vector<void (*)(std::vector<OpCase>&)>& case_files() {
  static std::vector<void (*)(std::vector<OpCase>&)> files;
  return files;
}
}  // namespace

CaseFile::CaseFile(void (*add)(std::vector<OpCase>& rows)) { case_files().push_back(add); }

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> rows = [] {
    std::vector<OpCase> r;
    for (const auto add : case_files()) add(r);
    return r;
  }();
  return rows;
}

ErrorInput undefined_operand(const std::string& op, const Apply& call) {
  return error_input<UsageError>("undefined", "[" + op + "] operand 0 is undefined",
                                 [call](Device d) {
                                   const Tensor none;
                                   call(none, ones({2, 2}, {.device = d}));
                                 });
}
ErrorInput undefined_tensor(const Apply& call) {
  ErrorInput e = undefined_operand("", call);
  e.text = "use of an undefined tensor";
  return e;
}
ErrorInput two_devices(const std::string& op, const Apply& call) {
  return error_input<PlacementError>(
      "two devices", "[" + op + "] operands are on ", [call](Device d) {
        const Device other = d == Device::cpu() ? Device::simt() : Device::cpu();
        call(ones({2, 2}, {.device = d}), ones({2, 2}, {.device = other}));
      });
}
ErrorInput storage_dtype(const std::string& op, const std::string& text, const Apply& call) {
  return error_input<DtypeError>("storage dtype", "[" + op + "] " + text, [call](Device d) {
    const Tensor x = zeros({2, 2}, {.dtype = DType::i16, .device = d});
    call(x, x);
  });
}

i64 count(const Shape& s) {
  i64 n = 1;
  for (i64 size : s) n *= size;
  return n;
}
std::vector<i64> unravel(i64 flat, const Shape& s) {
  std::vector<i64> index(s.size());
  for (int d = s.ndim(); d-- > 0;) index[size_t(d)] = flat % s[d], flat /= s[d];
  return index;
}
i64 ravel(const std::vector<i64>& at, const Shape& s) {
  const size_t skip = at.size() - s.size();
  i64 flat = 0;
  for (int d = 0; d < s.ndim(); ++d) flat = flat * s[d] + (s[d] == 1 ? 0 : at[skip + size_t(d)]);
  return flat;
}
double at(const Array& x, const std::vector<i64>& index) {
  return x.v[size_t(ravel(index, x.shape))];
}
Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.ndim() >= b.ndim() ? a : b;
  const Shape& other = a.ndim() >= b.ndim() ? b : a;
  Shape s = longer;
  for (int d = 0; d < other.ndim(); ++d) {
    i64& size = s[longer.ndim() - other.ndim() + d];
    if (size == 1) size = other[d];
  }
  return s;
}
Array filled(const Shape& s, const std::function<double(const std::vector<i64>&)>& value) {
  Array r{s, {}};
  for (i64 i = 0; i < count(s); ++i) r.v.push_back(value(unravel(i, s)));
  return r;
}

}  // namespace wt_test
