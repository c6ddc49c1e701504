// Rows beside PyTorch's numbers: a sample with `torch` has its result and gradients in
// tests/reference/torch/<operator>.txt, in f64. tools/generators/make_torch_cases.py writes the
// files: it has this program write the inputs (WT_WRITE_TORCH_INPUTS=FOLDER) and evaluates the
// expressions.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "warptape/autograd/grads.h"
#include "warptape/core/op_info.h"
#include "warptape/core/philox.h"
#include "warptape/tests/op_cases/inputs.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr i64 kMostElements = 400;  // of a sample: files are read by people too
constexpr int kOperators = 60;

bool has_numbers(const Sample& s) {
  i64 elements = 0;
  for (const Input& in : s.inputs) elements += count(in.shape);
  return !s.torch.empty() && elements > 0 && elements <= kMostElements;
}
bool differentiable(const OpCase& row, const Sample& s) {
  return s.gradients && info_of(row.name)->derivative != Derivative::none;
}
Case case_of(const OpCase& row, size_t sample) {
  return {&row, int(sample), row.dtypes[0], 'c', u64(1000 + sample)};
}
std::string letter(size_t input) { return std::string(1, char('a' + input)); }

// The gradient that is sent in.
std::vector<double> sent(const Tensor& y) {
  std::vector<double> w;
  for (i64 i = 0; i < y.numel(); ++i) w.push_back(0.5 + double(mix64(u64(i) + 7) >> 11) * 0x1p-53);
  return w;
}

// Changes when the inputs or the expression do: numbers of another question must not be compared.
std::string fingerprint(const Sample& s, const Inputs& in) {
  u64 h = 0;
  for (char c : s.torch) h = mix64(h ^ u64(u8(c)));
  for (const Array& a : in.arrays) {
    for (i64 size : a.shape) h = mix64(h ^ u64(size));
    for (double v : a.v) {
      u64 bits;
      std::memcpy(&bits, &v, sizeof bits);
      h = mix64(h ^ bits);
    }
  }
  char text[20];
  std::snprintf(text, sizeof text, "%08x", unsigned(h >> 32));
  return text;
}

void write_array(std::ofstream& out, const std::string& name, const char* dtype, const Shape& shape,
                 const std::vector<double>& v) {
  out << name << " " << dtype << " ";
  for (int d = 0; d < shape.ndim(); ++d) out << (d ? "x" : "") << shape[d];
  out << (shape.empty() ? "scalar" : "") << "\n";
  for (size_t i = 0; i < v.size(); ++i) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", v[i]);
    out << text << (i + 1 == v.size() || i % 4 == 3 ? "\n" : " ");
  }
}

// One file an operator. "sample 3 FINGERPRINT GRADIENTS EXPRESSION", then its inputs and grad_out;
// GRADIENTS are the letters of the inputs that want one, or "-".
void write_inputs(const std::filesystem::path& folder, const OpCase& row) {
  std::ofstream out(folder / (row.name + ".txt"));
  for (size_t k = 0; k < row.samples.size(); ++k) {
    const Sample& s = row.samples[k];
    if (!has_numbers(s)) continue;
    const Inputs in = make_inputs(case_of(row, k), Device::cpu(), differentiable(row, s));
    const Tensor y = s.call(in.tensors);
    std::string wanted;
    for (size_t i = 0; i < in.tensors.size(); ++i)
      if (in.tensors[i].requires_grad() && y.requires_grad()) wanted += letter(i);
    out << "sample " << k << " " << fingerprint(s, in) << " " << (wanted.empty() ? "-" : wanted)
        << " " << s.torch << "\n";
    for (size_t i = 0; i < in.arrays.size(); ++i) {
      const DType t = in.tensors[i].dtype();
      write_array(out, letter(i),
                  is_floating(t)        ? "f64"
                  : t == DType::boolean ? "bool"
                                        : "i64",
                  in.arrays[i].shape, in.arrays[i].v);
    }
    if (!wanted.empty()) write_array(out, "grad_out", "f64", y.shape(), sent(y));
  }
}

