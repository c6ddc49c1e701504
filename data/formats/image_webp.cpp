// WebP by libwebp (https://developers.google.com/speed/webp/docs/api).
#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/input_file.h"
#include "warptape/data/image_parts.h"
#if WARPTAPE_HAS_WEBP
#include <webp/decode.h>
#endif

namespace wt::data::detail {

#if WARPTAPE_HAS_WEBP

Tensor read_webp(const std::string& path, std::span<const u8> bytes, const ImageOptions& o) {
  const auto check = [&](VP8StatusCode status) {
    switch (status) {
      case VP8_STATUS_OK:
        return;
      case VP8_STATUS_OUT_OF_MEMORY:
        throw OutOfMemory(str(printable_path(path), ": libwebp has no memory for the image"));
      case VP8_STATUS_NOT_ENOUGH_DATA:
      case VP8_STATUS_SUSPENDED:
        data_error(path, bytes.size(), "the WebP data ends early (truncated download?)");
      case VP8_STATUS_UNSUPPORTED_FEATURE:
        data_error(path, 0, "a WebP file of a kind that libwebp does not know");
      default:
        data_error(path, 0, "damaged WebP");
    }
  };
  // The length in the header counts what follows it, rounded up to an even number.
  u64 promised = 0;
  for (int k = 3; k >= 0 && bytes.size() >= 8; --k) promised = promised << 8 | bytes[4 + size_t(k)];
  if (promised + 8 > bytes.size())
    data_error(path, bytes.size(),
               str("the header promises ", promised + 8, " bytes, the file has ", bytes.size(),
                   " (truncated download?)"));
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    throw NotAvailable("the libwebp that is installed is not the one that this was built for");
  check(WebPGetFeatures(bytes.data(), bytes.size(), &config.input));
  if (config.input.has_animation)
    data_error(path, 0, "an animated WebP file; single images are read");
  const u64 channels = config.input.has_alpha ? 4 : 3, width = u64(config.input.width),
            height = u64(config.input.height);
  Tensor image = empty_image(path, 0, height, width, channels, o.limits);
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.mutable_data<u8>(), int(width * channels), size_t(image.numel())};
  check(WebPDecode(bytes.data(), bytes.size(), &config));
  return image;
}

#else

Tensor read_webp(const std::string& path, std::span<const u8>, const ImageOptions&) {
  throw NotAvailable(str(printable(path, 400), " is WebP and this build has no libwebp: ",
                         why_without("webp"), "\n  Try convert FILE.webp FILE.png"));
}

#endif

}  // namespace wt::data::detail
