// What each contract reads and writes, a line a contract: for benchmarks, which give launches
// memory of their own, and for first uses, which compare what two variants write.
// `to.add<Args>(list)` gets a lambda list(args, o) that names the operands:
//   o.out(view...), o.out(pointer, elements, dtype)   written; absent ones are null
//   o.inout(view)                                      read and written
//   o.in(view...), o.in(pointer, elements, dtype)      read
//   o.sensitive()                                      right results may differ beyond rounding
// What is not listed is not compared: a sign that is free, memory that is defined in part.
// Host code only; each that includes this compiles every list.
#pragma once
#include "warptape/kernels/activation_inverse.h"
#include "warptape/kernels/add_norm.h"
#include "warptape/kernels/attention.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/kernels/cdist.h"
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/ctc.h"
#include "warptape/kernels/dropout.h"
#include "warptape/kernels/embedding.h"
#include "warptape/kernels/exponent_counts.h"
#include "warptape/kernels/fft.h"
#include "warptape/kernels/gather.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/image_batch.h"
#include "warptape/kernels/image_color.h"
#include "warptape/kernels/image_erase.h"
#include "warptape/kernels/image_mix.h"
#include "warptape/kernels/image_warp.h"
#include "warptape/kernels/index.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/linalg.h"
#include "warptape/kernels/loss_scale.h"
#include "warptape/kernels/lu.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/mse.h"
#include "warptape/kernels/muon.h"
#include "warptape/kernels/nll.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/optim_step.h"
#include "warptape/kernels/pool.h"
#include "warptape/kernels/random_fill.h"
#include "warptape/kernels/reduce.h"
#include "warptape/kernels/resize.h"
#include "warptape/kernels/rms_norm.h"
#include "warptape/kernels/running_stats.h"
#include "warptape/kernels/sample_batch.h"
#include "warptape/kernels/scan.h"
#include "warptape/kernels/sequence.h"
#include "warptape/kernels/softmax.h"
#include "warptape/kernels/sort.h"
#include "warptape/kernels/svd.h"
#include "warptape/kernels/unfold.h"

