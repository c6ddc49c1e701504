// What docs/architecture.md says of fork and of the end of a process.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>

#include "warptape/core/files/atomic_file.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/warptape.h"

using namespace wt;

namespace {

// How a child that ends by std::exit(body()) ended; 20 seconds are for ever.
int status_of_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(20);
    ::close(STDOUT_FILENO);  // what the test program has not written yet is the parent's
    std::exit(body());
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

std::ptrdiff_t threads_now() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

struct Net : nn::Module<Net> {
  nn::Linear a = add("a", nn::Linear{256, 256});
  nn::Linear b = add("b", nn::Linear{256, 10});
  Tensor forward(const Tensor& x) { return b(relu(a(x))); }
};

}  // namespace

TEST_CASE("fork: a child trains on with what the parent made, to the same numbers") {
  const int before = num_threads();
  set_num_threads(3);  // large enough products start the pool
  manual_seed(3);
  Net net;
  optim::AdamW opt{net, {.lr = 1e-3}};
  TrainStep step{net, opt, {.clip_norm = 1.0}};
  const Tensor x = randn({512, 256}), y = zeros({512}, {.dtype = DType::i64});
  const auto train = [&] {
    return step(x, [&](const Tensor& part) { return cross_entropy(net(part), y); }).loss();
  };
  train();
  const Tensor large = exp(zeros({1 << 22}));  // enough for several threads
  CHECK(threads_now() > 1);
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const int status = status_of_child([&] {
    double loss = 0;
    if (std::abs(exp(large).to_vector<float>()[9] - 2.7182818f) > 1e-5f) return 2;
    for (int i = 0; i < 3; ++i) loss = train();
    return ::write(pipe[1], &loss, sizeof loss) == sizeof loss ? 0 : 1;
  });
  double theirs = 0, mine = 0;
  CHECK(status == 0);
  REQUIRE(::read(pipe[0], &theirs, sizeof theirs) == sizeof theirs);
  for (int i = 0; i < 3; ++i) mine = train();
  CHECK(mine == theirs);
  ::close(pipe[0]), ::close(pipe[1]);
  set_num_threads(before);
}

TEST_CASE("exit: tensors, graphs and modules in static variables die in any order") {
  const int status = status_of_child([] {
    static Tensor early = ones({3}, {.requires_grad = true});
    static Tensor graph = (early * early).sum();
    static Net net;
    static const Tensor late = net(ones({1, 256}));
    static Tensor simt = ones({3}, {.device = Device{DeviceKind::simt, 0}});
    return late.defined() && simt.defined() ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("fork: a folder's lock is held until the child has closed it too") {
  const TempDir dir;
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  pid_t pid = 0;
  {
    const DirectoryLock lock(dir.path);
    pid = ::fork();
    if (pid == 0) {
      char c;
      ::close(pipe[1]);
      ::_exit(::read(pipe[0], &c, 1) == 0 ? 0 : 1);  // until the parent closes it
    }
  }
  CHECK_THROWS_AS(DirectoryLock(dir.path), CheckpointError);
  ::close(pipe[0]), ::close(pipe[1]);
  int status = -1;
  ::waitpid(pid, &status, 0);
  CHECK(status == 0);
  CHECK_NOTHROW(DirectoryLock(dir.path));
}
