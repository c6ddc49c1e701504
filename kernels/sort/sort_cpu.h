// The variant of kernels/sort/sort.cpp with threads (sort_cpu.cpp).
#pragma once
#include "warptape/kernels/sort.h"

namespace wt {

// The reference's loops, which kernels/sort/sort.cpp defines. Scratch: sort_scratch() bytes.
i64 sort_row_count(const SortArgs& a);
i64 sort_scratch(const SortArgs& a);
void sort_rows(const SortArgs& a, void* scratch, i64 begin, i64 end);

i64 sort_threaded_workspace(const SortArgs& a);
void sort_threaded(const SortArgs& a, const Launch& l);

}  // namespace wt
