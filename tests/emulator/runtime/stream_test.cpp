// Streams, events and host functions of the emulated runtime.
#include <atomic>
#include <chrono>
#include <thread>

#include "runtime.h"

namespace {

// Notes in the order they ran, by host functions.
struct Notes {
  std::vector<int> all;
  struct Note {
    Notes* notes;
    int number;
  };
  std::vector<std::unique_ptr<Note>> made;
  void put(cudaStream_t s, int number) {
    made.push_back(std::make_unique<Note>(Note{this, number}));
    OK(cudaLaunchHostFunc(
        s,
        [](void* p) {
          auto* n = static_cast<Note*>(p);
          n->notes->all.push_back(n->number);
        },
        made.back().get()));
  }
  size_t place(int number) const {
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] == number) return i;
    return all.size();
  }
};

}  // namespace

TEST_CASE("emulated streams: each in its order, queries come to an end") {
  const Stream a, b;
  Notes notes;
  for (int i = 0; i < 50; ++i) {
    notes.put(a, i);
    notes.put(b, 100 + i);
  }
  int polls = 0;
  for (cudaError_t e; (e = cudaStreamQuery(a)) != cudaSuccess; ++polls) {
    REQUIRE(e == cudaErrorNotReady);
    REQUIRE(polls < 10000);
  }
  CHECK((polls == 0 || cudaGetLastError() == cudaErrorNotReady));
  OK(cudaStreamSynchronize(b));
  for (int i = 1; i < 50; ++i) {
    CHECK(notes.place(i - 1) < notes.place(i));
    CHECK(notes.place(99 + i) <= notes.place(100 + i));
  }
}

TEST_CASE("emulated streams: the legacy default stream waits for blocking ones and they for it") {
  for (int round = 0; round < 20; ++round) {
    const Stream blocking(cudaStreamDefault), free_running;
    Notes notes;
    notes.put(blocking, 1);
    notes.put(nullptr, 2);
    notes.put(blocking, 3);
    notes.put(free_running, 4);
    OK(cudaDeviceSynchronize());
    REQUIRE(notes.all.size() == 4);
    CHECK(notes.place(1) < notes.place(2));
    CHECK(notes.place(2) < notes.place(3));
  }
}

TEST_CASE("emulated streams: a non-blocking stream overtakes now and then") {
  int overtaken = 0;
  for (int round = 0; round < 40; ++round) {
    const Stream s;
    Notes notes;
    for (int i = 0; i < 4; ++i) notes.put(nullptr, i);
    notes.put(s, 10);
    OK(cudaDeviceSynchronize());
    overtaken += notes.place(10) < notes.place(3);
  }
  CHECK(overtaken > 0);
}

TEST_CASE("emulated streams: a wait takes the event's record of the time it is asked for") {
  for (int round = 0; round < 20; ++round) {
    const Stream a, b, c;
    const Event e;
    Notes notes;
    notes.put(a, 1);
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    notes.put(b, 2);
    notes.put(c, 3);
    OK(cudaEventRecord(e, c));  // again: b does not wait for this
    notes.put(a, 4);
    OK(cudaStreamWaitEvent(a, e, 0));
    notes.put(a, 5);
    OK(cudaDeviceSynchronize());
    CHECK(notes.place(1) < notes.place(2));
    CHECK(notes.place(3) < notes.place(5));
  }
}

TEST_CASE("emulated events: time is modelled, never 0 and never back") {
  const Stream s;
  const Event a, b, c, untimed(cudaEventDisableTiming), never;
  const DeviceBytes d(1 << 20);
  OK(cudaEventRecord(a, s));
  OK(cudaMemsetAsync(d, 0, d.size, s));
  OK(cudaEventRecord(b, s));
  OK(cudaEventRecord(c, s));
  OK(cudaEventRecord(untimed, s));
  float first = 0, second = 0, back = 0;
  OK(cudaEventSynchronize(c));
  OK(cudaStreamSynchronize(s));
  OK(cudaEventElapsedTime(&first, a, b));
  OK(cudaEventElapsedTime(&second, b, c));
  OK(cudaEventElapsedTime(&back, c, a));
  CHECK(first > second);
  CHECK(second > 0);
  CHECK(back < 0);
  FAILS(cudaEventElapsedTime(&back, a, untimed), cudaErrorInvalidResourceHandle);
  FAILS(cudaEventElapsedTime(&back, a, never), cudaErrorInvalidResourceHandle);
  OK(cudaEventQuery(never));
}

