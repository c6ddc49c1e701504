// A ledger of what a recipe's training step does on a device: every launch, every copy between host
// and device, every tensor in host memory. A step whose batch is on the device does not leave it.
#include <map>
#include <string>
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/profiler.h"
#include "warptape/core/random.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/recipes/recipes.h"

using namespace wt;

namespace {

const Device kSimt = Device::simt();

struct Ledger : profiler::Observer {
  std::map<std::string, int> device_launches, host_launches, host_tensors;
  std::map<std::string, i64> copies;  // "to host 8": how many of so many bytes

  void begin(const profiler::Range& r) noexcept override {
    if (r.kind != profiler::Kind::kernel) return;
    ++(r.device == kSimt ? device_launches : host_launches)[std::string(r.name) + ":" + r.variant];
  }
  void allocated(const profiler::Memory& m) noexcept override {
    if (m.device == Device::cpu())
      ++host_tensors[m.owner ? std::string(m.owner->name) : "no operator"];
  }
};

// simt's copies, written down on the way. The functions of a CopyBackend carry no state.
Ledger* ledger = nullptr;
const CopyBackend* simt_copies = nullptr;

class WatchedCopies {
 public:
  explicit WatchedCopies(Ledger& l) {
    ledger = &l;
    static const CopyBackend watched = {
        [](void* to, Device d, const void* from, i64 bytes) {
          ++ledger->copies["to host " + std::to_string(bytes)];
          simt_copies->to_host(to, d, from, bytes);
        },
        [](void* to, Device d, const void* from, i64 bytes) {
          ++ledger->copies["from host " + std::to_string(bytes)];
          simt_copies->from_host(to, d, from, bytes);
        },
        [](void* to, const void* from, Device d, i64 bytes) {
          simt_copies->within(to, from, d, bytes);
        },
        [](void* to, Device d, i64 bytes) { simt_copies->fill_zero(to, d, bytes); },
        [](Device d) { simt_copies->wait(d); }};
    simt_copies = set_copy_backend(DeviceKind::simt, &watched);
  }
  ~WatchedCopies() { set_copy_backend(DeviceKind::simt, simt_copies); }
  WatchedCopies(const WatchedCopies&) = delete;
  WatchedCopies& operator=(const WatchedCopies&) = delete;
};

template <class N>
std::string text_of(const std::map<std::string, N>& rows) {
  std::string s;
  for (const auto& [name, count] : rows) s += name + " x " + std::to_string(count) + "\n";
  return s;
}

// What the third step of a recipe does, its batch being on the device.
Ledger third_step(const char* name, const std::vector<std::string>& set, const std::string& data) {
  const WithStreams lazy(SimtStreams::lazy);  // eagerly, with no queue, the step reads its numbers
  manual_seed(3);
  const auto recipe = tools::find_recipe(name).make(tools::Settings(set));
  const tools::RecipeDefaults o = recipe->defaults();
  data::Loader<data::AnyDataset> loader{recipe->load(data).train, {.batch = 4}};
  recipe->model().to(ready(kSimt));
  recipe->model().train();
  optim::AdamW opt{recipe->model(), {.lr = o.lr, .weight_decay = o.weight_decay}};
  TrainStep step{recipe->model(), opt, {.clip_norm = o.clip}};
  Ledger l;
  for (int i = 0; i < 3; ++i) {
    data::Batch b;
    REQUIRE(loader.next(b));
    b = {b.x.to(kSimt), b.y.to(kSimt)};
    const auto run = [&] {
      return step(b, [&](const data::Batch& part) { return recipe->loss(part); });
    };
    if (i < 2) {
      (void)run().loss();
      continue;
    }
    {
      const WatchedCopies copies(l);
      const profiler::ObserverScope watch(l);
      (void)run();  // its numbers are not asked for: asking is what waits
    }
  }
  return l;
}

void check_stays(const Ledger& l) {
  INFO("on simt:\n" << text_of(l.device_launches));
  INFO("copies:\n" << text_of(l.copies));
  CHECK(l.device_launches.size() > 10);
  CHECK(text_of(l.host_launches) == "");
  CHECK(text_of(l.host_tensors) == "");
  CHECK(text_of(l.copies) == "");
}

}  // namespace

TEST_CASE("launch ledger: a training step of the recipes has no host step") {
  const TempDir dir;
  SECTION("fashion") {
    wt_test::write_tiny_fashion(dir, 64, 8);
    check_stays(third_step("fashion", {}, dir.path));
  }
  SECTION("cifar") {
    wt_test::write_tiny_cifar(dir, 8);
    check_stays(third_step("cifar", {"width=4"}, dir.path));
  }
  SECTION("charlm") {
    wt_test::write_tiny_text(dir / "text", 60);
    check_stays(
        third_step("charlm", {"layers=1", "heads=2", "channels=16", "context=16"}, dir / "text"));
  }
}

TEST_CASE("launch ledger: a permutation is drawn and put in order on the device") {
  const WithStreams lazy(SimtStreams::lazy);
  (void)randperm(3000, {.dtype = DType::i32, .device = ready(kSimt)});
  Ledger l;
  {
    const WatchedCopies copies(l);
    const profiler::ObserverScope watch(l);
    (void)randperm(3000, {.dtype = DType::i32, .device = kSimt});
  }
  INFO("on simt:\n" << text_of(l.device_launches));
  CHECK(l.device_launches.size() == 3);
  CHECK(text_of(l.host_launches) == "");
  CHECK(text_of(l.host_tensors) == "");
  CHECK(text_of(l.copies) == "");
}
