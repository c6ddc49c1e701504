// The whole way: data that is packed once, transforms and a loader, networks side by side,
// optimizers from one start, rates, mixed precision with clipping over several ranks, a checkpoint
// that a run goes on from, and the evaluation.
//
//   example_full_pipeline [--steps N] [--device simt] [--data FOLDER] [--ranks N]
//   mpirun -n 2 example_full_pipeline        (or torchrun's variables: docs/distributed.md)
//
// Without --data the pictures are made up. docs/articles.md has its lines beside PyTorch's.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "made_up_cifar10.h"
#include "warptape/core/build_info.h"
#include "warptape/data/lmdb.h"
#include "warptape/data/shard.h"
#include "warptape/data/tfrecord.h"
#include "warptape/data/transforms.h"
#include "warptape/dist/data_parallel.h"
#include "warptape/dist/init.h"
#include "warptape/dist/spawn.h"
#include "warptape/nn/data_parallel.h"
#include "warptape/nn/models.h"
#include "warptape/warptape.h"

using namespace wt;
namespace fs = std::filesystem;

static data::Cifar10 pictures(const std::string& root) {
  return data::Cifar10{
      root,
      {.transform = data::Compose{data::RandomResizedCrop{32}, data::RandomHorizontalFlip{},
                                  data::ToTensor{},
                                  data::Normalize{{0.4914, 0.4822, 0.4465}, {0.247, 0.243, 0.262}}},
       .seed = 1}};
}

// Packs once what is read often, in three forms; what comes back is what went in.
static bool pack(const std::string& root) {
  const data::CifarFile raw = data::read_cifar10(root + "/data_batch_1.bin");
  const i64 n = std::min<i64>(raw.labels.size(0), 16);
  const std::vector<data::ShardField> fields{
      {.name = "x", .dtype = DType::u8, .shape = {3, 32, 32}}, {.name = "y", .dtype = int64}};
  const std::string base = fs::temp_directory_path() / fs::path(root).filename();
  const std::string shards = base + ".shards", lmdb = base + ".lmdb", records = base + ".tfrecord";
  std::vector<i64> rows(size_t(n), 0);
  for (i64 i = 0; i < n; ++i) rows[size_t(i)] = i;
  bool right = true;
  const auto compare = [&](const char* name, const data::Batch& back) {
    const bool same = equal(back.x.to(f32).reshape({n, -1}),
                            raw.images.narrow(0, 0, n).to(f32).reshape({n, -1})) &&
                      equal(back.y, raw.labels.narrow(0, 0, n).to(int64));
    std::printf("  %s: %d records, %s\n", name, int(n), same ? "as they were" : "DIFFERENT");
    right = right && same;
  };
  {
    data::ShardWriter writer(shards, fields);
    for (i64 i = 0; i < n; ++i) writer.add({raw.images[i], raw.labels[i].to(int64)});
    writer.finish();
    compare("shards", data::Shards{shards}.batch(rows));
  }
  {
    data::TfRecordWriter writer(records);
    for (i64 i = 0; i < n; ++i)
      writer.add(data::tf_example_bytes({{"x", raw.images[i].flatten().to_vector<float>()},
                                         {"y", std::vector<i64>{raw.labels[i].item<i64>()}}}));
    writer.finish();
    compare("TFRecord", data::TfRecords{records}.batch(rows));
  }
  if (find_feature("lmdb")->on()) {
    data::LmdbWriter writer(lmdb, fields);  // the map grows by itself
    for (i64 i = 0; i < n; ++i) writer.add({raw.images[i], raw.labels[i].to(int64)});
    writer.finish();
    compare("LMDB", data::LmdbRecords{lmdb}.batch(rows));
  }
  for (const std::string& made : {shards, records, lmdb}) fs::remove_all(made);
  return right;
}

// Forward times of networks, after a warm-up and with the device's work waited for.
static void compare_networks(Device device) {
  const Tensor x = randn({4, 3, 32, 32}, {.device = device});
  const NoGrad no_grad;
  for (const char* name : {"resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0"}) {
    models::AnyModel net = models::make(name, {.classes = 10}).to(device).eval();
    const auto time = bench::time(
        [&] { (void)net(x); },
        {.device = device, .warmups = 1, .seconds = 0.01, .min_samples = 1, .max_samples = 2});
    std::printf("  %-16s %5.2f million parameters, %6.1f ms\n", name,
                double(net.parameter_count()) / 1e6, 1e3 * time.min);
  }
}

