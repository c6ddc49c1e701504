// NCCL as a table of functions, found when the program runs: nothing of NCCL is needed to build.
//
// The values are those of its binary interface, which is stable since 2.10 (nccl.h of 2.28.9 was
// compared). Everything that calls NCCL goes through the table, so that it is tested over a fake
// that computes (tests/support/fake_nccl.h). Internal.
#pragma once
#include <memory>
#include <string>

#include "warptape/core/machine/load_library.h"
#include "warptape/core/types.h"

namespace wt::dist {

enum NcclResult : int {
  kNcclSuccess = 0,
  kNcclUnhandledCudaError = 1,
  kNcclSystemError = 2,
  kNcclInternalError = 3,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
  kNcclRemoteError = 6,
  kNcclInProgress = 7,  // of a communicator that does not block: ask again
};
enum NcclType : int {
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclInt64 = 4,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9,
};
enum NcclOp : int { kNcclSum = 0, kNcclMax = 2, kNcclMin = 3, kNcclAvg = 4 };

// What ranks find each other by; handed over by value.
struct NcclUniqueId {
  char bytes[128];
};

// ncclConfig_t as of 2.18. A later library reads as much as `size` says and gives the fields that
// came after `version` their defaults (parseCommConfig in its src/init.cc).
struct NcclConfig {
  static constexpr int kUnset = -2147483647 - 1;
  size_t size = sizeof(NcclConfig);
  u32 magic = 0xcafebeef;
  u32 version = 21800;
  int blocking = kUnset;
  int cga_cluster_size = kUnset;
  int min_ctas = kUnset, max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset;
};
static_assert(sizeof(NcclConfig) == 48);

// Communicators and streams are NCCL's and CUDA's handles, answers NcclResult.
struct NcclApi {
  int (*version)(int*);  // 22809 is 2.28.9
  const char* (*error_text)(int result);
  const char* (*last_error)(void* comm);  // of the process, in words; comm may be null
  int (*unique_id)(NcclUniqueId*);
  int (*comm_init)(void** comm, int ranks, NcclUniqueId, int rank, NcclConfig*);
  int (*comm_async_error)(void* comm, int* result);
  int (*comm_abort)(void* comm);
  int (*comm_finalize)(void* comm);
  int (*comm_destroy)(void* comm);
  int (*all_reduce)(const void* in, void* out, size_t count, int type, int op, void* comm,
                    void* stream);
  int (*reduce_scatter)(const void* in, void* out, size_t out_count, int type, int op, void* comm,
                        void* stream);
  int (*all_gather)(const void* in, void* out, size_t in_count, int type, void* comm, void* stream);
  int (*broadcast)(const void* in, void* out, size_t count, int type, int root, void* comm,
                   void* stream);
  int (*send)(const void* in, size_t count, int type, int peer, void* comm, void* stream);
  int (*recv)(void* out, size_t count, int type, int peer, void* comm, void* stream);
  int (*group_start)();
  int (*group_end)();
};

// Communicators that do not block came with 2.14, their configuration's present layout with 2.18.
inline constexpr int kOldestNccl = 21800;

// The table in use, or null: then nccl_why_not() says why. The first call looks for the library:
// WT_NCCL (a file, or "off"), else libnccl.so.2 as the system finds it, in $NCCL_ROOT, $NCCL_HOME
// and $CUDA_HOME, and in the Python wheels of $VIRTUAL_ENV and $CONDA_PREFIX.
const NcclApi* nccl_api();
const char* nccl_why_not();   // null when there is one; lives for ever
std::string describe_nccl();  // for `wt info`: its version and file, or why there is none
std::string nccl_version_text(int version);

// What a search for the library comes to.
struct NcclFound {
  const NcclApi* api = nullptr;
  std::string why_not, file;
  std::shared_ptr<const NcclApi> own = {};  // where `api` lies
};
NcclFound find_nccl(const LibraryLoader& loader);
// For tests: the table from now on (null: none, for the reason given).
void replace_nccl(const NcclApi* api, const char* why_not = nullptr);
void restore_nccl();

}  // namespace wt::dist
