// What the lanes of a warp do together, and the bit operations of one lane.
#include <cstdio>
#include <vector>

#define CHECK(call)                                              \
  if (const cudaError_t e = (call); e != cudaSuccess) {          \
    std::printf("warp_intrinsics: %s\n", cudaGetErrorString(e)); \
    return 1;                                                    \
  }

constexpr unsigned int kAll = 0xffffffffu;
constexpr int kResults = 41;

// Lane l writes its result k to out[k * 32 + l].
__global__ void run(const int* in, unsigned int* out) {
  const int lane = threadIdx.x;
  const int x = __ldg(in + lane);
  int k = 0;
  const auto put = [&](unsigned int v) { out[32 * k++ + lane] = v; };
  put(__ballot_sync(kAll, x > 5));
  put(__any_sync(kAll, x > 100));
  put(__all_sync(kAll, x >= 0));
  put(__match_any_sync(kAll, x % 3));
  int same = 5;
  put(__match_all_sync(kAll, x * 0 + 9, &same));
  put(same);
  const unsigned int none = __match_all_sync(kAll, lane / 31, &same);
  put(none + same);
  put(__reduce_add_sync(kAll, x));
  put(__reduce_min_sync(kAll, x - 7));
  put(__reduce_max_sync(kAll, unsigned(x)));
  put(__reduce_and_sync(kAll, x | 16));
  put(__reduce_or_sync(kAll, x));
  put(__reduce_xor_sync(kAll, x));  // 12 so far
  put(__shfl_sync(kAll, x, 7));
  put(__shfl_sync(kAll, x, 5, 8));
  put(__shfl_up_sync(kAll, x, 3));
  put(__shfl_down_sync(kAll, x, 3, 16));
  put(__shfl_xor_sync(kAll, x, 9));
  const double wide = __shfl_down_sync(kAll, x + 0.25, 1);
  put(unsigned(wide * 4));
  put(unsigned(__shfl_sync(kAll, (long long)x << 33, 31 - lane) >> 33));
  if (lane % 2) {  // half a warp
    const unsigned int odd = __activemask() & 0xaaaaaaaau;
    put(__ballot_sync(0xaaaaaaaau, x > 5));
    put(__reduce_add_sync(0xaaaaaaaau, x));
    put(odd >> lane & 1);
  } else {
    put(__ballot_sync(0x55555555u, x > 5));
    put(__reduce_add_sync(0x55555555u, x));
    put(1);
  }
  __syncwarp();
  put(__popc(x * 0x01010101));
  put(__popcll((1ull << 40) - 1 - x));
  put(__ffs(x));
  put(__clz(x));
  put(__clzll(1ll << lane));
  put(__brev(x));
  put(unsigned(__brevll(x) >> 32));
  put(__byte_perm(0x33221100, 0x77665544, 0x4150 + x % 2));
  put(__funnelshift_l(0x80000001u, 0x12345678u, lane));
  put(__funnelshift_r(0x80000001u, 0x12345678u, lane));
  put(__dp4a(0x01020304 * x, 0x01ff01ff, 100));
  put(__mulhi(x * 1000000, 5000000));
  put(__umulhi(x * 100000000u, 4000000000u));
  put(__sad(x, 50, 3u));
  put(__hadd(x, -9));
  put(__usad(x, 3, 1));
  put(__vadd4(x * 0x01010101u, 0xfe01fe01u));
  put(__fns(kAll, 0, lane + 1));
}

unsigned int popc(unsigned long long x) {
  unsigned int n = 0;
  for (; x; x &= x - 1) ++n;
  return n;
}

unsigned int brev(unsigned int x) {
  unsigned int r = 0;
  for (int b = 0; b < 32; ++b) r |= (x >> b & 1) << (31 - b);
  return r;
}

int main() {
  std::vector<int> in(32);
  for (int l = 0; l < 32; ++l) in[l] = (l * 7 + 3) % 23;
  std::vector<unsigned int> got(kResults * 32), want(kResults * 32);
  unsigned int ballot = 0, sum = 0, least = 99, most = 0, all = ~0u, any = 0, odd_ones = 0;
  unsigned int match[3] = {}, odd_sum = 0, even_sum = 0;
  for (int l = 0; l < 32; ++l) {
    const unsigned int x = in[l];
    ballot |= unsigned(x > 5) << l;
    match[x % 3] |= 1u << l;
    sum += x;
    least = x < least ? x : least;
    most = x > most ? x : most;
    all &= x | 16;
    any |= x;
    odd_ones ^= x;
    (l % 2 ? odd_sum : even_sum) += x;
  }
  for (int l = 0; l < 32; ++l) {
    const int x = in[l];
    int k = 0;
    const auto put = [&](unsigned int v) { want[32 * k++ + l] = v; };
    put(ballot);
    put(0);
    put(1);
    put(match[x % 3]);
    put(kAll);
    put(1);
    put(0);
    put(sum);
    put(least - 7);
    put(most);
    put(all);
    put(any);
    put(odd_ones);
    put(in[7]);
    put(in[l / 8 * 8 + 5]);
    put(l < 3 ? x : in[l - 3]);
    put(l % 16 + 3 < 16 ? in[l + 3] : x);
    put(in[l ^ 9]);
    put(unsigned((l < 31 ? in[l + 1] : x) * 4 + 1));
    put(in[31 - l]);
    put(ballot & (l % 2 ? 0xaaaaaaaau : 0x55555555u));
    put(l % 2 ? odd_sum : even_sum);
    put(1);
    put(popc(x * 0x01010101u));
    put(popc((1ull << 40) - 1 - x));
    int first = 0, leading = 32;
    for (int b = 31; b >= 0; --b) {
      if (x >> b & 1) first = b + 1;
    }
    for (int b = 0; b < 32; ++b) {
      if (x >> b & 1) leading = 31 - b;
    }
    put(first);
    put(leading);
    put(63 - l);
    put(brev(x));
    put(brev(x));
    put(x % 2 ? 0x44115511 : 0x44115500);
    const unsigned long long pair = 0x1234567880000001ull;
    put(unsigned((pair << l) >> 32));
    put(unsigned(pair >> l));
    const unsigned int bytes = 0x01020304u * x;
    int dot = 100;
    for (int b = 0; b < 4; ++b) dot += (signed char)(bytes >> 8 * b) * (b % 2 ? 1 : -1);
    put(dot);
    put(unsigned((x * 1000000ll * 5000000) >> 32));
    put(unsigned(((unsigned long long)(x * 100000000u) * 4000000000ull) >> 32));
    put(unsigned(x < 50 ? 50 - x : x - 50) + 3);
    put(unsigned((x - 9) >> 1));
    put(unsigned(x < 3 ? 3 - x : x - 3) + 1);
    unsigned int added = 0;
    for (int b = 0; b < 4; ++b) added |= ((x + (b % 2 ? 0xfeu : 0x01u)) & 0xff) << (8 * b);
    put(added);
    put(l);
    if (k != kResults) return 1;
  }
  unsigned int* d;
  CHECK(cudaMalloc(&d, 32 * (1 + kResults) * sizeof(int)));
  CHECK(cudaMemcpy(d, in.data(), 32 * sizeof(int), cudaMemcpyHostToDevice));
  run<<<1, 32>>>((const int*)d, d + 32);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got.data(), d + 32, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kResults * 32; ++i) {
    if (got[i] != want[i]) {
      std::printf("warp_intrinsics: result %d of lane %d: %#x instead of %#x\n", i / 32, i % 32,
                  got[i], want[i]);
      return 1;
    }
  }
  std::printf("warp_intrinsics: ok\n");
}
