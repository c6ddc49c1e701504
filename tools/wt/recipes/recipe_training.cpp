#include "warptape/tools/wt/recipes/recipe_training.h"

#include <cmath>
#include <optional>

#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/core/suggest.h"
#include "warptape/data/plan.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/optim/lbfgs.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/training/optimizers.h"

namespace wt::tools {
namespace {

constexpr std::pair<RandomStream, const char*> kStreams[] = {{RandomStream::init, "init"},
                                                             {RandomStream::dropout, "dropout"},
                                                             {RandomStream::shuffle, "shuffle"},
                                                             {RandomStream::augment, "augment"},
                                                             {RandomStream::user, "user"}};

constexpr i64 kMostCalls = i64{1} << 62;

NonFinite policy_of(const std::string& name) {
  return name == "skip" ? NonFinite::skip : name == "ignore" ? NonFinite::ignore : NonFinite::stop;
}

// Up over the first 23 % of the steps, from a fifth, then down to 7 %: airbench94's.
optim::Schedule triangle(i64 steps) {
  const i64 up = std::max<i64>(1, steps * 23 / 100);
  return optim::warmup(up, optim::linear(std::max<i64>(1, steps - up), 1, 0.07), 0.2);
}

optim::Schedule schedule_of(const std::string& name, i64 warmup, i64 steps) {
  const i64 rest = std::max<i64>(1, steps - warmup);
  optim::Schedule s;
  if (name == "cosine")
    s = optim::cosine(rest, 0.01);
  else if (name == "linear")
    s = optim::linear(rest, 1, 0.01);
  else if (name == "one-cycle")
    return optim::one_cycle(steps);  // it has its own warm-up
  else if (name == "triangle")
    return triangle(steps);
  return warmup > 0 ? optim::warmup(warmup, s) : s;
}

// A line search compares losses of one device, in the dtype that the model has.
void check_for_rounds(const TrainOptions& o, dist::Communicator* ranks) {
  const auto refuse = [](const char* option, const char* why) {
    throw UsageError(str(option, ": the last steps are rounds of L-BFGS, which ", why,
                         "\n  Try --set rounds=0"));
  };
  if (precision_of(o.precision) != DType::f32) refuse("--precision", "has the model's own dtype");
  if (ranks && ranks->size() > 1) refuse("--ranks", "one rank takes alone");
  if (o.micro_batches > 1) refuse("--micro-batches", "sees a batch as a whole");
  if (o.ema > 0) refuse("--ema", "averages nothing");
  if (o.offload) refuse("--offload", "keeps all on the device");
}

const Tensor* find(const std::vector<nn::NamedTensor>& values, const std::string& name) {
  for (const nn::NamedTensor& v : values)
    if (v.name == name) return &v.tensor;
  return nullptr;
}

const Tensor& number_of_type(const std::vector<nn::NamedTensor>& values, const std::string& name,
                             DType type) {
  const Tensor* t = find(values, name);
  if (!t || t->numel() != 1) throw DataError(str("the checkpoint has no number ", name));
  if (t->dtype() != type)
    throw DataError(str("the checkpoint's ", name, " is ", dtype_name(t->dtype()), ", expected ",
                        dtype_name(type)));
  return *t;
}

std::vector<nn::NamedTensor> beginning_with(const std::vector<nn::NamedTensor>& values,
                                            std::initializer_list<const char*> prefixes) {
  std::vector<nn::NamedTensor> out;
  for (const nn::NamedTensor& v : values)
    for (const char* p : prefixes)
      if (v.name.starts_with(p)) out.push_back(v);
  return out;
}

}  // namespace

nn::NamedTensor named_number(const std::string& name, i64 v) {
  return {name, tensor(v, {.dtype = DType::i64, .device = Device::cpu()})};
}
nn::NamedTensor named_number(const std::string& name, double v) {
  return {name, tensor(v, {.dtype = DType::f64, .device = Device::cpu()})};
}
double number_of(const std::vector<nn::NamedTensor>& values, const std::string& name) {
  return number_of_type(values, name, DType::f64).item();
}
i64 integer_of(const std::vector<nn::NamedTensor>& values, const std::string& name, i64 least,
               i64 most) {
  const i64 v = number_of_type(values, name, DType::i64).item<i64>();
  if (v < least || v > most)
    throw DataError(str("the checkpoint's ", name, " is ", v, ", expected ", least, " to ", most));
  return v;
}

DType precision_of(const std::string& name) {
  if (name == "bf16") return DType::bf16;
  return name == "f32" || name == "O0" ? DType::f32 : DType::f16;
}

RecipeDefaults resolve(const TrainOptions& o, const Recipe& r) {
  RecipeDefaults d = r.defaults();
  d.lr = o.lr > 0 ? o.lr : d.lr * find_optimizer(o.optimizer).lr_factor;
  if (o.weight_decay >= 0) d.weight_decay = o.weight_decay;
  if (o.clip >= 0) d.clip = o.clip;
  if (o.warmup >= 0) d.warmup = o.warmup;
  if (o.batch > 0) d.batch = o.batch;
  if (!o.schedule.empty()) d.schedule = o.schedule;
  return d;
}

void check_samples(const std::string& path, const char* part, i64 samples) {
  if (samples == 0)
    throw DataError(str(printable_path(path), ": the data has no ", part, " samples"));
}

i64 steps_of_epochs(i64 epochs, i64 steps_each) {
  i64 steps;
  if (__builtin_mul_overflow(epochs, steps_each, &steps))
    throw UsageError(str("--epochs ", epochs, " of ", steps_each,
                         " steps each are more steps than can be counted"));
  return steps;
}

void check_batch(i64 batch, const RecipeData& data) {
  const i64 n = data.train.size();
  if (batch > n)
    throw UsageError(str("a batch of ", batch, " is larger than the data, which has ", n,
                         " training samples\n  Try --batch ", n));
}

namespace {
data::LoaderOptions options_of(const RecipeDefaults& d, const RecipeData& data, u64 seed,
                               int workers) {
  data::LoaderOptions o{.batch = d.batch,
                        .shuffle = !data.order,
                        .seed = seed,
                        .drop_last = d.drop_last,
                        .workers = workers};
  if (data.order) o.sampler = data.order(d.batch, seed);
  return o;
}
}  // namespace

data::Loader<data::AnyDataset> make_loader(const RecipeDefaults& d, const RecipeData& data,
                                           u64 seed, int workers) {
  check_batch(d.batch, data);
  return {data.train, options_of(d, data, seed, workers)};
}

bool keeps_data_on_device(const TrainOptions& o, const Recipe& r, Device d) {
  if (o.resident == "off") return false;
  if (o.resident == "auto" && (d.kind == DeviceKind::cpu || o.memory_limit)) return false;
  const i64 bytes = r.resident_bytes(o.data);
  if (o.resident == "auto")
    return bytes > 0 && data::plan(bytes, d, {.device_part = 0.1}).tier == data::Tier::device;
  if (bytes == 0)
    throw UsageError(str("--resident on: the data of ", o.recipe,
                         " cannot stay on a device\n  Try --resident auto"));
  return true;
}

TrainBatches::TrainBatches(const RecipeDefaults& d, const RecipeData& data, u64 seed, int workers,
                           i64 rank, i64 world) {
  check_batch(d.batch, data);
  data::LoaderOptions o = options_of(d, data, seed, workers);
  o.rank = rank, o.world = world;
  if (data.train.is_resident())
    resident_.emplace(data.train, o);
  else
    host_.emplace(data.train, o);
}
bool TrainBatches::next(data::Batch& batch) {
  return host_ ? host_->next(batch) : resident_->next(batch);
}
i64 TrainBatches::size() const { return host_ ? host_->size() : resident_->size(); }
const data::LoaderState& TrainBatches::state() const {
  return host_ ? host_->state() : resident_->state();
}
void TrainBatches::set_state(const data::LoaderState& s) {
  host_ ? host_->set_state(s) : resident_->set_state(s);
}

RecipeTraining::RecipeTraining(const TrainOptions& o, const RecipeDefaults& d, Recipe& r, i64 steps,
                               std::function<void(const wt::StepRecord&)> before_stop,
                               dist::Communicator* ranks)
    : recipe_(r),
      rounds_(steps > r.rounds().rounds ? r.rounds() : LbfgsRounds{}),
      optimizer_steps_(steps - rounds_.rounds),
      scaled_(precision_of(o.precision) == DType::f16),
      offload_(o.offload) {
  if (rounds_.rounds > 0) check_for_rounds(o, ranks);
  if (o.offload && device_for(o.device).kind == DeviceKind::cpu)
    throw UsageError(
        "--offload keeps in host memory what the device need not, and cpu is the host"
        "\n  Try --micro-batches");
  r.model().train();
  optimizer_ = make_optimizer(
      r.model(),
      {.name = o.optimizer, .lr = d.lr, .weight_decay = d.weight_decay, .momentum = o.momentum});
  if (d.schedule == "plateau")
    plateau_ = std::make_unique<optim::ReduceLROnPlateau>(
        *optimizer_,
        optim::ReduceLROnPlateauOptions{
            .mode = o.monitor == "loss" ? optim::PlateauMode::min : optim::PlateauMode::max,
            .factor = 0.3,
            .patience = 1});
  if (ranks && ranks->size() > 1)
    parallel_ = std::make_unique<dist::DataParallel>(
        r.model(), *optimizer_, *ranks,
        // A graph reaches what it reached; which, cannot be compared in each replay.
        dist::DataParallelOptions{.unused = o.graph ? dist::Unused::fixed : dist::Unused::agree,
                                  .zero = o.zero});
  step_ = std::make_unique<TrainStep>(
      r.model(), *optimizer_,
      TrainStepOptions{.precision = precision_of(o.precision),
                       .micro_batches = o.micro_batches,
                       .clip_norm = d.clip,
                       .schedule = schedule_of(d.schedule, std::min(d.warmup, optimizer_steps_ / 2),
                                               optimizer_steps_),
                       .graph = o.graph,
                       .on_nonfinite = policy_of(o.on_nan),
                       .before_stop = std::move(before_stop),
                       .reducer = parallel_.get(),
                       .ema_decay = o.ema});
}

RecipeStep RecipeTraining::step(const data::Batch& b) {
  if (in_rounds()) return round(b);
  return RecipeStep((*step_)(b, [&](const data::Batch& part) { return loss(part); }));
}

// A new history each time: the batch is another one, and a run that goes on needs the model alone.
RecipeStep RecipeTraining::round(const data::Batch& b) {
  if (state_before_rounds_.empty()) state_before_rounds_ = optimizer_->state();
  optim::Lbfgs lbfgs(recipe_.model(), {.max_iter = rounds_.iterations,
                                       .tolerance_grad = 0,
                                       .tolerance_change = 0,
                                       .history_size = kRoundHistory,
                                       .line_search = optim::LineSearch::strong_wolfe});
  const data::Batch seen = recipe_.round_batch(b.to(lbfgs.device()));
  lbfgs.step([&] {
    lbfgs.zero_grad();
    const Loss l = recipe_.round_loss(seen);
    l.backward();
    return l.item();
  });
  wt::StepRecord r{};
  r.loss = recipe_.round_loss(seen).item();  // where it stopped, which it need not have tried last
  r.grad_norm = NAN;
  r.lr = lbfgs.lr();
  r.scale = 1;
  return RecipeStep(r);
}

void RecipeTraining::rehearse_round(const data::Batch& b) {
  nn::ModuleBase& m = recipe_.model();
  const Tensor history = [&] {
    const CategoryScope scope(Category::optimizer);
    const Tensor like = m.named_parameters().front().tensor;
    return empty({2 * kRoundHistory, m.parameter_count()},
                 {.dtype = like.dtype(), .device = like.device()});
  }();
  recipe_.round_loss(recipe_.round_batch(b.to(history.device()))).backward();
}

Loss RecipeTraining::loss(const data::Batch& part) {
  std::optional<SaveScope> scope;
  if (offload_) scope.emplace(SavePolicy::offload);
  return recipe_.loss(part);
}

OverflowReport RecipeTraining::explain(const data::Batch& b, double scale) {
  return step_->explain(
      b, [&](const data::Batch& part) { return loss(part); }, scale);
}

void RecipeTraining::evaluated(double monitored) {
  if (plateau_) plateau_->step(monitored);
}

std::vector<nn::NamedTensor> RecipeTraining::state(bool here) {
  std::vector<nn::NamedTensor> all = nn::add_prefix(recipe_.model().state_dict(), "model.");
  std::vector<nn::NamedTensor> of_optimizer =
      state_before_rounds_.empty() ? optimizer_->state(here) : state_before_rounds_;
  for (nn::NamedTensor& t : of_optimizer) all.push_back(std::move(t));
  if (plateau_)
    for (nn::NamedTensor& t : plateau_->state()) all.push_back(std::move(t));
  if (scaled_)
    for (nn::NamedTensor& t : step_->scaler().state_dict()) all.push_back(std::move(t));
  step_->sync_random();
  const Generator& g = generator();
  all.push_back(named_number("rng.seed", i64(g.seed())));
  all.push_back(named_number("rng.fork", i64(g.fork())));
  for (const auto& [stream, name] : kStreams)
    all.push_back(named_number(str("rng.", name), i64(g.calls(stream))));
  return all;
}

void RecipeTraining::load_state(const std::vector<nn::NamedTensor>& values) {
  // Seed and fork are 64 bits of any kind. Calls are counted on, so they keep away from the end.
  const auto bits = [&](const char* name) {
    return u64(integer_of(values, name, std::numeric_limits<i64>::min()));
  };
  Generator g(bits("rng.seed"), bits("rng.fork"));
  g.set_rank(generator().rank());
  for (const auto& [stream, name] : kStreams)
    g.set_calls(stream, u64(integer_of(values, str("rng.", name), 0, kMostCalls)));
  recipe_.model().load_state_dict(nn::with_prefix(values, "model."));
  optimizer_->load_state(beginning_with(values, {"optim.", "ema."}));
  if (plateau_) plateau_->load_state(beginning_with(values, {"sched."}));
  if (scaled_) step_->scaler().load_state_dict(values);
  generator() = g;
}

}  // namespace wt::tools
