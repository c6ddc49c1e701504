// Tensor maps by the driver's function, over a fake one: what it is told, and what is said when it
// is missing or refuses.
#include <cstring>
#include <string>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/kernels/device/tensor_map.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"

using namespace wt;
using wt_test::FakeCuda;

namespace {

struct Asked {
  int type = -1, swizzle = -1, answer = 0;
  unsigned rank = 0;
  void* data = nullptr;
  std::vector<uint64_t> sizes, strides;
  std::vector<unsigned> box, steps;
} asked;

// cuTensorMapEncodeTiled.
int encode(void* map, int type, unsigned rank, void* data, const uint64_t* sizes,
           const uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave,
           int swizzle, int, int fill) {
  CHECK(interleave == 0);
  CHECK(fill == 0);
  asked.type = type;
  asked.rank = rank;
  asked.data = data;
  asked.sizes.assign(sizes, sizes + rank);
  asked.strides.assign(strides, strides + rank - 1);
  asked.box.assign(box, box + rank);
  asked.steps.assign(steps, steps + rank);
  asked.swizzle = swizzle;
  std::memset(map, 7, 128);
  return asked.answer;
}

struct alignas(128) Map {
  unsigned char bytes[128] = {};
};

}  // namespace

TEST_CASE("tensor maps: the driver's function, which may be missing", "[cuda]") {
  FakeCuda fake;
  alignas(16) static unsigned char data[64];
  TensorBox box;
  box.data = data;
  box.inner = 72;
  box.outer = 130;
  box.stride_bytes = 160;
  box.box_inner = box.box_outer = 64;
  box.item = 2;
  box.swizzled = true;
  Map map;
  CHECK(std::string(why_no_cuda_tensor_map()).find("needs a CUDA driver that makes tensor maps") !=
        std::string::npos);
  CHECK_THROWS_AS(make_cuda_tensor_map(&map, box), NotAvailable);

  fake.driver_function = reinterpret_cast<void*>(&encode);
  CHECK(why_no_cuda_tensor_map() == nullptr);
  make_cuda_tensor_map(&map, box);
  CHECK(map.bytes[127] == 7);
  CHECK(asked.type == 6);  // CU_TENSOR_MAP_DATA_TYPE_FLOAT16
  CHECK(asked.rank == 2);
  CHECK(asked.data == data);
  CHECK(asked.sizes == std::vector<uint64_t>{72, 130});
  CHECK(asked.strides == std::vector<uint64_t>{160});
  CHECK(asked.box == std::vector<unsigned>{64, 64});
  CHECK(asked.steps == std::vector<unsigned>{1, 1});
  CHECK(asked.swizzle == 3);  // CU_TENSOR_MAP_SWIZZLE_128B
  box.bfloat = true;
  make_cuda_tensor_map(&map, box);
  CHECK(asked.type == 9);  // BFLOAT16

  asked.answer = 1;
  CHECK_THROWS_AS(make_cuda_tensor_map(&map, box), KernelError);
  asked.answer = 0;
  box.stride_bytes = 150;
  CHECK_THROWS_AS(make_cuda_tensor_map(&map, box), KernelError);
}
