// Which NCCL there is, if any.
#include "warptape/dist/nccl/nccl_api.h"

#include <atomic>
#include <memory>
#include <vector>

namespace wt::dist {
namespace {

constexpr const char* kNcclRoots[] = {"NCCL_ROOT", "NCCL_HOME", "CUDA_HOME"};
constexpr LibrarySearch kNcclSearch = {"libnccl.so.2", "WT_NCCL", kNcclRoots, "nvidia/nccl/lib",
                                       "pip install nvidia-nccl-cu13"};

const NcclFound& real_nccl() {
  static const auto* found =  // outlives static destructors, as the library does
      new NcclFound(find_nccl(system_loader));
  return *found;
}

std::atomic<const NcclFound*> replaced_nccl{nullptr};

const NcclFound& nccl_in_use() {
  const NcclFound* f = replaced_nccl.load(std::memory_order_acquire);
  return f ? *f : real_nccl();
}

}  // namespace

NcclFound find_nccl(const LibraryLoader& loader) {
  const LoadedLibrary library = load_library(kNcclSearch, loader);
  NcclFound found{.why_not = library.why_not, .file = library.file};
  if (!library.handle) return found;
  const auto api = std::make_shared<NcclApi>();
  LibraryFunctions functions(library, loader);
  int version = 0;
  if (!functions.take(api->version, "ncclGetVersion") || api->version(&version) != kNcclSuccess) {
    found.why_not = str(found.file, " is no NCCL: it has no ncclGetVersion that answers");
    return found;
  }
  if (version < kOldestNccl) {
    found.why_not = str(found.file, " is NCCL ", nccl_version_text(version), ", older than ",
                        nccl_version_text(kOldestNccl));
    return found;
  }
  functions.take(api->error_text, "ncclGetErrorString");
  functions.take(api->last_error, "ncclGetLastError");
  functions.take(api->unique_id, "ncclGetUniqueId");
  functions.take(api->comm_init, "ncclCommInitRankConfig");
  functions.take(api->comm_async_error, "ncclCommGetAsyncError");
  functions.take(api->comm_abort, "ncclCommAbort");
  functions.take(api->comm_finalize, "ncclCommFinalize");
  functions.take(api->comm_destroy, "ncclCommDestroy");
  functions.take(api->all_reduce, "ncclAllReduce");
  functions.take(api->reduce_scatter, "ncclReduceScatter");
  functions.take(api->all_gather, "ncclAllGather");
  functions.take(api->broadcast, "ncclBroadcast");
  functions.take(api->send, "ncclSend");
  functions.take(api->recv, "ncclRecv");
  functions.take(api->group_start, "ncclGroupStart");
  functions.take(api->group_end, "ncclGroupEnd");
  if (functions.missing) {
    found.why_not = str(found.file, " lacks ", functions.missing);
    return found;
  }
  found.own = api;
  found.api = api.get();
  return found;
}

void replace_nccl(const NcclApi* api, const char* why_not) {
  // Another thread may still read the one before: they are kept.
  static auto* all = new std::vector<std::unique_ptr<NcclFound>>;
  all->push_back(std::make_unique<NcclFound>(
      NcclFound{.api = api, .why_not = why_not ? why_not : "", .file = ""}));
  replaced_nccl.store(all->back().get(), std::memory_order_release);
}
void restore_nccl() { replaced_nccl.store(nullptr, std::memory_order_release); }

const NcclApi* nccl_api() { return nccl_in_use().api; }

const char* nccl_why_not() {
  const NcclFound& found = nccl_in_use();
  return found.api ? nullptr : found.why_not.c_str();
}

std::string nccl_version_text(int version) {
  // Until 2.8 the minor version had one digit: 2804 is 2.8.4.
  const int major = version < 10000 ? 1000 : 10000;
  return str(version / major, ".", version % major / 100, ".", version % 100);
}

std::string describe_nccl() {
  const NcclFound& found = nccl_in_use();
  if (!found.api) return str("not used: ", found.why_not);
  int version = 0;
  found.api->version(&version);
  return str(nccl_version_text(version), found.file.empty() ? "" : ", " + found.file);
}

}  // namespace wt::dist