TEST_CASE("emulated streams: stale handles are known") {
  cudaStream_t s = nullptr;
  cudaEvent_t e = nullptr;
  OK(cudaStreamCreate(&s));
  OK(cudaEventCreate(&e));
  OK(cudaStreamDestroy(s));
  OK(cudaEventDestroy(e));
  FAILS(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
  FAILS(cudaEventRecord(e, nullptr), cudaErrorInvalidResourceHandle);
  FAILS(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
}

TEST_CASE("emulated streams: events belong to the device of their stream") {
  const Event e;
  OK(cudaSetDevice(1));
  {
    const Stream other;
    FAILS(cudaEventRecord(e, other), cudaErrorInvalidResourceHandle);
    OK(cudaStreamWaitEvent(other, e, 0));
  }
  OK(cudaSetDevice(0));
}

TEST_CASE("emulated streams: callbacks hear the status; host functions may not call CUDA") {
  const Stream s;
  struct Seen {
    cudaStream_t stream = nullptr;
    cudaError_t status = cudaErrorUnknown, call = cudaSuccess;
  } seen;
  OK(cudaStreamAddCallback(
      s,
      [](cudaStream_t of, cudaError_t status, void* p) {
        auto* x = static_cast<Seen*>(p);
        x->stream = of;
        x->status = status;
        void* memory = nullptr;
        x->call = cudaMalloc(&memory, 8);
      },
      &seen, 0));
  OK(cudaStreamSynchronize(s));
  CHECK(seen.stream == s.handle);
  CHECK(seen.status == cudaSuccess);
  CHECK(seen.call == cudaErrorNotPermitted);
  cudaGetLastError();
}

TEST_CASE("emulated streams: a host function may wait for a thread that is in a call") {
  const Stream s;
  struct Gate {
    std::atomic<bool> open{false};
  } gate;
  OK(cudaLaunchHostFunc(
      s,
      [](void* p) {
        while (!static_cast<Gate*>(p)->open) std::this_thread::yield();
      },
      &gate));
  std::thread opener([&] {
    const Stream mine;
    for (int i = 0; i < 20; ++i) cudaStreamSynchronize(mine);
    gate.open = true;
  });
  const cudaError_t e = cudaStreamSynchronize(s);
  opener.join();
  CHECK(e == cudaSuccess);
}

TEST_CASE("emulated streams: each thread has a default stream of its own") {
  unsigned long long mine = 0, other = 0;
  OK(cudaStreamGetId(cudaStreamPerThread, &mine));
  std::thread([&] { cudaStreamGetId(cudaStreamPerThread, &other); }).join();
  CHECK(other != 0);
  CHECK(mine != other);
  const DeviceBytes d(16);
  OK(cudaMemsetAsync(d, 9, 16, cudaStreamPerThread));
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  CHECK(d.read()[3] == 9);
}

TEST_CASE("emulated streams: many threads") {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      cudaStream_t s = nullptr;
      void* d = nullptr;
      wrong += cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess;
      wrong += cudaMalloc(&d, 4096) != cudaSuccess;
      std::vector<unsigned char> h(4096);
      for (int i = 0; i < 50; ++i) {
        wrong += cudaMemsetAsync(d, t + i, 4096, s) != cudaSuccess;
        wrong += cudaMemcpyAsync(h.data(), d, 4096, cudaMemcpyDeviceToHost, s) != cudaSuccess;
        wrong += h[4000] != static_cast<unsigned char>(t + i);
      }
      wrong += cudaFree(d) != cudaSuccess;
      wrong += cudaStreamDestroy(s) != cudaSuccess;
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}
