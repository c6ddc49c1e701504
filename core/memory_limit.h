// Less memory than there is, and what is known of a request that failed.
#pragma once
#include <string>

#include "warptape/core/device.h"
#include "warptape/core/macros.h"

namespace wt::memory {

// Tensors of this thread on `d` together may hold so many bytes; a request for more throws
// OutOfMemory as if the device had no others. 0: no limit. A meta device has limits of its own.
WT_API void set_limit(Device d, i64 bytes);
WT_API i64 limit(Device d);
class WT_GUARD LimitScope {
 public:
  [[nodiscard]] LimitScope(Device d, i64 bytes) : device_(d), before_(limit(d)) {
    set_limit(d, bytes);
  }
  ~LimitScope() { set_limit(device_, before_); }
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;

 private:
  Device device_;
  i64 before_;
};

// The newest OutOfMemory of an allocation on this thread, in numbers.
struct Failure {
  Device device{};
  i64 asked = 0;  // 0: there was none
  i64 held = 0;   // by tensors on the device
  i64 room = 0;   // what could still be had then, as far as it is known
};
WT_API Failure last_failure();
// Bytes as messages have them: "312 KiB", "40 MiB".
WT_API std::string bytes_text(i64 bytes);

}  // namespace wt::memory