namespace wt::operands {

template <class To>
void list_reductions(To& to) {
#define WT_LAUNCHER(contract, Entry) \
  to.template add<ReduceArgs<red::Entry>>([](auto& a, auto& o) { o.out(a.out).in(a.in); });
  WT_REDUCTIONS(WT_LAUNCHER)
#undef WT_LAUNCHER
}

template <class To>
void list_attention(To& to) {
  to.template add<AttentionForwardArgs>(
      [](auto& a, auto& o) { o.out(a.out, a.lse).in(a.v, a.scores.q, a.scores.k, a.scores.mask); });
  to.template add<AttentionBackwardArgs>([](auto& a, auto& o) {
    o.out(a.gq, a.gk, a.gv).in(a.gout, a.out, a.lse, a.v);
    o.in(a.scores.q, a.scores.k, a.scores.mask);
  });
}

// Contracts that see no views but pointers and a shape. Elements from the first to the last one,
// with those between them that strides leave out.
inline i64 span(const ConvTensor& t, i64 batch, i64 channels, const i64* at) {
  if (batch == 0 || channels == 0 || at[0] * at[1] * at[2] == 0) return 0;
  i64 last = (batch - 1) * t.batch + (channels - 1) * t.channel;
  for (int i = 0; i < 3; ++i) last += (at[i] - 1) * t.at[i];
  return last + 1;
}
inline i64 x_span(const ConvTensor& t, const ConvShape& s) {
  return span(t, s.batch, s.in_channels, s.in);
}
inline i64 y_span(const ConvTensor& t, const ConvShape& s) {
  return span(t, s.batch, s.out_channels, s.out);
}
inline i64 w_span(const ConvTensor& t, const ConvShape& s) {
  return span(t, s.out_channels, s.in_group(), s.kernel);
}
inline i64 x_span(const ConvTensor& t, const PoolShape& s) {
  return span(t, s.batch, s.channels, s.in);
}
inline i64 y_span(const ConvTensor& t, const PoolShape& s) {
  return span(t, s.batch, s.channels, s.out);
}

inline DType tap_dtype(const PoolShape& s) { return s.taps() <= 256 ? DType::u8 : DType::i32; }

// Of the matrix with these strides and of those that the batch has of it.
inline i64 matrix_span(const MatmulArgs& a, i64 rows, i64 columns, i64 row, i64 column,
                       i64 MatmulArgs::Batch::*step) {
  if (a.batches() * rows * columns == 0) return 0;
  i64 last = (rows - 1) * row + (columns - 1) * column;
  for (int d = 0; d < a.batch_ndim; ++d) last += (a.batch[d].size - 1) * (a.batch[d].*step);
  return last + 1;
}

template <class O>
void add_epilogue(MatmulEpilogue& e, i64 span, DType t, O& o) {
  o.in(e.residual, span, t);
  if (e.gradient)
    o.in(e.aux, span, t);
  else
    o.out(e.aux, span, t);
}

template <class To>
void list_shapes(To& to) {
  to.template add<MatmulArgs>([](auto& a, auto& o) {
    using Batch = MatmulArgs::Batch;
    o.out(a.out, matrix_span(a, a.m, a.n, a.out_row, 1, &Batch::out), a.dtype);
    o.out(a.row_sum, a.m, a.dtype).in(a.bias, a.n, a.dtype);
    o.in(a.a, matrix_span(a, a.m, a.k, a.a_row, a.a_column, &Batch::a), a.dtype);
    o.in(a.b, matrix_span(a, a.k, a.n, a.b_row, a.b_column, &Batch::b), a.dtype);
    add_epilogue(a.epilogue, matrix_span(a, a.m, a.n, a.out_row, 1, &Batch::out), a.dtype, o);
  });
  to.template add<ConvForwardArgs>([](auto& a, auto& o) {
    const ConvShape& s = a.shape;
    o.out(a.y.data, y_span(a.y, s), s.dtype).in(a.bias, s.out_channels, s.dtype);
    o.in(a.x.data, x_span(a.x, s), s.dtype).in(a.w.data, w_span(a.w, s), s.dtype);
    add_epilogue(a.epilogue, y_span(a.y, s), s.dtype, o);
  });
  to.template add<ConvBackwardInputArgs>([](auto& a, auto& o) {
    const ConvShape& s = a.shape;
    o.out(a.x.data, x_span(a.x, s), s.dtype).in(a.bias, s.in_channels, s.dtype);
    o.in(a.y.data, y_span(a.y, s), s.dtype).in(a.w.data, w_span(a.w, s), s.dtype);
  });
  to.template add<ConvBackwardWeightArgs>([](auto& a, auto& o) {
    const ConvShape& s = a.shape;
    o.out(a.w.data, w_span(a.w, s), s.dtype).out(a.y_sum, s.out_channels, s.dtype);
    o.in(a.y.data, y_span(a.y, s), s.dtype).in(a.x.data, x_span(a.x, s), s.dtype);
  });
  to.template add<MaxPoolForwardArgs>([](auto& a, auto& o) {
    const PoolShape& s = a.shape;
    o.out(a.y.data, y_span(a.y, s), s.dtype).in(a.x.data, x_span(a.x, s), s.dtype);
    o.out(a.taps.data, y_span(a.taps, s), tap_dtype(s));
    o.out(a.indices.data, y_span(a.indices, s), DType::i64);
  });
  to.template add<MaxPoolGatherArgs>([](auto& a, auto& o) {
    o.out(a.y.data, y_span(a.y, a.shape), a.shape.dtype);
    o.in(a.x.data, x_span(a.x, a.shape), a.shape.dtype);
    o.in(a.taps.data, y_span(a.taps, a.shape), tap_dtype(a.shape));
  });
  to.template add<MaxPoolBackwardArgs>([](auto& a, auto& o) {
    o.out(a.gx.data, x_span(a.gx, a.shape), a.shape.dtype);
    o.in(a.gy.data, y_span(a.gy, a.shape), a.shape.dtype);
    o.in(a.taps.data, y_span(a.taps, a.shape), tap_dtype(a.shape));
  });
  to.template add<AvgPoolBackwardArgs>([](auto& a, auto& o) {
    o.out(a.gx.data, x_span(a.gx, a.shape), a.shape.dtype);
    o.in(a.gy.data, y_span(a.gy, a.shape), a.shape.dtype);
  });
  to.template add<AvgPoolForwardArgs>([](auto& a, auto& o) {
    o.out(a.y.data, y_span(a.y, a.shape), a.shape.dtype);
    o.in(a.x.data, x_span(a.x, a.shape), a.shape.dtype);
  });
}

template <class To>
void list_norms(To& to) {
  to.template add<LayerNormForwardArgs>(
      [](auto& a, auto& o) { o.out(a.y, a.stats).in(a.x, a.weight, a.bias); });
  to.template add<LayerNormBackwardInputArgs>(
      [](auto& a, auto& o) { o.out(a.gx).in(a.gy, a.x, a.stats, a.weight); });
  to.template add<LayerNormBackwardParamsArgs>(
      [](auto& a, auto& o) { o.out(a.gweight, a.gbias).in(a.gy, a.x, a.stats); });
  to.template add<RmsNormForwardArgs>(
      [](auto& a, auto& o) { o.out(a.y, a.stats).in(a.x, a.weight); });
  to.template add<RmsNormBackwardInputArgs>(
      [](auto& a, auto& o) { o.out(a.gx).in(a.gy, a.x, a.stats, a.weight); });
  to.template add<AddLayerNormForwardArgs>(
      [](auto& a, auto& o) { o.out(a.y, a.sum, a.stats).in(a.x, a.residual, a.weight, a.bias); });
  to.template add<AddRmsNormForwardArgs>(
      [](auto& a, auto& o) { o.out(a.y, a.sum, a.stats).in(a.x, a.residual, a.weight); });
  const auto added_backward = [](auto& a, auto& o) {
    o.out(a.gx).in(a.gy, a.gsum, a.x, a.stats, a.weight);
  };
  to.template add<AddLayerNormBackwardInputArgs>(added_backward);
  to.template add<AddRmsNormBackwardInputArgs>(added_backward);
  to.template add<RunningStatsArgs>([](auto& a, auto& o) {
    o.out(a.new_mean, a.new_var).in(a.mean, a.var, a.batch_mean, a.batch_var);
  });
  to.template add<ChannelStatsArgs>([](auto& a, auto& o) { o.out(a.stats, a.variance).in(a.x); });
  to.template add<ChannelNormForwardArgs>(
      [](auto& a, auto& o) { o.out(a.y).in(a.x, a.stats, a.weight, a.bias); });
  to.template add<ChannelNormSumsArgs>(
      [](auto& a, auto& o) { o.out(a.sums).in(a.gy, a.x, a.stats, a.weight, a.bias); });
  to.template add<ChannelNormBackwardArgs>(
      [](auto& a, auto& o) { o.out(a.gx).in(a.gy, a.x, a.stats, a.weight, a.bias, a.sums); });
}

template <class To>
void list_losses(To& to) {
  to.template add<CrossEntropyForwardArgs>(
      [](auto& a, auto& o) { o.out(a.loss_sum, a.weight, a.stats).in(a.logits, a.labels); });
  to.template add<CrossEntropyBackwardArgs>(
      [](auto& a, auto& o) { o.out(a.glogits).in(a.grad, a.stats, a.logits, a.labels); });
  to.template add<NllForwardArgs>([](auto& a, auto& o) {
    o.out(a.loss_sum, a.weight).in(a.log_probs, a.labels, a.class_weights);
  });
  to.template add<NllBackwardArgs>(
      [](auto& a, auto& o) { o.out(a.gx).in(a.grad, a.labels, a.class_weights); });
  to.template add<MseForwardArgs>(
      [](auto& a, auto& o) { o.out(a.loss_sum, a.weight).in(a.a, a.b); });
  to.template add<MseBackwardArgs>([](auto& a, auto& o) { o.out(a.ga).in(a.grad, a.a, a.b); });
  to.template add<CtcForwardArgs>([](auto& a, auto& o) {
    o.out(a.loss_sum, a.losses);  // alpha is defined in part
    o.in(a.alpha, a.log_probs, a.targets, a.input_lengths, a.target_lengths);
  });
  to.template add<CtcBackwardArgs>([](auto& a, auto& o) {
    o.out(a.gx).in(a.grad, a.losses, a.alpha);
    o.in(a.log_probs, a.targets, a.input_lengths, a.target_lengths);
  });
}

template <class To>
void list_indexing(To& to) {
  to.template add<EmbeddingForwardArgs>(
      [](auto& a, auto& o) { o.out(a.out).in(a.weight, a.indices); });
  to.template add<EmbeddingBackwardArgs>(
      [](auto& a, auto& o) { o.out(a.gweight).in(a.gout, a.indices); });
  to.template add<GatherArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in, a.index); });
  to.template add<ScatterArgs>([](auto& a, auto& o) { o.inout(a.out).in(a.source, a.index); });
  to.template add<IndexRowsArgs>([](auto& a, auto& o) {
    o.out(a.rows);
    for (int i = 0; i < a.count; ++i) o.in(a.indices[i]);
  });
  // All of the table: its row has more positions than it has rows.
  to.template add<IndexPutArgs>([](auto& a, auto& o) { o.out(a.table).in(a.rows, a.values); });
  to.template add<BitPackArgs>([](auto& a, auto& o) { o.out(a.bits).in(a.in); });
  to.template add<BitGateArgs>([](auto& a, auto& o) { o.out(a.out).in(a.gy, a.bits); });
  to.template add<ActivationInverseArgs>([](auto& a, auto& o) { o.out(a.x).in(a.y, a.bits); });
}

