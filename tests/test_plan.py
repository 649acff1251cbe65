import hashlib
import random
import re
import tracemalloc

import images
import numpy as np
import pytest
from fake_source import FakeSource

from tfrds.errors import ConfigError, EncodeError, SourceError
from tfrds.spec import BuildOptions
from tfrds.write.plan import make_plan
from tfrds.write.sources import Arrays, ImageFolder
from tfrds.write.sources.by_split import BySplit

MIB = 2**20


def keys_of(count):
    return [b"key %d" % number for number in range(count)]


def arrays(labels, shape=(4, 5, 3)):
    return Arrays(np.zeros((len(labels), *shape), np.uint8), labels)


def plan_of(source, limit=None, **options):
    return make_plan(source, BuildOptions(**options), limit=limit)


def hashed(key, salt):
    return hashlib.blake2b(key, digest_size=16, salt=salt).digest()


def names_by_split(plan):
    return {name: [plan.keys[row] for row in split.rows] for name, split in plan.splits.items()}


two_classes = pytest.mark.filterwarnings("ignore:(All images are of|No image is of):UserWarning")


@two_classes
def test_records_are_sorted_by_the_salted_hash_of_their_keys():
    keys = [*keys_of(300), "größe/é".encode(), b""]
    plan = plan_of(FakeSource(keys))
    expected = sorted(keys, key=lambda key: hashed(key, b"tfrds-order-1"))
    assert names_by_split(plan) == {"train": expected}


@two_classes
def test_order_does_not_depend_on_the_listing():
    keys = keys_of(200)
    shuffled = random.Random(0).sample(keys, 200)
    assert names_by_split(plan_of(FakeSource(keys))) == names_by_split(
        plan_of(FakeSource(shuffled))
    )


def test_drawn_splits_follow_the_hash_with_the_splits_salt():
    keys = keys_of(101)
    labels = [number % 3 for number in range(101)]  # 34, 34, 33
    plan = plan_of(FakeSource(keys, labels, "abc"), splits={"train": 0.7, "test": 0.2, "dev": 0.1})
    # By hand: 23.8 + 6.8 + 3.4 and 23.1 + 6.6 + 3.3.
    shares = {0: (24, 7, 3), 1: (24, 7, 3), 2: (23, 7, 3)}
    expected = {"train": [], "test": [], "dev": []}
    for label, counts in shares.items():
        own = [key for key, other in zip(keys, labels, strict=True) if other == label]
        own.sort(key=lambda key: hashed(key, b"tfrds-split-1"))
        for name, count in zip(expected, counts, strict=True):
            expected[name] += own[:count]
            own = own[count:]
    for name in expected:
        expected[name].sort(key=lambda key: hashed(key, b"tfrds-order-1"))
    assert names_by_split(plan) == expected
    assert list(plan.splits) == ["dev", "test", "train"]
    assert [plan.class_counts(name) for name in ("train", "test", "dev")] == [
        [24, 24, 23],
        [7, 7, 7],
        [3, 3, 3],
    ]


