// Groups of the nccl backend, and communicators that keep their control.
#include "warptape/dist/init.h"
#include "warptape/dist/spawn.h"
#include "warptape/tests/dist/expect.h"
#include "warptape/tests/dist/nccl/nccl_world.h"
#include "warptape/tests/dist/tcp/tcp_threads.h"

using namespace wt;
using namespace wt_test;
using dist::Communicator;

TEST_CASE("split: NCCL's groups have controls of their own") {
  NcclWorld w;
  Expect expect;
  dist::spawn(4, [&](Communicator& control) {
    const int r = control.rank();
    const auto comm = dist::nccl_communicator(control, Device::cuda(r));
    const auto group = comm->split(r / 2, -r);
    expect(std::string(group->backend()) == "nccl" && group->size() == 2, "size");
    expect(group->rank() == 1 - r % 2 && group->control().size() == 2, "control");
    const Tensor t = tensor(std::vector<double>{double(r)}).to(Device::cuda(r));
    group->all_reduce(t);
    expect(back(t)[0] == (r < 2 ? 1 : 5), "sum");
  });
  expect.report();
  w.check_clean();
}

TEST_CASE("tcp: NCCL starts over it, without MPI") {
  NcclWorld w;
  Expect expect;
  check_quiet(tcp_ranks(3, std::chrono::seconds(60), [&](Communicator& control) {
    const int r = control.rank();
    const auto comm = dist::nccl_communicator(control, Device::cuda(r));
    expect(std::string(comm->control().backend()) == "tcp", "control");
    const Tensor t = tensor(std::vector<double>{double(r)}).to(Device::cuda(r));
    comm->all_reduce(t);
    expect(back(t)[0] == 3, "sum");
    comm->barrier();
    const auto pair = comm->split(r == 2 ? 1 : 0);
    pair->all_reduce(t);
    expect(back(t)[0] == (r == 2 ? 3 : 6), "the group's sum");
  }));
  expect.report();
  w.check_clean();
}

TEST_CASE("init: the backend nccl keeps its control") {
  NcclWorld w(1);
  const auto comm = dist::init({.backend = dist::Backend::nccl});
  CHECK(std::string(comm->backend()) == "nccl");
  CHECK(std::string(comm->control().backend()) == "local");
  CHECK(comm->takes(Device::cuda(0)));
  const Tensor t = tensor(std::vector<double>{3}).to(Device::cuda(0));
  comm->all_reduce(t);
  CHECK(back(t) == std::vector<double>{3});
}
