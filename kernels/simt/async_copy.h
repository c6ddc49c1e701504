// What device/async_copy.cuh calls on the host; async_copy.cpp has it.
#pragma once
#include "warptape/kernels/simt/host_exec.h"

namespace wt {
inline namespace simt {

void exec_cp_async(void* to, const void* from, int bytes, int source_bytes, Loc at);
void exec_cp_async_commit();
void exec_cp_async_wait(unsigned groups_left);

}  // namespace simt
}  // namespace wt
