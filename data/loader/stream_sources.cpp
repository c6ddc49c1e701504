#include "warptape/data/stream_sources.h"

#include <algorithm>
#include <limits>

#include "warptape/core/factories.h"
#include "warptape/data/bytes.h"
#include "warptape/data/tfrecord_parts.h"

namespace wt::data {
namespace {

std::string names_of(const std::vector<ShardField>& fields) {
  std::string names;
  for (const ShardField& f : fields) names += (names.empty() ? "" : ", ") + printable(f.name);
  return names;
}

template <class T>
Tensor feature_tensor(const std::vector<T>& values) {
  const Tensor t = tensor(values, {.device = Device::cpu()});
  return values.size() == 1 ? t.reshape({}) : t;
}

Tensor feature_of(const TfExample& example, const std::string& name) {
  const TfFeature* const f = find_feature(example, name);
  if (f)
    if (const auto* floats = std::get_if<std::vector<float>>(f)) return feature_tensor(*floats);
  if (f)
    if (const auto* numbers = std::get_if<std::vector<i64>>(f)) return feature_tensor(*numbers);
  throw UsageError(str("[TfRecordStream] feature '", printable(name), "' ",
                       f ? "has no numbers" : "is not in the record",
                       "\n  Try data::decoded(stream, f), where f parses the record itself"));
}

}  // namespace

// --- shards ---

ShardStream::ShardStream(const std::string& path, const ShardsOptions& o) : o_(o) {
  const Shards pack(path, o);
  files_ = pack.files();
  fields_ = pack.fields();
}

ShardStream::Reader ShardStream::open(i64 part) const {
  Shards file(files_.at(size_t(part)), o_);
  if (file.fields() != fields_)
    throw DataError(str(part_name(part), ": has other fields (", names_of(file.fields()),
                        ") than when the stream was opened (", names_of(fields_), ")"));
  return Reader(std::move(file));
}
std::string ShardStream::part_name(i64 part) const {
  return printable_path(files_.at(size_t(part)));
}

Tensor ShardStream::field(ShardRecord& record, const std::string& name) const {
  const auto at = std::find_if(fields_.begin(), fields_.end(),
                               [&](const ShardField& f) { return f.name == name; });
  if (at == fields_.end() || at->kind != ShardKind::tensor)
    throw UsageError(str("[ShardStream] field '", printable(name), "' ",
                         at == fields_.end() ? "is not in the pack" : "is no tensor",
                         "; its fields are ", names_of(fields_),
                         "\n  Try ShardsOptions{.x, .y}, or data::decoded(stream, f), where f "
                         "takes the ShardRecord"));
  return std::get<Tensor>(record.at(size_t(at - fields_.begin())));
}

std::pair<Tensor, Tensor> ShardStream::decode(ShardRecord record) const {
  return {field(record, o_.x), field(record, o_.y)};
}

// --- TFRecord ---

TfRecordStream::TfRecordStream(const std::string& pattern, const TfRecordsOptions& o)
    : files_(files_of_pattern(pattern)), o_(o) {}

TfRecordStream::Reader TfRecordStream::open(i64 part) const {
  return Reader(files_.at(size_t(part)),
                {.allow_partial_tail = o_.allow_partial_tail, .limits = o_.limits});
}
std::string TfRecordStream::part_name(i64 part) const {
  return printable_path(files_.at(size_t(part)));
}

std::pair<Tensor, Tensor> TfRecordStream::decode(std::string record) const {
  const TfExample example = parse_tf_example(record, "tf.Example", 0, o_.limits);
  return {feature_of(example, o_.x), feature_of(example, o_.y)};
}

// --- lines ---

LineStream::LineStream(std::vector<std::string> paths, const LineStreamOptions& o)
    : paths_(std::move(paths)), o_(o) {
  if (paths_.empty()) throw UsageError("[LineStream] there are no files");
}
LineStream::Reader LineStream::open(i64 part) const { return Reader(paths_.at(size_t(part)), o_); }
std::string LineStream::part_name(i64 part) const {
  return printable_path(paths_.at(size_t(part)));
}

namespace {
constexpr size_t kLinePiece = 64 << 10;
// A file is never held as a whole, so that its size is no matter.
ParseLimits of_a_stream(ParseLimits limits) {
  limits.max_bytes = std::numeric_limits<u64>::max();
  return limits;
}
}  // namespace

struct LineStream::Reader::Impl {
  Content file;
  u64 longest;
  std::string piece{};
  size_t at = 0;  // in piece
  u64 begin = 0;  // of the line that is read, in the file
  bool ended = false;

  Impl(const std::string& path, const LineStreamOptions& o)
      : file(path, of_a_stream(o.limits)), longest(o.limits.max_string) {}

  // False at the end of the file.
  bool refill() {
    if (ended) return false;
    piece.resize(kLinePiece);
    piece.resize(size_t(file.read(piece.data(), piece.size())));
    at = 0;
    ended = piece.size() < kLinePiece;
    return !piece.empty();
  }
};

LineStream::Reader::Reader(const std::string& path, const LineStreamOptions& o)
    : impl_(std::make_unique<Impl>(path, o)) {}
LineStream::Reader::Reader(Reader&&) noexcept = default;
LineStream::Reader::~Reader() = default;

bool LineStream::Reader::next(std::string& line) {
  Impl& r = *impl_;
  line.clear();
  u64 bytes = 0;  // of the line, with its end
  for (bool whole = false; !whole;) {
    if (r.at == r.piece.size() && !r.refill()) {
      if (bytes == 0) return false;
      break;  // a last line may lack its end
    }
    const size_t end = r.piece.find('\n', r.at);
    whole = end != std::string::npos;
    const size_t n = (whole ? end : r.piece.size()) - r.at;
    if (line.size() + n > r.longest)
      data_error(r.file.path(), r.begin,
                 str("a line of more than ", r.longest, " bytes (ParseLimits::max_string)"));
    line.append(r.piece, r.at, n);
    r.at += n + whole;
    bytes += n + whole;
  }
  r.begin += bytes;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace wt::data
