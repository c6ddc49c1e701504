// Kernels at given sizes: what the benchmark times and the small check compares.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/tensor.h"
#include "warptape/kernels/run.h"

namespace wt::bench {

// small: odd sizes that a memory checker gets through; real: sizes that fill a large GPU; host: 64
// MiB an f32 operand, which is beyond the caches of a cpu.
enum class Scale { small, real, host };

struct VariantRun {
  std::string name;
  std::function<const char*()> why_not;  // null text: supported
  std::function<void(int)> launch;       // with the operands of set i % sets; workspace included
};

// One contract at one shape and dtype on one device, with operands of its own: N(0, 1), equal on
// every device.
struct Problem {
  std::string contract, shape;
  DType dtype = DType::f32;
  Device device;
  double bytes = 0, flops = 0;
  std::vector<Tensor> keep;                             // all operands of all sets
  std::vector<std::shared_ptr<const void>> operands{};  // what their arguments borrow beside these
  std::vector<Tensor> outputs;                          // of set 0
  bool in_place = false;                                // repeated launches change the values
  std::vector<VariantRun> variants;
  std::string chosen{};  // the variant that `run` would launch; empty: none
};

// A contract and how to make problems of it.
struct ProblemRow {
  std::string contract;
  std::vector<DType> dtypes;
  int shapes;  // at either scale
  std::function<Problem(Device, DType, Scale, int shape, int sets)> make;
  // At other sizes, in the form of the text of one of its shapes: "64x1000", or "64x64x64 nt" where
  // words are part of it. UsageError for another form. Null: there are no other sizes.
  std::function<Problem(Device, DType, const std::string& shape, int sets)> make_sized{};
};
// In the order of all_contracts(). A contract without a row is missing here: missing_rows() names
// it.
const std::vector<ProblemRow>& problem_rows();
std::vector<std::string> missing_rows();

// How the operands of a product [m, k] x [k, n] lie: both as they are, the second transposed (the
// forward of a linear layer), the first (its weight's gradient).
enum class Layout : u8 { nn, nt, tn };
Problem matmul_problem(Device d, DType t, i64 m, i64 n, i64 k, Layout layout, int sets);

// Fills the outputs with NaN (integers: a bit pattern no kernel writes).
void poison_outputs(Problem& p);
// Up to 2^18 elements of each output, evenly spaced, as doubles.
std::vector<double> sample_outputs(const Problem& p);
// |got - want| / |want| over all; infinite for a NaN or where sizes differ.
double relative_error(const std::vector<double>& got, const std::vector<double>& want);
double tolerance(DType t);

}  // namespace wt::bench
