import json
import pickle
import random
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
from datasets import NUM_TEST, NUM_TRAIN, build, photo, run_script

import tfrds
from tfrds.disk.build_record import read_build_record
from tfrds.errors import ConfigError, DatasetError
from tfrds.read.data_source import open_source
from tfrds.read.numpy_stages.resize import resize_image
from tfrds.read.resolve import ResizeSpec
from tfrds.read_options import parse_read_options

# Larger and smaller than the images, of another aspect ratio.
SIZES = ((5, 12), (20, 9))

VALUES = (
    {},
    {"dtype": "uint8"},
    {"dtype": "float16", "value_range": (-1, 1)},
    {"dtype": "float16", "value_range": (0, 1e6)},  # beyond its range
    {"dtype": "float16", "value_range": (0, 1e-5)},  # below its normal numbers
    {"dtype": "bfloat16", "value_range": (0, 1)},
    {"dtype": "bfloat16"},
    {"value_range": (0, 1), "normalize": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))},
    {"normalize": (127.5, (30, 40, 50))},
    {"normalize": "dataset"},
    {"label_smoothing": 0.1},
    {"label_mode": "int"},
)

FORK_WARNINGS = (
    # This process runs TensorFlow's threads, and JAX's where a test has imported it. The workers
    # call neither.
    "ignore:.*multi-threaded, use of fork:DeprecationWarning",
    "ignore:os.fork\\(\\) was called:RuntimeWarning",
)

WORKER_SCRIPT = """
import pathlib, pickle, sys
source = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
example = source[int(sys.argv[2])]
heavy = ("tensorflow", "tensorflow_datasets", "keras", "jax", "torch", "matplotlib")
print([name for name in heavy if name in sys.modules])
print(example["image"].tobytes().hex())
print(repr(source))
"""

FROM_NAME_SCRIPT = """
import sys
import tfrds
from tfrds import tfds_compat
from tfrds.read.data_source import open_source
from tfrds.read_options import ReadOptions
builder = tfrds.builder(sys.argv[2], data_dir=sys.argv[1])
rows = tfds_compat.row_ranges(builder.info, "train[:50%]")
source = open_source(builder._record(), rows, ReadOptions(normalize=(127.5, 50.0)))
print(len(list(source)), [name for name in ("tensorflow", "jax", "torch") if name in sys.modules])
"""

GRAIN_SCRIPT = """
import pathlib, pickle, sys
from absl import flags
flags.FLAGS.mark_as_parsed()
from test_data_source import grain_loader
source = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
for key in sorted(key for batch in grain_loader(source, worker_count=2) for key in batch["key"]):
    print(key)
"""


def source_of(built, *stretches, **options):
    return source_in(built.directory, *(stretches or [("train", 0, NUM_TRAIN)]), **options)


def source_in(directory, *stretches, **options):
    return open_source(read_build_record(directory), stretches, parse_read_options(options))


def build_arrays(root, images, labels, name="raw_arrays", **options):
    """Returns the builder of one split "train", and where it lies."""
    arrays = tfrds.sources.Arrays(images, labels)
    builder = build(name, {"train": arrays}, root, num_shards=1, **options)
    return builder, root / name / "1.0.0"


def assert_same(examples, dataset):
    """Compares names, dtypes and bytes with the dataset's, which has keys as bytes."""
    number = -1
    for number, expected in enumerate(dataset.as_numpy_iterator()):
        example = examples[number]
        assert list(example) == list(expected)
        for name, value in expected.items():
            if name == "key":
                assert example[name] == value.decode()
                continue
            assert np.shape(example[name]) == np.shape(value)
            assert example[name].dtype == value.dtype
            assert example[name].tobytes() == value.tobytes(), (number, name)
    assert number + 1 == len(examples) > 0


def test_examples_are_the_sources_own_pixels_and_labels(built):
    source = source_of(built, with_key=True)
    assert len(source) == NUM_TRAIN
    assert sorted(example["key"] for example in source) == keys_of(built)
    for number in random.Random(0).sample(range(NUM_TRAIN), NUM_TRAIN):
        example = source[number]
        image, label = example["image"], example["label"]
        assert image.dtype == label.dtype == np.float32
        np.testing.assert_array_equal(image, built.pixels[example["key"]])
        np.testing.assert_array_equal(label, np.eye(4)[built.labels[example["key"]]])


@pytest.mark.parametrize("options", VALUES, ids=str)
def test_values_are_those_of_the_dataset(raw, options):
    assert_same(source_of(raw, **options), raw.load(**options))


