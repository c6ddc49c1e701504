#include "api/cublaslt_problem.h"

#include <algorithm>

#include "api/cublaslt_product.h"

namespace emu::blas {

u32 bias_type(const Problem& p) {
  if (p.desc->bias_type >= 0) return u32(p.desc->bias_type);
  return p.type(3) == CUDA_R_8I ? u32(CUDA_R_32F) : p.type(3);
}

namespace {

bool is_f64(i32 compute) {
  return compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC;
}
bool is_i32(i32 compute) {
  return compute == CUBLAS_COMPUTE_32I || compute == CUBLAS_COMPUTE_32I_PEDANTIC;
}
bool is_fast_f32(i32 compute) {
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32 || compute == CUBLAS_COMPUTE_32F_FAST_16F ||
         compute == CUBLAS_COMPUTE_32F_FAST_16BF;
}

// The table of types of cublasLtMatmul(), without complex numbers, fp8 and f16 sums.
bool types_supported(const Problem& p) {
  const Desc& d = *p.desc;
  const u32 a = p.type(0), b = p.type(1), c = p.type(2), out = p.type(3);
  if (a != b || c != out) return false;
  if (is_f64(d.compute)) return d.scale == CUDA_R_64F && a == CUDA_R_64F && c == CUDA_R_64F;
  if (is_i32(d.compute))
    return a == CUDA_R_8I && ((d.scale == CUDA_R_32I && c == CUDA_R_32I) ||
                              (d.scale == CUDA_R_32F && c == CUDA_R_8I));
  if (d.scale != CUDA_R_32F) return false;
  if (is_fast_f32(d.compute)) return a == CUDA_R_32F && c == CUDA_R_32F;
  if (d.compute != CUBLAS_COMPUTE_32F && d.compute != CUBLAS_COMPUTE_32F_PEDANTIC) return false;
  if (a == CUDA_R_16F || a == CUDA_R_16BF) return c == a || c == CUDA_R_32F;
  return (a == CUDA_R_32F || a == CUDA_R_8I) && c == CUDA_R_32F;
}

cublasStatus_t check_layout(const char* call, const Layout& l, char name) {
  if (l.rows == 0 || l.columns == 0 || l.batches < 1)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "%c is [%lu, %lu], %d batches", name, l.rows,
                  l.columns, l.batches);
  if (l.rows > INT32_MAX || l.columns > INT32_MAX)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "%c is [%lu, %lu]", name, l.rows, l.columns);
  if ((l.order != CUBLASLT_ORDER_COL && l.order != CUBLASLT_ORDER_ROW) || l.batch_mode != 0)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "%c: order %d, batch mode %u", name, l.order,
                  l.batch_mode);
  const i64 line = i64(l.order == CUBLASLT_ORDER_COL ? l.rows : l.columns);
  if (l.lead < line)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call,
                  "%c [%lu, %lu] has leading dimension %ld, below %ld", name, l.rows, l.columns,
                  l.lead, line);
  return CUBLAS_STATUS_SUCCESS;
}

// The relu's bit mask, and sums over D, have no stand-in.
bool known_epilogue(u32 e) {
  switch (e) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_BGRADB:
      return true;
    default:
      return false;
  }
}

cublasStatus_t check_aux(const char* call, const Problem& p) {
  const Desc& q = *p.desc;
  if (!uses_aux(q.epilogue))
    return q.aux ? refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "aux without an epilogue that has it")
                 : CUBLAS_STATUS_SUCCESS;
  if (q.aux_ld < p.m || q.aux_ld % 8)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call,
                  "aux's leading dimension %ld must be a multiple of 8 and at least %ld", q.aux_ld,
                  p.m);
  if (p.layouts[3]->batches > 1 && q.aux_stride % 8)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "aux's batch stride %ld is no multiple of 8",
                  q.aux_stride);
  if (p.type(3) == CUDA_R_8I || (q.aux_type >= 0 && u32(q.aux_type) != p.type(3)))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "aux of type %d", q.aux_type);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_epilogue(const char* call, const Problem& p) {
  const u32 e = p.desc->epilogue;
  if (!known_epilogue(e)) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "epilogue %u", e);
  if (const auto s = check_aux(call, p)) return s;
  if (e == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  if (p.desc->scale != CUDA_R_32F)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "only the default epilogue in f64 and i32");
  if (!(e & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB))) return CUBLAS_STATUS_SUCCESS;
  if ((e & CUBLASLT_EPILOGUE_BGRADB) && (is_i32(p.desc->compute) || p.layouts[3]->batches > 1))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "sums of B of integers, or of a batch");
  const u32 own = p.type(3) == CUDA_R_8I ? u32(CUDA_R_32F) : p.type(3);
  if (bias_type(p) != own)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "bias of type %u", bias_type(p));
  return CUBLAS_STATUS_SUCCESS;
}

