// What the operator matrix covers: its cases by operator, dtype, layout, shape class and device,
// with floors. Counted from the very rows that ops_test.cpp runs.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "warptape/tests/op_cases/inputs.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr int kCasesInAll = 12000, kCasesAnOperator = 20;
constexpr double kMistrusted = 0.01;  // of all cases

// Classes of shapes, by the inputs of a sample; the first that fits.
const char* const kClasses[] = {"empty", "0-d", "one", "large", "odd", "even"};
const char* shape_class(const Sample& s) {
  i64 largest = 0;
  bool empty = false, odd = false;
  for (const Input& in : s.inputs) {
    const i64 n = count(in.shape);
    largest = std::max(largest, n);
    empty |= n == 0;
    for (i64 size : in.shape) odd |= size > 1 && size % 2 == 1;
  }
  if (empty) return "empty";
  if (s.inputs[0].shape.empty()) return "0-d";
  return largest == 1 ? "one" : largest >= 256 ? "large" : odd ? "odd" : "even";
}

// oneDNN's word for a comparison that proves little: the right results are mostly zero.
bool mistrusted(const Case& c) {
  const Inputs in = make_inputs(c, Device::cpu(), false);
  const Array want = c.call().oracle(in.arrays);
  i64 zeros = 0;
  for (double v : want.v) zeros += v == 0;
  return want.v.size() > 8 && zeros * 10 > i64(want.v.size()) * 9;
}

struct Row {
  std::string name;
  std::map<std::string, int> dtypes{}, layouts{}, classes{}, devices{};
  int cases = 0, variants = 0, mistrusted = 0;
};
Row count_row(const OpCase& op, const std::vector<Device>& devices) {
  Row r{op.name};
  for (const Device& d : devices) {
    if (!has_kernels(op, d)) continue;
    const int runs = int(variants_of(op, d).size());
    for (const Case& c : all_cases(op)) {
      if (!runs_on(c, d)) continue;
      ++r.cases;
      ++r.dtypes[dtype_name(c.dtype)];
      ++r.layouts[std::string(1, c.layout)];
      ++r.classes[shape_class(c.call())];
      ++r.devices[device_kind_name(d.kind)];
      r.variants += runs - 1;
    }
  }
  // One dtype of a kind stands for the others, every device for itself.
  for (const Case& c : all_cases(op)) {
    if (c.layout != 'c' || (c.dtype != f64 && c.dtype != DType::i64 && c.dtype != DType::boolean))
      continue;
    if (!mistrusted(c)) continue;
    for (const Case& other : all_cases(op))
      if (other.sample == c.sample && is_floating(other.dtype) == is_floating(c.dtype) &&
          (other.dtype == DType::boolean) == (c.dtype == DType::boolean))
        r.mistrusted += int(r.devices.size());
  }
  return r;
}

std::string cell(const std::map<std::string, int>& of, const std::string& key) {
  const auto found = of.find(key);
  return found == of.end() ? "-" : std::to_string(found->second);
}
std::string padded(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
}
std::string right(const std::string& text, size_t width) {
  return std::string(text.size() < width ? width - text.size() : 1, ' ') + text;
}

std::string line_of(const Row& r, const std::vector<Device>& devices) {
  std::string text = padded(r.name, 31) + right(std::to_string(r.cases), 6) + " |";
  for (DType t : kAll) text += right(cell(r.dtypes, dtype_name(t)), 5);
  text += " |";
  for (const char* l = kLayouts; *l; ++l) text += right(cell(r.layouts, std::string(1, *l)), 5);
  text += " |";
  for (const char* k : kClasses) text += right(cell(r.classes, k), 6);
  text += " |";
  for (const Device& d : devices) text += right(cell(r.devices, device_kind_name(d.kind)), 6);
  return text + " |" + right(std::to_string(r.variants), 7) +
         right(std::to_string(r.mistrusted), 5) + "\n";
}
std::string head(const std::vector<Device>& devices) {
  std::string text = padded("operator", 31) + right("cases", 6) + " |";
  for (DType t : kAll)
    text += right(dtype_name(t) == std::string("bool") ? "bool" : dtype_name(t), 5);
  text += " |";
  for (const char* l = kLayouts; *l; ++l) text += right(std::string(1, *l), 5);
  text += " |";
  for (const char* k : kClasses) text += right(k, 6);
  text += " |";
  for (const Device& d : devices) text += right(device_kind_name(d.kind), 6);
  return text + " |" + right("rungs", 7) + right("0s", 5) + "\n";
}

}  // namespace

// WT_OP_MATRIX names a file for the table; tools/test.sh prints its end.
TEST_CASE("operators: the matrix has its floors", "[ops][matrix]") {
  const std::vector<Device> devices = test_devices();
  Row all{"in all"};
  std::string table = head(devices);
  const auto add = [](std::map<std::string, int>& to, const std::map<std::string, int>& from) {
    for (const auto& [key, n] : from) to[key] += n;
  };
  for (const OpCase& op : op_cases()) {
    const Row r = count_row(op, devices);
    table += line_of(r, devices);
    INFO(op.name << " has " << r.cases << " cases");
    if (has_kernels(op, Device::cpu())) CHECK(r.cases >= kCasesAnOperator);
    all.cases += r.cases;
    all.variants += r.variants;
    all.mistrusted += r.mistrusted;
    add(all.dtypes, r.dtypes);
    add(all.layouts, r.layouts);
    add(all.classes, r.classes);
    add(all.devices, r.devices);
  }
  table += line_of(all, devices);
  table += str("operators: ", op_cases().size(), ", cases: ", all.cases, " (floor ", kCasesInAll,
               "), of them again on every rung: ", all.variants, ", mistrusted: ", all.mistrusted,
               " (", double(all.mistrusted) / double(all.cases) * 100, " %, at most ",
               kMistrusted * 100, " %)\n");
  std::fputs(table.substr(table.rfind("\noperators: ") + 1).c_str(), stdout);
  if (const char* file = std::getenv("WT_OP_MATRIX")) std::ofstream(file) << table;
  CHECK(all.cases >= kCasesInAll);
  CHECK(all.mistrusted <= kMistrusted * all.cases);
  for (const char* k : kClasses) CHECK(all.classes.count(k) == 1);
}
