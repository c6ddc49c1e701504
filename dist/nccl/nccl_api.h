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

// ncclResult_t: what calls of NCCL answer.
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
// ncclDataType_t: the element types that are sent, each the DType of its name; bool, and bytes of
// dtypes that are only moved, go as kNcclUint8.
enum NcclType : int {
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclInt64 = 4,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9,
};
// ncclRedOp_t: how elements of ranks are combined.
enum NcclOp : int { kNcclSum = 0, kNcclMax = 2, kNcclMin = 3, kNcclAvg = 4 };

// What ranks find each other by; handed over by value.
struct NcclUniqueId {
  char bytes[128];  // ncclUniqueId, made by one rank for all
};

// ncclConfig_t as of 2.18. A later library reads as much as `size` says and gives the fields that
// came after `version` their defaults (parseCommConfig in its src/init.cc).
struct NcclConfig {
  static constexpr int kUnset = -2147483647 - 1;  // NCCL decides
  size_t size = sizeof(NcclConfig);               // in bytes
  u32 magic = 0xcafebeef;                         // by which NCCL knows that it was filled in
  u32 version = 21800;                            // whose fields these are: 2.18.0
  int blocking = kUnset;                          // 0: calls return at once, with kNcclInProgress
  int cga_cluster_size = kUnset;                  // blocks of a cluster
  int min_ctas = kUnset, max_ctas = kUnset;       // blocks of a kernel
  const char* net_name = nullptr;                 // the network to take; null: NCCL decides
  int split_share = kUnset;  // whether groups share the memory of what they were split from
};
static_assert(sizeof(NcclConfig) == 48);

// The functions of NCCL that are used; communicators and streams are NCCL's and CUDA's handles,
// counts are of elements, answers NcclResult.
struct NcclApi {
  int (*version)(int*);                   // ncclGetVersion: 22809 is 2.28.9
  const char* (*error_text)(int result);  // ncclGetErrorString
  const char* (*last_error)(void* comm);  // of the process, in words; comm may be null
  int (*unique_id)(NcclUniqueId*);        // ncclGetUniqueId
  // ncclCommInitRankConfig: every rank calls it, with the id of one.
  int (*comm_init)(void** comm, int ranks, NcclUniqueId, int rank, NcclConfig*);
  int (*comm_async_error)(void* comm, int* result);  // ncclCommGetAsyncError
  int (*comm_abort)(void* comm);                     // ncclCommAbort: stops what runs, and frees it
  int (*comm_finalize)(void* comm);                  // ncclCommFinalize: lets what runs finish
  int (*comm_destroy)(void* comm);                   // ncclCommDestroy: frees it
  // ncclAllReduce.
  int (*all_reduce)(const void* in, void* out, size_t count, int type, int op, void* comm,
                    void* stream);
  // ncclReduceScatter; out_count is that of one rank.
  int (*reduce_scatter)(const void* in, void* out, size_t out_count, int type, int op, void* comm,
                        void* stream);
  // ncclAllGather; in_count is that of one rank.
  int (*all_gather)(const void* in, void* out, size_t in_count, int type, void* comm, void* stream);
  // ncclBroadcast.
  int (*broadcast)(const void* in, void* out, size_t count, int type, int root, void* comm,
                   void* stream);
  // ncclSend; it waits for the peer's ncclRecv.
  int (*send)(const void* in, size_t count, int type, int peer, void* comm, void* stream);
  // ncclRecv, of what the peer's ncclSend has.
  int (*recv)(void* out, size_t count, int type, int peer, void* comm, void* stream);
  int (*group_start)();  // ncclGroupStart: calls up to group_end() are one launch
  int (*group_end)();    // ncclGroupEnd
};

// The oldest version that is taken: communicators that do not block came with 2.14, their
// configuration's present layout with 2.18.
inline constexpr int kOldestNccl = 21800;

// The table in use, or null: then nccl_why_not() says why. The first call looks for the library:
// WT_NCCL (a file, or "off"), else libnccl.so.2 as the system finds it, in $NCCL_ROOT, $NCCL_HOME
// and $CUDA_HOME, and in the Python wheels of $VIRTUAL_ENV and $CONDA_PREFIX.
const NcclApi* nccl_api();
const char* nccl_why_not();   // null when there is one; lives for ever
std::string describe_nccl();  // for `wt info`: its version and file, or why there is none
// "2.28.9" of 22809; until 2.8 the minor version had one digit: "2.8.4" of 2804.
std::string nccl_version_text(int version);

// What a search for the library comes to.
struct NcclFound {
  const NcclApi* api = nullptr;             // null: none that can be used
  std::string why_not, file;                // why there is none; the library that was found
  std::shared_ptr<const NcclApi> own = {};  // where `api` lies
};
// Looks for the library where nccl_api() says, by `loader`, and takes its functions.
NcclFound find_nccl(const LibraryLoader& loader);
// For tests: the table from now on (null: none, for the reason given).
void replace_nccl(const NcclApi* api, const char* why_not = nullptr);
// Ends replace_nccl(): the library that was found is in use again.
void restore_nccl();

}  // namespace wt::dist