void check_close(const char* what, const std::vector<double>& got, const std::vector<double>& want,
                 const std::function<double(size_t)>& bound) {
  INFO(what);
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (within(got[i], want[i], bound(i))) continue;
    CAPTURE(i, got[i], want[i], bound(i));
    FAIL_CHECK("not PyTorch's number");
  }
}

void check_sample(const OpCase& row, size_t k, const reference::Arrays& numbers, const Device& d) {
  const Sample& s = row.samples[k];
  const Inputs in = make_inputs(case_of(row, k), d, differentiable(row, s));
  const std::string prefix = "s" + std::to_string(k) + ".";
  INFO(row.name << " sample " << k << ": " << s.torch << " on " << device_kind_name(d.kind));
  const auto out = numbers.find(prefix + fingerprint(s, in) + ".out");
  if (out == numbers.end()) {
    FAIL_CHECK("no numbers of these inputs: run tools/generators/make_torch_cases.py");
    return;
  }
  const Tensor y = s.call(in.tensors);
  CHECK(y.shape() == Shape(out->second.shape));
  const Array oracle = s.oracle(in.arrays);
  const DType t = row.dtypes[0];
  const std::vector<double>& want = out->second.values;
  check_close("value", y.to_vector<double>(), want, [&](size_t i) {
    const double size = oracle.magnitude.empty() ? std::fabs(want[i]) : oracle.magnitude[i];
    return 2 * value_bound(t, t, oracle.terms, want[i], size);  // both sides round
  });
  if (!y.requires_grad()) return;
  std::vector<Tensor> leaves;
  std::vector<std::string> names;
  for (size_t i = 0; i < in.tensors.size(); ++i)
    if (in.tensors[i].requires_grad()) leaves.push_back(in.tensors[i]), names.push_back(letter(i));
  const std::vector<Tensor> g = grads(
      {&y, 1}, leaves,
      {.grad_outputs = {tensor(sent(y)).reshape(y.shape()).to(y.device())}, .allow_unused = true});
  for (size_t i = 0; i < g.size(); ++i) {
    const auto found = numbers.find(prefix + "grad_" + names[i]);
    if (found == numbers.end()) {
      FAIL_CHECK("PyTorch's gradient of " << names[i] << " is missing");
      continue;
    }
    double largest = 1.5;  // the largest weight sent in
    for (double v : found->second.values) largest = std::max(largest, std::fabs(v));
    const std::vector<double> got = g[i].defined()
                                        ? g[i].to_vector<double>()
                                        : std::vector<double>(size_t(leaves[i].numel()), 0.0);
    check_close(("gradient of " + names[i]).c_str(), got, found->second.values, [&](size_t e) {
      return 2 *
             gradient_bound(t, oracle.terms + double(y.numel()), found->second.values[e], largest);
    });
  }
}

}  // namespace

TEST_CASE("operators: PyTorch's numbers", "[ops][torch]") {
  const char* folder = std::getenv("WT_WRITE_TORCH_INPUTS");
  int operators = 0, samples = 0;
  for (const OpCase& row : op_cases()) {
    bool any = false;
    for (const Sample& s : row.samples) any |= has_numbers(s);
    if (!any || !selection().fits("op", row.name)) continue;
    ++operators;
    if (folder) {
      write_inputs(folder, row);
      continue;
    }
    reference::Arrays numbers;
    try {
      numbers = reference::load_reference(reference::reference_path("torch/" + row.name));
    } catch (const std::exception& e) {
      FAIL_CHECK(e.what() << "\nrun tools/generators/make_torch_cases.py");
      continue;
    }
    for (const Device& d : test_devices()) {
      if (!has_kernels(row, d)) continue;
      for (size_t k = 0; k < row.samples.size(); ++k) {
        if (!has_numbers(row.samples[k])) continue;
        try {
          check_sample(row, k, numbers, d);
          ++samples;
        } catch (const NotAvailable&) {
          // A kernel of the cpu alone, on the way of this sample only.
          CHECK(d.kind != DeviceKind::cpu);
        }
      }
    }
  }
  std::printf("PyTorch's numbers: %d operators (at least %d), %d samples on all devices\n",
              operators, kOperators, samples);
  if (selection().all()) CHECK(operators >= kOperators);
}
