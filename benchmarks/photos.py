"""Makes a folder of real photographs, one class per folder, for benchmarks of the JPEG paths.

They are crops of the desktop backgrounds in Debian packages: about 500x375, JPEG quality 94, near
90 kB each, which is about ImageNet's usual size. The same packages and the same Pillow give the
same files.
"""

import pathlib
import random

from PIL import Image

from debian import FetchError, unpack_packages

PACKAGES = [
    "lomiri-wallpapers-20.04",
    "lomiri-wallpapers-16.04",
    "ukui-wallpapers",
    "plasma-workspace-wallpapers",
    "mate-backgrounds",
]
# (width, height) of crops, as Pillow has it.
CROP_SIZES = [(500, 375), (500, 333), (375, 500), (500, 500), (480, 360)]
# The longer side that a picture is shrunk to before it is cut, so that a crop shows a whole scene.
PICTURE_SIDES = [1100, 1300, 1600]
NUM_CLASSES = 20
CROPS_PER_PICTURE = 230
# Smaller pictures are drawings or thumbnails.
MIN_PICTURE_BYTES = 200_000


def make_photos(out_dir: pathlib.Path, count: int) -> None:
    """Writes `count` photographs to `out_dir/class/picture_crop.jpg`.

    Raises:
      FetchError: the packages cannot be fetched, or they give fewer than `count` photographs.
    """
    Image.MAX_IMAGE_PIXELS = None  # some backgrounds are larger than Pillow's guard against bombs
    rng = random.Random(0)
    pictures = out_dir.parent / "pictures"
    unpack_packages(PACKAGES, pictures)
    crops: list[pathlib.Path] = []
    for number, path in enumerate(find_pictures(pictures)):
        folder = out_dir / f"c{number % NUM_CLASSES:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        crops += cut_crops(path, folder, f"{number:03d}", rng)
    if len(crops) < count:
        raise FetchError(f"--photos: the packages give {len(crops):,} photographs, got {count:,}.")
    # Empty sky makes small files: the largest come nearest to a collection of photographs.
    crops.sort(key=lambda crop: -crop.stat().st_size)
    for crop in crops[count:]:
        crop.unlink()
    for folder in sorted(out_dir.iterdir()):
        if not any(folder.iterdir()):
            folder.rmdir()


def find_pictures(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in (".jpg", ".jpeg")
        and path.is_file()
        and not path.is_symlink()
        and path.stat().st_size > MIN_PICTURE_BYTES
    )


def cut_crops(
    path: pathlib.Path, folder: pathlib.Path, prefix: str, rng: random.Random
) -> list[pathlib.Path]:
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    scale = rng.choice(PICTURE_SIDES) / max(picture.size)
    picture = picture.resize(
        (int(picture.width * scale), int(picture.height * scale)), Image.Resampling.LANCZOS
    )
    crops = []
    for number in range(CROPS_PER_PICTURE):
        width, height = rng.choice(CROP_SIZES)
        if width > picture.width or height > picture.height:
            continue
        left = rng.randint(0, picture.width - width)
        top = rng.randint(0, picture.height - height)
        crop = folder / f"{prefix}_{number:02d}.jpg"
        picture.crop((left, top, left + width, top + height)).save(crop, "JPEG", quality=94)
        crops.append(crop)
    return crops
