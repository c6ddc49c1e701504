#include "warptape/tools/wt/data/pictures.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/data/bytes.h"
#include "warptape/data/cifar.h"
#include "warptape/data/idx.h"
#include "warptape/data/image.h"
#include "warptape/data/loader.h"
#include "warptape/data/npz.h"
#include "warptape/tools/wt/data/data_kind.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

// Grey or colour; alpha is dropped.
Tensor seen(const Tensor& chw) {
  const i64 c = chw.size(0);
  return (c == 2 || c == 4 ? chw.narrow(0, 0, c - 1) : chw).contiguous();
}

using Names = std::function<std::string(i64 label)>;

// Some of the images [N, C, H, W], with their labels.
std::vector<Picture> some_of(const Tensor& images, const Tensor& labels, const Names& name,
                             const std::vector<i64>& order, i64 count) {
  std::vector<Picture> all;
  for (size_t i = 0; i < order.size() && i64(i) < count; ++i) {
    const i64 k = order[i];
    std::string label = labels.defined() ? name(i64(labels.data<u8>()[k])) : str(k);
    all.push_back({seen(images[k]), std::move(label), k});
  }
  return all;
}

std::string number_name(i64 label) { return str(label); }

struct Reader {
  const PictureOptions& o;

  std::vector<i64> order(i64 n) const { return data::epoch_order(n, o.shuffle, o.seed, 0); }

  PictureSet idx(const std::string& path, const std::string& labels, const Names& name) const {
    Tensor t = data::read_idx(path);
    if (t.ndim() == 3) t = unsqueeze(t, 1);
    if (t.ndim() != 4 || t.size(1) > 4)
      throw DataError(str(printable_path(path), ": no images: its shape is ", t.shape()));
    const Tensor l = labels.empty() ? Tensor() : data::read_idx(labels);
    if (l.defined() && (l.ndim() != 1 || l.size(0) != t.size(0)))
      throw DataError(
          str(printable_path(labels), ": expected ", t.size(0), " labels, got shape ", l.shape()));
    return {str(t.size(0), " images of ", t.size(2), " x ", t.size(3)),
            some_of(t, l, name, order(t.size(0)), o.count),
            {}};
  }

  PictureSet fashion(const std::string& images, const std::string& labels) const {
    if (o.digits) return idx(images, labels, number_name);
    PictureSet s = idx(images, labels, [](i64 l) -> std::string {
      const auto& names = data::FashionMnist::class_names();
      return l < i64(names.size()) ? names[size_t(l)] : str(l);
    });
    s.what = "Fashion-MNIST: " + s.what;
    return s;
  }

  PictureSet cifar(const std::string& path) const {
    const data::CifarFile f = data::read_cifar10(path);
    const Names name = [](i64 l) { return std::string(data::Cifar10::class_names()[size_t(l)]); };
    return {str("CIFAR-10: ", f.labels.numel(), " images of 32 x 32"),
            some_of(f.images, f.labels, name, order(f.labels.numel()), o.count),
            {}};
  }

  PictureSet npy(const std::string& path) const {
    Tensor t = data::read_npy(path);
    if (t.dtype() != DType::u8)
      throw DataError(
          str(printable_path(path), ": images must be u8, got ", dtype_name(t.dtype())));
    if (t.ndim() == 2) t = unsqueeze(t, 0);
    if (t.ndim() == 3) t = unsqueeze(t, 1);
    if (t.ndim() == 4 && t.size(1) > 4 && t.size(3) <= 4) t = permute(t, {0, 3, 1, 2});
    if (t.ndim() != 4 || t.size(1) < 1 || t.size(1) > 4)
      throw DataError(str(printable_path(path), ": no images: its shape is ", t.shape()));
    return {str(t.size(0), " images of ", t.size(2), " x ", t.size(3)),
            some_of(t, {}, number_name, order(t.size(0)), o.count),
            {}};
  }

  PictureSet file(const std::string& path) const {
    const std::vector<u8> head = data::read_first_bytes(path, 8);
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    if (text.starts_with("\x93NUMPY")) return npy(path);
    if (head.size() >= 4 && head[0] == 0 && head[1] == 0) return idx(path, "", number_name);
    if (path.find(".bin") != path.npos) return cifar(path);
    const Tensor image = data::read_image(path);
    return {str("1 image of ", image.size(0), " x ", image.size(1)),
            {{seen(permute(image, {2, 0, 1})), fs::path(path).filename().string(), 0}},
            {}};
  }

  // Image files of a folder and of the folders in it.
  PictureSet folder(const std::string& root) const {
    std::vector<std::pair<std::string, std::string>> files;  // with their class
    const auto entries = [](const fs::path& in) {
      std::error_code why;
      fs::directory_iterator all(in, why);
      if (why)
        throw DataError(str(printable_path(in.string()), ": cannot be listed: ", why.message()));
      return all;
    };
    const auto list = [&](const fs::path& in, const std::string& label) {
      for (const fs::directory_entry& e : entries(in))
        if (e.is_regular_file() && e.path().filename().string().front() != '.')
          files.emplace_back(e.path().string(),
                             label.empty() ? e.path().filename().string() : label);
    };
    list(root, "");
    for (const fs::directory_entry& e : entries(root))
      if (e.is_directory()) list(e.path(), e.path().filename().string());
    std::sort(files.begin(), files.end());
    PictureSet s{str(i64(files.size()), " files"), {}, {}};
    for (const i64 k : order(i64(files.size()))) {
      if (i64(s.pictures.size()) == o.count) break;
      const auto& [path, label] = files[size_t(k)];
      try {
        s.pictures.push_back({seen(permute(data::read_image(path), {2, 0, 1})), label, k});
      } catch (const DataError& e) {
        s.refused.push_back(e.what());
      } catch (const NotAvailable& e) {  // a format that this build does not read
        s.refused.push_back(e.what());
      }
    }
    if (s.pictures.empty())
      throw DataError(str(printable_path(root), ": no image among its ", files.size(), " files",
                          s.refused.empty() ? "" : "; the first one: " + s.refused[0]));
    return s;
  }
};

}  // namespace

PictureSet read_pictures(const std::string& path, const PictureOptions& o) {
  const NoGrad no_grad;
  const Reader r{o};
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return r.file(path);
  const std::string images = present_file(path, "train-images-idx3-ubyte"),
                    labels = present_file(path, "train-labels-idx1-ubyte");
  if (!images.empty() && !labels.empty()) return r.fashion(images, labels);
  for (const char* name : {"data_batch_1.bin", "cifar-10-batches-bin/data_batch_1.bin"})
    if (const std::string batch = present_file(path, name); !batch.empty()) return r.cifar(batch);
  return r.folder(path);
}

}  // namespace wt::tools
