// The variants of kernels/linalg/linalg.cpp through the LAPACK and BLAS of OpenBLAS
// (linalg/linalg_lapack_cpu.cpp); without it their reason says so.
#pragma once
#include "warptape/kernels/linalg.h"

namespace wt {

const char* cholesky_lapack_why_not(const CholeskyArgs& a);
void cholesky_lapack(const CholeskyArgs& a, const Launch& l);
const char* solve_triangular_blas_why_not(const SolveTriangularArgs& a);
void solve_triangular_blas(const SolveTriangularArgs& a, const Launch& l);
const char* qr_lapack_why_not(const QrArgs& a);
i64 qr_lapack_workspace(const QrArgs& a);
void qr_lapack(const QrArgs& a, const Launch& l);
const char* eigh_lapack_why_not(const EighArgs& a);
i64 eigh_lapack_workspace(const EighArgs& a);
void eigh_lapack(const EighArgs& a, const Launch& l);

}  // namespace wt
