// PNG by libspng (https://libspng.org/docs/api/), which reads untrusted files and is fuzzed.
#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/input_file.h"
#include "warptape/data/image_parts.h"
#if WARPTAPE_HAS_SPNG
#include <spng.h>
#include <zlib.h>

#include <cstring>
#include <memory>

#include "warptape/data/bytes.h"
#endif

namespace wt::data::detail {

#if WARPTAPE_HAS_SPNG
namespace {

// The pieces of a PNG file in their order, as far as they are whole.
struct PngChunk {
  std::string_view type;
  const u8* data = nullptr;
  u32 size = 0;
  u64 at = 0, end = 0;  // in the file
};
bool next_chunk(std::span<const u8> bytes, PngChunk& c) {
  constexpr u64 kFrame = 12;  // length, type, checksum
  c.at = c.end ? c.end : 8;   // behind the signature
  if (bytes.size() - c.at < kFrame) return false;
  const u8* const p = bytes.data() + c.at;
  c.size = u32(p[0]) << 24 | u32(p[1]) << 16 | u32(p[2]) << 8 | p[3];
  if (c.size > bytes.size() - c.at - kFrame) return false;
  c.type = {reinterpret_cast<const char*>(p) + 4, 4};
  c.data = p + 8;
  c.end = c.at + kFrame + c.size;
  return true;
}

// Bytes of all rows with their filters: what the image data inflates to.
u64 filtered_bytes(const spng_ihdr& h, u64 channels) {
  static constexpr u32 kAdam7[7][4] = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4},
                                       {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}};  // y, x, steps
  static constexpr u32 kAll[1][4] = {{0, 0, 1, 1}};
  const auto sum = [&](std::span<const u32[4]> passes) {
    u64 bytes = 0;
    for (const auto& [y, x, dy, dx] : passes) {
      const u64 rows = h.height > y ? (h.height - y + dy - 1) / dy : 0;
      const u64 columns = h.width > x ? (h.width - x + dx - 1) / dx : 0;
      if (columns) bytes += rows * (1 + (columns * channels * h.bit_depth + 7) / 8);
    }
    return bytes;
  };
  return h.interlace_method ? sum(kAdam7) : sum(kAll);
}

// The compressed image data once more, for its length alone: libspng stops where the pixels are
// complete and takes what follows for nothing. Costs about half of what decoding does.
class PngDataLength {
 public:
  PngDataLength(const std::string& path, u64 wanted) : path_(path), left_(wanted) {
    if (inflateInit(&z_) != Z_OK) throw OutOfMemory("zlib has no memory");
  }
  ~PngDataLength() { inflateEnd(&z_); }
  PngDataLength(const PngDataLength&) = delete;
  PngDataLength& operator=(const PngDataLength&) = delete;

  void take(const PngChunk& c) {
    u8 scratch[1 << 15];
    z_.next_in = const_cast<u8*>(c.data);
    z_.avail_in = c.size;
    const auto place = [&] { return c.at + 8 + (c.size - z_.avail_in); };
    while (!ended_ && z_.avail_in > 0) {
      z_.next_out = scratch;
      z_.avail_out = sizeof scratch;
      const int status = inflate(&z_, Z_NO_FLUSH);
      const u64 got = sizeof scratch - z_.avail_out;
      if (got > left_) data_error(path_, place(), "the image data goes on after the last pixel");
      left_ -= got;
      ended_ = status == Z_STREAM_END;
      if (status != Z_OK && status != Z_BUF_ERROR && !ended_)
        data_error(path_, place(), str("damaged image data: ", z_.msg ? z_.msg : "?"));
    }
    if (z_.avail_in > 0)
      data_error(path_, place(), str(z_.avail_in, " bytes follow the image data within its chunk"));
  }
  void finish(u64 at) const {
    if (!ended_) data_error(path_, at, "the image data does not end");
  }

 private:
  const std::string& path_;
  z_stream z_{};
  u64 left_;
  bool ended_ = false;
};

class PngReader {
 public:
  PngReader(const std::string& path, std::span<const u8> bytes)
      : path_(path), bytes_(bytes), context_(spng_ctx_new(0), spng_ctx_free) {
    if (!context_) throw OutOfMemory("libspng has no memory");
  }

  Tensor read(const ParseLimits& limits) {
    // Also what libspng would skip when damaged: the transparency is such a chunk.
    check(spng_set_crc_action(context_.get(), SPNG_CRC_ERROR, SPNG_CRC_ERROR));
    check(spng_set_chunk_limits(context_.get(), limits.max_string, 4 * limits.max_string));
    check(spng_set_png_stream(context_.get(), next_bytes, this));
    check(spng_get_ihdr(context_.get(), &header_));
    check_ratio();
    read_transparency();
    Tensor image = empty_image(path_, 16, header_.height, header_.width, u64(channels()), limits);
    u8* const out = image.mutable_data<u8>();
    if (header_.bit_depth == 16) {
      decode_wide(out, u64(image.numel()));
    } else {
      decode(out, format(), u64(channels()) * header_.width);
    }
    check(spng_decode_chunks(context_.get()));
    if (cut_) check(SPNG_EOF);  // within the last checksum, which libspng takes for right then
    check_layout();
    return image;
  }