@pytest.mark.parametrize("options", [{}, {"dtype": "uint8"}, {"with_key": True}], ids=str)
def test_images_of_several_sizes_are_those_of_the_dataset(sizes, options):
    assert_same(source_of(sizes, **options), sizes.load(**options))


@pytest.mark.parametrize("interpolation", ["bilinear", "area", "antialias"])
@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("image_size", SIZES, ids=str)
def test_resized_images_are_those_of_the_dataset(sizes, image_size, resize, interpolation):
    options = {"image_size": image_size, "resize": resize, "interpolation": interpolation}
    assert_same(source_of(sizes, **options), sizes.load(**options))


@pytest.mark.parametrize("options", [{}, {"dtype": "uint8"}, {"value_range": (-1, 1)}], ids=str)
def test_resized_raw_and_png_images_are_those_of_the_dataset(built, options):
    options = {"image_size": (13, 6), **options}
    assert_same(source_of(built, **options), built.load(**options))


@pytest.mark.parametrize("interpolation", ["bilinear", "area", "antialias"])
def test_resized_values_are_tensorflows_for_any_sizes(interpolation):
    rng = np.random.default_rng(0)
    method = {"method": "area"} if interpolation == "area" else {}
    shapes = [(*rng.integers(1, 90, 4), rng.choice([1, 3, 4])) for _ in range(200)]
    shapes += [(375, 500, 224, 224, 3), (1, 1, 300, 7, 3), (1200, 3, 2, 2, 1), (64, 64, 64, 64, 3)]
    for height, width, target_h, target_w, channels in shapes:
        image = rng.integers(0, 256, (height, width, channels), np.uint8)
        size = (int(target_h), int(target_w))
        expected = tf.image.resize(
            tf.cast(image, tf.float32), size, antialias=interpolation == "antialias", **method
        )
        ours = resize_image(image, ResizeSpec(image_size=size, interpolation=interpolation))
        assert ours.dtype == np.float32
        assert ours.tobytes() == expected.numpy().tobytes(), (image.shape, size)


@pytest.mark.parametrize("channels", [1, 4])
def test_raw_images_of_other_channels(tmp_path, channels):
    images = np.stack([photo(number, 6, 5, channels) for number in range(8)])
    builder, directory = build_arrays(tmp_path, images, np.arange(8) % 2)
    for options in ({"label_mode": "binary"}, {"image_size": (4, 9), "resize": "pad"}):
        source = source_in(directory, ("train", 0, 8), **options)
        assert_same(source, builder.as_dataset(split="train", **options))


@pytest.mark.parametrize("encoding", ["original", "jpeg"])
def test_gray_images_keep_one_channel(tmp_path, encoding):
    images = np.stack([photo(number, 16, 15, 1) for number in range(4)])
    builder, directory = build_arrays(tmp_path, images, np.arange(4) % 2, encoding=encoding)
    for options in ({}, {"image_size": (4, 5), "interpolation": "area"}):
        source = source_in(directory, ("train", 0, 4), **options)
        assert source[0]["image"].shape[2] == 1
        assert_same(source, builder.as_dataset(split="train", **options))


@pytest.mark.parametrize("options", [{"engine": "pread"}, {"cache": "memory"}], ids=str)
def test_every_way_to_read_shards_gives_the_same(built, options):
    source = pickle.loads(pickle.dumps(source_of(built, **options)))
    assert_same(source, built.load())


def test_stretches_come_in_the_order_of_the_split_expression(raw):
    stretches = ("train", 10, 15), ("test", 0, 5), ("train", 12, 3)
    source = source_of(raw, *stretches, with_key=True)
    assert len(source) == 23
    assert_same(source, raw.load("train[10:25]+test[:5]+train[12:15]", with_key=True))


def test_numbers_count_as_in_a_list(raw):
    source = source_of(raw, dtype="uint8", with_key=True)
    keys = [example["key"] for example in source]
    assert len(set(keys)) == NUM_TRAIN
    assert source[-1]["key"] == keys[-1]
    assert source[np.int32(-NUM_TRAIN)]["key"] == keys[0]
    numbers = np.array([3, -1, 3, 0])
    assert [example["key"] for example in source.__getitems__(numbers)] == [
        keys[number] for number in numbers
    ]
    assert source.__getitems__([]) == []


