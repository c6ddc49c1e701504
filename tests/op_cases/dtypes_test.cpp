// Every operator with every pair of dtypes: it computes, or says DtypeError; no table of kernels
// has a hole. Storage-only operands are moved as they are or refused.
#include <cstdio>

#include "warptape/core/device.h"
#include "warptape/tests/op_cases/inputs.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt_test;

namespace {

struct Pair {
  DType first, others;
  bool computes() const { return wt::computes(first) && wt::computes(others); }
};

// The inputs of a sample, those with values of the pair's dtypes.
std::vector<Tensor> inputs_of(const OpCase& row, int sample, Pair p, Device d) {
  const Case c{&row, sample, f64, 'c', 7};
  std::vector<Tensor> in = make_inputs(c, d, false).tensors;
  bool first = true;
  for (size_t i = 0; i < in.size(); ++i) {
    if (c.call().inputs[i].role != Role::value) continue;
    in[i] = in[i].to(first ? p.first : p.others);
    first = false;
  }
  return in;
}

int values_among(const Sample& s) {
  int n = 0;
  for (const Input& in : s.inputs) n += in.role == Role::value;
  return n;
}

// "", or what is wrong.
std::string outcome(const OpCase& row, int sample, Pair p, Device d) {
  const NoGrad no_grad;
  try {
    const Tensor y = row.samples[size_t(sample)].call(inputs_of(row, sample, p, d));
    if (p.computes() || p.first == p.others) return "";
    return str("computed ", dtype_name(y.dtype()));
  } catch (const UsageError&) {  // DtypeError, or a number that the dtype cannot be beside
    return "";
  } catch (const NotAvailable&) {
    return "";
  } catch (const NumericError&) {
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

// What is given has the other's dtype afterwards, as copying has everywhere.
const std::set<std::string> kConverts{"copy_", "index_put", "index_put_", "masked_fill"};

}  // namespace

TEST_CASE("operators: with every pair of dtypes they compute or refuse", "[ops][dtypes]") {
  int calls = 0;
  for (const Device& d : {Device::cpu(), Device::simt()})
    for (const OpCase& row : op_cases()) {
      if (!has_kernels(row, d) || row.samples.empty()) continue;
      const bool pairs = values_among(row.samples[0]) > 1 && d == Device::cpu();
      for (int i = 0; i < kNumDTypes; ++i)
        for (int k = pairs ? 0 : i; k < (pairs ? kNumDTypes : i + 1); ++k) {
          const Pair p{DType(i), DType(k)};
          ++calls;
          const std::string wrong = outcome(row, 0, p, d);
          if (wrong.empty() || kConverts.count(row.name)) continue;
          INFO(row.name << " of " << dtype_name(p.first) << " and " << dtype_name(p.others)
                        << " on " << device_kind_name(d.kind));
          CHECK(wrong == "");
        }
    }
  CHECK(calls > 5000);
}
