// CUPTI's activity records for those who profile: one for the process, which CUPTI has one user of.
// Internal.
#pragma once
#include <string>

#include "warptape/core/cupti/layout.h"

namespace wt::profiler::cupti {

// Something that a device did.
struct Record {
  enum class What : u8 { kernel, copy, fill };
  What what = What::kernel;
  u8 copy_kind = 0;  // CUpti_ActivityMemcpyKind
  u32 device = 0, context = 0, stream = 0;
  u32 correlation = 0;     // of the call that queued it; all of a graph's replay have one
  u64 begin = 0, end = 0;  // of CUPTI's clock
  i64 bytes = 0;           // copies and fills
  const char* name = "";   // kernels: interned_function()
};

// Hears of all records of the process, on a thread of CUPTI's.
class Sink {
 public:
  virtual void did(const Record& r) noexcept = 0;
  // The call with this correlation was made while `id` was the newest of the kind on its thread.
  virtual void called(u32 external_kind, u64 id, u32 correlation) noexcept = 0;
  virtual void lost(i64 records) noexcept = 0;

 protected:
  ~Sink() = default;
};

struct Started {
  bool on = false;
  std::string why_not;    // where it is not
  bool broken = false;    // CUPTI is there, and refuses
  u32 external_kind = 0;  // the sink's own
};
// From now on `s` hears. Up to as many sinks as there are external kinds.
Started start(Sink& s);
// Nothing more comes to it.
void stop(Sink& s) noexcept;
// All records of what has ended come before this returns.
void flush() noexcept;
// While there is a sink:
void push(u32 external_kind, u64 id) noexcept;
void pop(u32 external_kind) noexcept;
// A moment on CUPTI's clock and on the host's, which is known to `within` ns.
struct Moment {
  i64 cupti = 0, steady = 0, within = 0;
};
Moment moment() noexcept;

}  // namespace wt::profiler::cupti
