// Checkpoints of which every rank writes a part.
#include "warptape/dist/sharded_checkpoint.h"

#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/child.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt_test;

namespace {

using Tensors = std::vector<nn::NamedTensor>;

// Adds in the order of ranks, whatever the length of a part.
const dist::LocalOptions& in_order() {
  static const dist::LocalOptions options{.algorithm = dist::Algorithm::chain};
  return options;
}

bool same(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (const nn::NamedTensor& t : a) {
    const auto u =
        std::find_if(b.begin(), b.end(), [&](const auto& x) { return x.name == t.name; });
    if (u == b.end() || u->tensor.shape() != t.tensor.shape() ||
        u->tensor.dtype() != t.tensor.dtype() ||
        u->tensor.to_vector<double>() != t.tensor.to_vector<double>())
      return false;
  }
  return true;
}

Tensors kept(const Tensors& all) {
  Tensors copies;
  for (const nn::NamedTensor& t : all)
    copies.push_back({t.name, t.tensor.detach().to(Device::cpu()).clone()});
  return copies;
}

// A training, where it is to be begun, and what becomes of it.
struct Training {
  int ranks = 2, zero = 2;
  i64 from = 0, to = 3;
  const Tensors* begin = nullptr;
  std::string save_as{};  // by each rank its part
};

// Of rank 0: its model and the whole state of its optimizer.
Tensors run(const Training& t) {
  Tensors end;
  all_ranks(
      t.ranks,
      [&](Communicator& comm) {
        manual_seed(7);
        Mlp net;
        optim::AdamW opt{net, {.lr = 0.01, .eps = 0.1}};
        DataParallel ddp{net, opt, comm, {.bucket_bytes = 600, .zero = t.zero}};
        TrainStep step{net, opt, {.reducer = &ddp, .ema_decay = 0.5}};
        if (t.begin) {
          net.load_state_dict(nn::with_prefix(*t.begin, "model."));
          Tensors state = nn::add_prefix(nn::with_prefix(*t.begin, "optim."), "optim.");
          for (auto& e : nn::add_prefix(nn::with_prefix(*t.begin, "ema."), "ema."))
            state.push_back(e);
          opt.load_state(state);
        }
        for (i64 i = t.from; i < t.to; ++i)
          step(part_of(Mlp::data(12, i), comm.rank(), comm.size()),
               [&](const Batch& b) { return squares(net, b); });
        const Tensors model = nn::add_prefix(net.state_dict(), "model.");
        if (!t.save_as.empty())
          dist::save_sharded(t.save_as, comm, opt, model, {{"steps", std::to_string(t.to)}});
        const Tensors state = opt.state();
        if (comm.rank() != 0) return;
        end = kept(model);
        for (const auto& s : kept(state)) end.push_back(s);
      },
      in_order());
  return end;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& f : std::filesystem::directory_iterator(folder))
    names.push_back(f.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("sharded checkpoint: whole again at any number of ranks", "[dist]") {
  for (const int zero : {0, 1, 2})
    for (const int n : {1, 2, 3, 8}) {
      CAPTURE(zero, n);
      const TempDir dir;
      const std::string path = dir / "ckpt";
      const Tensors end = run({.ranks = n, .zero = zero, .save_as = path});
      const nn::LoadedTensors loaded = dist::load_sharded(path);
      CHECK(same(loaded.tensors, end));
      CHECK(loaded.metadata == nn::Metadata{{"steps", "3"}});
      CHECK(files_in(dir.path).size() == size_t(1 + n));
      if (n != 3) continue;
      const Tensors whole = run({.ranks = 2, .zero = 0, .from = 3, .to = 5, .begin = &end});
      CHECK(same(run({.ranks = 2, .from = 3, .to = 5, .begin = &loaded.tensors}), whole));
    }
}

TEST_CASE("sharded checkpoint: no rank writes much more than its part", "[dist]") {
  const TempDir dir;
  run({.ranks = 4, .save_as = dir / "ckpt"});
  std::uintmax_t all = 0, largest = 0;
  for (const std::string& name : files_in(dir.path)) {
    all += std::filesystem::file_size(dir / name);
    largest = std::max(largest, std::filesystem::file_size(dir / name));
  }
  // Of 2 KB of parameters, averages and two states each: names and checksums take as much again.
  CHECK(largest < all * 2 / 5);
}

TEST_CASE("sharded checkpoint: tensors without elements, scalars, and names with an @", "[dist]") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const Tensors common{{"none", zeros({0, 3})},
                       {"a@b@7", arange(5)},
                       {"one", tensor(2.5, {.dtype = DType::f64})},
                       {"turned", arange(6).reshape({2, 3}).transpose(0, 1)},
                       {"bits", tensor(std::vector<double>{0, 1}).to(DType::boolean)}};
  all_ranks(2, [&](Communicator& comm) {
    struct Net : nn::Module<Net> {
      nn::Param none = add("none", zeros({0, 4}));
      nn::Param one = add("one", ones({}));
    } net;
    optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
    DataParallel ddp{net, opt, comm, {.zero = 1}};
    dist::save_sharded(path, comm, opt, common);
  });
  const nn::LoadedTensors loaded = dist::load_sharded(path);
  for (const nn::NamedTensor& t : common) {
    CAPTURE(t.name);
    const Tensor* const u = loaded.find(t.name);
    REQUIRE(u);
    CHECK(same({{t.name, *u}}, {t}));
  }
  REQUIRE(loaded.find("optim.momentum.none"));
  CHECK(loaded.find("optim.momentum.none")->shape() == Shape{0, 4});
  CHECK(loaded.find("optim.momentum.one")->shape() == Shape{});
}

TEST_CASE(
    "sharded checkpoint: at every write that fails all ranks are told, and the old one is "
    "there",
    "[dist]") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const Tensors first = run({.save_as = path});
  const Tensors second = run({.to = 5});
  int failures = 0;
  for (int nth = 1;; ++nth) {
    CAPTURE(nth);
    std::vector<std::string> texts(2);
    bool reached = false;
    {
      const FaultyFiles faults(nth, ENOSPC);
      const auto thrown = on_ranks(2, [&](Communicator& comm) {
        Mlp net;
        optim::AdamW opt{net, {.lr = 0.01}};
        DataParallel ddp{net, opt, comm, {.zero = 2}};
        dist::save_sharded(path, comm, opt, nn::add_prefix(net.state_dict(), "model."));
      });
      for (size_t r = 0; r < 2; ++r) texts[r] = text_of(thrown[r]);
      reached = faults.reached();
    }
    if (!reached) {
      CHECK(texts == std::vector<std::string>(2));
      break;
    }
    CHECK(texts[0] == texts[1]);
    if (texts[0].empty()) continue;  // what failed was a close, or a file's mode
    ++failures;
    CHECK(mentions(texts[0], "CheckpointError: [save_sharded] rank "));
    // Old, or new where the new one is there and may only not have reached the disk.
    const nn::LoadedTensors there = dist::load_sharded(path);
    if (!same(there.tensors, first)) CHECK(there.metadata.empty());
    run({.save_as = path});
    REQUIRE(same(dist::load_sharded(path).tensors, first));
    CHECK(files_in(dir.path).size() == 3);
  }
  CHECK(failures > 10);
  run({.to = 5, .save_as = path});
  CHECK(same(dist::load_sharded(path).tensors, second));
}