// Integer tensor cores: A transposed, B not; all in fours.
cublasStatus_t check_integer(const char* call, const Problem& p) {
  if (!is_i32(p.desc->compute)) return CUBLAS_STATUS_SUCCESS;
  bool fours = p.m % 4 == 0 && p.k % 4 == 0;
  for (const Layout* l : p.layouts)
    fours = fours && l->lead % 4 == 0 && l->order == CUBLASLT_ORDER_COL;
  if (p.desc->op_a != CUBLAS_OP_T || p.desc->op_b != CUBLAS_OP_N || !fours)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call,
                  "i8 asks for A^T, B, and m, k and leading dimensions in fours");
  return CUBLAS_STATUS_SUCCESS;
}

u32 packed_types(const Problem& p) {
  return p.type(0) | p.type(1) << 8 | p.type(2) << 16 | p.type(3) << 24;
}
u32 packed_ops(const Desc& d) { return u32(d.op_a) | u32(d.op_b) << 2 | d.epilogue << 4; }

}  // namespace

cublasStatus_t read_problem(const char* call, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, Problem* p) {
  p->desc = desc_of(desc);
  const cublasLtMatrixLayout_t layouts[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) p->layouts[i] = layout_of(layouts[i]);
  if (!p->desc || std::count(p->layouts, p->layouts + 4, nullptr))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "a descriptor was never initialised");
  for (int i = 0; i < 4; ++i)
    if (const auto s = check_layout(call, *p->layouts[i], "ABCD"[i])) return s;
  const Desc& q = *p->desc;
  for (const i32 op : {q.op_a, q.op_b})
    if (op < 0 || op > CUBLAS_OP_C)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "operation %d", op);
  const bool foreign = std::any_of(q.scales, q.scales + 8, [](u64 s) { return s != 0; }) ||
                       std::any_of(q.scale_modes, q.scale_modes + 6, [](i32 s) { return s != 0; });
  if (q.op_c != CUBLAS_OP_N || q.fill != CUBLAS_FILL_MODE_FULL || foreign ||
      (q.pointer_mode != CUBLASLT_POINTER_MODE_HOST &&
       q.pointer_mode != CUBLASLT_POINTER_MODE_DEVICE))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call,
                  "an attribute that the stand-in has no products for");
  const Layout &x = *p->layouts[0], &y = *p->layouts[1], &z = *p->layouts[2], &o = *p->layouts[3];
  p->m = i64(q.op_a == CUBLAS_OP_N ? x.rows : x.columns);
  p->k = i64(q.op_a == CUBLAS_OP_N ? x.columns : x.rows);
  p->n = i64(q.op_b == CUBLAS_OP_N ? y.columns : y.rows);
  if (i64(q.op_b == CUBLAS_OP_N ? y.rows : y.columns) != p->k || i64(o.rows) != p->m ||
      i64(o.columns) != p->n || o.rows != z.rows || o.columns != z.columns)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call,
                  "op(A) [%ld, %ld], op(B) [.., %ld], C [%lu, %lu] and D [%lu, %lu] do not fit",
                  p->m, p->k, p->n, z.rows, z.columns, o.rows, o.columns);
  if (x.batches != o.batches || y.batches != o.batches || z.batches != o.batches)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "batch counts differ");
  if (!types_supported(*p))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, call, "compute %d, scale %d, types %u, %u, %u, %u",
                  q.compute, q.scale, x.type, y.type, z.type, o.type);
  if (const auto s = check_epilogue(call, *p)) return s;
  return check_integer(call, *p);
}

// --- algorithms ---
bool choose(const Problem& p, const u32 (&promised)[4], i32 splits, Algo* out) {
  *out = {};
  out->magic = kAlgoMagic;
  out->splits = splits;
  out->compute = p.desc->compute;
  out->scale = p.desc->scale;
  out->types = packed_types(p);
  out->ops_epilogue = packed_ops(*p.desc);
  for (int i = 0; i < 4; ++i) {
    const Layout& l = *p.layouts[i];
    const u32 element = element_bytes(l.type);
    const u32 strides =
        alignment_of(u64(l.lead) * element | (l.batches > 1 ? u64(l.stride) * element : 0));
    const u32 least = is_i32(p.desc->compute) ? 4 : element;
    out->alignment[i] = std::min({u32(16), promised[i], strides});
    if (out->alignment[i] < least) return false;
  }
  out->bias_alignment = 1;
  if (p.desc->epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB)) {
    out->bias_alignment = std::min(u32(16), alignment_of(p.desc->bias));
    if (out->bias_alignment < element_bytes(bias_type(p))) return false;
  }
  return true;
}

i32 splits_for(const Problem& p, u64 workspace, u32 reductions) {
  const bool allowed = reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return p.k >= 64 && allowed && split_bytes(p.m, p.n, p.desc->compute, 2) <= workspace ? 2 : 1;
}

const Algo* algo_of(const cublasLtMatmulAlgo_t* algo) {
  const auto* a = reinterpret_cast<const Algo*>(algo);
  return a->magic == kAlgoMagic ? a : nullptr;
}

bool fits(const Algo& a, const Problem& p) {
  return a.compute == p.desc->compute && a.scale == p.desc->scale && a.types == packed_types(p) &&
         a.ops_epilogue == packed_ops(*p.desc);
}

}  // namespace emu::blas
