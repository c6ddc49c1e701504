// CUPTI's activity interface as far as it is used, by its documentation: a build needs no toolkit,
// and any version since CUDA 9 will do. Records of kernels, copies and fills have grown since, at
// their ends alone. tests/core/cupti/cupti_layout_test.cpp holds all of it against the toolkit's
// header where there is one. Internal.
#pragma once
#include <cstddef>

#include "warptape/core/types.h"

namespace wt::profiler::cupti {

enum Code : int { kSuccess = 0, kNoMoreRecords = 12 };  // CUPTI_ERROR_MAX_LIMIT_REACHED
enum Activity : u32 {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kKernel = 10,  // CONCURRENT_KERNEL: KERNEL makes the device run one at a time
  kMemcpyPeer = 22,
  kExternalCorrelation = 39,
};
inline constexpr u32 kFlushForced = 1;
// Stacks of external ids that a thread has, OpenACC's (2) left out: one a profile.
inline constexpr u32 kExternalKinds[] = {3, 4, 5, 1};

struct KernelRecord {  // CUpti_ActivityKernel4
  u32 kind;
  u32 caches[3];
  u64 start, end, completed;
  u32 device, context, stream;
  i32 grid[3], block[3];
  i32 static_shared, dynamic_shared;
  u32 local_per_thread, local_total;
  u32 correlation;
  i64 grid_id;
  const char* name;  // mangled, all kernels' of one function the same
};
struct MemcpyRecord {  // CUpti_ActivityMemcpy
  u32 kind;
  u8 copy_kind, from_kind, to_kind, flags;
  u64 bytes, start, end;
  u32 device, context, stream, correlation;
};
struct MemcpyPeerRecord {  // CUpti_ActivityMemcpyPtoP
  u32 kind;
  u8 copy_kind, from_kind, to_kind, flags;
  u64 bytes, start, end;
  u32 device, context, stream;
  u32 from_device, from_context, to_device, to_context;
  u32 correlation;
};
struct MemsetRecord {  // CUpti_ActivityMemset
  u32 kind;
  u32 value;
  u64 bytes, start, end;
  u32 device, context, stream, correlation;
};
struct ExternalRecord {  // CUpti_ActivityExternalCorrelation
  u32 kind;
  u32 external_kind;
  u64 id;
  u32 correlation;
  u32 reserved;
};

using std::size_t;
using BufferRequested = void (*)(u8** buffer, size_t* size, size_t* most_records);
using BufferCompleted = void (*)(void* context, u32 stream, u8* buffer, size_t size, size_t valid);
using Callback = void (*)(void* data, int domain, u32 id, const void* what);

}  // namespace wt::profiler::cupti
