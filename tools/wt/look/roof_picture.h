// The roofline of a modelled GPU with a launch on it.
#pragma once
#include <string>

#include "warptape/tools/wt/look/look.h"

namespace wt::tools {

// From the datasheets; docs/gpu_model.md.
struct LookGpu {
  const char* name = "H200";
  double memory_gb_s = 4800, f32_gflop_s = 61800, f64_gflop_s = 30900, tensor_gflop_s = 989000;
};

struct RoofPoint {
  double intensity = 0;  // FLOPs a byte
  double gflop_s = 0;    // that the roof allows there
  bool by_memory = false;
};
// Of a kernel that moves so many bytes: its FMA units' roof by dtype, or the tensor cores'.
RoofPoint under_roof(double flops, double bytes, const std::string& dtype, bool tensor,
                     const LookGpu& gpu = {});

// GFLOP/s of its FMA units, or of the tensor cores.
double peak_of(const std::string& dtype, bool tensor, const LookGpu& gpu = {});

// <svg>; "" for a launch that computes nothing.
std::string roof_picture(const Look& look, const LookGpu& gpu = {});

// Whether the launch's products are the tensor cores' by its machine code.
bool on_tensor_cores(const Look& look);

}  // namespace wt::tools
