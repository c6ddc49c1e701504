#!/usr/bin/env bash
# OpenCV's resize to half the size: an 8 bit image with two channels is rounded otherwise than with one, three or four.
#
# Expected: channels have nothing to do with each other, so resizing them together or one by one is the same.
# Happens: halving is the mean of 2 x 2 pixels. With 1, 3 and 4 channels a half is rounded up; with 2 channels another
# path is taken and a half goes to the even neighbour. Of random pixels one in eight differs by 1, always downwards.
# INTER_LINEAR is the same, since at this factor it is carried out as INTER_AREA.
# Seen with opencv-python-headless 5.0.0.93, 2026-11.
# Matters: an image with a mask or a pair of stereo images put into two channels does not give what the parts gave, so
# comparisons byte by byte between two input pipelines fail, and the mean differs by 1/8 of a grey level.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check opencv-python-headless==5.0.0.93 numpy==2.4.6
"$work/venv/bin/python" - <<'EOF'
import sys

import cv2
import numpy as np

print("OpenCV", cv2.__version__)
image = np.random.default_rng(0).integers(0, 256, (64, 64, 4), dtype=np.uint8)
total = image.astype(int)
total = total[0::2, 0::2] + total[0::2, 1::2] + total[1::2, 0::2] + total[1::2, 1::2]
half_up, half_even = (total + 2) // 4, np.rint(total / 4).astype(int)
as_described = True
for name in ("INTER_AREA", "INTER_LINEAR"):
    for channels in (1, 2, 3, 4):
        part = np.ascontiguousarray(image[..., :channels])
        out = cv2.resize(part, (32, 32), interpolation=getattr(cv2, name)).reshape(32, 32, channels)
        up, even = (int((out != rule[..., :channels]).sum()) for rule in (half_up, half_even))
        print(f"{name:>12}, {channels} channels: {out.size} values, {up} are not rounded half up,"
              f" {even} not half to even")
        as_described &= (even == 0 and up > 0) if channels == 2 else (up == 0 and even > 0)
if not as_described:
    sys.exit("changed: two channels are rounded like the others, or all otherwise")
print("as described: two channels have their own rounding")
EOF
