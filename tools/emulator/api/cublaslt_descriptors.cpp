// cuBLASLt's descriptors: made, set and read as its header says, sizes checked.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "api/cublaslt_types.h"

namespace emu::blas {
namespace {

// Where an attribute lives.
struct Field {
  int attribute;
  u32 at, bytes;
};
#define FIELD(attribute, Struct, member) \
  { attribute, offsetof(Struct, member), sizeof(Struct::member) }
#define ITEM(attribute, Struct, member, i)                                      \
  {                                                                             \
    attribute, u32(offsetof(Struct, member) + (i) * sizeof(Struct::member[0])), \
        sizeof(Struct::member[0])                                               \
  }

constexpr Field kDescFields[] = {
    FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, Desc, compute),
    FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, Desc, scale),
    FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, Desc, pointer_mode),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSA, Desc, op_a),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSB, Desc, op_b),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSC, Desc, op_c),
    FIELD(CUBLASLT_MATMUL_DESC_FILL_MODE, Desc, fill),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, Desc, epilogue),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, Desc, bias),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, Desc, bias_stride),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, Desc, aux),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, Desc, aux_ld),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, Desc, aux_stride),
    FIELD(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, Desc, alpha_stride),
    FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, Desc, sm_target),
    ITEM(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, Desc, scales, 0),
    ITEM(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, Desc, scales, 1),
    ITEM(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, Desc, scales, 2),
    ITEM(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, Desc, scales, 3),
    ITEM(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, Desc, scales, 4),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, Desc, aux_type),
    ITEM(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, Desc, scales, 5),
    ITEM(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, Desc, scales, 6),
    FIELD(CUBLASLT_MATMUL_DESC_FAST_ACCUM, Desc, fast_sums),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, Desc, bias_type),
    ITEM(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, Desc, scale_modes, 0),
    ITEM(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, Desc, scale_modes, 1),
    ITEM(CUBLASLT_MATMUL_DESC_C_SCALE_MODE, Desc, scale_modes, 2),
    ITEM(CUBLASLT_MATMUL_DESC_D_SCALE_MODE, Desc, scale_modes, 3),
    ITEM(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, Desc, scale_modes, 4),
    ITEM(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, Desc, scales, 7),
    ITEM(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, Desc, scale_modes, 5),
};

constexpr Field kLayoutFields[] = {
    FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, Layout, type),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, Layout, order),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, Layout, rows),
    FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, Layout, columns),
    FIELD(CUBLASLT_MATRIX_LAYOUT_LD, Layout, lead),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, Layout, batches),
    FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, Layout, stride),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, Layout, batch_mode),
};

constexpr Field kWishFields[] = {
    FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, Wish, search),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Wish, workspace),
    FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, Wish, reductions),
    ITEM(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Wish, alignment, 0),
    ITEM(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Wish, alignment, 1),
    ITEM(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Wish, alignment, 2),
    ITEM(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Wish, alignment, 3),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, Wish, waves),
    FIELD(CUBLASLT_MATMUL_PREF_IMPL_MASK, Wish, implementations),
};

#undef FIELD
#undef ITEM

template <size_t N>
const Field* find(const Field (&fields)[N], int attribute) {
  for (const Field& f : fields)
    if (f.attribute == attribute) return &f;
  return nullptr;
}

// `to`: the descriptor, or null when it is none.
template <size_t N>
cublasStatus_t set(const char* call, void* to, const Field (&fields)[N], int attribute,
                   const void* from, size_t bytes) {
  if (!to) return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "the descriptor was never initialised");
  const Field* f = find(fields, attribute);
  if (!f) return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "unknown attribute %d", attribute);
  if (!from || bytes != f->bytes)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "attribute %d has %u bytes, not %zu",
                  attribute, f->bytes, from ? bytes : 0);
  std::memcpy(static_cast<char*>(to) + f->at, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <size_t N>
cublasStatus_t get(const char* call, const void* from, const Field (&fields)[N], int attribute,
                   void* to, size_t bytes, size_t* written) {
  if (!from)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "the descriptor was never initialised");
  const Field* f = find(fields, attribute);
  if (!f) return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "unknown attribute %d", attribute);
  if (bytes == 0 ? !written : !to || bytes != f->bytes)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, call, "attribute %d has %u bytes, not %zu",
                  attribute, f->bytes, bytes);
  if (bytes) std::memcpy(to, static_cast<const char*>(from) + f->at, bytes);
  if (written) *written = f->bytes;
  return CUBLAS_STATUS_SUCCESS;
}

// `size`: of the space that the program's header reserves.
template <class Inner>
cublasStatus_t put(const char* call, void* to, size_t size, const Inner& value) {
  if (!to || size < sizeof(Inner))
    return refuse(CUBLAS_STATUS_ALLOC_FAILED, call, "%zu bytes are too few", to ? size : 0);
  std::memset(to, 0, size);
  std::memcpy(to, &value, sizeof value);
  return CUBLAS_STATUS_SUCCESS;
}

