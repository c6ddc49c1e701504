// A copy or fill as a call asked for it, checked against where its pointers lead.
#pragma once
#include "api/api.h"
#include "device/copy.h"

namespace emu {

struct CopyRequest {
  const char* name;
  CopyShape shape;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  cudaStream_t stream = nullptr;
  bool async = false;
};

// What CUDA refuses at the call; notes say why.
cudaError_t check_copy(const CopyRequest& r);
cudaError_t copy(const CopyRequest& r);

struct FillRequest {
  const char* name;
  CopyShape shape;  // of `to`
  u32 value = 0, element = 1;
  cudaStream_t stream = nullptr;
  bool async = false;
};
cudaError_t check_fill(const FillRequest& r);
cudaError_t fill(const FillRequest& r);

// Rows, and slices of rows, of a 3D request. False: it is about arrays, which are not emulated.
bool shape_of(const cudaMemcpy3DParms& p, CopyShape* shape);

}  // namespace emu
