// Convolution on simt and cuda, forward and by input; conv_weight.cu has the gradient of the
// weight. The ladder:
//   naive     one thread an element, any shape and strides: conv/conv_direct.cuh
//   channels  one thread eight channels of a pixel: an element of x is read once for eight products
//   tiled     64 channels of 64 pixels a block, through shared memory: conv/conv_tiled.cuh
//   tensor_core  the same on mma.m16n8k16, for f16 and bf16: conv/conv_mma.cuh
// All of them make an epilogue before they write: conv/conv_finish.cuh.
#include "warptape/kernels/conv.h"

#include "warptape/kernels/conv/conv_direct.cuh"
#include "warptape/kernels/conv/conv_mma.cuh"
#include "warptape/kernels/dispatch/run_matmul_epilogue.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Calls f with whether there is an epilogue, as a type.
template <class F>
void with_end(const ConvForwardArgs& a, F f) {
  a.epilogue ? f(std::true_type{}) : f(std::false_type{});
}
template <class F>
void with_end(const ConvBackwardInputArgs&, F f) {
  f(std::false_type{});
}

template <class T>
ConvNaive<T> naive_of(const ConvShape& s, const ConvTensor& to, const ConvTensor& from,
                      const ConvTensor& w, const void* bias, const ConvEnd& end = {}) {
  return {s,
          ConvPlanes<T, i64>(to),
          ConvPlanes<const T, i64>(from),
          ConvPlanes<const T, i64>(w),
          static_cast<const T*>(bias),
          end};
}
void launch_naive(const ConvForwardArgs& a, const Launch& l) {
  with_float_or_double(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_end(a, [&]<class Ends>(Ends) {
      launch<conv_naive<T, Ends::value>>(
          grid_of(l, ceil_div(a.shape.y_numel(), kConvThreads), kConvThreads),
          naive_of<T>(a.shape, a.y, a.x, a.w, a.bias, end_of(a)));
    });
  });
}
void launch_naive(const ConvBackwardInputArgs& a, const Launch& l) {
  with_float_or_double(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<conv_input_naive<T>>(grid_of(l, ceil_div(a.shape.x_numel(), kConvThreads), kConvThreads),
                                naive_of<T>(a.shape, a.x, a.y, a.w, a.bias));
  });
}

template <class T>
ConvChannels<T> channels_of(const ConvShape& s, const i64 (&pixels)[3], i64 channels,
                            const ConvTensor& to, const ConvTensor& from, const ConvTensor& w,
                            const void* bias, const ConvEnd& end = {}) {
  const auto by = [&](int d) { return fast_divisor(u32(pixels[d] > 0 ? pixels[d] : 1)); };
  return {ConvShape32(s),
          {by(0), by(1), by(2)},
          int(ceil_div(channels, kEach)),
          ConvPlanes<T, i32>(to),
          ConvPlanes<const T, i32>(from),
          ConvPlanes<const T, i32>(w),
          static_cast<const T*>(bias),
          end};
}
Config channels_grid(const Launch& l, i64 pixels, i64 blocks) {
  Config c = grid_of(l, ceil_div(pixels, kConvThreads), kConvThreads);
  c.grid.y = unsigned(pixels > 0 ? blocks : 0);
  return c;
}
void launch_channels(const ConvForwardArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  with_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = channels_of<T>(s, s.out, s.out_group(), a.y, a.x, a.w, a.bias, end_of(a));
    const i64 pixels = s.batch * s.out[0] * s.out[1] * s.out[2];
    with_end(a, [&]<class Ends>(Ends) {
      launch<conv_channels<T, Ends::value>>(channels_grid(l, pixels, s.groups * k.blocks), k);
    });
  });
}
void launch_channels(const ConvBackwardInputArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  with_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = channels_of<T>(s, s.in, s.in_group(), a.x, a.y, a.w, a.bias);
    const i64 pixels = s.batch * s.in[0] * s.in[1] * s.in[2];
    launch<conv_input_channels<T>>(channels_grid(l, pixels, s.groups * k.blocks), k);
  });
}

template <class Args>
const char* why_not_channels(const Args& a) {
  const ConvShape& s = a.shape;
  if (const char* why = why_not_32_bits(s, a.x, a.y, a.w)) return why;
  const i64 most = s.in_group() > s.out_group() ? s.in_group() : s.out_group();
  return s.groups * ceil_div(most, kEach) > 65535 ? "more than 65535 blocks of channels" : nullptr;
}

