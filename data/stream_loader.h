// StreamLoader: batches of records that have no number and no index, only an order in which they
// are read: files of records, lines, what a function makes.
//
//   data::StreamLoader loader{data::ShardStream{"train.shards"},
//                             {.batch = 64, .shuffle = true, .buffer = 10'000, .workers = 4}};
//   for (auto& [x, y] : loader) ...
//
// A source (data/stream_sources.h has some) is any copyable type with
//
//   using Record = ...;                      what is read; moved, never copied
//   i64 parts() const                        files, or whatever can be read one beside the other
//   Reader open(i64 part, i64 epoch) const   its records: anything with `bool next(Record&)`, false
//                                            at the end; open(part) will do
// and, if it likes,
//   Sample decode(Record) const              the dear part, which workers do at once; or
//                                            decode(Record, i64 epoch, i64 place), the record's
//                                            place in the epoch: what augmentation draws from
//   Batch collate(std::vector<Sample>) const in place of stacking (data/samples.h)
//   std::string part_name(i64 part) const    for errors
//   bool skip() of a Reader                  passes a record without making it, false at the end
//
// Order. The parts of an epoch are read in turns of `interleave`, a record of each. With `shuffle`
// their order is another in every epoch, and each record that is given is drawn from a buffer of
// `buffer` records, whose place the next one read takes. All of that depends on (seed, epoch)
// alone: the batches and every bit of them are the same for any number of workers.
//
// Memory. Held are the buffer's records as they were read, `interleave` open readers, and the
// batches that workers are ahead: nothing grows with the stream.
//
// Resuming. state() is (epoch, batch); set_state() goes on with the same bits from there on. It
// reads the epoch's records again up to that place, without decoding them: minutes in the middle of
// a large epoch. Of readers that have skip(), only the buffer's records are read.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/data/loader.h"

namespace wt::data {

// How a StreamLoader reads: as LoaderOptions, with what streams need besides.
struct StreamOptions {
  i64 batch = 32;          // records of a batch, of this process alone
  bool shuffle = false;    // the parts' order, and draws from the buffer
  i64 buffer = 1024;       // records to draw from, where `shuffle` is
  u64 seed = 0;            // of the order, which depends on (seed, epoch) alone
  bool drop_last = false;  // leave out a last batch that is not full
  i64 interleave = 1;      // parts that are open at a time
  // This process's share of each epoch: every world-th part of the epoch's order; where there are
  // fewer parts than processes every world-th record, which all of them read. Shares of parts may
  // have different numbers of batches, of records they differ by one record. `rank` is in [0,
  // `world`).
  i64 rank = 0, world = 1;
  int workers = 0;   // threads that read (one at a time) and decode; kAuto: one a processor
  int prefetch = 2;  // batches that each worker may be ahead
  // Where batches are to be: the next one is copied there while this one is used.
  std::optional<Device> device = {};
  bool pin_memory = true;  // copies to the device go through page-locked memory
  WT_MISNAMED(batch_size, batch);
  WT_MISNAMED(num_workers, workers);
  WT_MISNAMED(prefetch_factor, prefetch);
};

// Where a StreamLoader is: the checkpoint keeps it.
struct StreamPosition {
  i64 epoch = 0;  // from 0
  i64 batch = 0;  // batches already given in this epoch
  friend bool operator==(const StreamPosition&, const StreamPosition&) = default;
};

// What a StreamLoader reads from: a Record, parts() and open(), as the top of this file says.
template <class S>
concept StreamSource = std::copy_constructible<S> && requires(const S& s, i64 i) {
  typename S::Record;
  { s.parts() } -> std::convertible_to<i64>;
} &&(
    requires(const S& s, i64 i) { s.open(i, i); } || requires(const S& s, i64 i) { s.open(i); });

namespace detail {

struct AnyRecord {
  virtual ~AnyRecord() = default;
};
struct AnyReader {
  virtual ~AnyReader() = default;
  virtual std::unique_ptr<AnyRecord> next() = 0;  // null at the end
  virtual bool skip() = 0;
};
using AnyRecords = std::vector<std::unique_ptr<AnyRecord>>;

// A source whose type only the StreamLoader knows.
struct AnyStream : BatchMaker {
  const bool skips;  // skip() is cheaper than next()
  virtual i64 parts() const = 0;
  virtual std::string part_name(i64 part) const = 0;
  virtual std::unique_ptr<AnyReader> open(i64 part, i64 epoch) const = 0;
  // `place` of the first record in the epoch; `at` counts the records that are decoded.
  virtual Owned<AnyBatch> batch(AnyRecords records, i64 epoch, i64 place, size_t& at) const = 0;

 protected:
  AnyStream(const std::type_info& source, const std::type_info& of_batch, bool tells, bool skip)
      : BatchMaker(source, of_batch, tells), skips(skip) {}
};

class WT_API StreamCore {
 public:
  StreamCore(StreamCore&&) noexcept;
  StreamCore& operator=(StreamCore&&) noexcept;
  ~StreamCore();

  const StreamOptions& options() const;
  int workers() const;
  LoaderStats stats() const;  // reading counts as `dataset`
  void reset_stats();
  // Counts what next() has given, not what workers have made.
  const StreamPosition& state() const;
  // The next batch is the one after `s`. Throws UsageError for negative numbers; a position that
  // the epoch does not have is refused by next().
  void set_state(const StreamPosition& s);

