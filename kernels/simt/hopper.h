// What device/mbarrier.cuh, tma.cuh and wgmma.cuh call on the host; mbarrier.cpp, tma.cpp and
// wgmma.cpp have it.
#pragma once
#include "warptape/kernels/device/tensor_map.h"
#include "warptape/kernels/simt/host_exec.h"

namespace wt {
inline namespace simt {

void exec_mbarrier_init(void* barrier, unsigned arrivals, Loc at);
void exec_mbarrier_init_fence();
// `bytes` more are expected in this phase; then arrives, if asked to.
void exec_mbarrier_arrive(void* barrier, unsigned bytes, bool arrives, Loc at);
bool exec_mbarrier_try_wait(void* barrier, unsigned parity, Loc at);
void exec_mbarrier_wait(void* barrier, unsigned parity, Loc at);

void exec_tma_load_2d(void* to, const TensorBox& box, int inner, int outer, void* barrier, Loc at);

uint32_t exec_shared_address(const void* p, Loc at);
struct WgmmaShape {
  int n;  // columns; 64 rows, 16 of k
  bool bf16, a_across, b_across;
};
void exec_wgmma_fence(Loc at);
void exec_wgmma(const WgmmaShape& shape, float* d, uint64_t a, uint64_t b, Loc at);
void exec_wgmma_commit(Loc at);
void exec_wgmma_wait(unsigned groups_left, Loc at);

}  // namespace simt
}  // namespace wt