def test_splits_of_one_class_do_not_depend_on_other_classes():
    keys, labels = keys_of(90), [number % 3 for number in range(90)]
    kept = [number for number in range(90) if labels[number] != 1]
    splits = {"train": 0.75, "test": 0.25}
    whole = names_by_split(plan_of(FakeSource(keys, labels, "abc"), splits=splits))
    part = FakeSource([keys[row] for row in kept], [labels[row] // 2 for row in kept], "ac")
    for name, found in names_by_split(plan_of(part, splits=splits)).items():
        assert set(found) <= set(whole[name])


@pytest.mark.parametrize(
    ("count", "num_shards", "edges"),
    [
        (10, 1, [0, 10]),
        (10, 3, [0, 3, 7, 10]),
        (10, 4, [0, 2, 5, 8, 10]),  # 2.5 and 7.5 to even
        (7, 7, [0, 1, 2, 3, 4, 5, 6, 7]),
        (5, 99, [0, 1, 2, 3, 4, 5]),  # a shard holds at least one
    ],
)
@two_classes
def test_shards_are_cut_by_count(count, num_shards, edges):
    split = plan_of(FakeSource(keys_of(count)), num_shards=num_shards).splits["train"]
    assert split.edges() == edges
    assert split.num_shards == len(edges) - 1


@pytest.mark.parametrize(
    ("count", "size", "num_shards"),
    [
        (1, 100, 1),
        (512, 100, 1),
        (513, 100, 2),
        (1024, 100, 2),
        (7681, 100, 16),
        (50_000, 100, 16),
        (8, 256 * MIB // 8, 1),
        (8, 256 * MIB // 8 + 1, 2),
        (100, 256 * MIB // 5, 20),
        (3, 900 * MIB, 3),  # 11 by size, but a shard holds at least one
        (600, 256 * MIB * 1000, 600),
        (1000, 256 * MIB // 1000 * 5, 5),
    ],
)
@two_classes
def test_number_of_shards_follows_from_size_and_count(count, size, num_shards):
    source = FakeSource(keys_of(count), sizes=np.full(count, size), shape=None)
    split = plan_of(source).splits["train"]
    assert split.num_shards == num_shards
    assert split.estimated_bytes == count * size


@two_classes
def test_number_of_shards_has_an_upper_bound():
    count = 100_001
    source = FakeSource(keys_of(count), sizes=np.full(count, 300 * MIB), shape=None)
    assert plan_of(source).splits["train"].num_shards == 99_999


@pytest.mark.parametrize(
    ("shape", "options", "each"),
    [
        ((4, 5, 3), {}, 60),  # raw
        ((4, 5, 1), {}, 20),
        ((4, 5, 1), {"channels": 3}, 60),
        ((4, 5, 3), {"image_size": (10, 20)}, 600),
        (None, {"image_size": (10, 20)}, 600),
        (None, {"encoding": "original"}, 777),
        (None, {"encoding": "original", "image_size": (10, 20)}, 777),
        ((100, 100, 3), {"encoding": "jpeg"}, 3000),
        (None, {"encoding": "jpeg"}, 777),
        (None, {"encoding": "jpeg", "store_size": 60}, 1440),  # 60 * 80 * 0.3
    ],
)
@two_classes
def test_estimate_of_bytes_comes_from_the_plan_alone(shape, options, each):
    source = FakeSource(keys_of(10), sizes=np.full(10, 777), shape=shape)
    assert plan_of(source, **options).splits["train"].estimated_bytes == 10 * each


def test_no_image_is_an_error():
    with pytest.raises(
        SourceError, match="source: expected at least one labelled image, found none"
    ):
        plan_of(arrays(np.zeros(0, int)))


@two_classes
def test_equal_keys_are_named():
    with pytest.raises(SourceError, match=r"twin: .*NFC"):
        plan_of(FakeSource([b"one", b"twin", b"twin"]))
    with pytest.raises(SourceError, match=r"(twin|again): .*NFC"):
        plan_of(FakeSource([b"twin", b"again", b"twin", b"again", b"x"]))


def test_fractions_where_the_source_has_splits_are_refused(tmp_path):
    images.put_images(tmp_path, ["train/a/1.png", "test/b/1.png"])
    for source in (ImageFolder(tmp_path), BySplit({"test": arrays([0]), "train": arrays([1])})):
        with pytest.raises(
            ConfigError, match=r"splits: the source has its own, \['test', 'train'\]"
        ):
            plan_of(source, splits={"train": 0.5, "test": 0.5})
    assert list(plan_of(ImageFolder(tmp_path, layout="class"), splits={"a": 1.0}).splits) == ["a"]


@two_classes
def test_split_that_would_be_empty_is_refused():
    with pytest.raises(SourceError, match="splits: 'test' would be empty"):
        plan_of(FakeSource(keys_of(3)), splits={"train": 0.9, "test": 0.1})


@two_classes
def test_limit_keeps_the_first_records_of_each_split():
    splits = {"train": 0.75, "test": 0.25}
    whole = names_by_split(plan_of(FakeSource(keys_of(40)), splits=splits))
    part = names_by_split(plan_of(FakeSource(keys_of(40)), limit=12, splits=splits))
    assert part == {"train": whole["train"][:12], "test": whole["test"][:10]}


@pytest.mark.parametrize("limit", [0, -1, 2.0, True])
def test_limit_must_be_positive(limit):
    with pytest.raises(ConfigError, match=f"limit: .*got {limit}"):
        plan_of(FakeSource(keys_of(3)), limit=limit)


@pytest.mark.parametrize(
    ("shape", "options", "expected"),
    [
        ((28, 28, 1), {}, ("raw", 1, None, (28, 28))),
        ((64, 64, 3), {}, ("raw", 3, None, (64, 64))),
        ((64, 65, 3), {}, ("original", 3, None, None)),
        ((64, 65, 3), {"encoding": "raw"}, ("raw", 3, None, (64, 65))),
        ((64, 65, 5), {"encoding": "raw"}, ("raw", 5, None, (64, 65))),
        ((65, 5, 3), {"image_size": 64}, ("raw", 3, (64, 64), None)),
        ((28, 28, 1), {"channels": 3}, ("raw", 3, None, (28, 28))),
        ((28, 28, 1), {"encoding": "original"}, ("original", 1, None, None)),
        (None, {}, ("original", 3, None, None)),
        (None, {"channels": 1}, ("original", 1, None, None)),
        (None, {"image_size": (64, 32)}, ("raw", 3, (64, 32), None)),
        (None, {"image_size": (64, 65)}, ("original", 3, None, None)),
        (None, {"image_size": 300, "encoding": "raw"}, ("raw", 3, (300, 300), None)),
        (None, {"image_size": 32, "encoding": "jpeg"}, ("jpeg", 3, None, None)),
    ],
)
@two_classes
def test_encoding_and_shape_follow_from_source_and_options(shape, options, expected):
    image = plan_of(FakeSource(keys_of(2), shape=shape), **options).image
    assert (image.encoding, image.channels, image.image_size, image.shape_from) == expected


def test_raw_files_without_a_size_must_have_that_of_the_first_record(tmp_path):
    images.put_images(tmp_path, ["a/1.png", "b/2.png"], height=6, width=9)
    assert plan_of(ImageFolder(tmp_path), encoding="raw").image.shape_from == (6, 9)
    images.put_images(tmp_path, ["a/1.png", "b/2.png"], height=1, width=1)
    for path in (tmp_path / "a" / "1.png", tmp_path / "b" / "2.png"):
        images.put(path, path.read_bytes()[:30])
    with pytest.raises(EncodeError, match=r"[ab]/[12]\.png: cut off or damaged"):
        plan_of(ImageFolder(tmp_path), encoding="raw")


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (
            (4, 5, 2),
            {"encoding": "jpeg"},
            'channels: JPEG and PNG hold 1 or 3, got 2.*encoding="raw"',
        ),
        ((400, 500, 4), {}, "channels: JPEG and PNG hold 1 or 3, got 4"),
        (None, {"channels": 4, "image_size": 9}, "channels: images from files have 1 or 3, got 4"),
    ],
)
@two_classes
def test_channels_that_cannot_be_stored_are_refused(shape, options, message):
    with pytest.raises(ConfigError, match=message):
        plan_of(FakeSource(keys_of(2), shape=shape), **options)


def test_plan_of_many_examples_holds_columns_only():
    count = 200_000
    source = FakeSource(
        [b"class %02d/folder/image_%07d.jpg" % (number % 50, number) for number in range(count)],
        np.arange(count) % 50,
        [f"class {number:02}" for number in range(50)],
        shape=None,
    )
    tracemalloc.start()
    try:
        plan = plan_of(source, splits={"train": 0.8, "test": 0.2})
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan.num_examples == count
    assert peak / count < 300
    assert kept / count < 40
    assert plan.class_counts("test") == [800] * 50


def test_left_out_files_and_the_sources_notes_are_kept(tmp_path):
    images.put_images(tmp_path, ["a/1.png", "b/1.png"])
    images.put(tmp_path / "c.txt", "text")
    plan = plan_of(ImageFolder(tmp_path))
    assert plan.left_out == {".txt": 1}
    assert re.search(r"read as class/\.\.\./file", plan.notes[0])
