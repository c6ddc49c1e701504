// Fills on simt and cuda.
#include "warptape/kernels/copy/copy.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T, class Map>
__global__ void __launch_bounds__(kThreads) fill_elements(T* out, T value, i64 n, Map map) {
  const i64 i = global_thread();
  if (i >= n) return;
  typename Map::Offset at[1];
  map.offsets(typename Map::Index(i), at);
  out[at[0]] = value;
}

// `word` repeats the element; the last thread writes the rest of less than 16 bytes.
__global__ void __launch_bounds__(kThreads) fill_words(unsigned char* out, u64 word, i64 bytes) {
  const i64 i = global_thread() * 16;
  if (i >= bytes) return;
  if (i + 16 <= bytes) {
    // A fill only writes: the 16 bytes come from registers.
    const u64 v[2] = {word, word};
    store_vector(reinterpret_cast<u64*>(out + i), v);
  } else {
    for (i64 k = i; k < bytes; ++k) out[k] = (unsigned char)(word >> (8 * (k % 8)));
  }
}

template <class T>
void fill_strided(const FillArgs& a, u64 bits, const Launch& l) {
  const LoopNest<1> nest = loop_nest({a.out});
  with_index_map(nest, [&](auto map) {
    launch<fill_elements<T, decltype(map)>>(one_thread_each(nest.numel, l), a.out.as<T>(), T(bits),
                                            nest.numel, map);
  });
}

void fill_naive(const FillArgs& a, const Launch& l) {
  const u64 bits = detail::fill_bits(a);
  switch (item_size(a.out.dtype())) {
    case 1:
      return fill_strided<u8>(a, bits, l);
    case 2:
      return fill_strided<u16>(a, bits, l);
    case 4:
      return fill_strided<u32>(a, bits, l);
    default:
      return fill_strided<u64>(a, bits, l);
  }
}

void fill_vectorized(const FillArgs& a, const Launch& l) {
  const LoopNest<1> nest = loop_nest({a.out}, LoopOrder::memory);
  if (!nest.dense() || !aligned_16(a.out.data)) return fill_naive(a, l);
  u64 word = detail::fill_bits(a);
  const i64 size = item_size(a.out.dtype());
  // 1-, 2- and 4-byte patterns repeat evenly in 64 bits.
  for (i64 width = size * 8; width < 64; width *= 2) word |= word << width;
  const i64 bytes = nest.numel * size;
  launch<fill_words>(one_thread_each((bytes + 15) / 16, l), a.out.as<unsigned char>(), word, bytes);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, fill, FillArgs,
            {.name = "vectorized", .rank = 10, .launch = fill_vectorized},
            {.name = "naive", .launch = fill_naive});

}  // namespace wt
