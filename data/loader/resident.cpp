#include "warptape/data/resident.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/data/loader/resident_parts.h"
#include "warptape/data/plan.h"
#include "warptape/data/resident_loader.h"
#include "warptape/kernels/image_batch.h"
#include "warptape/kernels/sample_batch.h"

namespace wt::data {

namespace info {
constexpr OpInfo images{.name = "ResidentImages", .derivative = Derivative::none};
constexpr OpInfo tokens{.name = "ResidentTokens", .derivative = Derivative::none};
constexpr OpInfo points{.name = "ResidentPoints", .derivative = Derivative::none};
constexpr OpInfo cursor{.name = "ResidentLoader", .derivative = Derivative::none};
}  // namespace info

namespace {
i64* numbers(const Tensor& t) { return static_cast<i64*>(t.impl()->data); }
}  // namespace

BatchOrder detail::order_of(const char* dataset, const BatchAt& at, i64 rows, Device d) {
  BatchOrder order{
      .rows = rows, .shuffle = at.shuffle, .seed = at.seed, .epoch = at.epoch, .place = at.place};
  if (at.cursor.defined()) {
    if (at.cursor.dtype() != DType::i64 || at.cursor.numel() != 2 || at.cursor.device() != d)
      throw UsageError(str("[", dataset, "] the cursor must be two i64 on ", to_string(d), ", got ",
                           describe(at.cursor)));
    order.cursor = numbers(at.cursor);
  } else if (at.place < 0 || at.count < 0 || at.count > rows || at.place > rows - at.count) {
    throw IndexError(str("[", dataset, "] places ", at.place, " to ", at.place + at.count,
                         " are not in an epoch of ", rows, " samples"));
  }
  return order;
}

Tensor detail::resident(const char* dataset, const Tensor& t, Device d) {
  if (t.device() == d) return t.contiguous();
  const CategoryScope scope(Category::dataset);
  if (!d.is_meta) {
    require_available(d);
    check_fits(dataset, t.numel() * item_size(t.dtype()), capacity_of(d));
  }
  return t.contiguous().to(d);
}

// --- images ---

namespace {

void check_options(const ResidentImagesOptions& o, const Tensor& images, i64 height, i64 width) {
  const i64 channels = images.size(1);
  const auto fail = [](const std::string& why) { throw UsageError("[ResidentImages] " + why); };
  for (const auto* v : {&o.mean, &o.std})
    if (!v->empty() && i64(v->size()) != channels)
      fail(str(v == &o.mean ? "mean" : "std", " has ", v->size(), " numbers, the images have ",
               channels, " channels"));
  for (const float s : o.std)
    if (!(s > 0)) fail(str("std must be positive, got ", s));
  if (o.dtype != DType::f32 && !is_half(o.dtype))
    throw DtypeError(
        str("[ResidentImages] dtype must be f32, f16 or bf16, got ", dtype_name(o.dtype)));
  if (o.format == MemoryFormat::preserve) fail("format must be contiguous or channels_last");
  if (o.flatten && o.format == MemoryFormat::channels_last)
    fail("flatten needs contiguous images\n  Try without channels_last");
  if (o.classes < 0) fail(str("classes must be 0 or more, got ", o.classes));
  if (const char* why = bad_image_augment(o.augment, images.size(2), images.size(3), height, width))
    fail(why);
}

Tensor checked_labels(const Tensor& labels, i64 n, i64 classes) {
  if (labels.ndim() != 1 || labels.size(0) != n)
    throw ShapeError(str("[ResidentImages] expected ", n, " labels, one for each image, got shape ",
                         labels.shape()));
  const DType t = labels.dtype();
  if (t != DType::u8 && t != DType::i32 && t != DType::i64)
    throw DtypeError(str("[ResidentImages] labels must be u8, i32 or i64, got ", dtype_name(t)));
  const Tensor numbers = labels.to(DType::i64).contiguous();
  if (numbers.device().is_meta) return numbers;
  const i64 limit = classes > 0 ? classes : i64{1} << 31;
  const std::vector<i64> values = numbers.to_vector<i64>();
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] >= limit)
      throw IndexError(str("[ResidentImages] label ", values[i], " of image ", i,
                           " is outside [0, ", limit, ")"));
  return numbers;
}

}  // namespace

ResidentImages::ResidentImages(const Tensor& images, const Tensor& labels, Device device,
                               ResidentImagesOptions o)
    : o_(std::move(o)) {
  if (images.ndim() != 4 || images.size(1) < 1 || images.size(1) > kImageChannels)
    throw ShapeError(str("[ResidentImages] expected images [N, C, H, W] with 1 to ", kImageChannels,
                         " channels, got ", images.shape()));
  if (images.dtype() != DType::u8)
    throw DtypeError(str("[ResidentImages] images must be u8, got ", dtype_name(images.dtype())));
  if (o_.height == 0) o_.height = images.size(2);
  if (o_.width == 0) o_.width = images.size(3);
  check_options(o_, images, o_.height, o_.width);
  labels_ = checked_labels(labels, images.size(0), o_.classes);
  images_ = detail::resident("ResidentImages", images, device);
  labels_ = detail::resident("ResidentImages", labels_, device);
  for (size_t c = 0; c < size_t(images.size(1)); ++c) {
    const float mean = o_.mean.empty() ? 0.0f : o_.mean[c], std = o_.std.empty() ? 1.0f : o_.std[c];
    scale_.push_back(1 / (255.0f * std));
    shift_.push_back(-(mean / std));
  }
}

