// A stable sort of rows of unsigned keys and their places: least significant digit first, 8 bits a
// pass (kernels/sort/radix_sort.cu). Host code that sorts something fills the keys and calls it.
#pragma once
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {

constexpr i64 kDigits = 256;
// Elements that a block brings in order at a time: what its shared memory holds of keys and places.
template <class K>
constexpr i64 kRadixTile = 16384 / i64(sizeof(K));

// Keys, places and the table of counts, in the workspace. Before the sort `keys` is filled; after
// it `keys` and `places` are the sorted ones, the places counted from 0 in each row.
template <class K>
struct RadixSort {
  i64 rows, length, tiles;  // tiles of a row
  K *keys, *spare_keys;
  u32 *places, *spare_places;
  u32* table;  // [row][tile][digit]: counts, then where the tile's first such digit goes

  RadixSort(void* workspace, i64 rows_, i64 length_)
      : rows(rows_), length(length_), tiles(ceil_div(length_, kRadixTile<K>)) {
    keys = static_cast<K*>(workspace);
    spare_keys = keys + rows * length;
    places = reinterpret_cast<u32*>(spare_keys + rows * length);
    spare_places = places + rows * length;
    table = spare_places + rows * length;
  }
  static i64 workspace(i64 rows, i64 length) {
    return rows * (length * 2 * i64(sizeof(K) + sizeof(u32)) +
                   ceil_div(length, kRadixTile<K>) * kDigits * i64(sizeof(u32)));
  }
  static const char* why_not(i64 rows, i64 length) {
    if (length >= 1ll << 32) return "places in a row are counted in 32 bits";
    if (rows * ceil_div(length, kRadixTile<K>) > 0x7fffffff)
      return "more tiles than a grid has blocks";
    return nullptr;
  }
};

// By the low `passes` bytes of the keys, at least one. K: u32, u64. No elements: nothing is done.
template <class K>
void radix_sort(RadixSort<K>& s, int passes, const Launch& l);

}  // namespace WT_DEVICE_NS
}  // namespace wt
