// Batches out of datasets that lie on the device.
#include "warptape/bench/gpu/maker.h"
#include "warptape/core/str.h"
#include "warptape/kernels/image_batch.h"
#include "warptape/kernels/sample_batch.h"

namespace wt::bench {
namespace {

struct ImageShape {
  i64 count, batch, channels, side;
};

// CIFAR-10 and Fashion-MNIST: shuffled, cropped out of padding, half of them mirrored.
Problem image_batch_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const ImageShape s = scale == Scale::small ? ImageShape{33, 7, shape ? 1 : 3, 9}
                       : shape               ? ImageShape{60'000, 8192, 1, 28}
                                             : ImageShape{50'000, 2000, 3, 32};
  const std::string text = str(s.batch, " of ", s.count, "x", s.channels, "x", s.side, "x", s.side);
  return problem_of(d, t, text, sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({s.batch, s.channels, s.side, s.side}, t), m.out({s.batch}, DType::i64)};
    const Shape images{s.count, s.channels, s.side, s.side};
    std::vector<u8> pixels(size_t(numel_of(images)));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = u8(i * 2654435761u >> 13);
    const Tensor in = m.kept(m.bytes(pixels.data(), i64(pixels.size())).view(images));
    ImageBatchArgs a{
        .seed = 3, .epoch = 1, .augment = {.padding = 4, .random_crop = true, .mirror = 0.5f}};
    a.shuffle = true;
    a.out = {out[0].impl()->data, &out[0].impl()->geometry};
    a.images = {in.impl()->data, &in.impl()->geometry};
    a.targets = static_cast<i64*>(out[1].impl()->data);
    a.labels = static_cast<const i64*>(m.indices({s.count}, 10).impl()->data);
    for (int c = 0; c < 3; ++c) a.scale[c] = 1 / 63.0f, a.shift[c] = -2;
    return a;
  });
}

// Points of clouds with a value for each: fresh subsets of a tenth.
Problem row_batch_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 clouds = scale == Scale::small ? 3 : 512, points = scale == Scale::small ? 50 : 10'000,
            batch = scale == Scale::small ? 2 : 64, picks = points / 10;
  const std::string text = str(batch, " of ", clouds, " clouds of ", points, "x3");
  return problem_of(d, t, text, sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({batch, picks, 3}, t), m.out({batch, picks}, t)};
    const Tensor x = m.kept(m.normal({clouds, points, 3}, t)),
                 y = m.kept(m.normal({clouds, points}, t));
    RowBatchArgs a{};
    a.tables = 2;
    a.table[0] = {out[0].impl()->data, x.impl()->data, 3 * item_size(t), true};
    a.table[1] = {out[1].impl()->data, y.impl()->data, item_size(t), true};
    a.order.rows = clouds, a.order.shuffle = true, a.order.seed = 3, a.order.epoch = 1;
    a.count = batch, a.picks = picks, a.points = points;
    return a;
  });
}

Problem token_batch_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 tokens = scale == Scale::small ? 200 : 100'000'000,
            context = scale == Scale::small ? 9 : 1024, batch = scale == Scale::small ? 3 : 64;
  return problem_of(
      d, t, str(batch, "x", context, " of ", tokens), sets,
      [&](Maker& m, std::vector<Tensor>& out) {
        out = {m.out({batch, context}, DType::i64), m.out({batch, context}, DType::i64)};
        std::vector<u8> text(static_cast<size_t>(tokens));
        for (size_t i = 0; i < text.size(); ++i) text[i] = u8(i * 2654435761u >> 13);
        const Tensor in = m.kept(m.bytes(text.data(), tokens));
        TokenBatchArgs a{};
        a.x = static_cast<i64*>(out[0].impl()->data);
        a.y = static_cast<i64*>(out[1].impl()->data);
        a.tokens = {in.impl()->data, &in.impl()->geometry};
        a.order.rows = tokens - context, a.order.shuffle = true, a.order.seed = 3;
        a.count = batch, a.context = context;
        return a;
      });
}

Problem batch_cursor_problem(Device d, DType t, Scale, int, int sets) {
  return in_place(problem_of(d, t, "2", sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.indices({2}, 1000)};
    BatchCursorArgs a{};
    a.cursor = static_cast<i64*>(out[0].impl()->data);
    a.count = 64, a.limit = 60'000;
    return a;
  }));
}

}  // namespace

void add_data_rows(std::vector<ProblemRow>& rows) {
  rows.push_back({"image_batch", {DType::f32, DType::f16, DType::bf16}, 2, image_batch_problem});
  rows.push_back({"row_batch", {DType::f32, DType::f16}, 1, row_batch_problem});
  rows.push_back({"batch_cursor", {DType::i64}, 1, batch_cursor_problem});
  rows.push_back({"token_batch", {DType::u8}, 1, token_batch_problem});
}

}  // namespace wt::bench
