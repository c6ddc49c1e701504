// What traps.cpp includes; check.sh precompiles it. An include guard, not #pragma once: the
// precompiled copy has another path.
#ifndef WT_TESTS_COMPILE_FAIL_TRAPS_H
#define WT_TESTS_COMPILE_FAIL_TRAPS_H
#include <warptape/autograd/grads.h>
#include <warptape/autograd/loss.h>
#include <warptape/autograd/ops.h>
#include <warptape/core/async_copy.h>
#include <warptape/core/factories.h>
#include <warptape/core/mode.h>
#include <warptape/core/progress.h>
#include <warptape/data/combine.h>
#include <warptape/data/lmdb.h>
#include <warptape/data/loader.h>
#include <warptape/nn/layers.h>
#include <warptape/optim/optimizer.h>
#include <warptape/optim/train_step.h>

#include <ostream>
#include <vector>

#endif
