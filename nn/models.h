// Models by name, with the names of the parameters that PyTorch's libraries give them.
//
//   models::AnyModel net = models::make("resnet18", {.classes = 10});
//   Tensor logits = net(images);
//   models::AnyModel trained = models::load("resnet18", "resnet18.safetensors");
//   models::save(trained, "mine.safetensors");
//
// Whose type is known is made without the name: models::resnet18({.classes = 10}). docs/models.md
// has the table; `wt models` prints it.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/autograd/loss.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/cifar_speedrun.h"
#include "warptape/nn/deep_sdf.h"
#include "warptape/nn/efficientnet.h"
#include "warptape/nn/gpt2.h"
#include "warptape/nn/mobilenet.h"
#include "warptape/nn/pinn.h"
#include "warptape/nn/pointnet.h"
#include "warptape/nn/resnet.h"
#include "warptape/nn/seq2seq.h"
#include "warptape/nn/unet.h"
#include "warptape/nn/vision_transformer.h"

namespace wt::models {

// A model whose type is not known, called with what it takes. Like every module a handle; its names
// are the model's own.
class WT_API AnyModel : public nn::Derived<AnyModel, nn::ModuleBase> {
 public:
  // All that a model takes, in the order of ModelInfo::inputs, each with the axis of the samples.
  using Inputs = std::vector<Tensor>;
  // How the model is called.
  using Call = std::function<Tensor(const Inputs&)>;
  // A handle to `model` that is called through `call`; its type and names are the model's.
  AnyModel(const nn::ModuleBase& model, Call call);
  // Calls the model, with its hooks. Throws UsageError for another number of inputs than it takes.
  Tensor operator()(const Inputs& inputs) const { return (*call_)(inputs); }
  Tensor operator()(const Tensor& x) const { return (*call_)({x}); }

 private:
  nn::detail::Shared<Call> call_;
};

// What a model of the table is made with.
struct MakeOptions {
  i64 classes = 0;  // or what the model has in their place (ModelInfo::classes); 0: its own number
  WT_MISNAMED(num_classes, classes);
};

// One of what a model takes, without the axis of the samples.
struct ModelInput {
  Shape shape;  // of one sample: {3, 224, 224}
  i64 ids = 0;  // above 0: i64 numbers in [0, ids); else f32
};
// What a model's outputs are, and so which loss it is trained with: logits [N, ..., classes] and
// logits_of_pixels [N, classes, H, W] with cross_entropy(), numbers with mse_loss().
enum class ModelOutput : u8 { logits, logits_of_pixels, numbers };

// A row of the table of models.
struct ModelInfo {
  const char* name;                // "resnet18": what make() and load() take
  const char* summary;             // what it is, in a line
  const char* weights;             // where trained ones come from, and under which names
  std::vector<ModelInput> inputs;  // all that it takes, in order
  i64 classes;                     // that it has if not told otherwise
  const char* classes_are;         // what MakeOptions::classes is of this model
  ModelOutput output;              // what it gives
  AnyModel (*make)(i64 classes);   // makes one, on the default device, with so many classes
  // What files have as a model of this kind takes it, a tensor at a time; null: as it is.
  std::vector<nn::NamedTensor> (*state_for)(const nn::ModuleBase& model,
                                            const std::vector<nn::NamedTensor>& state) = nullptr;

  // Makes up the inputs of a batch on the default device: numbers from the generator, ids 0.
  AnyModel::Inputs made_up_inputs(i64 batch) const;
  // A loss of this model's kind for its outputs, with targets of 0: for measuring and predicting.
  Loss made_up_loss(Tensor output) const;
};
// All models that make() and load() know, in the order of docs/models.md.
WT_API const std::vector<ModelInfo>& all_models();
// The model of a name. Throws UsageError, with the near name, for one that is not there.
WT_API const ModelInfo& find_model(std::string_view name);
// Makes a model by name, on the default device, in training mode, with random beginnings. Throws as
// find_model(), and UsageError for classes below 0.
WT_API AnyModel make(std::string_view name, const MakeOptions& o = {});

// --- weights ---

// How load() and load_weights() take weights.
struct LoadOptions {
  i64 classes = 0;          // as MakeOptions; load_weights() does not look at it
  bool strict = true;       // false: what does not fit keeps its random beginning
  ParseLimits limits = {};  // what a file may ask for
  WT_MISNAMED(num_classes, classes);
};
// Makes a model by name and loads its weights, on the default device, in training mode. `weights`
// is what PyTorch's library of the model has, as safetensors (tools/fetch_weights.sh gets it,
// tools/convert_pt.py makes it of a .pth): a file, or a folder or index of several
// (nn/weight_files.h); what save() wrote; a checkpoint of a training run; or a GGUF file of GPT-2
// (nn/gguf.h). Names and layouts are looked after: GPT-2's with and without
// "transformer.", its masks and its tied head; counts of batches may be missing. Throws UsageError
// for weights of another architecture, with all that is missing, unexpected or of another shape and
// with the model that they look like; DataError as nn::load_tensors, UsageError as make().
WT_API AnyModel load(std::string_view name, const std::string& weights, const LoadOptions& o = {});
// Loads weights into a model that is there, made by hand too: `name` says whose weights they are.
// Returns what did not fit where that is allowed; throws as load(), and then nothing was loaded.
WT_API nn::LoadStateResult load_weights(const nn::ModuleBase& model, std::string_view name,
                                        const std::string& weights, const LoadOptions& o = {});

// How save() writes.
struct SaveOptions {
  u64 max_shard_bytes = 0;  // above 0: `path` is a folder with files of this size and an index
  nn::Metadata metadata{};  // pairs of text for the file, beside the library's own
};
// Writes a model for the library that its names are from, as safetensors: every tensor under its
// name, tied ones once, under the name that was registered first, as transformers does (the others
// are told in the metadata). Throws CheckpointError when it cannot be written, UsageError for a key
// of the metadata that is taken; what was there before stays.
WT_API void save(const nn::ModuleBase& model, const std::string& path, const SaveOptions& o = {});

}  // namespace wt::models