@pytest.mark.parametrize("number", [NUM_TRAIN, -NUM_TRAIN - 1, 10**30])
def test_number_beyond_the_last_is_an_index_error(raw, number):
    message = f"one of 50 examples, from -50 to 49, got {number}"
    with pytest.raises(IndexError, match=message):
        source_of(raw)[number]
    with pytest.raises(IndexError, match=message):
        source_of(raw).__getitems__([0, number])


@pytest.mark.parametrize("number", [slice(2), 1.0, "3", None])
def test_what_is_no_number_is_a_type_error(raw, number):
    with pytest.raises(TypeError, match=r"cannot be interpreted as an integer.*train\[:100\]"):
        source_of(raw)[number]


@pytest.mark.parametrize("options", [{}, {"dtype": "uint8"}, {"image_size": 8}], ids=str)
def test_examples_are_writable_and_own_their_memory(built, options):
    source = source_of(built, **options)
    first = source[0]["image"].copy()
    for example in [source[0], *source.__getitems__([0, 1])]:
        example["image"][:] = 0
        example["label"][:] = 0
    np.testing.assert_array_equal(source[0]["image"], first)
    assert source[0]["label"].any()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "uint8"},
        {"dtype": "bfloat16"},
        {"value_range": (0, 1), "normalize": ((0.1, 0.2, 0.3), 0.5)},
        {"image_size": (40, 50)},
    ],
    ids=str,
)
def test_large_raw_images_are_those_of_the_dataset(tmp_path, options):
    images = np.stack([photo(number, 80, 70) for number in range(6)])
    builder, directory = build_arrays(tmp_path, images, np.arange(6) % 2)
    source = source_in(directory, ("train", 0, 6), **options)
    assert_same(source, builder.as_dataset(split="train", **options))
    assert_same(source.__getitems__(range(6)), builder.as_dataset(split="train", **options))


def test_keeping_an_example_keeps_few_of_its_neighbours(tmp_path):
    images = np.zeros((9, 400, 300, 3), np.uint8)
    _, directory = build_arrays(tmp_path, images, np.arange(9) % 2)
    source = source_in(directory, ("train", 0, 9))
    memory = {id(owner(example["image"])) for example in list(source)}
    assert len(memory) == 5


def owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def test_source_pickles_as_paths_and_numbers_and_is_read_without_tensorflow(built, tmp_path):
    options = {"image_size": (30, 20), "interpolation": "antialias", "dtype": "float16"}
    source = source_of(built, **options)
    example = source[7]
    data = pickle.dumps(source)
    assert len(data) < 1500
    (tmp_path / "source").write_bytes(data)
    ran = run_script(WORKER_SCRIPT, tmp_path / "source", 7)
    assert ran.returncode == 0, ran.stderr
    modules, image, text = ran.stdout.splitlines()
    assert modules == "[]"
    assert image == example["image"].tobytes().hex()
    assert text == repr(source)


def test_source_opens_by_name_without_tensorflow(raw):
    ran = run_script(FROM_NAME_SCRIPT, raw.root, raw.name)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["25", "[]"]


def test_text_tells_sources_apart_and_not_where_they_lie(raw, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(raw.directory, moved)
    stretches = [("train", 0, 5), ("test", 3, 4)]
    text = repr(source_in(moved, *stretches, engine="pread", verify_records=True))
    assert text == repr(source_of(raw, *stretches))
    assert text.startswith("DataSource(raw_images:1.0.0, train[0:5]+test[3:7], digest=")
    assert "0x" not in text
    others = [source_of(raw), source_of(raw, *stretches, dtype="uint8", image_size=4)]
    assert len({text, *map(repr, others)}) == 3
    assert "image_size=(4, 4), dtype='uint8'" in repr(others[1])


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("augment", [tfrds.augment.RandomFlip()], "torchvision"),
        ("shuffle", True, r"DataLoader\(shuffle=True\)"),
        ("seed", 3, "sampler"),
        ("select", ["cat"], r"torch\.utils\.data\.Subset"),
        ("balance", "classes", "WeightedRandomSampler"),
        ("sample_weight", {"cat": 2.0}, "training loop"),
        ("start", (1, 2), "sampler"),
        ("worker", (0, 2), "DistributedSampler"),
        ("drop_remainder", True, "drop_last=True"),
        ("device", "/gpu:0", "training loop"),
    ],
)
def test_options_of_order_and_batches_are_refused(raw, name, value, advice):
    with pytest.raises(ConfigError, match=f"^{name}: a data source .*got {name}=.*{advice}"):
        source_of(raw, **{name: value})