// What the two directions say in their own words: channels of a group that are made and that are
// summed over, tensors that are written and gathered.
ConvTensor written(const ConvForwardArgs& a) { return a.y; }
ConvTensor written(const ConvBackwardInputArgs& a) { return a.x; }
ConvTensor gathered(const ConvForwardArgs& a) { return a.x; }
ConvTensor gathered(const ConvBackwardInputArgs& a) { return a.y; }
i64 made(const ConvForwardArgs& a) { return a.shape.out_group(); }
i64 made(const ConvBackwardInputArgs& a) { return a.shape.in_group(); }
i64 summed(const ConvForwardArgs& a) { return a.shape.in_group(); }
i64 summed(const ConvBackwardInputArgs& a) { return a.shape.out_group(); }
constexpr bool goes_forward(const ConvForwardArgs&) { return true; }
constexpr bool goes_forward(const ConvBackwardInputArgs&) { return false; }

ConvTileAxis tile_axis(const ConvShape& s, int d, bool forward) {
  if (forward)
    return {.size = i32(s.out[d]),
            .from_size = i32(s.in[d]),
            .kernel = i32(s.kernel[d]),
            .period = 1,
            .phases = 1,
            .shift = i32(-s.padding[d]),
            .dilation = i32(-s.dilation[d]),
            .stride = i32(s.stride[d]),
            .tap_step = 1,
            .reach = i32(s.dilation[d])};
  i64 common = s.stride[d];  // greatest divisor of stride and dilation
  for (i64 rest = s.dilation[d]; rest != 0;) {
    const i64 next = common % rest;
    common = rest, rest = next;
  }
  return {.size = i32(s.in[d]),
          .from_size = i32(s.out[d]),
          .kernel = i32(s.kernel[d]),
          .period = i32(s.stride[d]),
          .phases = i32(s.stride[d] < s.in[d] ? s.stride[d] : s.in[d]),
          .shift = i32(s.padding[d]),
          .dilation = i32(s.dilation[d]),
          .stride = 1,
          .tap_step = i32(s.stride[d] / common),
          .reach = i32(-s.dilation[d] / common)};
}

// Weights in the workspace: rows of as many as there are, or of whole packs of eight.
template <class Args>
i64 packed_numel(const Args& a, i64 unit) {
  const ConvShape& s = a.shape;
  return s.groups * summed(a) * s.kernel[0] * s.kernel[1] * s.kernel[2] *
         (ceil_div(made(a), unit) * unit);
}
template <class Args, i64 Unit>
i64 packed_workspace(const Args& a) {
  return packed_numel(a, Unit) * item_size(a.shape.dtype);
}
template <class T, class Args>
ConvTiles<T> tiles_of(const Args& a, i64 unit, const Launch& l) {
  const ConvShape& s = a.shape;
  const bool forward = goes_forward(a);
  const ConvTensor to = written(a), from = gathered(a);
  ConvTensor w = a.w;
  if (!forward) w.batch = a.w.channel, w.channel = a.w.batch;
  const auto by = [](i64 n) { return fast_divisor(u32(n > 0 ? n : 1)); };
  const ConvTileAxis x0 = tile_axis(s, 0, forward), x1 = tile_axis(s, 1, forward),
                     x2 = tile_axis(s, 2, forward);
  return {{x0, x1, x2},
          i32(s.batch),
          i32(made(a)),
          i32(summed(a)),
          x0.phases * x1.phases * x2.phases,
          ConvPlanes<T, i32>(to),
          ConvPlanes<const T, i32>(from),
          ConvPlanes<const T, i32>(w),
          i32(s.out_group() * a.w.batch),
          static_cast<T*>(l.workspace),
          static_cast<const T*>(a.bias),
          by(ceil_div(made(a), unit) * unit),
          by(summed(a)),
          by(s.kernel[0] * s.kernel[1] * s.kernel[2]),
          by(s.kernel[1]),
          by(s.kernel[2]),
          end_of(a)};
}
// Packs the weights, and says of which grid the tiles are.
template <class T, class Args>
Config pack_weights(const ConvTiles<T>& k, const Args& a, i64 unit, int threads, const Launch& l) {
  const i64 count = packed_numel(a, unit);
  launch<conv_pack_weights<T>>(grid_of(l, ceil_div(count, kTileThreads), kTileThreads), k,
                               u32(count));
  i64 pixels = k.batch;  // of the first phase, which has the most
  for (const ConvTileAxis& x : k.axis) pixels *= ceil_div(x.size, x.period);
  Config c = grid_of(l, ceil_div(pixels, kTileSide), threads);
  c.grid.y = unsigned(ceil_div(made(a), kTileSide));
  c.grid.z = unsigned(a.shape.groups * k.phases);
  return c;
}
template <class Args>
void launch_tiled(const Args& a, const Launch& l) {
  with_float(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ConvTiles<T> k = tiles_of<T>(a, 1, l);
    const Config c = pack_weights(k, a, 1, kTileThreads, l);
    with_end(a, [&]<class Ends>(Ends) { launch<conv_tiled<T, Ends::value>>(c, k); });
  });
}
template <class Args>
void launch_tensor_core(const Args& a, const Launch& l) {
  with_half(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ConvTiles<T> k = tiles_of<T>(a, 8, l);
    const Config c = pack_weights(k, a, 8, kConvMmaThreads, l);
    const bool packs = packs_of_channels(gathered(a), summed(a));
    with_end(a, [&]<class Ends>(Ends) {
      packs ? launch<conv_mma<T, true, Ends::value>>(c, k)
            : launch<conv_mma<T, false, Ends::value>>(c, k);
    });
  });
}