struct SimpleModel : nn::Module<SimpleModel> {
  nn::Linear fc1 = add("fc1", nn::Linear{2, 32});
  nn::Linear fc2 = add("fc2", nn::Linear{32, 3});
  Tensor forward(Tensor x) { return fc2(relu(fc1(std::move(x)))); }
};

// Losses from one start for each seed: a comparison, where one run of each would be none.
template <class Make>
static std::vector<double> losses_of(Make make_optimizer) {
  const data::SyntheticPoints points{{.samples = 200, .classes = 3}};
  std::vector<double> mean(20, 0.0);
  constexpr int kSeeds = 3;
  for (int seed = 0; seed < kSeeds; ++seed) {
    manual_seed(u64(seed));
    SimpleModel net;
    auto opt = make_optimizer(net);
    data::Loader loader{points, {.batch = 50, .shuffle = true, .seed = u64(seed)}};
    for (double& at : mean) {
      data::Batch batch;
      while (!loader.next(batch)) continue;
      const Loss loss = cross_entropy(net(batch.x), batch.y);
      opt.zero_grad();
      loss.backward();
      (void)optim::clip_grad_norm_(net, 1.0);
      opt.step();
      at += loss.item() / kSeeds;
    }
  }
  return mean;
}

static void race() {
  const auto sgd = losses_of([](SimpleModel& net) {
    return optim::SGD{net, {.lr = 0.1, .momentum = 0.9}};
  });
  const auto adam = losses_of([](SimpleModel& net) { return optim::Adam{net, {.lr = 1e-2}}; });
  const auto adamw = losses_of([](SimpleModel& net) { return optim::AdamW{net, {.lr = 1e-2}}; });
  std::printf("%s", plot({{"SGD", sgd}, {"Adam", adam}, {"AdamW", adamw}},
                         {.title = "Loss, three seeds each"})
                        .text({.columns = 72, .rows = 10, .utf8 = false})
                        .c_str());
}

static void rates() {
  const std::vector<i64> epochs{0, 30, 60, 90};
  const optim::LrTable step = optim::lr_at(optim::step_lr(30), epochs, {.lr = 0.1}),
                       cosine = optim::lr_at(optim::cosine_annealing(90), epochs, {.lr = 0.1});
  std::printf("epoch   StepLR  CosineAnnealingLR\n");
  for (size_t i = 0; i < epochs.size(); ++i)
    std::printf("%5d  %.5f  %.5f\n", int(epochs[i]), step.lr[i], cosine.lr[i]);
  SimpleModel net;
  optim::SGD opt{net, {.lr = 0.1}};
  optim::ReduceLROnPlateau plateau{opt, {.patience = 1}};
  for (const double loss : {1.0, 0.8, 0.8, 0.8}) plateau.step(loss);
  std::printf("ReduceLROnPlateau, two epochs without a better loss: %.3f\n", opt.rate());
}

// What every rank does: its part of each batch, f16 with a loss scale, two parts a step, clipping.
static void train(dist::Communicator& comm, const std::string& root, int steps) {
  const Device device = dist::device_for_rank(comm);  // a GPU of its own
  auto net = models::resnet18({.classes = 10, .width = 4, .cifar_stem = true}).to(device);
  optim::AdamW opt{net, {.lr = 3e-3, .weight_decay = 0.01}};
  dist::DataParallel ddp{net, opt, comm};
  TrainStep step{net,
                 opt,
                 {.precision = f16,
                  .micro_batches = 2,
                  .clip_norm = 1.0,
                  .schedule = optim::warmup(5, optim::cosine(steps)),
                  .reducer = &ddp}};
  data::Loader loader{pictures(root),
                      {.batch = 32,
                       .shuffle = true,
                       .seed = 1,
                       .drop_last = true,
                       .workers = 1,
                       .prefetch = 2,
                       .device = device,
                       .pin_memory = true,
                       .rank = comm.rank(),
                       .world = comm.size()}};
  const bool talks = comm.rank() == 0;
  for (int done = 0; done < steps;)
    for (auto& batch : loader) {  // every epoch has another order by itself
      const StepResult r =
          step(batch, [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); });
      if (++done % 10 == 0 && talks) std::printf("  step %2d  loss %.4f\n", done, r.loss());
      if (done == steps) break;
    }
  comm.barrier();
  ddp.check_replicas();
  if (!talks) return;
  data::Loader test{data::Cifar10{root, {.train = false}}, {.batch = 32}};
  std::printf("  %d ranks over %s: %s\n", comm.size(), comm.backend(),
              evaluate(net, test, {"loss", "accuracy"}).text().c_str());
}