 private:
  bool colours() const { return header_.color_type & 2; }  // RGB or palette
  bool palette() const { return header_.color_type == SPNG_COLOR_TYPE_INDEXED; }
  bool alpha() const { return header_.color_type & 4; }
  int file_channels() const { return (colours() ? 3 : 1) + alpha(); }
  int channels() const { return file_channels() + transparent_; }

  int format() const {
    switch (channels()) {
      case 1:
        return SPNG_FMT_G8;
      case 2:
        return alpha() ? SPNG_FMT_PNG : SPNG_FMT_GA8;
      case 3:
        return SPNG_FMT_RGB8;
      default:
        return SPNG_FMT_RGBA8;
    }
  }

  static int next_bytes(spng_ctx*, void* self, void* to, size_t n) {
    PngReader& r = *static_cast<PngReader*>(self);
    if (n > r.bytes_.size() - r.at_) {
      r.at_ = r.bytes_.size();
      r.cut_ = true;
      return SPNG_IO_EOF;
    }
    std::memcpy(to, r.bytes_.data() + r.at_, n);
    r.at_ += n;
    return 0;
  }

  void check(int status) const {
    if (status == 0) return;
    if (status == SPNG_EMEM)
      throw OutOfMemory(str(printable_path(path_), ": libspng has no memory for the image"));
    const std::string place =
        row_ < 0 ? std::string() : str(", row ", row_, " of ", header_.height);
    data_error(path_, at_,
               status == SPNG_IO_EOF || status == SPNG_EOF || status == SPNG_EIDAT_TOO_SHORT
                   ? str("the PNG data ends early", place, " (truncated download?)")
                   : str("damaged PNG", place, ": ", spng_strerror(status)));
  }

  // A small file may promise a large image; memory is asked for only if it can hold that much.
  void check_ratio() const {
    const u64 bits = u64(palette() ? 1 : file_channels()) * header_.bit_depth;
    if (bits * header_.width / 8 > kDeflateRatio * bytes_.size() / header_.height)
      data_error(path_, 16,
                 str("the header promises ", header_.height, " x ", header_.width,
                     " pixels, which a file of ", bytes_.size(), " bytes cannot hold"));
  }

  // What libspng reads over: image data behind the last pixel, and bytes behind the end.
  void check_layout() const {
    PngDataLength data(path_, filtered_bytes(header_, u64(palette() ? 1 : file_channels())));
    PngChunk c;
    while (next_chunk(bytes_, c) && c.type != "IEND")
      if (c.type == "IDAT") data.take(c);
    data.finish(c.at);
    if (c.end != bytes_.size())
      data_error(path_, c.end, str(bytes_.size() - c.end, " bytes follow the end of the image"));
  }

  void read_transparency() {
    const int status = spng_get_trns(context_.get(), &key_);
    if (status != SPNG_ECHUNKAVAIL) check(status);
    transparent_ = status == 0;
  }

  void decode(void* out, int format, u64 row_bytes) {
    const int flags = SPNG_DECODE_PROGRESSIVE | (transparent_ ? SPNG_DECODE_TRNS : 0);
    check(spng_decode_image(context_.get(), nullptr, 0, format, flags));
    int status;
    spng_row_info info;
    while ((status = spng_get_row_info(context_.get(), &info)) == 0) {
      row_ = info.row_num;
      u8* const row = static_cast<u8*>(out) + row_ * i64(row_bytes);
      status = spng_decode_row(context_.get(), row, row_bytes);
      if (status != 0) break;
    }
    if (status != SPNG_EOI) check(status);
    row_ = -1;
  }

  // Samples of 16 bits, each rounded to 8; libspng would cut them, and has no grey ones.
  void decode_wide(u8* out, u64 n) {
    const u64 in_pixel = u64(file_channels()), out_pixel = u64(channels());
    std::vector<u16> wide(n / out_pixel * in_pixel);
    const bool keyed = std::exchange(transparent_, false);
    decode(wide.data(), SPNG_FMT_PNG, u64(header_.width) * in_pixel * 2);
    const u16 key[3] = {colours() ? key_.red : key_.gray, key_.green, key_.blue};
    for (u64 p = 0; p < n / out_pixel; ++p) {
      const u16* const from = wide.data() + p * in_pixel;
      u8* const to = out + p * out_pixel;
      for (u64 c = 0; c < in_pixel; ++c) to[c] = u8((u32(from[c]) * 255 + 32767) / 65535);
      if (keyed) to[in_pixel] = std::memcmp(from, key, in_pixel * 2) == 0 ? 0 : 255;
    }
  }

  const std::string& path_;
  const std::span<const u8> bytes_;
  std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context_;
  spng_ihdr header_{};
  spng_trns key_{};
  bool transparent_ = false;  // a colour, or entries of the palette
  bool cut_ = false;          // libspng asked for more than there is
  u64 at_ = 0;
  i64 row_ = -1;
};

}  // namespace

Tensor read_png(const std::string& path, std::span<const u8> bytes, const ImageOptions& o) {
  return PngReader(path, bytes).read(o.limits);
}

#else

Tensor read_png(const std::string& path, std::span<const u8>, const ImageOptions&) {
  throw NotAvailable(str(printable(path, 400), " is PNG and this build has no libspng: ",
                         why_without("spng"), "\n  Try convert FILE.png FILE.ppm"));
}

#endif

}  // namespace wt::data::detail
