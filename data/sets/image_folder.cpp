#include "warptape/data/image_folder.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/data/image_parts.h"
#include "warptape/data/resample.h"
#include "warptape/data/sets/folder_files.h"

namespace wt::data {

// One image as a batch takes it: u8 [channels, height, width].
struct ImageFolder::Pixels {
  i64 height = 0, width = 0;
  std::vector<u8> values;
};

namespace {

// Planes of 1 to 4 channels (grey, grey and alpha, RGB, RGBA) to 1 or 3.
void change_channels(std::vector<u8>& v, i64 plane, i64 have, i64 want) {
  const size_t n = size_t(plane);
  if (want == 3 && have <= 2) {
    v.resize(3 * n);
    std::copy_n(v.begin(), n, v.begin() + i64(n));
    std::copy_n(v.begin(), n, v.begin() + i64(2 * n));
  } else if (want == 1 && have >= 3) {
    // ITU-R BT.601, as PIL has it.
    for (size_t i = 0; i < n; ++i)
      v[i] =
          u8((19595 * u32(v[i]) + 38470 * u32(v[n + i]) + 7471 * u32(v[2 * n + i]) + 0x8000) >> 16);
  }
  v.resize(size_t(want) * n);
}

void check_options(const ImageFolderOptions& o) {
  const auto refuse = [](const std::string& why) { throw UsageError("[ImageFolder] " + why); };
  if (o.size.height < 0 || o.size.width < 0 || (o.size.height == 0) != (o.size.width == 0))
    refuse(str("a size of ", o.size.height, " x ", o.size.width, " has no pixels"));
  if (o.channels != 1 && o.channels != 3) refuse(str("channels must be 1 or 3, got ", o.channels));
  if (o.size.height > 0) return;
  if (o.bad == BadImages::blank)
    refuse("an image that cannot be read has no size to be blank in\n  Try .size");
  if (o.fast_downscale) refuse("fast_downscale needs a size to decode for\n  Try .size");
}

}  // namespace

struct ImageFolder::State {
  using SharedPixels = std::shared_ptr<const Pixels>;

  State(const std::string& root, const ImageFolderOptions& options)
      : o(options), listed((check_options(o), detail::list_image_folder(root, o.allow_empty))) {
    decoding = {.apply_orientation = o.apply_orientation, .limits = o.limits};
    if (o.fast_downscale) decoding.fast_height = o.size.height, decoding.fast_width = o.size.width;
    if (o.cache_bytes > 0) cache.resize(listed.files.size());
    if (o.keep_encoded) keep_files(root);
  }

  void keep_files(const std::string& root) {
    u64 all = 0;
    for (const detail::FolderFile& f : listed.files) all += f.bytes;
    if (all > o.limits.max_bytes)
      throw DataError(str(printable_path(root), ": keep_encoded would take ", all,
                          " bytes, the limit is ", o.limits.max_bytes));
    encoded.resize(listed.files.size());
    for (size_t i = 0; i < encoded.size(); ++i) {
      const detail::FolderFile& f = listed.files[i];
      detail::check_unchanged(f);
      const InputFile file(f.path);
      encoded[i].resize(size_t(file.size()));
      file.read(0, encoded[i].data(), encoded[i].size(), "the image");
    }
  }

  Tensor decode(i64 i) const {
    const detail::FolderFile& f = listed.files[size_t(i)];
    if (o.keep_encoded) return decode_image(encoded[size_t(i)], f.path, decoding);
    detail::check_unchanged(f);
    return read_image(f.path, decoding);
  }

  SharedPixels prepare(i64 i) const {
    const Tensor image = decode(i);
    const i64 height = image.size(0), width = image.size(1), channels = image.size(2);
    auto made = std::make_shared<Pixels>();
    const bool sized = o.size.height > 0;
    made->height = sized ? o.size.height : height;
    made->width = sized ? o.size.width : width;
    made->values.resize(size_t(made->height * made->width * channels));
    detail::resample(
        image.data<u8>(), height, width, channels,
        detail::middle_box(height, width, made->height, made->width, sized && o.keep_aspect),
        made->values.data(), made->height, made->width);
    change_channels(made->values, made->height * made->width, channels, o.channels);
    return made;
  }

  // None if it is bad, which is noted.
  SharedPixels good(i64 i) {
    {
      const std::lock_guard lock(mutex);
      if (!cache.empty() && cache[size_t(i)]) return cache[size_t(i)];
      if (bad.contains(i) && o.bad != BadImages::error) return nullptr;
    }
    SharedPixels made;
    try {
      made = prepare(i);
    } catch (const DataError& e) {
      // What vanished or changed is no bad image: other samples would come than a moment ago.
      if (!o.keep_encoded) detail::check_unchanged(listed.files[size_t(i)]);
      const std::lock_guard lock(mutex);
      bad[i] = e.what();
      return nullptr;
    }
    if (o.cache_bytes > 0) keep(i, made);
    return made;
  }

  void keep(i64 i, const SharedPixels& made) {
    const std::lock_guard lock(mutex);
    const u64 bytes = made->values.size();
    if (cache[size_t(i)] || bytes > o.cache_bytes - cached) return;
    cache[size_t(i)] = made;
    cached += bytes;
  }

