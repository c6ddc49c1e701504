// What each contract that operators launch reads and writes: a line a contract.
#include "warptape/bench/gpu/launched.h"
#include "warptape/kernels/attention.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/kernels/cdist.h"
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/ctc.h"
#include "warptape/kernels/dropout.h"
#include "warptape/kernels/embedding.h"
#include "warptape/kernels/gather.h"
#include "warptape/kernels/index.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/linalg.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/mse.h"
#include "warptape/kernels/nll.h"
#include "warptape/kernels/pool.h"
#include "warptape/kernels/random_fill.h"
#include "warptape/kernels/reduce.h"
#include "warptape/kernels/resize.h"
#include "warptape/kernels/rms_norm.h"
#include "warptape/kernels/running_stats.h"
#include "warptape/kernels/scan.h"
#include "warptape/kernels/sequence.h"
#include "warptape/kernels/softmax.h"
#include "warptape/kernels/sort.h"
#include "warptape/kernels/unfold.h"

namespace wt::bench {
namespace {

void add_reductions(Launchers& to) {
#define WT_LAUNCHER(contract, Entry) \
  to.add<ReduceArgs<red::Entry>>([](auto& a, auto& o) { o.out(a.out).in(a.in); });
  WT_REDUCTIONS(WT_LAUNCHER)
#undef WT_LAUNCHER
}

void add_attention(Launchers& to) {
  to.add<AttentionForwardArgs>(
      [](auto& a, auto& o) { o.out(a.out, a.lse).in(a.v, a.scores.q, a.scores.k, a.scores.mask); });
  to.add<AttentionBackwardArgs>([](auto& a, auto& o) {
    o.out(a.gq, a.gk, a.gv).in(a.gout, a.out, a.lse, a.v);
    o.in(a.scores.q, a.scores.k, a.scores.mask);
  });
}

// Contracts that see no views but pointers and a shape.
void add_shapes(Launchers& to) {
  to.add<MatmulArgs>([](auto& a, auto& o) {
    o.out(a.out, a.batches() * a.m * a.n, a.dtype).out(a.row_sum, a.m, a.dtype);
  });
  to.add<ConvForwardArgs>(
      [](auto& a, auto& o) { o.out(a.y.data, a.shape.y_numel(), a.shape.dtype); });
  to.add<ConvBackwardInputArgs>(
      [](auto& a, auto& o) { o.out(a.x.data, a.shape.x_numel(), a.shape.dtype); });
  to.add<ConvBackwardWeightArgs>([](auto& a, auto& o) {
    o.out(a.w.data, a.shape.w_numel(), a.shape.dtype);
    o.out(a.y_sum, a.shape.out_channels, a.shape.dtype);
  });
  const auto writes_y = [](auto& a, auto& o) { o.out(a.y.data, a.shape.y_numel(), a.shape.dtype); };
  const auto writes_gx = [](auto& a, auto& o) {
    o.out(a.gx.data, a.shape.x_numel(), a.shape.dtype);
  };
  to.add<MaxPoolForwardArgs>(writes_y);
  to.add<MaxPoolBackwardArgs>(writes_gx);
  to.add<MaxPoolGatherArgs>(writes_y);
  to.add<AvgPoolForwardArgs>(writes_y);
  to.add<AvgPoolBackwardArgs>(writes_gx);
}

void add_norms(Launchers& to) {
  to.add<LayerNormForwardArgs>(
      [](auto& a, auto& o) { o.out(a.y, a.stats).in(a.x, a.weight, a.bias); });
  to.add<LayerNormBackwardInputArgs>(
      [](auto& a, auto& o) { o.out(a.gx).in(a.gy, a.x, a.stats, a.weight); });
  to.add<LayerNormBackwardParamsArgs>(
      [](auto& a, auto& o) { o.out(a.gweight, a.gbias).in(a.gy, a.x, a.stats); });
  to.add<RmsNormForwardArgs>([](auto& a, auto& o) { o.out(a.y, a.stats).in(a.x, a.weight); });
  to.add<RmsNormBackwardInputArgs>(
      [](auto& a, auto& o) { o.out(a.gx).in(a.gy, a.x, a.stats, a.weight); });
  to.add<RunningStatsArgs>([](auto& a, auto& o) {
    o.out(a.new_mean, a.new_var).in(a.mean, a.var, a.batch_mean, a.batch_var);
  });
  to.add<ChannelStatsArgs>([](auto& a, auto& o) { o.out(a.stats, a.variance).in(a.x); });
  to.add<ChannelNormForwardArgs>(
      [](auto& a, auto& o) { o.out(a.y).in(a.x, a.stats, a.weight, a.bias); });
  to.add<ChannelNormSumsArgs>([](auto& a, auto& o) { o.out(a.sums).in(a.gy, a.x, a.stats); });
  to.add<ChannelNormBackwardArgs>(
      [](auto& a, auto& o) { o.out(a.gx).in(a.gy, a.x, a.stats, a.weight, a.sums); });
}

void add_losses(Launchers& to) {
  to.add<CrossEntropyForwardArgs>(
      [](auto& a, auto& o) { o.out(a.loss_sum, a.weight, a.stats).in(a.logits, a.labels); });
  to.add<CrossEntropyBackwardArgs>(
      [](auto& a, auto& o) { o.out(a.glogits).in(a.grad, a.stats, a.logits, a.labels); });
  to.add<NllForwardArgs>([](auto& a, auto& o) {
    o.out(a.loss_sum, a.weight).in(a.log_probs, a.labels, a.class_weights);
  });
  to.add<NllBackwardArgs>(
      [](auto& a, auto& o) { o.out(a.gx).in(a.grad, a.labels, a.class_weights); });
  to.add<MseForwardArgs>([](auto& a, auto& o) { o.out(a.loss_sum, a.weight).in(a.a, a.b); });
  to.add<MseBackwardArgs>([](auto& a, auto& o) { o.out(a.ga).in(a.grad, a.a, a.b); });
  to.add<CtcForwardArgs>([](auto& a, auto& o) {
    o.out(a.loss_sum, a.losses);  // alpha is defined in part
    o.in(a.alpha, a.log_probs, a.targets, a.input_lengths, a.target_lengths);
  });
  to.add<CtcBackwardArgs>([](auto& a, auto& o) {
    o.out(a.gx).in(a.grad, a.losses, a.alpha);
    o.in(a.log_probs, a.targets, a.input_lengths, a.target_lengths);
  });
}

void add_indexing(Launchers& to) {
  to.add<EmbeddingForwardArgs>([](auto& a, auto& o) { o.out(a.out).in(a.weight, a.indices); });
  to.add<EmbeddingBackwardArgs>([](auto& a, auto& o) { o.out(a.gweight).in(a.gout, a.indices); });
  to.add<GatherArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in, a.index); });
  to.add<ScatterArgs>([](auto& a, auto& o) { o.inout(a.out).in(a.source, a.index); });
  to.add<IndexRowsArgs>([](auto& a, auto& o) {
    o.out(a.rows);
    for (int i = 0; i < a.count; ++i) o.in(a.indices[i]);
  });
  // All of the table: its row has more positions than it has rows.
  to.add<IndexPutArgs>([](auto& a, auto& o) { o.out(a.table).in(a.rows, a.values); });
  to.add<BitPackArgs>([](auto& a, auto& o) { o.out(a.bits).in(a.in); });
  to.add<BitUnpackArgs>([](auto& a, auto& o) { o.out(a.out).in(a.bits); });
}