template <class Args>
const char* why_not_tiled(const Args& a) {
  const ConvShape& s = a.shape;
  if (const char* why = why_not_32_bits(s, a.x, a.y, a.w)) return why;
  i64 blocks = s.groups;  // of one tile, in all phases
  for (int d = 0; d < 3 && !goes_forward(a) && blocks <= 65535; ++d)
    blocks *= s.stride[d] < s.in[d] ? s.stride[d] : s.in[d];
  if (blocks > 65535) return "takes up to 65535 groups times strides";
  return ceil_div(made(a), kTileSide) > 65535 ? "takes up to 4194240 channels" : nullptr;
}
// A tile of 64 channels of which 16 are there computes a quarter of the time, which is what
// `channels` computes with its eight; and with a sum of a few terms nothing but memory counts.
template <class Args>
int tiled_rank(const Args& a) {
  const ConvShape& s = a.shape;
  return made(a) > 16 && summed(a) * s.kernel[0] * s.kernel[1] * s.kernel[2] >= 16 ? 30 : 15;
}

template <class Args>
const char* why_not_tensor_core(const Args& a) {
  if (!is_half(a.shape.dtype)) return "takes f16 and bf16 only";
  if (const char* why = why_not_tiled(a)) return why;
  return packed_numel(a, 8) >= i64(1) << 31 ? "weights of 2^31 elements" : nullptr;
}
template <class Args>
int tensor_core_rank(const Args& a) {
  return tiled_rank(a) == 30 ? 40 : 16;
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, conv_forward, ConvForwardArgs,
            {.name = "tensor_core",
             .rank = 40,
             .why_not = why_not_tensor_core<ConvForwardArgs>,
             .why_not_on = why_not_tensor_core_on<ConvForwardArgs>,
             .rank_of = tensor_core_rank<ConvForwardArgs>,
             .workspace = packed_workspace<ConvForwardArgs, 8>,
             .launch = launch_tensor_core<ConvForwardArgs>},
            {.name = "tiled",
             .rank = 30,
             .why_not = why_not_tiled<ConvForwardArgs>,
             .rank_of = tiled_rank<ConvForwardArgs>,
             .workspace = packed_workspace<ConvForwardArgs, 1>,
             .launch = launch_tiled<ConvForwardArgs>},
            {.name = "channels",
             .rank = 20,
             .why_not = why_not_channels<ConvForwardArgs>,
             .launch = launch_channels},
            {.name = "naive", .rank = 10, .launch = launch_naive}
// cuDNN comes last: no GPU has shown yet where it is right and the faster one, so it is chosen by
// name, or by `wt tune` on a GPU where it is.
#if defined(__CUDACC__)
            ,
            {.name = "cudnn",
             .rank = 5,
             .why_not = conv_forward_cudnn_why_not,
             .launch = with_epilogue<conv_forward_cudnn>}
#endif
);
WT_VARIANTS(WT_DEVICE_NS, conv_backward_input, ConvBackwardInputArgs,
            {.name = "tensor_core",
             .rank = 40,
             .why_not = why_not_tensor_core<ConvBackwardInputArgs>,
             .why_not_on = why_not_tensor_core_on<ConvBackwardInputArgs>,
             .rank_of = tensor_core_rank<ConvBackwardInputArgs>,
             .workspace = packed_workspace<ConvBackwardInputArgs, 8>,
             .launch = launch_tensor_core<ConvBackwardInputArgs>},
            {.name = "tiled",
             .rank = 30,
             .why_not = why_not_tiled<ConvBackwardInputArgs>,
             .rank_of = tiled_rank<ConvBackwardInputArgs>,
             .workspace = packed_workspace<ConvBackwardInputArgs, 1>,
             .launch = launch_tiled<ConvBackwardInputArgs>},
            {.name = "channels",
             .rank = 20,
             .why_not = why_not_channels<ConvBackwardInputArgs>,
             .launch = launch_channels},
            {.name = "naive", .rank = 10, .launch = launch_naive}
#if defined(__CUDACC__)
            ,
            {.name = "cudnn",
             .rank = 5,
             .why_not = conv_backward_input_cudnn_why_not,
             .launch = conv_backward_input_cudnn}
#endif
);

}  // namespace wt
