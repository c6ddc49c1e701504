// Batches of sequences of unequal length without the padding: torch.nn.utils.rnn's.
#pragma once
#include <optional>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::nn {

// The sequences sorted by length, the longest first: data is step 0 of all, then step 1 of those
// that have it, ... LSTM, GRU and RNN take and give it.
struct PackedSequence {
  Tensor data;                   // [sum of lengths, ...]
  std::vector<i64> batch_sizes;  // of each step, how many sequences have it: never rising
  // i64 [N] on the data's device, undefined where the batch is sorted: which sequence of the batch
  // is k-th in the data, and the inverse.
  Tensor sorted_indices{}, unsorted_indices{};
};

struct PackOptions {
  bool batch_first = false;    // x is [N, T, ...] instead of [T, N, ...]
  bool enforce_sorted = true;  // throw unless the lengths never rise; false: sort here
};
// The first lengths[i] steps of each sequence i of x [T, N, ...], T at least the longest. Of a
// tensor of lengths (i64 or i32, [N]) the host reads the values. Differentiable: padding has
// gradient 0. Throws ShapeError for the shapes of x and lengths, UsageError for a length outside
// [1, T] and for lengths that rise under enforce_sorted.
WT_API PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<i64>& lengths,
                                           const PackOptions& o = {}, Frame at = Frame::here());
WT_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                           const PackOptions& o = {}, Frame at = Frame::here());

struct PadOptions {
  bool batch_first = false;
  double padding_value = 0;
  std::optional<i64> total_length{};  // T, at least the longest, which it is by default
};
struct PaddedSequence {
  Tensor output;             // [T, N, ...], or [N, T, ...]
  std::vector<i64> lengths;  // of the sequences of the batch
};
// The batch again, in its own order. Differentiable. Throws UsageError for sizes that do not fit
// the data and for a total_length below the longest.
WT_API PaddedSequence pad_packed_sequence(const PackedSequence& p, const PadOptions& o = {},
                                          Frame at = Frame::here());

namespace detail {
// Throws UsageError or ShapeError, as `name`, unless sizes and indices fit the data.
void check_packed(const char* name, const PackedSequence& p);
}  // namespace detail

}  // namespace wt::nn
