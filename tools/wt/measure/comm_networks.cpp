#include "warptape/tools/wt/measure/comm_networks.h"

#include <utility>

#include "warptape/core/str.h"

namespace wt::tools {
namespace {

// Parts of a backward follow the FLOPs of their layers: convolutions' sizes at 224 x 224.
const std::vector<GradientPart> kResNet50 = {
    {2049000, 0, 0.001},       // fc
    {14964736, 0.001, 0.199},  // layer4
    {7098368, 0.199, 0.557},   // layer3
    {1219584, 0.557, 0.806},   // layer2
    {215808, 0.806, 0.971},    // layer1
    {9536, 0.971, 1},          // stem
};
constexpr double kResNet50ImagesPerSecond = 7010;

// The output layer's weight is the embedding's: its gradient is whole at the end.
PaperNetwork gpt2(std::string name, int layers, double width, double step_ms) {
  constexpr double vocabulary = 50304, context = 1024;  // padded to 64
  const double block = 12 * width * width + 13 * width;
  const double blocks = layers * block + 2 * width, embedding = (vocabulary + context) * width;
  const double head = vocabulary * width / (layers * block + vocabulary * width);
  return {
      .name = std::move(name), .step_ms = step_ms, .parts = {{blocks, head, 1}, {embedding, 1, 1}}};
}

}  // namespace

double PaperNetwork::parameters() const {
  double all = 0;
  for (const GradientPart& p : parts) all += p.parameters;
  return all;
}

PaperNetwork resnet50(int images) {
  return {.name = str("ResNet-50, ", images, " images"),
          .step_ms = images / kResNet50ImagesPerSecond * 1e3,
          .parts = kResNet50};
}

PaperNetwork gpt2_small() { return gpt2("GPT-2 124M, 65,536 tokens", 12, 768, 140); }

PaperNetwork gpt2_xl() {
  constexpr double flops_a_token = 6 * 1557686400.0 + 6.0 * 48 * 1024 * 1600;
  constexpr double tflop_s = 376, tokens = 16384;  // as the small one reaches
  return gpt2("GPT-2 1.5B, 16,384 tokens", 48, 1600, tokens * flops_a_token / tflop_s * 1e-9);
}

PaperNetwork inception_v3() {
  return {.name = "Inception V3, 64 images",
          .step_ms = 64 / 142.0 * 1e3,
          .parts = {{2049000, 0, 0.001}, {21785568, 0.001, 1}}};
}

PaperNetwork vgg16() {
  return {.name = "VGG-16, 64 images",
          .step_ms = 64 / 154.0 * 1e3,
          .parts = {{123642856, 0, 0.01}, {14714688, 0.01, 1}}};
}

}  // namespace wt::tools
