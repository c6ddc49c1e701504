// The networks of comm_paper.cpp: parameters in the order of backward. Internal.
#pragma once
#include "warptape/tools/wt/measure/comm_paper.h"

namespace wt::tools {

// `images` a GPU at the rate of a GPU in MLPerf Training 3.0 on 8 H100.
PaperNetwork resnet50(int images);
PaperNetwork gpt2_small();  // 65,536 tokens a GPU
PaperNetwork gpt2_xl();     // 16,384
// Horovod's: 64 images a Tesla P100.
PaperNetwork inception_v3();
PaperNetwork vgg16();

}  // namespace wt::tools