Desc new_desc(int compute, int scale) {
  Desc d{};
  d.magic = kDescMagic;
  d.compute = compute;
  d.scale = scale;
  d.fill = CUBLAS_FILL_MODE_FULL;
  d.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  d.bias_type = d.aux_type = -1;
  return d;
}

Wish new_wish() {
  Wish w{};
  w.magic = kWishMagic;
  w.reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  for (u32& a : w.alignment) a = 256;
  w.implementations = ~u64(0);
  return w;
}

template <class Opaque>
Opaque* make() {
  return new (std::nothrow) Opaque{};
}

// A freed descriptor that is used again is found, as long as its memory lies idle.
template <class Opaque>
cublasStatus_t destroy(Opaque* p) {
  if (p) std::memset(p, 0, sizeof *p);
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

const Desc* desc_of(cublasLtMatmulDesc_t d) {
  const auto* p = reinterpret_cast<const Desc*>(d);
  return p && p->magic == kDescMagic ? p : nullptr;
}
const Layout* layout_of(cublasLtMatrixLayout_t l) {
  const auto* p = reinterpret_cast<const Layout*>(l);
  return p && p->magic == kLayoutMagic ? p : nullptr;
}
const Wish* wish_of(cublasLtMatmulPreference_t w) {
  const auto* p = reinterpret_cast<const Wish*>(w);
  return p && p->magic == kWishMagic ? p : nullptr;
}

u32 element_bytes(u32 type) {
  switch (type) {
    case CUDA_R_64F:
      return 8;
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_8I:
      return 1;
    default:
      return 0;
  }
}

cublasStatus_t refuse(cublasStatus_t status, const char* call, const char* why, ...) {
  static const bool spoken = [] {
    const char* level = std::getenv("CUBLASLT_LOG_LEVEL");
    return level && std::atoi(level) >= 1;
  }();
  if (spoken) {
    char text[512];
    va_list args;
    va_start(args, why);
    std::vsnprintf(text, sizeof text, why, args);
    va_end(args);
    std::fprintf(stderr, "%s: %s: %s\n", call, cublasLtGetStatusName(status), text);
  }
  return status;
}

}  // namespace emu::blas

using namespace emu::blas;

extern "C" {

// --- of the operation ---
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  return put("cublasLtMatmulDescInit", d, size, new_desc(compute, scale));
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (!d) return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasLtMatmulDescCreate", "null");
  *d = make<cublasLtMatmulDescOpaque_t>();
  return put("cublasLtMatmulDescCreate", *d, sizeof **d, new_desc(compute, scale));
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return destroy(d); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void* from,
                                              size_t bytes) {
  return set("cublasLtMatmulDescSetAttribute", const_cast<Desc*>(desc_of(d)), kDescFields, a, from,
             bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, void* to,
                                              size_t bytes, size_t* written) {
  return get("cublasLtMatmulDescGetAttribute", desc_of(d), kDescFields, a, to, bytes, written);
}

// --- of a matrix ---
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t lead) {
  return put("cublasLtMatrixLayoutInit", l, size,
             Layout{kLayoutMagic, type, CUBLASLT_ORDER_COL, 1, rows, columns, lead, 0, 0});
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t lead) {
  if (!l) return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasLtMatrixLayoutCreate", "null");
  *l = make<cublasLtMatrixLayoutOpaque_t>();
  return cublasLtMatrixLayoutInit_internal(*l, sizeof **l, type, rows, columns, lead);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return destroy(l); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a, const void* from,
                                                size_t bytes) {
  return set("cublasLtMatrixLayoutSetAttribute", const_cast<Layout*>(layout_of(l)), kLayoutFields,
             a, from, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a, void* to,
                                                size_t bytes, size_t* written) {
  return get("cublasLtMatrixLayoutGetAttribute", layout_of(l), kLayoutFields, a, to, bytes,
             written);
}

// --- of what the heuristics may choose ---
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t w, size_t size) {
  return put("cublasLtMatmulPreferenceInit", w, size, new_wish());
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* w) {
  if (!w) return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasLtMatmulPreferenceCreate", "null");
  *w = make<cublasLtMatmulPreferenceOpaque_t>();
  return cublasLtMatmulPreferenceInit_internal(*w, sizeof **w);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t w) { return destroy(w); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t w,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void* from, size_t bytes) {
  return set("cublasLtMatmulPreferenceSetAttribute", const_cast<Wish*>(wish_of(w)), kWishFields, a,
             from, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t w,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    void* to, size_t bytes, size_t* written) {
  return get("cublasLtMatmulPreferenceGetAttribute", wish_of(w), kWishFields, a, to, bytes,
             written);
}

}  // extern "C"
