// Operands of a problem.
#pragma once
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/bench/gpu/problems.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/dispatch/run_erased.h"

namespace wt::bench {

// Of which numbers x is drawn, from n of N(0, 1).
enum class Draw {
  normal,      // n
  positive,    // |n| + 0.01
  above_one,   // |n| + 1.01
  within_one,  // n / (1 + |n|)
};

class Maker {
 public:
  Maker(Device d, u64 seed, std::vector<Tensor>& keep) : device_(d), seed_(seed), keep_(keep) {}
  // The same numbers on every device.
  Tensor normal(const Shape& s, DType t, Draw draw = Draw::normal);
  // Integers in [0, n), i64.
  Tensor indices(const Shape& s, i64 n);
  // Bits of `bytes` host bytes in device memory, as u8.
  Tensor bytes(const void* host, i64 size);
  Tensor scalar(double v, DType t);
  Tensor out(const Shape& s, DType t);
  // As long as the problem is there.
  Tensor kept(Tensor t) {
    keep_.push_back(t);
    return t;
  }

 private:
  Device device_;
  u64 seed_;
  std::vector<Tensor>& keep_;
};

// A problem whose launches change what they begin with.
inline Problem in_place(Problem p) {
  p.in_place = true;
  return p;
}

// The variants of a contract on the problem's device over the arguments of each set, of which these
// are the bytes.
using ArgsBytes = std::vector<char>;
void add_variants(Problem& p, const detail::ErasedContract& c, std::vector<ArgsBytes> sets);

// Problems that differ from set to set only in their operands: `one(maker, outputs)` returns Args.
template <class F>
Problem problem_of(Device d, DType t, const std::string& shape, int sets, F one) {
  Problem p;
  p.device = d;
  p.dtype = t;
  p.shape = shape;
  using Args = decltype(one(std::declval<Maker&>(), p.outputs));
  static_assert(std::is_trivially_copyable_v<Args>);
  std::vector<ArgsBytes> args;
  for (int k = 0; k < sets; ++k) {
    Maker m(d, u64(k) * 1000 + 1, p.keep);
    std::vector<Tensor> outputs;
    const Args a = one(m, outputs);
    const char* const bytes = reinterpret_cast<const char*>(&a);
    args.emplace_back(bytes, bytes + sizeof a);
    if (k == 0) p.outputs = outputs;
  }
  add_variants(p, ContractTable<Args>::erased, std::move(args));
  return p;
}

// Rows by origin; problems.cpp sorts them.
void add_launched_rows(std::vector<ProblemRow>& rows);  // launched.h
void add_optim_rows(std::vector<ProblemRow>& rows);
void add_data_rows(std::vector<ProblemRow>& rows);
void add_image_rows(std::vector<ProblemRow>& rows);

}  // namespace wt::bench
