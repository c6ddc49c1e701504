// Sources of a StreamLoader (data/stream_loader.h): files of records and lines, functions.
//
//   data::StreamLoader lines{data::decoded(data::LineStream{{"a.txt.gz", "b.txt"}}, to_ids),
//                            {.batch = 64, .shuffle = true, .interleave = 2}};
//   data::StreamLoader made{data::generated<Tensor>([](i64 epoch) {
//                             return [i = i64{0}, epoch](Tensor& t) mutable {
//                               t = full({3}, double(epoch * 100 + i));
//                               return ++i <= 1000;
//                             };
//                           }),
//                           {.batch = 32}};
#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "warptape/data/shard.h"
#include "warptape/data/stream_loader.h"
#include "warptape/data/tfrecord.h"

namespace wt::data {

// The records of a pack (data/shard.h), a part a file. A file is opened when its turn comes, and
// records are read one by one: what is held is 12 bytes a record of the files that are open. Fields
// x and y are a sample; decoded() makes another one of the ShardRecord. Its readers skip, so a
// resume reads the buffer's records alone.
class WT_API ShardStream {
 public:
  using Record = ShardRecord;
  // Throws DataError as Shards does.
  explicit ShardStream(const std::string& path, const ShardsOptions& o = {});

  class Reader {
   public:
    explicit Reader(Shards file) : file_(std::move(file)) {}
    bool next(ShardRecord& record) {
      if (at_ >= file_.size()) return false;
      record = file_.get(at_);
      ++at_;
      return true;
    }
    bool skip() { return at_ < file_.size() && ++at_; }

   private:
    Shards file_;
    i64 at_ = 0;
  };
  i64 parts() const { return i64(files_.size()); }
  Reader open(i64 part) const;
  std::string part_name(i64 part) const;
  const std::vector<ShardField>& fields() const { return fields_; }
  // Throws UsageError for fields that are not there or are no tensors.
  std::pair<Tensor, Tensor> decode(ShardRecord record) const;

 private:
  Tensor field(ShardRecord& record, const std::string& name) const;
  std::vector<std::string> files_;
  std::vector<ShardField> fields_;
  ShardsOptions o_;
};

// The records of TFRecord files, plain and gzip, a part a file; nothing of a file is held but the
// record. A plain file of more than limits.max_bytes (the machine's memory) is refused, as one
// record of it may be all of that. They are tf.Examples, of which features x and y are a sample
// (f32 or i64; a number where there is one value, else [values]); decoded() makes another one of a
// record's bytes.
class WT_API TfRecordStream {
 public:
  using Record = std::string;
  // DataError for a pattern that names nothing ('*', '?', '[]' in the last part of the path).
  explicit TfRecordStream(const std::string& pattern, const TfRecordsOptions& o = {});

  class Reader {
   public:
    Reader(const std::string& path, const TfRecordOptions& o)
        : reader_(std::make_unique<TfRecordReader>(path, o)) {}
    bool next(std::string& record) { return reader_->next(record); }

   private:
    std::unique_ptr<TfRecordReader> reader_;
  };
  i64 parts() const { return i64(files_.size()); }
  Reader open(i64 part) const;
  std::string part_name(i64 part) const;
  // Throws UsageError for features that are missing or bytes, DataError for a damaged example.
  std::pair<Tensor, Tensor> decode(std::string record) const;

 private:
  std::vector<std::string> files_;
  TfRecordsOptions o_;
};

struct LineStreamOptions {
  ParseLimits limits = {};  // max_string: one line; max_inflated: one packed file
};
// The lines of text files, plain, gzip or xz, a part a file, without their ends (\n or \r\n). Held
// is a line and 64 KiB a file (of xz files up to 128 MiB, as they ask for it). A record is a line's
// bytes, which are not checked to be UTF-8; decoded() makes a sample of it.
class WT_API LineStream {
 public:
  using Record = std::string;
  // Throws UsageError for no paths.
  explicit LineStream(std::vector<std::string> paths, const LineStreamOptions& o = {});

  class WT_API Reader {
   public:
    Reader(const std::string& path, const LineStreamOptions& o);
    Reader(Reader&&) noexcept;
    ~Reader();
    // DataError for a line that is longer than the limit, and what is damaged.
    bool next(std::string& line);

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };
  i64 parts() const { return i64(paths_.size()); }
  Reader open(i64 part) const;
  std::string part_name(i64 part) const;

 private:
  std::vector<std::string> paths_;
  LineStreamOptions o_;
};

// Made by generated().
template <class R, class F>
struct GeneratedStream {
  using Record = R;
  F begin;
  struct Reader {
    decltype(std::declval<const F&>()(i64{})) next;
  };
  i64 parts() const { return 1; }
  Reader open(i64, i64 epoch) const { return {begin(epoch)}; }
};
// What a function makes: f(epoch) gives the epoch's generator, which is called with an R& to fill
// until it gives false. To be the same in each run, what it makes must depend on the epoch alone.
template <class R, class F>
requires requires(const F& f, R& r) {
  { f(i64{})(r) } -> std::convertible_to<bool>;
}
GeneratedStream<R, F> generated(F f) { return {std::move(f)}; }

// Made by decoded().
template <StreamSource S, class F>
struct DecodedStream {
  using Record = typename S::Record;
  S source;
  F function;
  i64 parts() const { return i64(source.parts()); }
  auto open(i64 part, i64 epoch) const { return detail::open_part(source, part, epoch); }
  std::string part_name(i64 part) const {
    if constexpr (requires { source.part_name(part); })
      return source.part_name(part);
    else
      return {};
  }
  auto decode(Record record) const requires std::invocable<const F&, Record> {
    return function(std::move(record));
  }
  auto decode(Record record, i64 epoch,
              i64 place) const requires std::invocable<const F&, Record, i64, i64> {
    return function(std::move(record), epoch, place);
  }
};
template <StreamSource S, class F, class G>
struct CollatedStream : DecodedStream<S, F> {
  G to_batch;
  template <class Sample>
  auto collate(std::vector<Sample> samples) const {
    return to_batch(std::move(samples));
  }
};
// A source whose samples are f(record), or f(record, epoch, place), in place of its own decode();
// with g, batches are g(std::vector<Sample>) and not stacked. Both are called as const, by several
// workers at once.
template <StreamSource S, class F>
DecodedStream<S, F> decoded(S source, F f) {
  return {std::move(source), std::move(f)};
}
template <StreamSource S, class F, class G>
CollatedStream<S, F, G> decoded(S source, F f, G g) {
  return {{std::move(source), std::move(f)}, std::move(g)};
}

}  // namespace wt::data
