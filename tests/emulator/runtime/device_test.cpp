// Devices, memory and errors of the emulated runtime.
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "runtime.h"

TEST_CASE("emulated runtime: properties are those of the named GPU") {
  int count = 0, value = 0;
  OK(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  cudaDeviceProp p;
  OK(cudaGetDeviceProperties(&p, 1));
  CHECK(std::string(p.name).find("H100") != std::string::npos);
  CHECK(p.major == 9);
  CHECK(p.multiProcessorCount == 132);
  CHECK(p.sharedMemPerBlock == 48 * 1024);
  CHECK(p.sharedMemPerBlockOptin == 227 * 1024);
  CHECK(p.totalGlobalMem == size_t(256) << 20);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  CHECK(value == 227 * 1024);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
  CHECK(value == 32);
  FAILS(cudaDeviceGetAttribute(&value, cudaDeviceAttr(9999), 0), cudaErrorInvalidValue);
  FAILS(cudaGetDeviceProperties(&p, 2), cudaErrorInvalidDevice);
  FAILS(cudaSetDevice(-1), cudaErrorInvalidDevice);
}

TEST_CASE("emulated runtime: PTX is loaded and launched by its name, machine code is refused") {
  constexpr const char* kText =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry put(.param .u64 at, .param .u32 value) {\n"
      ".reg .b64 %rd<3>;\n.reg .b32 %r<2>;\n"
      "ld.param.u64 %rd1, [at];\nld.param.u32 %r1, [value];\n"
      "cvta.to.global.u64 %rd2, %rd1;\nst.global.u32 [%rd2], %r1;\nret;\n}\n";
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  OK(cudaLibraryLoadData(&library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0));
  FAILS(cudaLibraryGetKernel(&kernel, library, "other"), cudaErrorSymbolNotFound);
  OK(cudaLibraryGetKernel(&kernel, library, "put"));
  size_t offset = 0, bytes = 0;
  OK(cudaFuncGetParamInfo(kernel, 1, &offset, &bytes));
  CHECK(bytes == 4);
  FAILS(cudaFuncGetParamInfo(kernel, 2, &offset, &bytes), cudaErrorInvalidValue);
  int* memory = nullptr;
  int value = 7, back = 0;
  OK(cudaMalloc(reinterpret_cast<void**>(&memory), sizeof back));
  void* arguments[] = {&memory, &value};
  OK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0,
                      nullptr));
  OK(cudaMemcpy(&back, memory, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(back == 7);
  OK(cudaFree(memory));
  FAILS(cudaLibraryLoadData(&library,
                            "\x7f"
                            "ELF\2\1\1",
                            nullptr, nullptr, 0, nullptr, nullptr, 0),
        cudaErrorNoKernelImageForDevice);
}

TEST_CASE("emulated runtime: every error has a name and a text of its own") {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = cudaGetErrorName(cudaError_t(i));
    if (name == "unrecognized error code") continue;
    CHECK(names.insert(name).second);
    CHECK(std::strlen(cudaGetErrorString(cudaError_t(i))) > 3);
  }
  CHECK(names.size() > 120);
  CHECK(std::string(cudaGetErrorName(cudaErrorIllegalAddress)) == "cudaErrorIllegalAddress");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
}

TEST_CASE("emulated runtime: the last error is a thread's, and asking clears it") {
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaSetDevice(7) == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("emulated runtime: new memory is NaN, aligned to 512, and counted") {
  size_t before = 0, after = 0, total = 0;
  OK(cudaMemGetInfo(&before, &total));
  {
    const DeviceBytes a(1000), b(3 << 20);
    CHECK(reinterpret_cast<uintptr_t>(a.data) % 512 == 0);
    for (const unsigned char x : a.read()) REQUIRE(x == 0xff);
    const std::vector<unsigned char> large = b.read();
    CHECK(large.front() == 0xff);
    CHECK(large.back() == 0xff);
    OK(cudaMemset(b, 0, b.size));
    OK(cudaMemGetInfo(&after, &total));
    CHECK(before - after == 1024 + (3 << 20));
  }
  OK(cudaMemGetInfo(&after, &total));
  CHECK(before == after);
  void* p = nullptr;
  FAILS(cudaMalloc(&p, size_t(1) << 40), cudaErrorMemoryAllocation);
  CHECK(p == nullptr);
  // What was written is not what the next block begins with, wherever it lies.
  for (int i = 0; i < 100; ++i) {
    const DeviceBytes c(4 << 20);
    CHECK(c.read()[12345] == 0xff);
    OK(cudaMemset(c, i, c.size));
  }
}

TEST_CASE("emulated runtime: a block cannot be freed twice, nor what is none") {
  const Findings found;
  void* p = nullptr;
  OK(cudaMalloc(&p, 100));
  OK(cudaFree(p));
  FAILS(cudaFree(p), cudaErrorInvalidValue);
  CHECK(found.count() == 1);
  int x = 0;
  FAILS(cudaFree(&x), cudaErrorInvalidValue);
  FAILS(cudaFreeHost(&x), cudaErrorInvalidValue);
  CHECK(found.count() == 3);
}

TEST_CASE("emulated runtime: pointers say where they lead") {
  const DeviceBytes d(64);
  const PinnedBytes h(64);
  int local = 0;
  void* managed = nullptr;
  OK(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal));
  static_cast<char*>(managed)[5] = 7;  // the host may
  cudaPointerAttributes a;
  OK(cudaPointerGetAttributes(&a, d + 10));
  CHECK(a.type == cudaMemoryTypeDevice);
  CHECK(a.devicePointer == d + 10);
  OK(cudaPointerGetAttributes(&a, h + 1));
  CHECK(a.type == cudaMemoryTypeHost);
  OK(cudaPointerGetAttributes(&a, managed));
  CHECK(a.type == cudaMemoryTypeManaged);
  OK(cudaPointerGetAttributes(&a, &local));
  CHECK(a.type == cudaMemoryTypeUnregistered);
  OK(cudaFree(managed));

  std::vector<char> own(10000);
  OK(cudaHostRegister(own.data(), own.size(), cudaHostRegisterDefault));
  OK(cudaPointerGetAttributes(&a, own.data() + 9999));
  CHECK(a.type == cudaMemoryTypeHost);
  FAILS(cudaHostRegister(own.data() + 8, 8, cudaHostRegisterDefault),
        cudaErrorHostMemoryAlreadyRegistered);
  void* on_device = nullptr;
  OK(cudaHostGetDevicePointer(&on_device, own.data(), 0));
  CHECK(on_device == own.data());
  OK(cudaHostUnregister(own.data()));
  FAILS(cudaHostUnregister(own.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_CASE("emulated runtime: peers and devices") {
  int can = 0, device = -1;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  OK(cudaDeviceDisablePeerAccess(1));
  FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  const DeviceBytes a(4096);
  OK(cudaMemset(a, 3, 4096));
  OK(cudaSetDevice(1));
  OK(cudaGetDevice(&device));
  CHECK(device == 1);
  {
    const DeviceBytes b(4096);
    OK(cudaMemcpyPeer(b, 1, a, 0, 4096));
    CHECK(b.read()[4095] == 3);
  }
  OK(cudaSetDevice(0));
}

TEST_CASE("emulated runtime: a forked child gets errors, not a torn state") {
  OK(cudaFree(nullptr));
  const pid_t child = fork();
  if (child == 0) {
    void* p = nullptr;
    _exit(cudaMalloc(&p, 8) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  OK(cudaFree(nullptr));
}

TEST_CASE("emulated runtime: limits, identifiers and the absent driver") {
  size_t value = 0;
  OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  OK(cudaDeviceGetLimit(&value, cudaLimitStackSize));
  CHECK(value == 4096);
  char text[32];
  int device = -1;
  OK(cudaDeviceGetPCIBusId(text, sizeof text, 1));
  OK(cudaDeviceGetByPCIBusId(&device, text));
  CHECK(device == 1);
  void* f = &device;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSuccess;
  OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &f, 13000, 0, &found));
  CHECK(f == nullptr);
  CHECK(found == cudaDriverEntryPointSymbolNotFound);
}