template <class To>
void list_order_and_matrices(To& to) {
  to.template add<SortArgs>([](auto& a, auto& o) { o.out(a.values, a.indices).in(a.in); });
  to.template add<BincountArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in, a.weights); });
  to.template add<RandomFillArgs>([](auto& a, auto& o) { o.out(a.out); });
  to.template add<SequenceArgs>([](auto& a, auto& o) { o.out(a.out); });
  to.template add<MultinomialArgs>([](auto& a, auto& o) { o.out(a.out).in(a.p).sensitive(); });
  to.template add<ScanArgs>([](auto& a, auto& o) { o.out(a.out).in(a.factor, a.term); });
  to.template add<CholeskyArgs>(
      [](auto& a, auto& o) { o.out(a.out, a.info).in(a.in).sensitive(); });
  to.template add<CdistForwardArgs>([](auto& a, auto& o) { o.out(a.y).in(a.a, a.b); });
  to.template add<CdistBackwardArgs>(
      [](auto& a, auto& o) { o.out(a.ga, a.gb).in(a.gy, a.y, a.a, a.b); });
  to.template add<SolveTriangularArgs>(
      [](auto& a, auto& o) { o.inout(a.out).in(a.a).sensitive(); });
  to.template add<LuArgs>(
      [](auto& a, auto& o) { o.out(a.out, a.rows, a.sign, a.info).in(a.in).sensitive(); });
  to.template add<QrArgs>([](auto& a, auto& o) { o.out(a.q, a.r).in(a.in).sensitive(); });
  to.template add<EighArgs>([](auto& a, auto& o) {
    o.out(a.values, a.info).in(a.vectors, a.in).sensitive();  // a vector's sign is free
  });
  to.template add<SvdArgs>([](auto& a, auto& o) {
    o.out(a.s, a.info).in(a.u, a.vh, a.in).sensitive();  // here too
  });
}

