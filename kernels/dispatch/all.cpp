// The list of all contracts, and the one file that knows which devices are built. The contracts are
// those of every x.h of this folder with an x.cpp beside it, in the order of the names, which is
// also the order of the benchmarks: included here, WT_CONTRACT defines a contract's table and its
// row of the list too. A test compares the list with the headers. A family without an x.cu
// (WT_HAS_CU is then 0) runs on cpu alone.
#define WT_CONTRACT(contract, Args)                                                    \
  WT_DECLARE_CONTRACT(contract, Args);                                                 \
  constinit const Variants<Args>* const ContractTable<Args>::rows[kNumDeviceKinds] = { \
      &contract##_on_cpu, WT_ON_SIMT(contract), WT_ON_CUDA(contract)};                 \
  constinit const detail::ErasedContract ContractTable<Args>::erased =                 \
      detail::erased_contract<Args>();                                                 \
  template <>                                                                          \
  constexpr ContractInfo kListed<__COUNTER__ - kBefore> = {#contract,                  \
                                                           &ContractTable<Args>::erased}

#include <utility>

#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/storage.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/dispatch/run_erased.h"

#define WT_IF_0(pointer) nullptr
#define WT_IF_1(pointer) pointer
#define WT_IF_EXPANDED(condition, pointer) WT_IF_##condition(pointer)
#define WT_IF(condition, pointer) WT_IF_EXPANDED(condition, pointer)
#if WARPTAPE_HAS_SIMT
#define WT_ON_SIMT(contract) WT_IF(WT_HAS_CU, &contract##_on_simt)
#else
#define WT_ON_SIMT(contract) nullptr
#endif
#if WARPTAPE_HAS_CUDA
#define WT_ON_CUDA(contract) WT_IF(WT_HAS_CU, &contract##_on_cuda)
#else
#define WT_ON_CUDA(contract) nullptr
#endif

namespace wt {

template <int N>
static constexpr ContractInfo kListed{};
static constexpr int kBefore = __COUNTER__ + 1;

}  // namespace wt

#include "warptape/kernel_headers.inc"

namespace wt {

template <int... N>
static ContractList list_of(std::integer_sequence<int, N...>) {
  static constexpr ContractInfo kRows[] = {kListed<N>...};
  return {kRows, int(sizeof...(N))};
}

ContractList all_contracts() {
  return list_of(std::make_integer_sequence<int, __COUNTER__ - kBefore>());
}

// --- starting devices: their memory is connected to the core ---

void start_cuda_device();  // kernels/cuda/device.cpp
void start_simt_device();  // kernels/simt/device.cpp

static void start_memory(DeviceKind k) {
  if (k == DeviceKind::cuda) return start_cuda_device();
#if WARPTAPE_HAS_SIMT
  if (k == DeviceKind::simt) return start_simt_device();
#else
  if (k == DeviceKind::simt)
    throw NotAvailable(str("this build has no simt: ", why_without("simt")));
#endif
  throw InternalError(str(device_kind_name(k), " has nothing to start"));
}
void start_device(DeviceKind k) {
  start_memory(k);
  detail::start_first_uses(k);
}

#if !WARPTAPE_HAS_CUDA
const CudaApi* built_cuda_api() { return nullptr; }  // else kernels/cuda/runtime.cpp
// Else kernels/cuda/blas.cpp.
std::string describe_cublaslt() { return "not used: this build has no cuda"; }
#endif

}  // namespace wt