 protected:
  StreamCore(std::shared_ptr<const AnyStream> stream, const StreamOptions& o);
  Owned<AnyBatch> take();  // null at the end of the epoch

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

template <class S>
auto open_part(const S& s, i64 part, i64 epoch) {
  if constexpr (requires { s.open(part, epoch); })
    return s.open(part, epoch);
  else
    return s.open(part);
}
template <class S>
auto decode_record(const S& s, typename S::Record record, i64 epoch, i64 place) {
  if constexpr (requires { s.decode(std::move(record), epoch, place); })
    return s.decode(std::move(record), epoch, place);
  else if constexpr (requires { s.decode(std::move(record)); })
    return s.decode(std::move(record));
  else
    return record;
}
template <class S>
using StreamSample =
    decltype(decode_record(std::declval<const S&>(), std::declval<typename S::Record>(), 0, 0));
template <class S>
auto collate_stream(const S& s, std::vector<StreamSample<S>> samples) {
  if constexpr (requires { s.collate(std::move(samples)); })
    return s.collate(std::move(samples));
  else
    return stack(std::move(samples));
}

}  // namespace detail

// Batches of a source's records, epoch by epoch, in an order that depends on (seed, epoch) alone.
// Also has options(), workers(), stats(), reset_stats(), state() and set_state(), as a Loader.
template <StreamSource S>
class StreamLoader : public detail::StreamCore {
 public:
  // What the source reads.
  using Record = typename S::Record;
  // A batch: what collate() makes, or the stacked samples.
  using Item = decltype(detail::collate_stream(std::declval<const S&>(), {}));
  static_assert(std::default_initializable<Item>,
                "StreamLoader: a batch needs a default constructor");
  static_assert(std::default_initializable<Record>,
                "StreamLoader: a record needs a default constructor");

  // Owns the source, which is asked for nothing before the first batch. Throws UsageError for
  // options that make no sense, NotAvailable for a device that is not there.
  StreamLoader(S source, const StreamOptions& o = {})
      : StreamLoader(std::make_shared<const Stream>(std::move(source)), o) {}

  // The loader's own copy of the source.
  const S& source() const { return *source_; }

  // The next batch of the running epoch; false at its end (then the next call starts a new one).
  // Rethrows what the source threw, with the part and the record; the position has not moved, and
  // the next call reads from the epoch's beginning up to it, as after set_state(). Throws
  // UsageError for an epoch without a batch.
  bool next(Item& batch) {
    const auto taken = take();
    if (taken) batch = std::move(static_cast<detail::MadeBatch<Item>&>(*taken).batch);
    return bool(taken);
  }
  // Iterator, begin() and end() are for a range-for over what is left of the running epoch.
  using Iterator = detail::LoaderIterator<StreamLoader>;
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  using R = decltype(detail::open_part(std::declval<const S&>(), 0, 0));
  struct Read final : detail::AnyRecord {
    Record record{};
  };
  struct Reader final : detail::AnyReader {
    explicit Reader(const S& s, i64 part, i64 epoch) : reader(detail::open_part(s, part, epoch)) {}
    std::unique_ptr<detail::AnyRecord> next() override {
      auto read = std::make_unique<Read>();
      if (!reader.next(read->record)) return nullptr;
      return read;
    }
    bool skip() override {
      if constexpr (requires { reader.skip(); }) {
        return reader.skip();
      } else {
        Record passed{};
        return reader.next(passed);
      }
    }
    R reader;
  };
  struct Stream final : detail::AnyStream {
    explicit Stream(S s)
        : AnyStream(
              typeid(S), typeid(Item), wt::detail::TellsTensors<Item>,
              requires(R & r) { r.skip(); }),
          source(std::move(s)) {}
    i64 parts() const override { return i64(source.parts()); }
    std::string part_name(i64 part) const override {
      if constexpr (requires { source.part_name(part); })
        return source.part_name(part);
      else
        return {};
    }
    std::unique_ptr<detail::AnyReader> open(i64 part, i64 epoch) const override {
      return std::make_unique<Reader>(source, part, epoch);
    }
    Owned<detail::AnyBatch> batch(detail::AnyRecords records, i64 epoch, i64 place,
                                  size_t& at) const override {
      std::vector<detail::StreamSample<S>> samples;
      samples.reserve(records.size());
      for (at = 0; at < records.size(); ++at) {
        const auto read = std::move(records[at]);  // freed when it is decoded
        samples.push_back(detail::decode_record(source, std::move(static_cast<Read&>(*read).record),
                                                epoch, place + i64(at)));
      }
      const detail::CollateTimer timer;
      return std::make_unique<detail::MadeBatch<Item>>(
          detail::collate_stream(source, std::move(samples)));
    }
    void tensors(detail::AnyBatch& made, std::vector<Tensor*>& to) const override {
      detail::tensors_in<Item>(made, to);
    }
    S source;
  };
  StreamLoader(std::shared_ptr<const Stream> stream, const StreamOptions& o)
      : StreamCore(stream, o), source_(&stream->source) {}

  const S* source_;  // the core's
};

}  // namespace wt::data
