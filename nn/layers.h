// All layers. Defaults and names are PyTorch's; options are plain aggregates.
#pragma once
#include "warptape/nn/activations.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/conv.h"
#include "warptape/nn/dropout.h"
#include "warptape/nn/embedding.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/loss.h"
#include "warptape/nn/norms.h"
#include "warptape/nn/pooling.h"
#include "warptape/nn/upsample.h"
