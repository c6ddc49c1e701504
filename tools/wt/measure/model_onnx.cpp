#include "warptape/tools/wt/measure/model_onnx.h"

#include "warptape/autograd/onnx.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"
#include "warptape/nn/checkpoint_file.h"

namespace wt::tools {

std::string write_onnx(const models::ModelInfo& model, const std::string& folder,
                       const ModelOnnxOptions& o) {
  manual_seed(0);
  models::AnyModel net = model.make(model.classes);
  if (!o.weights.empty()) nn::load_model(net, o.weights);
  net.eval();
  const NoGrad no_grad;
  const models::AnyModel::Inputs in = model.made_up_inputs(2);
  onnx::SaveOptions options{.names = onnx::names_of(net)};
  for (size_t i = 0; i < in.size(); ++i) {
    options.input_names.push_back(in.size() == 1 ? "input" : str("input_", i));
    options.dynamic_axes[options.input_names.back()][0] = "batch";
  }
  const std::string path = str(folder, "/", model.name, ".onnx");
  if (in.size() == 1)
    onnx::save(
        path, [&](const Tensor& x) { return net(x); }, {in[0]}, options);
  else
    onnx::save(
        path,
        [&](const Tensor& x, const Tensor& y) {
          return net({x, y});
        },
        {in.at(0), in.at(1)}, options);
  if (!o.sample) return path;
  std::vector<nn::NamedTensor> sample;
  for (size_t i = 0; i < in.size(); ++i) sample.push_back({str("in.", i), in[i]});
  sample.push_back({"out.0", net(in)});
  nn::save_tensors(str(folder, "/", model.name, ".safetensors"), sample);
  return path;
}

}  // namespace wt::tools