def test_options_that_do_not_fit_the_dataset_are_refused(raw):
    with pytest.raises(ConfigError, match="'binary' is for two classes, raw_images has 4"):
        source_of(raw, label_mode="binary")
    with pytest.raises(ConfigError, match=r"one mean or 3, .* got 2: \[1.0, 2.0\]"):
        source_of(raw, normalize=((1, 2), 3))


def test_stream_has_no_random_access(raw):
    with pytest.raises(ConfigError, match='engine: "stream" reads from front to end'):
        source_of(raw, engine="stream")


def test_bfloat16_without_its_package_is_refused(raw, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ConfigError, match="'bfloat16' from the package ml_dtypes"):
        source_of(raw, dtype="bfloat16")


def test_dataset_that_was_built_again_is_noticed(tmp_path):
    images = np.zeros((6, 4, 4, 3), np.uint8)
    _, directory = build_arrays(tmp_path, images, np.arange(6) % 2)
    source = source_in(directory, ("train", 0, 6))
    shutil.rmtree(directory)
    build_arrays(tmp_path, images, np.arange(6) % 3)
    assert source[0]["label"].shape == (2,)  # its files are still mapped
    with pytest.raises(DatasetError, match=r"built again since .*Make the data source again"):
        pickle.loads(pickle.dumps(source))[0]


