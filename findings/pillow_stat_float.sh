#!/usr/bin/env bash
# Pillow's ImageStat on a float or 32 bit image: the mean is one of bin numbers, not of pixels.
#
# Expected: ImageStat.Stat(image).mean is the mean of the pixels, or an error for modes that it cannot do.
# Happens: everything is computed from histogram(), and for the modes F and I that is 256 bins between the smallest
# and the largest pixel. A float image of 0.2 and 0.4 has the mean 127.5, and so has the integer image of 300 and
# 70000; sum, median, stddev and ImageStat's own extrema are of the bins too; Image.getextrema is right. There is no
# warning.
# Seen with Pillow 13.0.0, 2026-11.
# Matters: mean and deviation of a data set of depth maps, masks or HDR images, taken with the class that does it for
# 8 bit images, look like those of 8 bit images and do not depend on the scale at all. Use numpy.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pillow==13.0.0 numpy==2.4.6
"$work/venv/bin/python" - <<'EOF'
import sys

import numpy as np
import PIL
from PIL import Image, ImageStat

print("Pillow", PIL.__version__)
seen = []
for pixels in (np.array([[0.2, 0.4]], np.float32), np.array([[-5e6, 5e6]], np.float32),
               np.array([[300, 70000]], np.int32), np.array([[30, 70]], np.uint8)):
    image = Image.fromarray(pixels)
    stat = ImageStat.Stat(image)
    seen.append((image.mode, stat.mean[0]))
    print(f"mode {image.mode}, pixels {pixels.ravel().tolist()}: mean {stat.mean[0]}, stddev {stat.stddev[0]},"
          f" extrema {image.getextrema()}; numpy's mean {pixels.mean():g}")
if seen != [("F", 127.5), ("F", 127.5), ("I", 127.5), ("L", 50.0)]:
    sys.exit("changed: ImageStat of F and I gives other means")
print("as described: the mean of two different pixels is 127.5, whatever they are")
EOF
