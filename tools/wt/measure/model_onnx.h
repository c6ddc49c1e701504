// A model of nn/models.h as an ONNX file. Behind `wt models --onnx`.
#pragma once
#include <string>

#include "warptape/nn/models.h"

namespace wt::tools {

struct ModelOnnxOptions {
  std::string weights{};  // a file of nn::load_model(); none: beginnings of seed 0
  // Beside the model what goes in and comes out of it, NAME.safetensors with "in.0" and "out.0": to
  // check another program by.
  bool sample = false;
};
// FOLDER/NAME.onnx, of any batch; returns its path. Throws what onnx::save(), nn::load_model() and
// nn::save_tensors() throw.
std::string write_onnx(const models::ModelInfo& model, const std::string& folder,
                       const ModelOnnxOptions& o);

}  // namespace wt::tools
