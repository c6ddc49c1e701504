#include "warptape/data/tokens.h"

#include <algorithm>

#include "warptape/core/factories.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"
#include "warptape/data/draws.h"

namespace wt::data {
namespace {

constexpr u32 kTokenMagic = 20240520;  // llm.c's llmc/dataloader.h
constexpr u32 kTokenVersion = 1;
constexpr u64 kTokenHeader = 256 * 4;
constexpr i64 kMostTokens = i64{1} << 31;

u64 token_bytes(TokenFormat f) { return f == TokenFormat::raw32 ? 4 : 2; }

// Of llm.c's header, which `head` is as far as the file has it: the number of tokens.
u64 header_count(const std::string& path, const std::vector<u8>& head) {
  if (head.size() < kTokenHeader)
    data_error(path, head.size(),
               str("a header of ", kTokenHeader, " bytes is cut short at ", head.size()));
  if (const u32 magic = little<u32>(head.data()); magic != kTokenMagic)
    data_error(path, 0, str("magic ", magic, ", llm.c's token files have ", kTokenMagic));
  if (const u32 version = little<u32>(head.data() + 4); version != kTokenVersion)
    data_error(path, 4, str("version ", version, ", only ", kTokenVersion, " is read"));
  const i32 n = little<i32>(head.data() + 8);
  if (n < 0) data_error(path, 8, str(n, " tokens"));
  return u64(n);
}

class TokenReader {
 public:
  TokenReader(const std::string& path, const TokenFileOptions& o, const ParseLimits& limits)
      : file_(path, limits), o_(o), format_(o.format), limits_(limits) {}

  TokenFile read() {
    std::vector<u8> head;
    if (format_ == TokenFormat::automatic) {
      file_.append(head, 8);
      const bool llm_c = head.size() == 8 && little<u32>(head.data()) == kTokenMagic &&
                         little<u32>(head.data() + 4) == kTokenVersion;
      format_ = llm_c ? TokenFormat::llm_c : TokenFormat::raw16;
    }
    u64 declared = 0;
    if (format_ == TokenFormat::llm_c) {
      file_.append(head, kTokenHeader - head.size());
      declared = header_count(file_.path(), head);
      at_ = head.size();
      head.clear();
    }
    const CategoryScope scope(Category::dataset);
    const TensorOptions host{.dtype = DType::i32, .device = Device::cpu()};
    Tensor tokens;
    // A plain file's size says what comes before anything is read.
    if (const auto size = file_.size()) {
      check_whole(*size);
      const u64 n = (*size - at_) / token_bytes(format_);
      if (format_ == TokenFormat::llm_c) check_count(declared, n);
      if (n > limits_.max_bytes / 4)
        data_error(file_.path(), at_,
                   str(n, " tokens take ", n * 4, " bytes, the limit is ", limits_.max_bytes));
      tokens = empty({i64(n)}, host);
      known_ = tokens.mutable_data<i32>();
    }
    take(head);
    if (format_ == TokenFormat::llm_c) check_count(declared, count_);
    return {known_ ? tokens : tensor(packed_, host), format_};
  }

 private:
  void check_whole(u64 size) const {
    if (const u64 beyond = (size - at_) % token_bytes(format_))
      data_error(file_.path(), size - beyond,
                 str("tokens have ", token_bytes(format_), " bytes, the file has ", size,
                     " (truncated download?)"));
  }
  void check_count(u64 declared, u64 there) const {
    if (declared != there)
      data_error(file_.path(), 8,
                 str("the header says ", declared, " tokens, the file has ", there,
                     there < declared ? " (truncated download?)" : ""));
  }
  // `bytes` and what follows.
  void take(std::vector<u8>& bytes) {
    for (bool more = true; more;) {
      const u64 before = bytes.size();
      file_.append(bytes, kTokenPiece - before);
      more = bytes.size() > before;
      if (!more) check_whole(at_ + bytes.size());
      const u64 step = token_bytes(format_), whole = bytes.size() / step * step;
      for (u64 i = 0; i < whole; i += step, at_ += step) add(bytes.data() + i);
      bytes.erase(bytes.begin(), bytes.begin() + i64(whole));
    }
  }
  void add(const u8* p) {
    const i64 token = format_ == TokenFormat::raw32 ? i64(little<u32>(p)) : i64(little<u16>(p));
    if (token >= o_.vocab_size)
      data_error(file_.path(), at_,
                 str("token ", token, " at ", count_, " is outside [0, ", o_.vocab_size, ")"));
    if (known_)
      known_[count_] = i32(token);
    else
      packed_.push_back(i32(token));
    ++count_;
  }

