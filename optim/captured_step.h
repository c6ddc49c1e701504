// What TrainStep{.graph = true} keeps; optim/train_step.h says what it does. Internal.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warptape/core/graph_capture.h"
#include "warptape/optim/train_step.h"

namespace wt {

// A registered buffer as it was when the step began.
struct TrainStep::Snapshot {
  std::shared_ptr<nn::detail::ParamSlot> slot;
  Tensor tensor;  // what sat in the slot: a forward may put another tensor there
  Tensor copy;
  u32 version = 0;
  const void* data = nullptr;

  bool is_current() const {
    return slot->tensor.same_as(tensor) && copy.defined() && tensor.impl()->data == data &&
           tensor.version() == version;
  }
  void remember() {
    version = tensor.version();
    data = tensor.impl()->data;
  }
};

// The steps with one kind of batch in one ambient state.
struct TrainStep::CapturedEntry {
  // What a graph stands for.
  struct Key {
    const void* kind;  // of batch and loss_of
    i64 parts;
    std::vector<std::pair<Shape, DType>> tensors;  // of the batch
    std::vector<char> modules;                     // which are in training
    detail::AmbientKey ambient;
    friend bool operator==(const Key&, const Key&) = default;
  };
  enum class Phase { warm_up, capture, replay, eager };

  Key key;
  Phase phase = Phase::warm_up;
  int tries = 0;
  std::unique_ptr<Graph> graph{};
  std::vector<Tensor> slots{};  // the batch
  // What the graph was captured with, and what a replay does on the host.
  u64 generation = 0, seed = 0, fork = 0;
  const void* block = nullptr;
  const i32* mailbox = nullptr;
  std::vector<Snapshot> buffers{};         // all
  std::vector<char> changed{}, written{};  // which buffers and gradients it writes
  i64 dropout_calls = 0;
};

struct TrainStep::CapturedSteps {
  using Entry = CapturedEntry;
  using Phase = CapturedEntry::Phase;
  using Key = CapturedEntry::Key;

  explicit CapturedSteps(const TrainStepOptions& o);
  Entry& entry_of(Key key);
  // Makes the entry's graph. False: the device has none, and steps are eager.
  bool prepare(Entry& e, Device d);
  void runs_eagerly(const std::string& why);

  i64 limit;
  std::optional<Device> device{};  // of the last step
  bool has_run = false, off = false;
  std::string why_eager;
  std::vector<std::unique_ptr<Entry>> entries;
};

}  // namespace wt
