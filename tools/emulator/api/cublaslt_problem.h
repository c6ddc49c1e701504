// A product as its descriptors describe it, checked against cuBLASLt's documentation, and the
// algorithms that the stand-in has for it.
#pragma once
#include "api/cublaslt_types.h"

namespace emu::blas {

struct Problem {
  const Desc* desc = nullptr;
  const Layout* layouts[4] = {};  // A, B, C, D
  i64 m = 0, n = 0, k = 0;
  u32 type(int i) const { return layouts[i]->type; }
};

// The status says what the documentation forbids, or what the stand-in has no products for.
cublasStatus_t read_problem(const char* call, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, Problem* p);

u32 bias_type(const Problem& p);

// The largest power of two up to 256 that divides the number.
inline u32 alignment_of(u64 value) { return u32(1) << __builtin_ctzll(value | 256); }

// Alignments that the algorithm will ask of the pointers: as much as was promised and the strides
// keep. False where that is less than an element.
bool choose(const Problem& p, const u32 (&promised)[4], i32 splits, Algo* out);

// Parts of k: where it is deep, two, if their sums fit into the workspace.
i32 splits_for(const Problem& p, u64 workspace, u32 reductions);

// Null for what no heuristic filled in.
const Algo* algo_of(const cublasLtMatmulAlgo_t* algo);

// The algorithm is for problems of this kind.
bool fits(const Algo& a, const Problem& p);

}  // namespace emu::blas
