"""JPEG photographs of 2000 x 1500 to 224 x 224, against decoding them whole and nothing else."""

import pathlib

import jpeg_baselines
import prepared
import tfrds
from measure import Baseline, compare, one_epoch
from rows import Row

# All decoded whole are 2.2 GB of pixels: a batch of 64 is a quarter of them.
BATCH = 64
ROUNDS = 5


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparison; `folder` takes the dataset."""
    photos = prepared.find_photos(data, "large-photos")
    builder = tfrds.build("large_photographs", photos, data_dir=folder)
    ours = builder.as_dataset(
        split="train",
        batch_size=BATCH,
        shuffle_files=True,
        as_supervised=True,
        image_size=224,
        interpolation="area",
    )
    files = [path.read_bytes() for path in sorted(photos.rglob("*.jpg"))]
    decoding = Baseline("decode_jpeg alone", jpeg_baselines.decode_alone(files), 1.0)
    return compare("JPEG 2000x1500 to 224, area", one_epoch(ours), [decoding], ROUNDS)
