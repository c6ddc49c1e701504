// The fast code of kernels/image/image_batch.cpp's table.
#pragma once
#include "warptape/kernels/image_batch.h"

namespace wt {

void image_batch_rows(const ImageBatchArgs& a, const Launch& l);
const char* image_batch_rows_refusal(const ImageBatchArgs& a);

}  // namespace wt
