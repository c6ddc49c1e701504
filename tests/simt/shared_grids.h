// Launchers of shared_grids.cu: grids large enough for several OS threads. All pointers are device
// memory.
#pragma once

namespace wt {
#ifdef WT_DEVICE_NS
inline namespace WT_DEVICE_NS {
#else
inline namespace simt {
#endif

constexpr int kSharedGridThreads = 64;

// total[0] += 1 / (1 + i) for each thread i of all blocks; order[k] = which block counted as the
// k-th. ticket, total: zero before.
void test_ordered_atomics(float* total, unsigned* order, unsigned* ticket, int blocks);
// seen[block] = an address that is the OS thread's own. A block waits until another address is
// there, at most `seconds`.
void test_os_threads(unsigned long long* seen, int blocks, double seconds);
// done[block] = 1 but in blocks `first` and `second`, which trap.
void test_two_traps(unsigned* done, int blocks, unsigned first, unsigned second);

}  // namespace simt
}  // namespace wt
