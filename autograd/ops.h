// Every differentiable function: the library's table of contents. A family has its own header; the
// operators are defined in autograd/ops_<family>.cpp beside their backward. Files of the library
// include the families they use.
#pragma once
#include "warptape/autograd/ops_arrange.h"
#include "warptape/autograd/ops_attention.h"
#include "warptape/autograd/ops_diagonal.h"
#include "warptape/autograd/ops_distance.h"
#include "warptape/autograd/ops_conv.h"
#include "warptape/autograd/ops_dropout.h"
#include "warptape/autograd/ops_elementwise_loss.h"
#include "warptape/autograd/ops_gather.h"
#include "warptape/autograd/ops_index.h"
#include "warptape/autograd/ops_loss.h"
#include "warptape/autograd/ops_matmul.h"
#include "warptape/autograd/ops_norm.h"
#include "warptape/autograd/ops_pad.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_reduce.h"
#include "warptape/autograd/ops_scan.h"
#include "warptape/autograd/ops_shape.h"
#include "warptape/autograd/ops_softmax.h"
#include "warptape/autograd/ops_sort.h"
#include "warptape/autograd/ops_stats.h"