  static constexpr u64 kTokenPiece = u64{1} << 20;
  Content file_;
  const TokenFileOptions& o_;
  TokenFormat format_;
  const ParseLimits& limits_;
  u64 at_ = 0, count_ = 0;
  i32* known_ = nullptr;     // of a file whose size says how many there are
  std::vector<i32> packed_;  // of another
};

}  // namespace

TokenFile read_tokens(const std::string& path, const TokenFileOptions& o,
                      const ParseLimits& limits) {
  if (o.vocab_size < 1 || o.vocab_size > kMostTokens)
    throw UsageError(str("[read_tokens] a vocabulary of ", o.vocab_size, ", expected 1 to 2^31"));
  return TokenReader(path, o, limits).read();
}

void write_tokens(const std::string& path, std::span<const i64> tokens, TokenFormat format) {
  if (format == TokenFormat::automatic)
    format = std::all_of(tokens.begin(), tokens.end(), [](i64 t) { return t < 65536; })
                 ? TokenFormat::raw16
                 : TokenFormat::raw32;
  const u64 step = token_bytes(format);
  const i64 end = format == TokenFormat::raw32 ? kMostTokens : 65536;
  if (format == TokenFormat::llm_c && tokens.size() >= u64(kMostTokens))
    throw UsageError(str("[write_tokens] llm.c's header holds less than 2^31 tokens, got ",
                         tokens.size(), "\n  Try several files"));
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= end)
      throw IndexError(
          str("[write_tokens] token ", tokens[i], " at ", i, " is outside [0, ", end, ")"));
  AtomicFile file(path, {.expected_bytes = tokens.size() * step});
  if (format == TokenFormat::llm_c) {
    const u32 fields[256] = {kTokenMagic, kTokenVersion, u32(tokens.size())};
    file.write(fields, sizeof fields);
  }
  std::vector<u8> piece;
  for (size_t begin = 0; begin < tokens.size(); begin += size_t{1} << 18) {
    const auto part = tokens.subspan(begin, std::min(tokens.size() - begin, size_t{1} << 18));
    piece.resize(part.size() * step);
    for (size_t i = 0; i < part.size(); ++i) std::memcpy(piece.data() + i * step, &part[i], step);
    file.write(piece.data(), piece.size());
  }
  file.commit();
}

TokenWindows::TokenWindows(const Tensor& tokens, const TokenWindowsOptions& o) : o_(o) {
  if (tokens.ndim() != 1)
    throw ShapeError(str("[TokenWindows] tokens must be [N], got ", tokens.shape()));
  const DType d = tokens.dtype();
  if (d != DType::i32 && d != DType::i64 && d != DType::u8)
    throw DtypeError(str("[TokenWindows] tokens must be i32, i64 or u8, got ", dtype_name(d)));
  if (o.context < 1 || o.stride < 0 || o.samples < 0 || (o.stride > 0 && o.samples > 0))
    throw UsageError(str("[TokenWindows] context ", o.context, ", stride ", o.stride,
                         " and samples ", o.samples,
                         " make no sense: context from 1, one of the others from 0"));
  tokens_ = tokens.to(Device::cpu()).contiguous();
  places_ = tokens_.numel() - o.context;
  if (places_ < 1)
    throw DataError(str("[TokenWindows] ", tokens_.numel(), " tokens are too few for a context of ",
                        o.context, " and the token after it"));
  if (o_.stride == 0) o_.stride = o.context;
  count_ = o.samples > 0 ? o.samples : (places_ - 1) / o_.stride + 1;
}

i64 TokenWindows::begin(i64 i, i64 epoch) const {
  detail::check_sample("TokenWindows", i, count_);
  if (o_.samples == 0) return i * o_.stride;
  const PhiloxKey key = detail::shuffle_key(o_.seed, detail::ShuffleFork::windows);
  const PhiloxBlock b = philox(key, u64(i), u64(epoch));
  return std::min(i64(uniform53(b.v[0], b.v[1]) * double(places_)), places_ - 1);
}

namespace {
template <class T>
void copy_window(const T* from, i64 context, i64* x, i64* y) {
  for (i64 k = 0; k < context; ++k) x[k] = i64(from[k]), y[k] = i64(from[k + 1]);
}
}  // namespace

Batch TokenWindows::batch(std::span<const i64> indices, i64 epoch) const {
  const i64 n = i64(indices.size()), context = o_.context;
  const TensorOptions host{.dtype = DType::i64, .device = Device::cpu()};
  Batch b{empty({n, context}, host), empty({n, context}, host)};
  i64* x = b.x.mutable_data<i64>();
  i64* y = b.y.mutable_data<i64>();
  for (i64 i = 0; i < n; ++i, x += context, y += context) {
    const i64 s = begin(indices[size_t(i)], epoch);
    if (tokens_.dtype() == DType::i32)
      copy_window(tokens_.data<i32>() + s, context, x, y);
    else if (tokens_.dtype() == DType::i64)
      copy_window(tokens_.data<i64>() + s, context, x, y);
    else
      copy_window(tokens_.data<u8>() + s, context, x, y);
  }
  return b;
}

}  // namespace wt::data
