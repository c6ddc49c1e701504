// The variant of kernels/sort/scan.cpp with threads (scan_cpu.cpp).
#pragma once
#include "warptape/kernels/scan.h"

namespace wt {

// The reference's loops, which kernels/sort/scan.cpp defines.
i64 scan_row_count(const ScanArgs& a);
void scan_rows(const ScanArgs& a, i64 begin, i64 end);

void scan_threaded(const ScanArgs& a, const Launch& l);

}  // namespace wt