def test_missing_files_are_noticed_at_once(raw, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(raw.directory, moved)
    next(moved.glob("*test.tfrecord*1-of*")).unlink()
    with pytest.raises(DatasetError, match=r"test\.tfrecord-00001-of-00003"):
        source_in(moved, ("test", 0, NUM_TEST))


def test_records_are_verified_where_asked_for(raw, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(raw.directory, moved)
    shard = next(moved.glob("*-train.tfrecord-00000*"))
    data = bytearray(shard.read_bytes())
    data[60] ^= 1
    shard.write_bytes(data)
    assert len(list(source_in(moved, ("train", 0, NUM_TRAIN)))) == NUM_TRAIN
    source = source_in(moved, ("train", 0, NUM_TRAIN), verify_records=True)
    assert source[NUM_TRAIN - 1]["label"].any()
    with pytest.raises(DatasetError, match=r"train\.tfrecord-00000-of-00003: record 0, key train/"):
        list(source)


@pytest.mark.parametrize("name", ["jpeg", "png"])
def test_damaged_image_is_named(name, request, tmp_path):
    built = request.getfixturevalue(name)
    moved = tmp_path / "moved"
    shutil.copytree(built.directory, moved)
    for shard in moved.glob("*-train.tfrecord*"):
        data = shard.read_bytes()
        # The size of the first image, and the pixels of the last.
        for mark, after in ((b"\xff\xda", 12), (b"IDAT", 0)):
            place = data.rfind(mark)
            if place >= 0:
                data = data[: place + after] + b"\xff" * 20 + data[place + after + 20 :]
        shard.write_bytes(data)
    source = source_in(moved, ("train", 0, NUM_TRAIN))
    with pytest.raises(DatasetError, match=f"{name}_images-train.*__.* cannot be decoded: "):
        list(source)


def test_damaged_index_is_noticed(jpeg, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(jpeg.directory, moved)
    (path,) = moved.glob("*train*index*")
    rows = np.load(path)
    for field, value, message in (
        ("label", -1, "expected labels from 0 to 3, the index says -1 to -1"),
        ("height", 36, r"expected pixels of \[36, 29, 3\], found \[37, 29, 3\]"),
    ):
        damaged = rows.copy()
        damaged[field] = value
        np.save(path, damaged)
        source = source_in(moved, ("train", 0, 9))
        with pytest.raises(DatasetError, match=message):
            source[4]


def test_size_that_was_not_built_is_noticed(jpeg, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(jpeg.directory, moved)
    record = json.loads((moved / "tfrds.json").read_bytes())
    record["image"]["shape"][0] = 36
    (moved / "tfrds.json").write_text(json.dumps(record))
    source = source_in(moved, ("train", 0, 9))
    with pytest.raises(
        DatasetError, match=r"expected pixels of \[36, 29, 3\], found \[37, 29, 3\]"
    ):
        source[4]


def test_key_that_is_not_utf8_is_named(jpeg, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(jpeg.directory, moved)
    (path,) = moved.glob("*train*.keys.npy")
    blob = np.load(path)
    blob[0] = 0xFF
    np.save(path, blob)
    source = source_in(moved, ("train", 0, 9), with_key=True)
    with pytest.raises(DatasetError, match=r"expected keys in UTF-8, found b'\\xffrain/"):
        source[0]


@pytest.mark.parametrize("engine", ["mmap", "pread"])
@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.filterwarnings(*FORK_WARNINGS)
def test_pytorch_workers_load_the_datasets_values(jpeg, context, engine):
    torch = pytest.importorskip("torch")
    # The dataset's graph has run here, so that its threads and locks are there to be forked.
    expected = {
        example["key"].decode(): example
        for example in jpeg.load(with_key=True, image_size=(16, 12)).as_numpy_iterator()
    }
    source = source_of(jpeg, with_key=True, image_size=(16, 12), engine=engine)
    assert source[0]  # its files and threads are there when workers are forked
    loader = torch.utils.data.DataLoader(
        source,
        batch_size=8,
        shuffle=True,
        generator=torch.Generator().manual_seed(1),
        num_workers=2,
        multiprocessing_context=context,
        timeout=60,
    )
    keys = []
    for batch in loader:
        assert batch["image"].dtype == batch["label"].dtype == torch.float32
        for image, label, key in zip(batch["image"], batch["label"], batch["key"], strict=True):
            np.testing.assert_array_equal(image, expected[key]["image"])
            np.testing.assert_array_equal(label, expected[key]["label"])
            keys.append(key)
    assert keys != sorted(keys)
    assert sorted(keys) == sorted(expected)


def test_pytorch_collates_every_kind_of_value(raw):
    torch = pytest.importorskip("torch")
    for options, dtypes in (
        ({"dtype": "uint8", "label_mode": "int"}, (torch.uint8, torch.int32)),
        ({"dtype": "float16"}, (torch.float16, torch.float32)),
    ):
        loader = torch.utils.data.DataLoader(source_of(raw, **options), batch_size=NUM_TRAIN)
        (batch,) = loader
        assert (batch["image"].dtype, batch["label"].dtype) == dtypes
        assert batch["image"].shape == (NUM_TRAIN, 9, 7, 3)


def grain_loader(source, **options):
    grain = pytest.importorskip("grain")
    sampler = grain.samplers.IndexSampler(len(source), shuffle=True, seed=3, num_epochs=1)
    batch = grain.transforms.Batch(8)
    return grain.DataLoader(data_source=source, sampler=sampler, operations=[batch], **options)


def test_grain_reads_batches_in_threads(raw):
    grain = pytest.importorskip("grain")
    # Not opened yet: the threads do it.
    source = pickle.loads(pickle.dumps(source_of(raw, with_key=True)))
    dataset = grain.MapDataset.source(source).shuffle(seed=3).batch(8)
    batches = list(dataset.to_iter_dataset(grain.ReadOptions(num_threads=4)))
    assert sorted(key for batch in batches for key in batch["key"]) == keys_of(raw)
    for batch in batches:
        for image, key in zip(batch["image"], batch["key"], strict=True):
            np.testing.assert_array_equal(image, raw.pixels[key])


def test_grain_goes_on_from_a_checkpoint_of_the_same_examples(raw, tmp_path):
    shutil.copytree(raw.directory, tmp_path / "moved")
    iterator = iter(grain_loader(source_of(raw, with_key=True)))
    next(iterator)
    state = iterator.get_state()
    expected = next(iterator)
    moved = source_in(tmp_path / "moved", ("train", 0, NUM_TRAIN), with_key=True)
    other = iter(grain_loader(moved))
    other.set_state(state)
    assert list(next(other)["key"]) == list(expected["key"])
    others = source_of(raw, ("train", 1, NUM_TRAIN - 1), ("test", 0, 1), with_key=True)
    with pytest.raises(ValueError, match=r"train\[0:50\], .*\n.*train\[1:50\]\+test\[0:1\], "):
        iter(grain_loader(others)).set_state(state)


@pytest.mark.slow
def test_grain_workers_read_all_examples(jpeg, tmp_path):
    pytest.importorskip("grain")
    (tmp_path / "source").write_bytes(pickle.dumps(source_of(jpeg, with_key=True)))
    # In a process of its own, as Grain's workers want the flags of absl to be parsed.
    ran = run_script(GRAIN_SCRIPT, tmp_path / "source")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == keys_of(jpeg)


def keys_of(built):
    return sorted(key for key in built.pixels if key.startswith("train"))
