// JPEG files by libjpeg-turbo (https://libjpeg-turbo.org).
#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/data/image_parts.h"
#if WARPTAPE_HAS_JPEG
#include <csetjmp>
#include <cstdio>  // before jpeglib.h
#include <memory>

#include <jpeglib.h>
// What follows jpeglib.h:
#include <jerror.h>
#endif

namespace wt::data {

#if WARPTAPE_HAS_JPEG
namespace {

// libjpeg's structures, and where its bytes go. Errors leave it by longjmp, so that nothing with a
// destructor may live in encode() and in what calls back.
struct Compressor {
  jpeg_compress_struct c{};
  jpeg_error_mgr errors{};
  jpeg_destination_mgr to{};
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = {};
  bool no_memory = false;
  JOCTET part[1 << 16];
  std::string file;

  Compressor() {
    c.err = jpeg_std_error(&errors);
    c.client_data = this;
    errors.error_exit = [](j_common_ptr common) { of(common).leave(); };
    errors.output_message = [](j_common_ptr) {};
    to.init_destination = [](j_compress_ptr p) { of(p).begin_part(); };
    to.empty_output_buffer = [](j_compress_ptr p) -> ::boolean {
      Compressor& self = of(p);
      self.keep(sizeof self.part);  // all of it, whatever free_in_buffer says
      self.begin_part();
      return TRUE;
    };
    to.term_destination = [](j_compress_ptr p) {
      Compressor& self = of(p);
      self.keep(sizeof self.part - self.to.free_in_buffer);
    };
  }
  ~Compressor() { jpeg_destroy_compress(&c); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  template <class P>
  static Compressor& of(P p) {
    return *static_cast<Compressor*>(p->client_data);
  }
  void begin_part() { to.next_output_byte = part, to.free_in_buffer = sizeof part; }
  void keep(size_t n) {
    try {
      file.append(reinterpret_cast<const char*>(part), n);
      return;
    } catch (...) {  // which must not fly through libjpeg
      no_memory = true;
    }
    std::longjmp(back, 1);
  }
  [[noreturn]] void leave() {
    errors.format_message(reinterpret_cast<j_common_ptr>(&c), message);
    no_memory = errors.msg_code == JERR_OUT_OF_MEMORY;
    std::longjmp(back, 1);
  }
};

// False if libjpeg gave up.
[[gnu::noinline]] bool encode(Compressor& d, const u8* pixels, i64 height, i64 width, i64 channels,
                              const JpegOptions& o) {
  if (setjmp(d.back)) return false;  // NOLINT: its interface
  jpeg_create_compress(&d.c);        // clears all of it but err and client_data
  d.c.dest = &d.to;
  d.c.image_height = JDIMENSION(height), d.c.image_width = JDIMENSION(width);
  d.c.input_components = int(channels);
  d.c.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&d.c);
  jpeg_set_quality(&d.c, o.quality, TRUE);
  if (!o.subsample) d.c.comp_info[0].h_samp_factor = d.c.comp_info[0].v_samp_factor = 1;
  if (o.progressive) jpeg_simple_progression(&d.c);
  jpeg_start_compress(&d.c, TRUE);
  while (d.c.next_scanline < d.c.image_height) {
    JSAMPROW row = const_cast<u8*>(pixels) + i64(d.c.next_scanline) * width * channels;
    jpeg_write_scanlines(&d.c, &row, 1);
  }
  jpeg_finish_compress(&d.c);
  return true;
}

}  // namespace
#endif

std::string jpeg_of(const Tensor& image, const JpegOptions& o) {
  if (image.ndim() == 3 && (image.size(2) == 2 || image.size(2) == 4))
    throw ShapeError(str("[jpeg_of] JPEG has no alpha channel, got ", describe(image),
                         "\n  Try write_png or write_webp, or narrow(2, 0, ", image.size(2) - 1,
                         ")"));
  const Tensor pixels = detail::pixels_to_write("jpeg_of", image, 3, 65'500);
  detail::check_quality("jpeg_of", o.quality, 1);
#if WARPTAPE_HAS_JPEG
  const auto d = std::make_unique<Compressor>();
  if (!encode(*d, pixels.data<u8>(), pixels.size(0), pixels.size(1), pixels.size(2), o)) {
    if (d->no_memory) throw OutOfMemory("libjpeg-turbo has no memory for the image");
    throw DataError(str("[jpeg_of] ", d->message));
  }
  return std::move(d->file);
#else
  throw NotAvailable(str("[jpeg_of] this build has no libjpeg-turbo: ", why_without("jpeg")));
#endif
}

}  // namespace wt::data
