// A libFuzzer program for one reader, takes_x() of readers.h: WT_FUZZ_READER (clang,
// WARPTAPE_FLAVOURS=fuzz).
#include <cstddef>
#include <cstdint>

#include "warptape/tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  wt_test::WT_FUZZ_READER({reinterpret_cast<const char*>(data), size});
  return 0;
}