TEST_CASE("sharded checkpoint: wherever the process is killed it is the old one or the new one",
          "[dist]") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const Tensors first = run({.save_as = path}), second = run({.to = 5});
  int old_ones = 0, new_ones = 0;
  for (int nth = 1;; nth += 2) {
    CAPTURE(nth);
    const int code = in_child([&] {
      const FaultyFiles faults(nth, 0);
      run({.to = 5, .save_as = path});
      return faults.reached() ? 5 : 4;
    });
    const Tensors there = dist::load_sharded(path).tensors;
    const bool is_old = same(there, first);
    REQUIRE((is_old || same(there, second)));
    if (code == 4) break;
    REQUIRE(code == 0);
    (is_old ? old_ones : new_ones) += 1;
    run({.save_as = path});
    i64 parts = 0;  // beside them may be what a killed process had begun of an index
    for (const std::string& name : files_in(dir.path)) parts += name.starts_with("ckpt.part-");
    REQUIRE(parts == 2);
  }
  CHECK(old_ones > 5);
  CHECK(new_ones > 0);
}

TEST_CASE("sharded checkpoint: what is no checkpoint, or not all of one", "[dist]") {
  const TempDir dir;
  const std::string path = dir / "ckpt", other = dir / "other";
  run({.save_as = path});
  run({.save_as = other});
  run({.save_as = other});
  const auto refusal = [&] { return message_of([&] { dist::load_sharded(path); }); };
  const auto part = [&](const std::string& of, int save, int rank) {
    return str(of, ".part-", save, ".", rank, "-of-2");
  };
  REQUIRE(std::filesystem::exists(part(path, 1, 1)));
  const auto replace = [&](const std::string& from) {
    std::filesystem::copy_file(from, part(path, 1, 1),
                               std::filesystem::copy_options::overwrite_existing);
  };
  replace(part(other, 2, 1));
  CHECK(mentions(refusal(), "ckpt.part-1.1-of-2: is a part of another checkpoint"));
  replace(part(path, 1, 0));
  CHECK(mentions(refusal(), "ckpt.part-1.1-of-2: is a part of another checkpoint"));
  std::filesystem::resize_file(part(path, 1, 1), std::filesystem::file_size(part(path, 1, 1)) - 1);
  CHECK(mentions(refusal(), "DataError"));
  nn::save_tensors(part(path, 1, 1), {}, {{"sharded.save", "1"}, {"sharded.rank", "1"}});
  CHECK(mentions(refusal(), "elements are in no part"));
  nn::save_tensors(part(path, 1, 1), {{"optim.exp_avg.fc1.bias@100", zeros({1})}},
                   {{"sharded.save", "1"}, {"sharded.rank", "1"}});
  CHECK(mentions(refusal(), "optim.exp_avg.fc1.bias@100 is"));
  std::filesystem::remove(part(path, 1, 1));
  CHECK(mentions(refusal(), "ckpt.part-1.1-of-2"));
  nn::save_tensors(path, {{"a", zeros({2})}});
  CHECK(mentions(refusal(), "is no index of a sharded checkpoint"));
}
