// JPEG files for tests, of any kind that libjpeg writes.
#pragma once
#include "warptape/config.h"
#if WARPTAPE_HAS_JPEG
#include <cstdio>  // before jpeglib.h
#include <cstdlib>
#include <vector>

#include <jpeglib.h>

struct JpegKind {
  int sampling = 1;  // of the colours: 1 everywhere; 2: every other column; 4: and row
  bool progressive = false;
  int quality = 95;
  // Scans of a progressive file, each repeated; 0: libjpeg's own.
  int repeated_scans = 0;
};

// Pixels of 1, 3 or 4 channels: grey, RGB, CMYK (with Adobe's marker).
inline std::vector<unsigned char> jpeg_file(const std::vector<unsigned char>& pixels, int w, int h,
                                            int channels, const JpegKind& kind = {}) {
  jpeg_compress_struct c;
  jpeg_error_mgr errors;
  c.err = jpeg_std_error(&errors);  // an error ends the program
  jpeg_create_compress(&c);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&c, &out, &size);
  c.image_width = static_cast<JDIMENSION>(w), c.image_height = static_cast<JDIMENSION>(h);
  c.input_components = channels;
  c.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&c);
  jpeg_set_quality(&c, kind.quality, TRUE);
  if (channels == 3) {
    c.comp_info[0].h_samp_factor = kind.sampling > 1 ? 2 : 1;
    c.comp_info[0].v_samp_factor = kind.sampling > 2 ? 2 : 1;
  }
  std::vector<jpeg_scan_info> scans;
  if (kind.repeated_scans > 0) {
    // The mean of every block, then one coefficient bit by bit and again from the beginning.
    jpeg_scan_info scan{};
    scan.comps_in_scan = 1;
    scans.push_back(scan);
    for (int k = 1; k < 64 && int(scans.size()) < kind.repeated_scans; ++k)
      for (int bit = 10; bit >= 0 && int(scans.size()) < kind.repeated_scans; --bit) {
        scan.Ss = scan.Se = k;
        scan.Ah = bit == 10 ? 0 : bit + 1;
        scan.Al = bit;
        scans.push_back(scan);
      }
    c.scan_info = scans.data();
    c.num_scans = int(scans.size());
  } else if (kind.progressive) {
    jpeg_simple_progression(&c);
  }
  jpeg_start_compress(&c, TRUE);
  for (int y = 0; y < h; ++y) {
    JSAMPROW row = const_cast<unsigned char*>(pixels.data()) + std::size_t(y) * w * channels;
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  std::vector<unsigned char> bytes(out, out + size);
  jpeg_destroy_compress(&c);
  std::free(out);
  return bytes;
}
#endif
