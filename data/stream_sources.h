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
  // What is read: a value for each field.
  using Record = ShardRecord;
  // Opens every file of the pack once, for its fields. Throws DataError as Shards does.
  explicit ShardStream(const std::string& path, const ShardsOptions& o = {});

  // The records of one file in order.
  class Reader {
   public:
    // Reads from the file's first record on.
    explicit Reader(Shards file) : file_(std::move(file)) {}
    // The next record; false at the end. Throws DataError for a damaged one.
    bool next(ShardRecord& record) {
      if (at_ >= file_.size()) return false;
      record = file_.get(at_);
      ++at_;
      return true;
    }
    // Passes a record without reading it; false at the end.
    bool skip() { return at_ < file_.size() && ++at_; }

   private:
    Shards file_;
    i64 at_ = 0;
  };
  // The number of files.
  i64 parts() const { return i64(files_.size()); }
  // Opens a file. Throws DataError for one that is damaged or has other fields by now.
  Reader open(i64 part) const;
  // The file's path, for errors.
  std::string part_name(i64 part) const;
  // The fields of every record, in their order.
  const std::vector<ShardField>& fields() const { return fields_; }
  // Fields ShardsOptions::x and y of the record. Throws UsageError for fields that are not there or
  // are no tensors.
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
  // What is read: a record's bytes.
  using Record = std::string;
  // Lists the files, by name, and opens none. DataError for a pattern that names nothing ('*',
  // '?', '[]' in the last part of the path).
  explicit TfRecordStream(const std::string& pattern, const TfRecordsOptions& o = {});

  // The records of one file in order.
  class Reader {
   public:
    // Opens the file, as TfRecordReader does.
    Reader(const std::string& path, const TfRecordOptions& o)
        : reader_(std::make_unique<TfRecordReader>(path, o)) {}
    // The next record; false at the end. Throws DataError for a damaged one.
    bool next(std::string& record) { return reader_->next(record); }

   private:
    std::unique_ptr<TfRecordReader> reader_;
  };
  // The number of files.
  i64 parts() const { return i64(files_.size()); }
  // Opens a file. Throws DataError where it cannot be read.
  Reader open(i64 part) const;
  // The file's path, for errors.
  std::string part_name(i64 part) const;
  // Features x and y of the record's tf.Example, f32 or i64, 0-d or [values]. Throws UsageError for
  // features that are missing or bytes, DataError for a damaged example.
  std::pair<Tensor, Tensor> decode(std::string record) const;

 private:
  std::vector<std::string> files_;
  TfRecordsOptions o_;
};

// How a LineStream reads.
struct LineStreamOptions {
  ParseLimits limits = {};  // max_string: one line; max_inflated: one packed file
};
// The lines of text files, plain, gzip or xz, a part a file, without their ends (\n or \r\n). Held
// is a line and 64 KiB a file (of xz files up to 128 MiB, as they ask for it). A record is a line's
// bytes, which are not checked to be UTF-8; decoded() makes a sample of it.
class WT_API LineStream {
 public:
  // What is read: a line's bytes without its end.
  using Record = std::string;
  // Opens no file yet. Throws UsageError for no paths.
  explicit LineStream(std::vector<std::string> paths, const LineStreamOptions& o = {});

  // The lines of one file in order.
  class WT_API Reader {
   public:
    // Opens the file. Throws DataError where it cannot be read.
    Reader(const std::string& path, const LineStreamOptions& o);
    // Takes the other's file and place.
    Reader(Reader&&) noexcept;
    ~Reader();
    // The next line; false at the end. Throws DataError for a line that is longer than
    // limits.max_string, and for what is damaged.
    bool next(std::string& line);

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };
  // The number of files.
  i64 parts() const { return i64(paths_.size()); }
  // Opens a file. Throws DataError where it cannot be read.
  Reader open(i64 part) const;
  // The file's path, for errors.
  std::string part_name(i64 part) const;

 private:
  std::vector<std::string> paths_;
  LineStreamOptions o_;
};

// A source of one part whose records a function makes; made by generated().
template <class R, class F>
struct GeneratedStream {
  // What the epoch's generator fills.
  using Record = R;
  F begin;  // begin(epoch) gives the epoch's generator
  // The records of one epoch in order.
  struct Reader {
    // The generator: next(record) fills it, false at the end.
    decltype(std::declval<const F&>()(i64{})) next;
  };
  // Always 1.
  i64 parts() const { return 1; }
  // The epoch's generator; there is one part alone.
  Reader open(i64, i64 epoch) const { return {begin(epoch)}; }
};
// A source of what a function makes: f(epoch) gives the epoch's generator, which is called with an
// R& to fill until it gives false. To be the same in each run, what it makes must depend on the
// epoch alone.
template <class R, class F>
requires requires(const F& f, R& r) {
  { f(i64{})(r) } -> std::convertible_to<bool>;
}
GeneratedStream<R, F> generated(F f) { return {std::move(f)}; }

// A source with another decode(); made by decoded().
template <StreamSource S, class F>
struct DecodedStream {
  // That of the source.
  using Record = typename S::Record;
  S source;    // whose records are read
  F function;  // makes a sample of a record
  // The source's parts.
  i64 parts() const { return i64(source.parts()); }
  // The source's records of a part.
  auto open(i64 part, i64 epoch) const { return detail::open_part(source, part, epoch); }
  // The source's name for a part; empty where it has none.
  std::string part_name(i64 part) const {
    if constexpr (requires { source.part_name(part); })
      return source.part_name(part);
    else
      return {};
  }
  // The sample: function(record), or function(record, epoch, place) of one that takes these.
  auto decode(Record record) const requires std::invocable<const F&, Record> {
    return function(std::move(record));
  }
  auto decode(Record record, i64 epoch,
              i64 place) const requires std::invocable<const F&, Record, i64, i64> {
    return function(std::move(record), epoch, place);
  }
};
// A source with another decode() and with collate(); made by decoded() of three.
template <StreamSource S, class F, class G>
struct CollatedStream : DecodedStream<S, F> {
  G to_batch;  // makes a batch of a std::vector of samples
  // The batch: to_batch(samples).
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