// One process, the batch cut over its devices; here twice the same one.
static double data_parallel(Device device) {
  SimpleModel net = SimpleModel{}.to(device);
  nn::DataParallel both{net.clone(), {.devices = {device, device}}};
  const Tensor x = randn({8, 2}, {.device = device});
  sum(square(net(x))).backward();
  sum(square(both(x))).backward();
  const Tensor a = net.fc1.weight->grad(), b = both.module.fc1.weight->grad();
  return (norm(a - b) / norm(a)).item();
}

// Trains up to step `stop` and saves; goes on from `file` where that is there.
static std::vector<float> run(const std::string& root, const std::string& file, int stop) {
  manual_seed(3);
  auto net = models::resnet18({.classes = 10, .width = 4, .cifar_stem = true});
  optim::SGD opt{net, {.lr = 0.05, .momentum = 0.9}};
  opt.set_schedule(optim::cosine(8));
  data::Loader loader{pictures(root), {.batch = 16, .shuffle = true, .seed = 2}};
  if (fs::exists(file)) {
    const nn::LoadedTensors saved = nn::load_tensors(file);
    net.load_state_dict(nn::with_prefix(saved.tensors, "model."));
    opt.load_state(nn::add_prefix(nn::with_prefix(saved.tensors, "optim."), "optim."));
    const std::vector<i64> at = saved.find("position")->to_vector<i64>();
    loader.set_state({at[0], at[1], at[2]});
  }
  while (opt.applied() < stop)
    for (auto& batch : loader) {
      opt.zero_grad();
      cross_entropy(net(batch.x), batch.y).backward();
      opt.step();
      if (opt.applied() == stop) break;
    }
  std::vector<nn::NamedTensor> all = nn::add_prefix(net.state_dict(), "model.");
  for (const nn::NamedTensor& t : opt.state()) all.push_back(t);
  const data::LoaderState at = loader.state();
  all.push_back({"position", tensor({at.epoch, at.batch, at.samples})});
  nn::save_tensors(file, all);  // the old file or the new one, never half of it
  return net.fc.weight->to_vector<float>();
}

static double resume(const std::string& root, int steps) {
  const std::string file = fs::temp_directory_path() / fs::path(root).filename();
  const std::string whole = file + ".whole.safetensors", parts = file + ".parts.safetensors";
  const std::vector<float> expected = run(root, whole, steps);
  (void)run(root, parts, steps / 2);
  const std::vector<float> found = run(root, parts, steps);
  fs::remove(whole);
  fs::remove(parts);
  double difference = 0;
  for (size_t i = 0; i < found.size(); ++i)
    difference = std::max(difference, std::abs(double(found[i]) - double(expected[i])));
  return difference;
}

int main(int argc, char** argv) {
  hold_standard_descriptors();
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const auto number = [&](const char* name, int otherwise) {
    return options.count(name) ? std::stoi(options[name]) : otherwise;
  };
  const int steps = number("--steps", 20);
  const Device device =
      options.count("--device") ? Device::parse(options["--device"].c_str()) : Device::best();
  const auto world = dist::init();  // mpirun, srun, torchrun, or alone
  std::optional<MadeUpCifar10> made_up;
  if (!options.count("--data")) made_up.emplace(40);
  const std::string root = made_up ? made_up->root() : options["--data"];
  manual_seed(1);
  if (world->size() > 1) {
    train(*world, root, steps);
    return 0;
  }
  std::printf("packed:\n");
  const bool packed = pack(root);
  std::printf("networks on %s:\n", str(device).c_str());
  compare_networks(device);
  race();
  rates();
  std::printf("ranks as threads:\n");
  dist::spawn(number("--ranks", 2), [&](dist::Communicator& comm) { train(comm, root, steps); });
  const double split = data_parallel(device);
  std::printf("gradients of nn.DataParallel differ by %.1e\n", split);
  std::printf("weights of a run that went on differ by %.1e\n", resume(root, std::min(steps, 8)));
  return packed && split < 1e-5 ? 0 : 1;
}
