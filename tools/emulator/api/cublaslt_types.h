// The insides of cuBLASLt's opaque descriptors, as the stand-in lays them out, and its words for
// a call that it refuses.
#pragma once
#include <cublasLt.h>

#include "basic.h"

namespace emu::blas {

inline constexpr u32 kDescMagic = 0x4d4d4431, kLayoutMagic = 0x4c41594f, kWishMagic = 0x50524546,
                     kAlgoMagic = 0x414c474f;

struct Desc {
  u32 magic;
  i32 compute, scale, pointer_mode, op_a, op_b, op_c, fill;
  u32 epilogue;
  i32 bias_type, aux_type, sm_target;
  u64 bias, aux;
  i64 bias_stride, aux_ld, aux_stride, alpha_stride;
  u64 scales[8];  // A, B, C, D, amax D, aux scale, aux amax, D out: fp8 only, so null
  i32 scale_modes[6];
  i8 fast_sums;
};

struct Layout {
  u32 magic;
  u32 type;
  i32 order, batches;
  u64 rows, columns;
  i64 lead, stride;
  u32 batch_mode;
};

struct Wish {
  u32 magic;
  u32 search;
  u64 workspace;
  u32 reductions;
  u32 alignment[4];  // promised of A, B, C, D
  float waves;
  u64 implementations;
};

// An algorithm is bound to types, transposes and epilogue, not to sizes.
struct Algo {
  u32 magic;
  i32 splits;  // of k; above 1 partial sums go through the workspace
  i32 compute, scale;
  u32 types;         // of A, B, C, D, a byte each
  u32 ops_epilogue;  // op_a, op_b << 2, epilogue << 4
  u32 alignment[4];  // that the pointers must have
  u32 bias_alignment;
};

static_assert(sizeof(Desc) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Wish) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t));

// Null for a descriptor that was never initialised.
const Desc* desc_of(cublasLtMatmulDesc_t d);
const Layout* layout_of(cublasLtMatrixLayout_t l);
const Wish* wish_of(cublasLtMatmulPreference_t w);

// Bytes of an element; 0 for a type that the stand-in has no products of.
u32 element_bytes(u32 type);

// Returns `status`; with CUBLASLT_LOG_LEVEL=1 or above (cuBLASLt's own variable) `why` goes to
// stderr, which is more than the library itself says.
[[gnu::format(printf, 3, 4)]] cublasStatus_t refuse(cublasStatus_t status, const char* call,
                                                    const char* why, ...);

}  // namespace emu::blas
