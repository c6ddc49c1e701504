#include "warptape/dist/sharded_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/dist/agreement.h"
#include "warptape/dist/share.h"
#include "warptape/optim/arena.h"

namespace wt::dist {

namespace {

// Metadata of index and parts. What the caller gives is kept under its own prefix.
constexpr const char* kSaveKey = "sharded.save";
constexpr const char* kWorldKey = "sharded.world";
constexpr const char* kRankKey = "sharded.rank";
constexpr const char* kShapePrefix = "sharded.shape.";
constexpr const char* kOwnPrefix = "own.";

const std::string* find_key(const nn::Metadata& m, const std::string& key) {
  for (const auto& [k, v] : m)
    if (k == key) return &v;
  return nullptr;
}

std::optional<i64> integer_in(const std::string& text) {
  i64 n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) return {};
  return n;
}

[[noreturn]] void no_part(const std::string& path, const std::string& why) {
  throw DataError(str(printable_path(path), ": ", why));
}

i64 integer_of(const std::string& path, const nn::Metadata& m, const char* key) {
  const std::string* const text = find_key(m, key);
  const std::optional<i64> n = text ? integer_in(*text) : std::nullopt;
  if (!n) no_part(path, str("is no index of a sharded checkpoint: it has no ", key));
  return *n;
}

std::string part_path(const std::string& path, i64 save, i64 rank, i64 world) {
  return str(path, ".part-", save, ".", rank, "-of-", world);
}

// The number of the save that `path` is of; 0: there is none that can be read.
i64 save_at(const std::string& path) {
  try {
    return integer_of(path, nn::load_tensors(path).metadata, kSaveKey);
  } catch (const DataError&) {
    return 0;
  }
}

// Of earlier saves, and of such that ended half way.
void remove_other_parts(const std::string& path, i64 save, i64 world) noexcept try {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  const std::string all = fs::path(path).filename().string() + ".part-";
  std::vector<std::string> present;
  for (i64 r = 0; r < world; ++r)
    present.push_back(fs::path(part_path(path, save, r, world)).filename().string());
  std::vector<fs::path> gone;
  for (const auto& f : fs::directory_iterator(folder.empty() ? "." : folder)) {
    const std::string name = f.path().filename().string();
    if (name.starts_with(all) && std::find(present.begin(), present.end(), name) == present.end())
      gone.push_back(f.path());
  }
  std::error_code ignored;
  for (const fs::path& p : gone) fs::remove(p, ignored);
} catch (const std::exception&) {}  // they are in nobody's way

struct Content {
  std::vector<nn::NamedTensor> pieces;  // of this rank
  nn::Metadata shapes;                  // of all tensors
};

std::string shape_text(const Shape& s) {
  std::string text;
  for (const i64 n : s) text += str(text.empty() ? "" : " ", n);
  return text;
}

// What all ranks have is dealt out: each tensor goes to the rank that has the fewest bytes so far.
void deal_out(Content& to, const Communicator& comm, const std::vector<nn::NamedTensor>& common) {
  std::vector<i64> bytes(static_cast<size_t>(comm.size()), 0);
  for (const nn::NamedTensor& t : common) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least += t.tensor.numel() * item_size(t.tensor.dtype());
    to.shapes.emplace_back(kShapePrefix + t.name, shape_text(t.tensor.shape()));
    if (least - bytes.begin() != comm.rank()) continue;
    to.pieces.push_back(
        {t.name + "@0", t.tensor.to(Device::cpu()).contiguous().reshape({t.tensor.numel()})});
  }
}

Content content_of(const Communicator& comm, const optim::Optimizer& opt,
                   std::vector<nn::NamedTensor> common) {
  Content c;
  const bool sharded = opt.arenas().sharding() != nullptr;
  const auto alike = sharded ? opt.shared_state() : opt.state();
  common.insert(common.end(), alike.begin(), alike.end());
  deal_out(c, comm, common);
  if (!sharded) return c;
  for (const optim::Optimizer::StatePiece& p : opt.state_pieces())
    c.pieces.push_back({str(p.name, "@", p.begin), p.values});
  for (const auto& [name, shape] : opt.state_shapes())
    c.shapes.emplace_back(kShapePrefix + name, shape_text(shape));
  return c;
}

// f() on ranks that `mine`; what one of them could not do is thrown by all.
template <class F>
void all_or_none(Communicator& comm, bool mine, const F& f) {
  std::string failure;
  if (mine) try {
      f();
    } catch (const CheckpointError& e) {
      failure = e.what() + std::string_view(e.kind()).size() + 2;
    }
  const char failed = !failure.empty();
  const std::vector<char> all = detail::gather_bytes(comm, {&failed, 1});
  const auto first = std::find(all.begin(), all.end(), char(1));
  if (first == all.end()) return;
  const auto rank = int(first - all.begin());
  throw CheckpointError(str("[save_sharded] rank ", rank, ": ", share_text(comm, failure, rank)));
}

}  // namespace