i64 ResidentImages::bytes() const {
  return images_.numel() + labels_.numel() * item_size(DType::i64);
}

Batch ResidentImages::batch(std::span<const i64> indices, i64 epoch) const {
  return detail::by_list("ResidentImages", indices, size(), device(), o_.seed, epoch,
                         [&](i64 n, const BatchOrder& order) { return make(n, order); });
}
Batch ResidentImages::batch_at(const BatchAt& at) const {
  const BatchOrder order = detail::order_of("ResidentImages", at, size(), device());
  detail::uses({&at.cursor});
  return make(at.count, order);
}

Batch ResidentImages::make(i64 n, const BatchOrder& order) const {
  const TensorOptions made{.dtype = o_.dtype, .device = device()};
  const i64 channels = images_.size(1);
  const bool last = o_.format == MemoryFormat::channels_last;
  Tensor x = last ? empty({n, o_.height, o_.width, channels}, made).permute({0, 3, 1, 2})
                  : empty({n, channels, o_.height, o_.width}, made);
  Tensor y = empty({n}, {.dtype = DType::i64, .device = device()});
  ImageBatchArgs a{.out = view_of(x.impl()), .images = view_of(images_.impl())};
  a.targets = numbers(y), a.labels = numbers(labels_);
  a.order = order.list, a.cursor = order.cursor;
  a.shuffle = order.shuffle, a.seed = order.seed;
  a.epoch = order.epoch, a.place = order.place;
  a.augment = o_.augment;
  std::copy(scale_.begin(), scale_.end(), a.scale);
  std::copy(shift_.begin(), shift_.end(), a.shift);
  detail::uses({&images_, &labels_});
  if (n > 0) run(a, detail::launch_on(info::images, device()));
  if (o_.flatten) x = x.view({n, channels * o_.height * o_.width});
  return {std::move(x), std::move(y)};
}

// --- tokens ---

ResidentTokens::ResidentTokens(const Tensor& tokens, Device device, const ResidentTokensOptions& o)
    : o_(o) {
  if (tokens.ndim() != 1)
    throw ShapeError(str("[ResidentTokens] expected tokens [n], got ", tokens.shape()));
  const TokenBatchArgs a{.tokens = view_of(tokens.impl())};
  if (const char* why = wt::detail::bad_token_batch(a))
    throw DtypeError(str("[ResidentTokens] ", why, ", got ", dtype_name(tokens.dtype())));
  if (o.context < 1 || o.stride < 1)
    throw UsageError(str("[ResidentTokens] context and stride must be at least 1, got ", o.context,
                         " and ", o.stride));
  const i64 n = tokens.size(0);
  if (n <= o.context)
    throw UsageError(str("[ResidentTokens] ", n, " tokens are too few for a context of ", o.context,
                         " and the token after it"));
  count_ = (n - o.context - 1) / o.stride + 1;
  tokens_ = detail::resident("ResidentTokens", tokens, device);
}

Batch ResidentTokens::batch(std::span<const i64> indices) const {
  return detail::by_list("ResidentTokens", indices, size(), device(), 0, 0,
                         [&](i64 n, const BatchOrder& order) { return make(n, order); });
}
Batch ResidentTokens::batch_at(const BatchAt& at) const {
  const BatchOrder order = detail::order_of("ResidentTokens", at, size(), device());
  detail::uses({&at.cursor});
  return make(at.count, order);
}

Batch ResidentTokens::make(i64 n, const BatchOrder& order) const {
  const TensorOptions made{.dtype = DType::i64, .device = device()};
  Batch b{empty({n, o_.context}, made),
          empty(o_.every_position ? Shape{n, o_.context} : Shape{n}, made)};
  detail::uses({&tokens_});
  if (n > 0)
    run(TokenBatchArgs{.x = numbers(b.x),
                       .y = numbers(b.y),
                       .tokens = view_of(tokens_.impl()),
                       .order = order,
                       .count = n,
                       .context = o_.context,
                       .stride = o_.stride,
                       .every_position = o_.every_position},
        detail::launch_on(info::tokens, device()));
  return b;
}

// --- points ---

