// JPEG by libjpeg-turbo (https://libjpeg-turbo.org), which reads untrusted files and is fuzzed.
// Through libjpeg's own interface, as TurboJPEG's keeps the first warning only: a harmless one
// would hide damage.
#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/input_file.h"
#include "warptape/data/image_parts.h"
#if WARPTAPE_HAS_JPEG
#include <csetjmp>
#include <cstdio>  // before jpeglib.h
#include <vector>

#include <jpeglib.h>
// What follows jpeglib.h:
#include <jerror.h>

#include "warptape/data/formats/jpeg_markers.h"
#endif

namespace wt::data::detail {

#if WARPTAPE_HAS_JPEG
namespace {

// Inks to RGB: n pixels of four bytes become n of three.
void rgb_of_cmyk(const u8* inks, u8* out, i64 n, bool inverted) {
  for (i64 i = 0; i < n; ++i) {
    const auto light = [&](int k) {
      return int(inverted ? inks[4 * i + k] : 255 - inks[4 * i + k]);
    };
    for (int c = 0; c < 3; ++c) out[3 * i + c] = u8((light(c) * light(3) + 127) / 255);
  }
}

// --- the decoder ---

// A baseline file has up to four scans, a progressive one some ten: scans without end are a bomb.
constexpr int kMostScans = 500;

// Warnings after which every pixel is what the file says: bytes between markers that belong to
// none, version and colour transform of a marker, parameters of a scan that sequential files do not
// use. All others are of damaged or truncated data.
bool is_harmless(int warning) {
  switch (warning) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

// libjpeg's structures. Errors leave it by longjmp, so that nothing with a destructor may live in
// what attempt() calls.
struct Decompressor {
  jpeg_decompress_struct c{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = {};
  bool cut = false, too_many_scans = false, no_memory = false;

  Decompressor() {
    c.err = jpeg_std_error(&errors);
    c.client_data = this;
    errors.error_exit = [](j_common_ptr common) { of(common).leave(); };
    errors.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && !is_harmless(common->err->msg_code)) of(common).leave();
    };
    errors.output_message = [](j_common_ptr) {};
    progress.progress_monitor = [](j_common_ptr common) {
      Decompressor& d = of(common);
      if (!common->is_decompressor || d.c.input_scan_number <= kMostScans) return;
      d.too_many_scans = true;
      std::longjmp(d.back, 1);
    };
  }
  ~Decompressor() { jpeg_destroy_decompress(&c); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  static Decompressor& of(j_common_ptr common) {
    return *static_cast<Decompressor*>(common->client_data);
  }
  [[noreturn]] void leave() {
    errors.format_message(reinterpret_cast<j_common_ptr>(&c), message);
    cut = errors.msg_code == JWRN_JPEG_EOF || errors.msg_code == JWRN_HIT_MARKER ||
          errors.msg_code == JERR_INPUT_EOF;
    no_memory = errors.msg_code == JERR_OUT_OF_MEMORY;
    std::longjmp(back, 1);
  }
};

// False if libjpeg gave up. `f` is a plain function: see Decompressor.
template <class... A>
[[gnu::noinline]] bool attempt(Decompressor& d, void (*f)(Decompressor&, A...), A... a) {
  if (setjmp(d.back)) return false;  // NOLINT: its interface
  f(d, a...);
  return true;
}

void read_header(Decompressor& d, const u8* bytes, size_t n) {
  jpeg_create_decompress(&d.c);  // clears all of it but err and client_data
  d.c.progress = &d.progress;
  jpeg_mem_src(&d.c, bytes, static_cast<unsigned long>(n));
  jpeg_read_header(&d.c, TRUE);
}

void start(Decompressor& d) { jpeg_start_decompress(&d.c); }

// All rows, `row_bytes` apart.
void read_rows(Decompressor& d, u8* to, size_t row_bytes) {
  while (d.c.output_scanline < d.c.output_height) {
    JSAMPROW row = to + d.c.output_scanline * row_bytes;
    jpeg_read_scanlines(&d.c, &row, 1);
  }
  jpeg_finish_decompress(&d.c);
}

// Inks have four bytes a pixel, what is wanted three: by way of one row.
void read_inks(Decompressor& d, u8* to, u8* inks, bool inverted) {
  for (u32 y = 0; y < d.c.output_height; ++y) {
    JSAMPROW row = inks;
    jpeg_read_scanlines(&d.c, &row, 1);
    rgb_of_cmyk(inks, to + size_t(y) * d.c.output_width * 3, d.c.output_width, inverted);
  }
  jpeg_finish_decompress(&d.c);
}

class JpegReader {
 public:
  JpegReader(const std::string& path, std::span<const u8> bytes)
      : path_(path), bytes_(bytes), markers_(jpeg_markers(bytes)) {}

  Tensor read(const ImageOptions& o) {
    check(attempt(d_, read_header, bytes_.data(), bytes_.size()));
    jpeg_decompress_struct& c = d_.c;
    if (c.image_width < 1 || c.image_height < 1)
      data_error(path_, 0, "the JPEG file has no pixels");
    const bool inks = c.jpeg_color_space == JCS_CMYK || c.jpeg_color_space == JCS_YCCK,
               grey = c.jpeg_color_space == JCS_GRAYSCALE;
    if (c.jpeg_color_space == JCS_UNKNOWN)
      data_error(path_, 0,
                 str("a JPEG file of ", c.num_components, " channels of unknown colours"));
    c.out_color_space = inks ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    c.scale_num = eighths(o), c.scale_denom = 8;
    // Before libjpeg asks for memory: it keeps all of a progressive file, whatever its scale.
    check_image_size(path_, 0, c.image_height, c.image_width, grey ? 1 : inks ? 4 : 3, o.limits);
    check(attempt(d_, start));
    Tensor image = empty_image(path_, 0, c.output_height, c.output_width, grey ? 1 : 3, o.limits);
    u8* const to = image.mutable_data<u8>();
    if (inks) {
      std::vector<u8> row(size_t(c.output_width) * 4);
      check(attempt(d_, read_inks, to, row.data(), markers_.adobe));
    } else {
      check(attempt(d_, read_rows, to, size_t(c.output_width) * (grey ? 1 : 3)));
    }
    return image;
  }

 private:
  // The least scale whose height and width are not below the wanted ones. Others than these are
  // slower than the whole image.
  unsigned eighths(const ImageOptions& o) const {
    if (o.fast_height < 1 || o.fast_width < 1) return 8;
    const bool lies = o.apply_orientation && markers_.orientation >= 5;
    const u64 height = u64(lies ? o.fast_width : o.fast_height),
              width = u64(lies ? o.fast_height : o.fast_width);
    for (const unsigned n : {1u, 2u, 4u})
      if ((u64(d_.c.image_height) * n + 7) / 8 >= height &&
          (u64(d_.c.image_width) * n + 7) / 8 >= width)
        return n;
    return 8;
  }

  void check(bool went_well) const {
    if (went_well) return;
    if (d_.no_memory)
      throw OutOfMemory(str(printable_path(path_), ": libjpeg-turbo has no memory for the image"));
    if (d_.too_many_scans)
      data_error(path_, 0, str("the JPEG file has more than ", kMostScans, " scans"));
    data_error(path_, d_.cut ? bytes_.size() : 0,
               d_.cut ? "the JPEG data ends early (truncated download?)"
                      : str("damaged JPEG: ", printable(d_.message, 200)));
  }

  const std::string& path_;
  std::span<const u8> bytes_;
  JpegMarkers markers_;
  Decompressor d_;
};

}  // namespace

Tensor read_jpeg(const std::string& path, std::span<const u8> bytes, const ImageOptions& o) {
  return JpegReader(path, bytes).read(o);
}

#else

Tensor read_jpeg(const std::string& path, std::span<const u8>, const ImageOptions&) {
  throw NotAvailable(str(printable(path, 400), " is JPEG and this build has no libjpeg-turbo: ",
                         why_without("jpeg"), "\n  Try convert FILE.jpg FILE.ppm"));
}

#endif

}  // namespace wt::data::detail
