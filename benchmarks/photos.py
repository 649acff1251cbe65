"""Makes folders of real photographs, one class per folder, for benchmarks of the JPEG paths.

They are crops of the desktop backgrounds in Debian packages, never enlarged, JPEG quality 94. The
same packages and the same Pillow give the same files.
"""

import dataclasses
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
NUM_CLASSES = 20
# Smaller pictures are drawings or thumbnails.
MIN_PICTURE_BYTES = 200_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """How photographs are cut out of pictures.

    Attributes:
      crop_sizes: (width, height), as Pillow has it.
      picture_sides: the longer side that a picture is shrunk to before it is cut, so that a crop
        shows a whole scene.
      crops_per_picture: at most; a crop that does not fit is left out.
    """

    crop_sizes: tuple[tuple[int, int], ...]
    picture_sides: tuple[int, ...]
    crops_per_picture: int


# Near 90 kB each, which is about ImageNet's usual size.
USUAL = Kind(
    crop_sizes=((500, 375), (500, 333), (375, 500), (500, 500), (480, 360)),
    picture_sides=(1100, 1300, 1600),
    crops_per_picture=230,
)
# What a telephone gives after a first shrinking.
LARGE = Kind(crop_sizes=((2000, 1500),), picture_sides=(2560, 2880), crops_per_picture=8)


def make_photos(out_dir: pathlib.Path, count: int, kind: Kind = USUAL) -> None:
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
        crops += cut_crops(path, folder, f"{number:03d}", kind, rng)
    if len(crops) < count:
        raise FetchError(f"the packages give {len(crops):,} photographs, got {count:,}.")
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
    path: pathlib.Path, folder: pathlib.Path, prefix: str, kind: Kind, rng: random.Random
) -> list[pathlib.Path]:
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    scale = min(1.0, rng.choice(kind.picture_sides) / max(picture.size))
    picture = picture.resize(
        (int(picture.width * scale), int(picture.height * scale)), Image.Resampling.LANCZOS
    )
    crops = []
    for number in range(kind.crops_per_picture):
        width, height = rng.choice(kind.crop_sizes)
        if width > picture.width or height > picture.height:
            continue
        left = rng.randint(0, picture.width - width)
        top = rng.randint(0, picture.height - height)
        crop = folder / f"{prefix}_{number:02d}.jpg"
        picture.crop((left, top, left + width, top + height)).save(crop, "JPEG", quality=94)
        crops.append(crop)
    return crops
