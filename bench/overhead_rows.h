// What the files behind `wt bench overhead` share. Internal.
#pragma once
#include <functional>

#include "warptape/bench/overhead.h"
#include "warptape/core/tensor.h"
#include "warptape/data/dataset.h"

namespace wt::bench {

double quantile(std::vector<double> v, double q);
// `units` operators or steps a call.
OverheadRow measure(const OverheadOptions& o, const char* name, const char* shape, double units,
                    const std::function<void()>& call);

// The numbers that bench/peers/common.py begins with: n floats in [-scale, scale), a hash of the
// index; and n bytes of the same hash as i64.
Tensor hashed(const Shape& shape, u64 seed, double scale);
Tensor hashed_bytes(const Shape& shape, u64 seed);

inline constexpr int kCheckSteps = 20;
// A row of whole steps, with the loss after kCheckSteps of them as its check value.
OverheadRow measure_steps(const OverheadOptions& o, const char* name, const char* shape,
                          const std::function<void()>& step, const std::function<double()>& loss);
// x [n, 1, 28, 28] and labels below ten.
data::Batch hashed_images(i64 n);

// fashion_step.cpp
OverheadRow fashion_cnn(const OverheadOptions& o);
// gpt_step.cpp
OverheadRow gpt_small(const OverheadOptions& o);
// adam_step.cpp
OverheadRow adam_step(const OverheadOptions& o);
// adam_launches.cpp
std::vector<OverheadRow> adam_launches(const OverheadOptions& o);
// watched_step.cpp
std::vector<OverheadRow> watched_step(const OverheadOptions& o);

}  // namespace wt::bench
