// What `wt bench overlap` and `scaling` train (bench/perceptron.h). Internal.
#pragma once
#include "warptape/core/types.h"

namespace wt::bench {

struct PerceptronOptions {
  i64 width = 512, layers = 4;      // of hidden layers
  i64 batch = 64;                   // of a rank
  i64 bucket_bytes = i64{5} << 18;  // of gradients that are added up at once: a hidden layer
};

}  // namespace wt::bench
