"""The row `loader` with PyTorch's DataLoader, started by peer_torch.py: an epoch of Fashion-MNIST's
training images in shuffled batches of 64, nothing done with them.

TensorDataset: the images as f32 in memory; Dataset: u8 in memory, standardised by __getitem__;
indices: a Dataset that is asked for a whole batch at once (its batches are sampled outside and
DataLoader collates nothing), the fastest way that PyTorch's documentation has.
"""

import gzip
import pathlib
import time

import common
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

BATCH, EPOCHS = 64, 3
MEAN, DEVIATION = 0.2860, 0.3530


def read_idx(folder, name, header):
    for tail in ("", ".gz"):
        path = pathlib.Path(folder) / (name + tail)
        if path.exists():
            data = gzip.decompress(path.read_bytes()) if tail else path.read_bytes()
            return torch.frombuffer(bytearray(data[header:]), dtype=torch.uint8)
    raise SystemExit(f"torch_loader: no {name} in {folder}")


def standardised(images):
    return (images.float() / 255 - MEAN) / DEVIATION


class Images(Dataset):
    """u8 in memory; `index` is a number, or a list of them (then the samples of a whole batch)."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return standardised(self.images[index]), self.labels[index]


def loader_of(kind, images, labels, workers):
    keep = {"num_workers": workers, "persistent_workers": workers > 0}
    if kind == "indices":
        dataset = Images(images, labels)
        sampler = BatchSampler(RandomSampler(dataset), BATCH, drop_last=False)
        return DataLoader(dataset, sampler=sampler, batch_size=None, **keep)
    if kind == "TensorDataset":
        dataset = TensorDataset(standardised(images), labels)
    else:
        dataset = Images(images, labels)
    return DataLoader(dataset, batch_size=BATCH, shuffle=True, **keep)


def measure(folder, threads, versions):
    images = read_idx(folder, "train-images-idx3-ubyte", 16).view(-1, 1, 28, 28)
    labels = read_idx(folder, "train-labels-idx1-ubyte", 8).long()
    torch.manual_seed(1)
    for workers in range(0, threads + 1 if threads > 1 else 1):
        for kind in ("indices", "TensorDataset", "Dataset"):
            loader = loader_of(kind, images, labels, workers)
            squares = classes = n = 0
            for x, y in loader:  # also the warm-up
                squares += x.double().square().sum().item()
                classes += y.sum().item()
                n += len(y)
            us = []
            for _ in range(EPOCHS):
                start = time.perf_counter()
                for x, _ in loader:
                    pass
                us.append((time.perf_counter() - start) * 1e6)
            common.emit(
                common.row(
                    "loader",
                    f"torch {kind} workers {workers}",
                    f"{n} 1x28x28 b{BATCH}",
                    us,
                    threads,
                    versions,
                    1,
                    check_loss=squares / (n * 28 * 28) + classes / n,
                )
            )
