// Our declarations of CUPTI's records against the header of a toolkit, where there is one.
#include "warptape/core/cupti/layout.h"

#include <cstddef>

#include "warptape/tests/support/catch.h"

#if __has_include(<cupti_activity.h>)
#include <cupti_activity.h>
#include <cupti_callbacks.h>

using namespace wt::profiler::cupti;

#define WT_SAME(ours, our_field, theirs, their_field) \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field))
#define WT_SAME_TIMES(ours, theirs)          \
  WT_SAME(ours, start, theirs, start);       \
  WT_SAME(ours, end, theirs, end);           \
  WT_SAME(ours, device, theirs, deviceId);   \
  WT_SAME(ours, context, theirs, contextId); \
  WT_SAME(ours, stream, theirs, streamId);   \
  WT_SAME(ours, correlation, theirs, correlationId)

#if CUPTI_API_VERSION >= 130000
using NewKernel = CUpti_ActivityKernel10;
using NewMemcpy = CUpti_ActivityMemcpy6;
#else
using NewKernel = CUpti_ActivityKernel9;
using NewMemcpy = CUpti_ActivityMemcpy5;
#endif
WT_SAME_TIMES(KernelRecord, NewKernel);
WT_SAME(KernelRecord, name, NewKernel, name);
WT_SAME_TIMES(MemcpyRecord, NewMemcpy);
WT_SAME(MemcpyRecord, copy_kind, NewMemcpy, copyKind);
WT_SAME(MemcpyRecord, bytes, NewMemcpy, bytes);
WT_SAME_TIMES(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4);
WT_SAME(MemcpyPeerRecord, copy_kind, CUpti_ActivityMemcpyPtoP4, copyKind);
WT_SAME(MemcpyPeerRecord, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
WT_SAME_TIMES(MemsetRecord, CUpti_ActivityMemset4);
WT_SAME(MemsetRecord, bytes, CUpti_ActivityMemset4, bytes);
WT_SAME(ExternalRecord, external_kind, CUpti_ActivityExternalCorrelation, externalKind);
WT_SAME(ExternalRecord, id, CUpti_ActivityExternalCorrelation, externalId);
WT_SAME(ExternalRecord, correlation, CUpti_ActivityExternalCorrelation, correlationId);

static_assert(int(kSuccess) == int(CUPTI_SUCCESS));
static_assert(int(kNoMoreRecords) == int(CUPTI_ERROR_MAX_LIMIT_REACHED));
static_assert(int(kMemcpy) == int(CUPTI_ACTIVITY_KIND_MEMCPY));
static_assert(int(kMemset) == int(CUPTI_ACTIVITY_KIND_MEMSET));
static_assert(int(kDriver) == int(CUPTI_ACTIVITY_KIND_DRIVER));
static_assert(int(kRuntime) == int(CUPTI_ACTIVITY_KIND_RUNTIME));
static_assert(int(kKernel) == int(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
static_assert(int(kMemcpyPeer) == int(CUPTI_ACTIVITY_KIND_MEMCPY2));
static_assert(int(kExternalCorrelation) == int(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION));
static_assert(int(kFlushForced) == int(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
#endif

TEST_CASE("cupti: records have their fields where CUPTI's documentation has them") {
  using namespace wt::profiler::cupti;
  CHECK(offsetof(KernelRecord, start) == 16);
  CHECK(offsetof(KernelRecord, correlation) == 92);
  CHECK(offsetof(KernelRecord, name) == 104);
  CHECK(offsetof(MemcpyRecord, correlation) == 44);
  CHECK(offsetof(MemcpyPeerRecord, correlation) == 60);
  CHECK(offsetof(MemsetRecord, correlation) == 44);
  CHECK(sizeof(ExternalRecord) == 24);
}
