// What TrainStep{.graph = true} keeps; optim/train_step.h says what it does. Internal.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warptape/core/graph/graph_capture.h"
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
struct TrainStep::Snapshots {
  std::vector<Snapshot> list{};
};

// The steps with one kind of batch in one ambient state, on every rank.
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
  std::vector<u64> kinds;  // of all ranks' batches, each rank's by its own numbers
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
  // With a reducer: a replay has come past the copies of the buffers. Said by the graph itself,
  // where it can; always false elsewhere.
  std::shared_ptr<bool> copied = std::make_shared<bool>(false);
};

// Ranks are in one phase of one entry at a time: what a rank has captured, the others have captured
// with it (NCCL asks for that), and nobody waits for a rank that went another way. They agree on
// the host before each step, and once more after a capture.
struct TrainStep::CapturedSteps {
  using Entry = CapturedEntry;
  using Phase = CapturedEntry::Phase;
  using Key = CapturedEntry::Key;

  explicit CapturedSteps(const TrainStepOptions& o);
  // What this rank says of its step, and what follows from all ranks' words.
  struct Agreed {
    std::vector<u64> kinds;
    bool eager = false;  // some rank's steps are
  };
  Agreed agree(optim::Reducer& reducer, u64 kind, bool restarts, bool stale, bool eager);
  // A capture's outcome, of the rank that came off worst.
  Phase agree_on_capture(optim::Reducer& reducer, const Entry& e);
  u64 number_of(const Key& key);
  Entry& entry_of(const Key& key, const std::vector<u64>& kinds);
  // Makes the entry's graph. False: the device has none, and steps are eager.
  bool prepare(Entry& e, Device d);
  void runs_eagerly(const std::string& why);

  i64 limit;
  std::optional<Device> device{};  // of the last step
  bool has_run = false, off = false;
  std::string why_eager;
  std::vector<Key> kinds;  // this rank's, by their numbers
  std::vector<std::unique_ptr<Entry>> entries;
};

}  // namespace wt