template <class To>
void list_operands(To& to) {
  to.template add<CopyArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in); });
  to.template add<FillArgs>([](auto& a, auto& o) { o.out(a.out); });
  to.template add<DropoutArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in); });
  to.template add<SoftmaxForwardArgs>([](auto& a, auto& o) { o.out(a.y).in(a.x); });
  to.template add<SoftmaxBackwardArgs>([](auto& a, auto& o) { o.out(a.gx).in(a.gy, a.y); });
  to.template add<ResizeArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in); });
  to.template add<ResizeBackwardArgs>([](auto& a, auto& o) { o.out(a.gin).in(a.gout); });
  to.template add<FftArgs>([](auto& a, auto& o) { o.out(a.y).in(a.x); });
  to.template add<UnfoldBackwardArgs>([](auto& a, auto& o) { o.out(a.gx).in(a.gout); });
  list_reductions(to);
  list_attention(to);
  list_shapes(to);
  list_norms(to);
  list_losses(to);
  list_indexing(to);
  list_order_and_matrices(to);
}

// Of optimizer steps, whose launches the benchmark makes itself. step_decide lowers a mailbox,
// step_advance and loss_add count: they are launched once.
template <class To>
void list_optim_operands(To& to) {
  const auto rule = [](auto& a, auto& o) {
    o.out(a.param, a.n, a.dtype).in(a.grad, a.n, a.dtype);
    for (void*& state : a.state) o.out(state, a.n, a.dtype);
    o.out(a.half, a.n, a.half_dtype);
  };
  to.template add<SgdStepArgs>(rule);
  to.template add<AdamwStepArgs>(rule);
  to.template add<AdamStepArgs>(rule);
  to.template add<AdagradStepArgs>(rule);
  to.template add<RmspropStepArgs>(rule);
  to.template add<LionStepArgs>(rule);
  to.template add<NadamStepArgs>(rule);
  to.template add<RadamStepArgs>(rule);
  to.template add<AdamaxStepArgs>(rule);
  to.template add<AdadeltaStepArgs>(rule);
  to.template add<RpropStepArgs>(rule);
  to.template add<EmaStepArgs>(rule);
  to.template add<MuonStepArgs>([](auto& a, auto& o) {  // the direction is only read
    o.out(a.param, a.n, a.dtype).out(a.state[0], a.n, a.dtype);
    o.in(a.grad, a.n, a.dtype).in(a.state[1], a.n, a.dtype);
  });
  to.template add<MuonDirectionArgs>([](auto& a, auto& o) {
    o.out(a.out, a.n, a.dtype).in(a.grad, a.n, a.dtype).in(a.momentum, a.n, a.dtype);
  });
  to.template add<MuonNormalizeArgs>([](auto& a, auto& o) {
    o.out(a.out, a.n, a.dtype).in(a.in, a.n, a.dtype).in(a.partials, a.count, DType::f64);
  });
  to.template add<MuonPolynomialArgs>([](auto& a, auto& o) {
    const i64 n = a.rows * a.row_size();
    o.out(a.square, n, a.dtype).in(a.gram, n, a.dtype);
  });
  to.template add<StepRestoreArgs>([](auto& a, auto& o) { o.out(a.to, a.size, DType::u8); });
  to.template add<GradScaleArgs>([](auto& a, auto& o) { o.out(a.x, a.n, a.dtype); });
  to.template add<GradUnscaleArgs>([](auto& a, auto& o) {
    void* partials = a.partials;
    o.out(a.x, a.n, a.dtype).out(partials, norm_chunks(a.n), DType::f64);
  });
  to.template add<GradNormArgs>([](auto& a, auto& o) {
    void* partials = a.partials;
    o.out(partials, norm_chunks(a.n), DType::f64).in(a.grad, a.n, a.dtype);
  });
  to.template add<ExponentCountsArgs>([](auto& a, auto& o) {
    void* counts = a.counts;
    o.out(counts, a.rows * kExponentBins, DType::i64).in(a.x, a.n, a.dtype);
    o.in(a.parts, a.part_count * i64(sizeof(ExponentPart)), DType::u8);
  });
  to.template add<ImageBatchArgs>([](auto& a, auto& o) {
    o.out(a.out).in(a.images);
    if (a.targets) {
      void* targets = a.targets;
      o.out(targets, a.count(), DType::i64).in(a.labels, a.images.size(0), DType::i64);
    }
    if (a.order) o.in(a.order, a.count(), DType::i64);
    if (a.ids) o.in(a.ids, a.count(), DType::i64);
    if (a.cursor) o.in(a.cursor, 2, DType::i64);
  });
  to.template add<ImageColorArgs>([](auto& a, auto& o) {
    o.inout(a.images);
    if (a.ids) o.in(a.ids, a.count(), DType::i64);
  });
  to.template add<ImageEraseArgs>([](auto& a, auto& o) {
    o.inout(a.images);
    if (a.ids) o.in(a.ids, a.count(), DType::i64);
  });
  to.template add<ImageWarpArgs>([](auto& a, auto& o) {
    o.out(a.out).in(a.images);
    if (a.ids) o.in(a.ids, a.count(), DType::i64);
  });
  to.template add<ImageMixArgs>([](auto& a, auto& o) {
    o.out(a.out).in(a.images);
    if (a.targets) o.out(a.targets).in(a.labels);
    if (a.cursor) o.in(a.cursor, 2, DType::i64);
  });
  // batch_cursor counts: it is launched once.
  to.template add<RowBatchArgs>([](auto& a, auto& o) {
    for (int t = 0; t < a.tables; ++t) {
      const i64 rows = a.order.rows * (a.table[t].by_points ? a.points : 1);
      o.out(a.table[t].out, a.out_rows(t) * a.table[t].row_bytes, DType::u8);
      o.in(a.table[t].rows, rows * a.table[t].row_bytes, DType::u8);
    }
    if (a.order.list) o.in(a.order.list, a.count, DType::i64);
    if (a.order.cursor) o.in(a.order.cursor, 2, DType::i64);
  });
  to.template add<TokenBatchArgs>([](auto& a, auto& o) {
    void *x = a.x, *y = a.y;
    o.out(x, a.count * a.context, DType::i64);
    o.out(y, a.count * (a.every_position ? a.context : 1), DType::i64);
    o.in(a.tokens);
    if (a.order.list) o.in(a.order.list, a.count, DType::i64);
    if (a.order.cursor) o.in(a.order.cursor, 2, DType::i64);
  });
}

}  // namespace wt::operands
