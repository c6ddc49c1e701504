// The variant of kernels/linalg/svd.cpp through the LAPACK of OpenBLAS
// (linalg/linalg_lapack_cpu.cpp); without it its reason says so.
#pragma once
#include "warptape/kernels/svd.h"

namespace wt {

const char* svd_lapack_why_not(const SvdArgs& a);
i64 svd_lapack_workspace(const SvdArgs& a);
void svd_lapack(const SvdArgs& a, const Launch& l);

}  // namespace wt