ResidentPoints::ResidentPoints(const Tensor& x, const Tensor& y, Device device,
                               const ResidentPointsOptions& o)
    : one_(x.ndim() == 2), seed_(o.seed) {
  if (x.ndim() != 2 && x.ndim() != 3)
    throw ShapeError(str("[ResidentPoints] expected points [N, D] or [S, N, D], got ", x.shape()));
  clouds_ = one_ ? 1 : x.size(0);
  in_cloud_ = x.size(one_ ? 0 : 1);
  if (y.defined()) {
    const bool by_point = one_ ? y.ndim() >= 1 && y.size(0) == in_cloud_
                               : y.ndim() >= 2 && y.size(0) == clouds_ && y.size(1) == in_cloud_;
    y_by_points_ = by_point;
    if (!by_point && (one_ || y.ndim() < 1 || y.size(0) != clouds_))
      throw ShapeError(str("[ResidentPoints] y needs a value for each point or each cloud\n  x ",
                           describe(x), "\n  y ", describe(y)));
  }
  if (o.points < 0 || (o.points == 0 && !(o.ratio > 0 && o.ratio <= 1)))
    throw UsageError(str("[ResidentPoints] the ratio must be in (0, 1], or points at least 1, got ",
                         o.ratio, " and ", o.points));
  picks_ = o.points ? o.points : std::max<i64>(1, std::llround(o.ratio * double(in_cloud_)));
  if (picks_ > in_cloud_)
    throw UsageError(
        str("[ResidentPoints] ", picks_, " of ", in_cloud_, " points without replacement"));
  x_ = detail::resident("ResidentPoints", x, device);
  if (y.defined())
    y_ = detail::resident("ResidentPoints", y, device);
  else
    y_ = x_;
}

Batch ResidentPoints::batch(std::span<const i64> indices, i64 epoch) const {
  return detail::by_list("ResidentPoints", indices, size(), device(), seed_, epoch,
                         [&](i64 n, const BatchOrder& order) { return make(n, order); });
}
Batch ResidentPoints::batch_at(const BatchAt& at) const {
  const BatchOrder order = detail::order_of("ResidentPoints", at, size(), device());
  detail::uses({&at.cursor});
  return make(at.count, order);
}

Batch ResidentPoints::make(i64 n, const BatchOrder& order) const {
  if (one_ && n != 1)
    throw UsageError(str("[ResidentPoints] a batch of ", n,
                         " of one cloud\n  Try batch = 1, or "
                         "points [S, N, D]"));
  RowBatchArgs a{};
  a.order = order, a.count = n, a.picks = picks_, a.points = in_cloud_;
  const auto add = [&](const Tensor& from, bool by_points) {
    Shape shape = from.shape();
    i64 row = item_size(from.dtype());
    for (int axis = by_points && !one_ ? 2 : 1; axis < from.ndim(); ++axis) row *= shape[axis];
    if (one_)
      shape[0] = picks_;
    else
      shape[0] = n;
    if (by_points && !one_) shape[1] = picks_;
    Tensor out = empty(shape, {.dtype = from.dtype(), .device = device()});
    a.table[a.tables++] = {out.impl()->data, from.impl()->data, row, by_points};
    return out;
  };
  Batch b;
  b.x = add(x_, true);
  b.y = y_.same_as(x_) ? b.x : add(y_, y_by_points_);
  detail::uses({&x_, &y_});
  if (n > 0) run(a, detail::launch_on(info::points, device()));
  return b;
}

// --- the loader ---

void detail::check_resident_options(const LoaderOptions& o, i64 samples) {
  check_loader_options(o);
  if (o.sampler)
    throw UsageError(
        "[ResidentLoader] a sampler's list would be sent with every batch\n  Try a data::Loader");
  if (samples < 1) throw UsageError("[ResidentLoader] the dataset is empty");
  if (o.drop_last && o.batch > samples)
    throw UsageError(str("[ResidentLoader] a batch of ", o.batch, " is larger than the data (",
                         samples, " samples) and drop_last leaves nothing"));
}

i64 detail::next_resident_id() {
  static std::atomic<i64> last{0};
  return ++last;
}

bool detail::gathers_into_graph() { return wt::detail::recording_graph(); }

void detail::BatchCursor::put(Device d, i64 epoch, i64 place) {
  if (tensor_.defined() && known_ && epoch_ == epoch && place_ == place) return;
  if (!tensor_.defined()) tensor_ = empty({2}, {.dtype = DType::i64, .device = d});
  const i64 now[2] = {epoch, place};
  copy_bytes(tensor_.impl()->data, d, now, Device::cpu(), sizeof now);
  moved_to(epoch, place);
}

void detail::BatchCursor::advance(i64 count, i64 limit) {
  uses({&tensor_});
  run(BatchCursorArgs{.cursor = numbers(tensor_), .count = count, .limit = limit},
      detail::launch_on(info::cursor, tensor_.device()));
}

void detail::BatchCursor::moved_to(i64 epoch, i64 place) {
  epoch_ = epoch;
  place_ = place;
  known_ = true;
}

}  // namespace wt::data
