// Where tensors live.
#pragma once
#include <iosfwd>
#include <string>

#include "warptape/core/device_type.h"

namespace wt {

WT_API std::string to_string(Device d);  // "cpu", "simt", "cuda:0", "meta:cpu"
WT_API std::ostream& operator<<(std::ostream& out, Device d);

namespace cuda {
// True when this build has cuda, the driver is there and at least one device answers.
WT_API bool is_available();
// 0 where is_available() is false; `why_not` then says what is missing and how to get it.
WT_API int device_count();
WT_API std::string why_not();

// What a device is made of. Throws PlacementError or NotAvailable, as require_available() does.
struct Properties {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  i64 memory_bytes = 0, free_bytes = 0;  // of the whole device; free: now, for all processes
  i64 l2_bytes = 0;
  i64 shared_bytes = 0;         // the most a block can ask for
  int driver = 0, runtime = 0;  // CUDA versions: 13000 is 13.0
};
WT_API Properties properties(int index = 0);
}  // namespace cuda

// Throws PlacementError (an index that does not exist) or NotAvailable (no driver, not built) with
// the reason; returns quietly for a device that can be used.
WT_API void require_available(Device d);

// Threads of the cpu's loops and BLAS, at least 1. Default: OMP_NUM_THREADS, else one a processor.
WT_API void set_num_threads(int n);
WT_API int num_threads();

}  // namespace wt