void save_sharded(const std::string& path, Communicator& comm, const optim::Optimizer& opt,
                  const std::vector<nn::NamedTensor>& common, const nn::Metadata& metadata) {
  const NoGrad no_grad;
  const std::string told =
      share_text(comm, comm.rank() == 0 ? std::to_string(save_at(path) + 1) : "");
  const i64 save = *integer_in(told), world = comm.size();
  const Content c = content_of(comm, opt, common);
  const std::string mine = part_path(path, save, comm.rank(), world);
  const nn::Metadata of_part{{kSaveKey, told}, {kRankKey, std::to_string(comm.rank())}};
  try {
    all_or_none(comm, true, [&] { nn::save_tensors(mine, c.pieces, of_part); });
    all_or_none(comm, comm.rank() == 0, [&] {
      nn::Metadata index{{kSaveKey, told}, {kWorldKey, std::to_string(world)}};
      index.insert(index.end(), c.shapes.begin(), c.shapes.end());
      for (const auto& [key, value] : metadata) index.emplace_back(kOwnPrefix + key, value);
      nn::save_tensors(path, {}, index);
    });
  } catch (const CheckpointError&) {
    // Its number is not that of the index, unless that one is there and could not be made durable.
    std::error_code ignored;
    if (save_at(path) != save) std::filesystem::remove(mine, ignored);
    throw;
  }
  if (comm.rank() == 0) remove_other_parts(path, save, world);
}

namespace {

// Tensors that are put together.
class Assembly {
 public:
  Assembly(std::string path, const nn::Metadata& index) : path_(std::move(path)) {
    for (const auto& [key, value] : index)
      if (key.starts_with(kShapePrefix))
        add(key.substr(std::string_view(kShapePrefix).size()), value);
  }

  void take(const std::string& part, const nn::NamedTensor& piece) {
    const size_t at = piece.name.rfind('@');
    const std::optional<i64> begin =
        at == std::string::npos ? std::nullopt : integer_in(piece.name.substr(at + 1));
    const auto to = begin ? tensors_.find(piece.name.substr(0, at)) : tensors_.end();
    if (to == tensors_.end()) no_part(part, str("the index has no ", printable(piece.name)));
    Whole& w = to->second;
    const i64 n = piece.tensor.numel();
    if (!w.tensor.defined())
      w.tensor = empty(w.shape, {.dtype = piece.tensor.dtype(), .device = Device::cpu()});
    if (piece.tensor.ndim() != 1 || w.tensor.dtype() != piece.tensor.dtype() ||
        *begin > w.tensor.numel() - n)
      no_part(part, str(printable(piece.name), " is ", describe(piece.tensor), ", the whole is ",
                        describe(w.tensor)));
    Tensor to_range = w.tensor.reshape({w.tensor.numel()}).narrow(0, *begin, n);
    to_range.copy_(piece.tensor);
    w.missing -= n;
  }

  std::vector<nn::NamedTensor> finish() {
    std::vector<nn::NamedTensor> all;
    for (const std::string& name : order_) {
      Whole& w = tensors_.at(name);
      if (!w.tensor.defined() || w.missing != 0)
        no_part(path_, str("of ", printable(name), " ", w.missing, " elements are in no part"));
      all.push_back({name, std::move(w.tensor)});
    }
    return all;
  }

 private:
  struct Whole {
    Shape shape;
    Tensor tensor;
    i64 missing;
  };
  void add(const std::string& name, const std::string& text) {
    Whole w{{}, {}, 1};
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(' ', at), text.size());
      const std::optional<i64> n = integer_in(text.substr(at, end - at));
      if (!n || w.shape.size() == size_t(kMaxDims) || (*n > 0 && w.missing > (i64{1} << 48) / *n))
        no_part(path_, str("the shape of ", printable(name), " is ", printable(text)));
      w.shape.push_back(*n);
      w.missing *= *n;
      at = end + 1;
    }
    order_.push_back(name);
    tensors_.emplace(name, std::move(w));
  }

  const std::string path_;
  std::vector<std::string> order_;
  std::map<std::string, Whole> tensors_;
};

}  // namespace

nn::LoadedTensors load_sharded(const std::string& path, const ParseLimits& limits) {
  const NoGrad no_grad;
  const nn::Metadata index = nn::load_tensors(path, limits).metadata;
  const i64 save = integer_of(path, index, kSaveKey), world = integer_of(path, index, kWorldKey);
  Assembly whole(path, index);
  for (i64 r = 0; r < world; ++r) {
    const std::string part = part_path(path, save, r, world);
    const nn::LoadedTensors content = nn::load_tensors(part, limits);
    if (integer_of(part, content.metadata, kSaveKey) != save ||
        integer_of(part, content.metadata, kRankKey) != r)
      no_part(part, "is a part of another checkpoint");
    for (const nn::NamedTensor& piece : content.tensors) whole.take(part, piece);
  }
  nn::LoadedTensors loaded{whole.finish(), {}};
  for (const auto& [key, value] : index)
    if (key.starts_with(kOwnPrefix))
      loaded.metadata.emplace_back(key.substr(std::string_view(kOwnPrefix).size()), value);
  return loaded;
}

}  // namespace wt::dist
