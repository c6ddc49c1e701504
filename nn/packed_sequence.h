// Batches of sequences of unequal length without the padding: torch.nn.utils.rnn's.
#pragma once
#include <optional>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::nn {

// Sequences sorted by length, the longest first, without padding: data is step 0 of all, then step
// 1 of those that have it, ... LSTM, GRU and RNN take and give it.
struct PackedSequence {
  Tensor data;                   // [sum of lengths, ...]
  std::vector<i64> batch_sizes;  // of each step, how many sequences have it: never rising
  // i64 [N] on the data's device: sorted_indices[k] is which sequence of the batch is k-th in the
  // data, unsorted_indices the inverse. Undefined after packing with enforce_sorted.
  Tensor sorted_indices{}, unsorted_indices{};
};

// How pack_padded_sequence() takes its batch.
struct PackOptions {
  bool batch_first = false;    // x is [N, T, ...] instead of [T, N, ...]
  bool enforce_sorted = true;  // throw unless the lengths never rise; false: sort here
};
// Packs the first lengths[i] steps of each sequence i of x [T, N, ...], T at least the longest. Of
// a tensor of lengths (i64 or i32, [N]) the host reads the values. Differentiable: padding has
// gradient 0. Throws ShapeError for the shapes of x and lengths, DtypeError for other lengths than
// these, UsageError for a length outside [1, T] and for lengths that rise under enforce_sorted.
WT_API PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<i64>& lengths,
                                           const PackOptions& o = {}, Frame at = Frame::here());
WT_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                           const PackOptions& o = {}, Frame at = Frame::here());

// How pad_packed_sequence() lays out its result.
struct PadOptions {
  bool batch_first = false;           // [N, T, ...] instead of [T, N, ...]
  double padding_value = 0;           // what stands behind the end of a sequence
  std::optional<i64> total_length{};  // T, at least the longest, which it is by default
};
// A batch of sequences filled up to one length, and how long each is.
struct PaddedSequence {
  Tensor output;             // [T, N, ...], or [N, T, ...]
  std::vector<i64> lengths;  // of the sequences of the batch
};
// Pads packed sequences: the batch again, in its own order. Differentiable. Throws UsageError for
// sizes that do not fit the data and for a total_length below the longest.
WT_API PaddedSequence pad_packed_sequence(const PackedSequence& p, const PadOptions& o = {},
                                          Frame at = Frame::here());

namespace detail {
// Throws UsageError, as `name`, unless sizes and indices fit the data.
void check_packed(const char* name, const PackedSequence& p);
}  // namespace detail

}  // namespace wt::nn