  // The sample that is given for sample i, and its pixels.
  std::pair<i64, SharedPixels> sample(i64 i) {
    SharedPixels made = good(i);
    if (made) return {i, made};
    if (o.bad == BadImages::error) {
      const std::lock_guard lock(mutex);
      std::string why = bad.at(i);
      if (why.starts_with("DataError: ")) why.erase(0, 11);
      throw DataError(why + "\n  Try .bad = data::BadImages::skip or blank");
    }
    if (o.bad == BadImages::blank) {
      auto black = std::make_shared<Pixels>();
      black->height = o.size.height, black->width = o.size.width;
      black->values.resize(size_t(o.channels * o.size.height * o.size.width));
      return {i, black};
    }
    const i64 n = i64(listed.files.size());
    for (i64 k = 1; k < n; ++k)
      if (const i64 next = (i + k) % n; (made = good(next))) return {next, made};
    throw DataError(str(printable_path(listed.files[size_t(i)].path),
                        " and all other images of its ", "folder are bad"));
  }

  bool one_by_one() const { return !o.transform.empty() && o.size.height == 0; }
  ImageSize shown_size(const Pixels& p) const {
    const ImageSize size{p.height, p.width};
    return one_by_one() ? o.transform->output(size) : size;
  }
  void check_same_size(i64 i, const Pixels& p, const Pixels& first) const {
    const ImageSize is = shown_size(p), was = shown_size(first);
    if (is.height != was.height || is.width != was.width)
      throw ShapeError(str("[ImageFolder] ", printable_path(listed.files[size_t(i)].path), " is ",
                           is.height, " x ", is.width, ", the first image of the batch ",
                           was.height, " x ", was.width,
                           "\n  Try .size, or a transform that says it"));
  }

  // x of a batch.
  Tensor images_of(const std::vector<SharedPixels>& all, std::span<const i64> samples,
                   i64 epoch) const {
    if (one_by_one()) {
      std::vector<Tensor> rows;
      for (size_t i = 0; i < all.size(); ++i)
        rows.push_back((*o.transform)(
            stacked({all[i]}), {.samples = samples.subspan(i, 1), .epoch = epoch, .seed = o.seed}));
      return rows.empty() ? stacked({}).to(DType::f32) : concatenated(rows);
    }
    const Tensor x = stacked(all);
    if (o.transform.empty()) return x;
    return (*o.transform)(x, {.samples = samples, .epoch = epoch, .seed = o.seed});
  }

  Tensor stacked(const std::vector<SharedPixels>& all) const {
    const ImageSize size = all.empty() ? o.size : ImageSize(all[0]->height, all[0]->width);
    Tensor x = empty({i64(all.size()), o.channels, size.height, size.width},
                     {.dtype = DType::u8, .device = Device::cpu()});
    u8* to = x.mutable_data<u8>();
    for (const SharedPixels& p : all) to = std::copy(p->values.begin(), p->values.end(), to);
    return x;
  }
  // f32 [1, C, H, W] each.
  static Tensor concatenated(const std::vector<Tensor>& rows) {
    Tensor x = empty({i64(rows.size()), rows[0].size(1), rows[0].size(2), rows[0].size(3)},
                     {.device = Device::cpu()});
    float* to = x.mutable_data<float>();
    for (const Tensor& row : rows) to = std::copy_n(row.data<float>(), row.numel(), to);
    return x;
  }

  const ImageFolderOptions o;
  const detail::FolderFiles listed;
  ImageOptions decoding;
  std::vector<std::vector<u8>> encoded;

  std::mutex mutex;  // of what follows
  std::map<i64, std::string> bad;
  std::vector<SharedPixels> cache;
  u64 cached = 0;
};

ImageFolder::ImageFolder(const std::string& root, const ImageFolderOptions& o)
    : state_(std::make_shared<State>(root, o)) {}

i64 ImageFolder::size() const { return i64(state_->listed.files.size()); }

Batch ImageFolder::batch(std::span<const i64> samples, i64 epoch) const {
  State& s = *state_;
  std::vector<State::SharedPixels> pixels;
  std::vector<i64> labels;
  for (const i64 i : samples) {
    detail::check_sample("ImageFolder", i, size());
    const auto [from, of_sample] = s.sample(i);
    s.check_same_size(from, *of_sample, pixels.empty() ? *of_sample : *pixels.front());
    pixels.push_back(of_sample);
    labels.push_back(s.listed.files[size_t(from)].label);
  }
  return {s.images_of(pixels, samples, epoch), tensor(labels, {.device = Device::cpu()})};
}

const std::vector<std::string>& ImageFolder::classes() const { return state_->listed.classes; }

i64 ImageFolder::class_index(const std::string& name) const {
  const auto& all = classes();
  const auto at = std::lower_bound(all.begin(), all.end(), name);
  if (at == all.end() || *at != name)
    throw UsageError(
        str("[ImageFolder] \"", printable(name), "\" is none of the ", all.size(), " classes"));
  return at - all.begin();
}

const std::string& ImageFolder::path(i64 sample) const {
  detail::check_sample("ImageFolder", sample, size());
  return state_->listed.files[size_t(sample)].path;
}
i64 ImageFolder::label(i64 sample) const {
  detail::check_sample("ImageFolder", sample, size());
  return state_->listed.files[size_t(sample)].label;
}
i64 ImageFolder::left_out() const { return state_->listed.left_out; }

std::vector<BadImage> ImageFolder::bad_images() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<BadImage> all;
  for (const auto& [sample, reason] : state_->bad)
    all.push_back({.sample = sample, .path = path(sample), .reason = reason});
  return all;
}

std::vector<i64> ImageFolder::good_samples() const {
  std::vector<i64> all;
  for (i64 i = 0; i < size(); ++i)
    if (state_->good(i)) all.push_back(i);
  return all;
}

u64 ImageFolder::cached_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->cached;
}

}  // namespace wt::data