void add_order_and_matrices(Launchers& to) {
  to.add<SortArgs>([](auto& a, auto& o) { o.out(a.values, a.indices).in(a.in); });
  to.add<BincountArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in, a.weights); });
  to.add<RandomFillArgs>([](auto& a, auto& o) { o.out(a.out); });
  to.add<SequenceArgs>([](auto& a, auto& o) { o.out(a.out); });
  to.add<MultinomialArgs>([](auto& a, auto& o) { o.out(a.out).in(a.p); });
  to.add<ScanArgs>([](auto& a, auto& o) { o.out(a.out).in(a.factor, a.term); });
  to.add<CholeskyArgs>([](auto& a, auto& o) { o.out(a.out, a.info).in(a.in); });
  to.add<CdistForwardArgs>([](auto& a, auto& o) { o.out(a.y).in(a.a, a.b); });
  to.add<CdistBackwardArgs>([](auto& a, auto& o) { o.out(a.ga, a.gb).in(a.gy, a.y, a.a, a.b); });
  to.add<SolveTriangularArgs>([](auto& a, auto& o) { o.inout(a.out).in(a.a); });
  to.add<QrArgs>([](auto& a, auto& o) { o.out(a.q, a.r).in(a.in); });
  to.add<EighArgs>([](auto& a, auto& o) {
    o.out(a.values, a.info).in(a.vectors, a.in);  // a vector's sign is free
  });
}

}  // namespace

void add_launchers(Launchers& to) {
  to.add<CopyArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in); });
  to.add<FillArgs>([](auto& a, auto& o) { o.out(a.out); });
  to.add<DropoutArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in); });
  to.add<SoftmaxForwardArgs>([](auto& a, auto& o) { o.out(a.y).in(a.x); });
  to.add<SoftmaxBackwardArgs>([](auto& a, auto& o) { o.out(a.gx).in(a.gy, a.y); });
  to.add<ResizeArgs>([](auto& a, auto& o) { o.out(a.out).in(a.in); });
  to.add<ResizeBackwardArgs>([](auto& a, auto& o) { o.out(a.gin).in(a.gout); });
  to.add<UnfoldBackwardArgs>([](auto& a, auto& o) { o.out(a.gx).in(a.gout); });
  add_reductions(to);
  add_attention(to);
  add_shapes(to);
  add_norms(to);
  add_losses(to);
  add_indexing(to);
  add_order_and_matrices(to);
  add_pointwise_launchers(to);
}

}  // namespace wt::bench
