// In place of cuBLASLt, which the library calls on GPUs alone: a student's program runs in a
// sandbox without any. Its libraries have 350,000 addresses to relocate, 0.15 s at the start of
// each case.
#include <cstdlib>

#define WT_NEVER_CALLED(name) \
  extern "C" void name();     \
  extern "C" void name() { std::abort(); }

WT_NEVER_CALLED(cublasLtCreate)
WT_NEVER_CALLED(cublasLtDestroy)
WT_NEVER_CALLED(cublasLtGetStatusString)
WT_NEVER_CALLED(cublasLtMatmul)
WT_NEVER_CALLED(cublasLtMatmulAlgoGetHeuristic)
WT_NEVER_CALLED(cublasLtMatmulDescInit_internal)
WT_NEVER_CALLED(cublasLtMatmulDescSetAttribute)
WT_NEVER_CALLED(cublasLtMatmulPreferenceInit_internal)
WT_NEVER_CALLED(cublasLtMatmulPreferenceSetAttribute)
WT_NEVER_CALLED(cublasLtMatrixLayoutInit_internal)
WT_NEVER_CALLED(cublasLtMatrixLayoutSetAttribute)
