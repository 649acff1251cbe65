"""New images get the pixels that training saw: those of datasets built from the same files."""

import importlib.util
import json
import os
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from datasets import photo, run_script
from image_bytes import tiff, with_segments
from images import encoded, put, without_root

import tfrds
from tfrds import augment
from tfrds.errors import ConfigError, DatasetError, EncodeError, SourceError

BACKGROUND = (10, 200, 30)
SIZE = (20, 24)
USUAL = {"value_range": (0, 1), "normalize": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
OTHER_FORMATS = ("webp.webp", "cmyk.jpg", "tiff.tif", "animated.gif", "exif_rotated.tif")

DATASETS = {
    "raw_stretch": {"encoding": "raw", "image_size": SIZE},
    "raw_crop": {"encoding": "raw", "image_size": SIZE, "resize": "crop"},
    "raw_pad": {"encoding": "raw", "image_size": SIZE, "resize": "pad"},
    "jpeg": {"encoding": "jpeg", "image_size": SIZE, "store_size": 30, "jpeg_quality": 60},
    "jpeg_pad": {"encoding": "jpeg", "image_size": SIZE, "resize": "pad"},
    "original": {"encoding": "original", "image_size": SIZE, "resize": "crop"},
    "gray": {"encoding": "original", "image_size": SIZE, "channels": 1},
    "gray_jpeg": {"encoding": "jpeg", "image_size": SIZE, "channels": 1},
    "as_they_are": {"encoding": "original", "image_size": SIZE, "exif_transpose": False},
    "as_they_are_raw": {"encoding": "raw", "image_size": SIZE, "exif_transpose": False},
    "any_size": {"encoding": "original"},
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """JPEGs and PNGs of each kind that a graph decodes, in two classes."""
    root = tmp_path_factory.mktemp("files")
    colour, gray = photo(1, 61, 90), photo(2, 50, 50, 1)[..., 0]
    exif = b"Exif\0\0" + tiff((0x0112, 3, 1, 6))
    files = {
        "cat/plain.jpg": encoded(colour, "JPEG", quality=90),
        "cat/sharp.jpg": encoded(photo(3, 41, 37), "JPEG", subsampling="4:4:4", progressive=True),
        "cat/turned.jpg": with_segments(encoded(photo(4, 31, 90), "JPEG"), (0xE1, exif)),
        "dog/gray.jpg": encoded(gray, "JPEG"),
        "dog/plain.png": encoded(photo(5, 50, 71)),
        "dog/gray.png": encoded(gray),
        "dog/alpha.png": encoded(np.dstack([photo(6, 64, 40), photo(7, 64, 40, 1)])),
    }
    for name, data in files.items():
        put(root / name, data)
    return root


@pytest.fixture(scope="session")
def builders(folder, tmp_path_factory):
    """Builds a dataset by its name in DATASETS, each once."""
    root, built = tmp_path_factory.mktemp("data"), {}

    def builder(name):
        if name not in built:
            options = {"background": BACKGROUND, **DATASETS[name]}
            built[name] = tfrds.build(name, folder, data_dir=root, num_workers=1, **options)
        return built[name]

    return builder


def training(builder, **options):
    """The images of a dataset by the key of their file, in its order of keys."""
    examples = builder.as_dataset(split="train", with_key=True, **options).as_numpy_iterator()
    images = {example["key"].decode(): example["image"] for example in examples}
    return dict(sorted(images.items()))


def files_of(folder, images):
    return [(folder / key).read_bytes() for key in images]


CASES = [
    ("raw_stretch", {}),
    ("raw_stretch", {"image_size": 31, "resize": "pad", "dtype": "uint8"}),
    ("raw_crop", {"image_size": 9, "interpolation": "area", **USUAL}),
    ("raw_pad", {"interpolation": "antialias", "image_size": (40, 15), "dtype": "float16"}),
    ("jpeg", {"value_range": (-1, 1)}),
    ("jpeg_pad", {"image_size": 7, "interpolation": "area", "normalize": "dataset"}),
    ("original", {}),
    ("original", {"image_size": 10, "interpolation": "area", "dtype": "bfloat16", **USUAL}),
    ("original", {"image_size": 16, "interpolation": "antialias", "resize": "pad"}),
    ("gray", {"interpolation": "area", "image_size": (9, 12), "value_range": (0, 1)}),
    ("gray_jpeg", {"interpolation": "antialias"}),
    ("as_they_are", {"interpolation": "area"}),
    ("as_they_are_raw", {}),
    ("any_size", {"augment": [augment.CenterCrop((44, 66), fill=3), augment.RandomFlip()]}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_pixels_are_those_of_training_in_python_and_in_a_graph(folder, builders, name, options):
    deterministic = {**options, "augment": options.get("augment", [])[:1]}
    images = training(builders(name), **deterministic)
    expected, files = np.stack(list(images.values())), files_of(folder, images)
    preprocess = tfrds.preprocess(builders(name), **options)
    in_python = preprocess(files)
    assert in_python.dtype == expected.dtype
    np.testing.assert_array_equal(in_python, expected)
    in_graph = tf.function(preprocess)(tf.constant(files))
    assert in_graph.dtype == expected.dtype
    np.testing.assert_array_equal(in_graph, expected)


def test_each_way_to_name_files_gives_the_same(folder, builders):
    images = training(builders("original"))
    key, expected = next(iter(images.items()))
    preprocess = tfrds.preprocess(builders("original"))
    path, data = folder / key, (folder / key).read_bytes()
    for one in (path, str(path), data, tf.constant(data)):
        np.testing.assert_array_equal(preprocess(one), expected)
    for several in ([path, data], (str(path), data), tf.constant([data, data])):
        np.testing.assert_array_equal(preprocess(several), [expected, expected])


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_images_of_any_size_are_taken_one_by_one(folder, builders, dtype):
    images = training(builders("any_size"), dtype=dtype)
    assert len({image.shape for image in images.values()}) > 3
    preprocess = tfrds.preprocess(builders("any_size"), dtype=dtype)
    files = files_of(folder, images)
    dataset = tf.data.Dataset.from_tensor_slices(files).map(preprocess, num_parallel_calls=2)
    assert dataset.element_spec == tf.TensorSpec((None, None, 3), dtype)
    for image, data, expected in zip(dataset, files, images.values(), strict=True):
        np.testing.assert_array_equal(image, expected)
        np.testing.assert_array_equal(preprocess(data), expected)


def operations(function):
    graph = function.graph.as_graph_def()
    inner = [node for library in graph.library.function for node in library.node_def]
    return {node.op for node in [*graph.node, *inner]}


@pytest.mark.parametrize(
    ("name", "options"), [("raw_crop", USUAL), ("jpeg", {}), ("original", {"dtype": "float16"})]
)
def test_exported_and_saved_models_take_files(folder, builders, tmp_path, name, options):
    images = training(builders(name), **options)
    expected, files = np.stack(list(images.values())), tf.constant(files_of(folder, images))
    preprocess = tfrds.preprocess(builders(name), **options)
    model = keras.Sequential([keras.Input((), dtype="string"), preprocess])
    assert model.output_shape == (None, *SIZE, 3)
    model.export(str(tmp_path / "exported"), verbose=False)
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_array_equal(exported.serve(files), expected)
    # Nothing of it is Python, which a server has not.
    served = operations(exported.signatures["serve"])
    assert {"DecodeJpeg", "DecodePng"} <= served
    assert not [operation for operation in served if "PyFunc" in operation]
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(restored(files), expected)
    np.testing.assert_array_equal(restored.layers[-1](list(files.numpy())), expected)


def test_model_behind_it_gets_its_pixels(folder, builders):
    preprocess = tfrds.preprocess(builders("original"), **USUAL)
    head = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    images = np.stack(list(training(builders("original"), **USUAL).values()))
    expected = head(images)
    model = keras.Sequential([keras.Input((), dtype="string"), preprocess, head])
    files = tf.constant(files_of(folder, training(builders("original"))))
    np.testing.assert_allclose(model(files), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(files, verbose=0), expected, atol=1e-5)


def test_python_takes_whatever_a_build_does(dummy_data, tmp_path):
    for number, name in enumerate(OTHER_FORMATS):
        put(tmp_path / "files" / "ab"[number % 2] / name, (dummy_data / name).read_bytes())
    builder = tfrds.build(
        "formats", tmp_path / "files", data_dir=tmp_path, image_size=8, num_workers=1
    )
    images = training(builder)
    preprocess = tfrds.preprocess(builder)
    assert len(images) == len(OTHER_FORMATS)
    for key, expected in images.items():
        np.testing.assert_array_equal(preprocess(tmp_path / "files" / key), expected)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Call preprocess on the bytes in"):
            preprocess(tf.constant((tmp_path / "files" / key).read_bytes()))


def test_image_with_more_pixels_than_the_build_allowed_is_refused(tmp_path):
    for name in "ab":
        put(tmp_path / "files" / name / "one.png", encoded(photo(0, 9, 7)))
    builder = tfrds.build(
        "small", tmp_path / "files", data_dir=tmp_path, image_size=8, max_pixels=63, num_workers=1
    )
    preprocess = tfrds.preprocess(builder)
    assert preprocess(encoded(photo(1, 7, 9))).shape == (8, 8, 3)
    for kind in ("PNG", "JPEG"):
        large = encoded(photo(1, 8, 8), kind)
        with pytest.raises(EncodeError, match=r"image: too large: .*max_pixels=63 .*64") as caught:
            preprocess(large)
        assert caught.value.reason == "too large"
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"too large: .*63.* got 64"):
            preprocess(tf.constant(large))


def test_new_images_are_checked_completely_whatever_the_build_left_out(tmp_path, dummy_data):
    for name in "ab":
        put(tmp_path / "files" / name / "one.png", encoded(photo(0, 24, 40)))
    builder = tfrds.build(
        "trusted", tmp_path / "files", data_dir=tmp_path, check="none", num_workers=1
    )
    with pytest.raises(EncodeError, match="cut off or damaged: Premature end") as caught:
        tfrds.preprocess(builder)(dummy_data / "no_eoi.jpg")
    assert caught.value.reason == "cut off or damaged"


def test_record_of_an_older_build_turns_images_upright(builders, folder, tmp_path):
    shutil.copytree(builders("original").data_dir_root / "original", tmp_path / "original")
    path = tmp_path / "original" / "1.0.0" / "tfrds.json"
    content = json.loads(path.read_text())
    for name in ("check", "exif_transpose", "max_pixels"):
        del content["options"][name]
    path.write_text(json.dumps(content))
    older = tfrds.preprocess(tfrds.builder("original", data_dir=tmp_path))
    newer = tfrds.preprocess(builders("original"))
    assert older.get_config()["image"] == newer.get_config()["image"]
    turned = folder / "cat/turned.jpg"
    np.testing.assert_array_equal(older(turned), newer(turned))


def test_config_of_an_older_model_makes_the_layer(builders, folder):
    preprocess = tfrds.preprocess(builders("original"))
    config = preprocess.get_config()
    for name in ("check", "exif_transpose", "max_pixels"):
        del config["image"][name]
    restored = type(preprocess).from_config(config)
    assert restored.get_config() == preprocess.get_config()


def test_options_of_labels_and_order_may_be_shared(folder, builders):
    shared = {"label_mode": "int", "shuffle": True, "seed": 3, "drop_remainder": True}
    images = training(builders("original"), **shared)
    preprocess = tfrds.preprocess(builders("original"), with_key=True, **shared)
    np.testing.assert_array_equal(
        preprocess(files_of(folder, images)), np.stack(list(images.values()))
    )


def test_config_is_json_and_makes_the_same_layer(folder, builders):
    options = {"augment": [augment.CenterCrop(15)], "interpolation": "area", **USUAL}
    preprocess = tfrds.preprocess(builders("original"), **options)
    config = json.loads(json.dumps(preprocess.get_config()))
    restored = type(preprocess).from_config(config)
    assert restored.get_config() == preprocess.get_config()
    assert restored.name == preprocess.name
    files = [folder / "cat/plain.jpg", folder / "dog/alpha.png"]
    np.testing.assert_array_equal(restored(files), preprocess(files))


def test_raw_images_of_their_own_size_need_that_size(tmp_path):
    for number in range(3):
        put(tmp_path / "files" / "aab"[number] / f"{number}.png", encoded(photo(number, 9, 7)))
    builder = tfrds.build(
        "own_size", tmp_path / "files", data_dir=tmp_path, encoding="raw", num_workers=1
    )
    preprocess = tfrds.preprocess(builder)
    np.testing.assert_array_equal(preprocess(encoded(photo(5, 9, 7))), photo(5, 9, 7))
    message = r"image: size \(height, width\): expected \(9, 7\), .* got \(7, 9\)\. Resize it befor"
    with pytest.raises(EncodeError, match=message):
        preprocess(encoded(photo(5, 7, 9)))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        preprocess(tf.constant(encoded(photo(5, 7, 9))))


def test_files_that_all_have_one_size_need_it_unless_it_is_asked_for(tmp_path):
    for name in "ab":
        put(tmp_path / "files" / name / "one.png", encoded(photo(0, 90, 70)))
    builder = tfrds.build("one_size", tmp_path / "files", data_dir=tmp_path, num_workers=1)
    other = encoded(photo(5, 60, 60))
    message = r"expected \(90, 70\), .* got \(60, 60\)\. Pass image_size=\(height, width\)"
    with pytest.raises(EncodeError, match=message):
        tfrds.preprocess(builder)(other)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tfrds.preprocess(builder)(tf.constant(other))
    assert tfrds.preprocess(builder, image_size=(90, 71))(other).shape == (90, 71, 3)


def test_files_that_cannot_be_used_are_named(builders, dummy_data, tmp_path):
    preprocess = tfrds.preprocess(builders("original"))
    plain = (dummy_data / "plain.jpg").read_bytes()
    truncated = dummy_data / "truncated.jpg"
    with pytest.raises(EncodeError, match=r"truncated\.jpg: cut off or damaged: Premature end"):
        preprocess(truncated)
    with pytest.raises(EncodeError, match="image 1: cut off or damaged"):
        preprocess([plain, truncated.read_bytes()])
    with pytest.raises(EncodeError, match=r"image: empty file\."):
        preprocess(b"")
    with pytest.raises(SourceError, match=r"nowhere\.jpg: cannot be read: No such file or direct"):
        preprocess(tmp_path / "nowhere.jpg")
    with pytest.raises(tf.errors.InvalidArgumentError, match="image 1: cut off: a JPEG of 675"):
        preprocess(tf.constant([plain, truncated.read_bytes()]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cats/1\.jpg.* not its name"):
        preprocess(tf.constant("cats/1.jpg"))


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_file_that_may_not_be_read_is_named(builders, folder, tmp_path):
    secret = put(tmp_path / "secret.jpg", (folder / "cat/plain.jpg").read_bytes())
    secret.chmod(0)
    preprocess = tfrds.preprocess(builders("original"))
    with without_root(), pytest.raises(SourceError, match=r"cannot be read: Permission denied\."):
        preprocess(secret)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (7, "images: expected the bytes or the path of a file, a list of these, .* got 7"),
        (np.zeros((2, 2)), "images: expected the bytes or the path"),
        (tf.constant([1.0]), "images: expected the bytes or the path"),
        (tf.constant([["a"]]), "images: expected the bytes or the path"),
        ([b"a", 7], "images: image 0|images: image 1: expected bytes or a path, got 7"),
        ([], r"images: expected at least one file, got an empty list\."),
        (keras.KerasTensor((None,), "float32"), r"expected keras.Input\(\(\), dtype=.*got float32"),
        (keras.KerasTensor((None, 2), "string"), r"dtype=.string.\), got string \[None, 2\]"),
    ],
)
def test_what_is_no_file_is_refused(builders, folder, images, message):
    if isinstance(images, list) and images:
        images = [(folder / "cat/plain.jpg").read_bytes(), *images[1:]]
    with pytest.raises(ConfigError, match=message):
        tfrds.preprocess(builders("original"))(images)


def test_several_sizes_make_no_batch(builders, folder):
    preprocess = tfrds.preprocess(builders("any_size"))
    message = r"image_size: the images of the dataset have several sizes, .* to tfrds.preprocess"
    for images in (
        [folder / "cat/plain.jpg"],
        tf.constant([b"a"]),
        keras.Input((), dtype="string"),
    ):
        with pytest.raises(ConfigError, match=message):
            preprocess(images)


def test_wrong_builders_and_options_are_refused(builders, tmp_path):
    with pytest.raises(
        ConfigError, match=r"builder: expected a tfrds.ImageDatasetBuilder, .*'raw'"
    ):
        tfrds.preprocess("raw")
    reader = tfds.builder_from_directory(builders("raw_crop").data_dir)
    with pytest.raises(ConfigError, match=r"builder: expected a tfrds\.ImageDatasetBuilder"):
        tfrds.preprocess(reader)
    with pytest.raises(ConfigError, match=r"dtype: expected one of .*got 'int8'"):
        tfrds.preprocess(builders("raw_crop"), dtype="int8")
    with pytest.raises(TypeError, match=r"'image_sise'\. Did you mean 'image_size'"):
        tfrds.preprocess(builders("raw_crop"), image_sise=3)
    four = tfrds.build(
        "four",
        tfrds.sources.Arrays(np.zeros((2, 3, 3, 4), np.uint8), [0, 1]),
        data_dir=tmp_path,
        encoding="raw",
    )
    with pytest.raises(ConfigError, match="builder: four holds arrays of 4 channels, which no im"):
        tfrds.preprocess(four)


def test_a_dataset_built_with_other_options_is_refused(tmp_path):
    arrays = tfrds.sources.Arrays(np.zeros((2, 3, 3, 3), np.uint8), [0, 1])
    tfrds.build("changed", arrays, data_dir=tmp_path, encoding="raw")

    class Changed(tfrds.ImageDatasetBuilder, skip_registration=True):
        """Its options are not those of the build."""

        VERSION = "1.0.0"
        OPTIONS = tfrds.BuildOptions(image_size=5)

        def _source(self, dl_manager):
            return arrays

    with pytest.raises(DatasetError, match=r"built with .* Raise VERSION"):
        tfrds.preprocess(Changed(data_dir=tmp_path))


def test_a_dataset_that_is_not_there_or_damaged_is_refused(tmp_path):
    class NotYet(tfrds.ImageDatasetBuilder, skip_registration=True):
        """Never prepared."""

        VERSION = "1.0.0"

        def _source(self, dl_manager):
            raise AssertionError

    with pytest.raises(DatasetError, match=r"no prepared dataset of not_yet\. Call download_and"):
        tfrds.preprocess(NotYet(data_dir=tmp_path))
    arrays = tfrds.sources.Arrays(np.zeros((2, 3, 3, 3), np.uint8), [0, 1])
    builder = tfrds.build("damaged", arrays, data_dir=tmp_path, encoding="raw")
    path = pathlib.Path(builder.data_dir) / "tfrds.json"
    content = json.loads(path.read_text())
    content["options"]["jpeg_quality"] = 1000
    path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=r"tfrds.json does not say how .*jpeg_quality.*got 1000"):
        tfrds.preprocess(builder)


BACKEND_SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
import keras
import numpy as np
import tensorflow as tf
import tfrds
name, root, path = sys.argv[1:]
builder = tfrds.builder(name, data_dir=root)
preprocess = tfrds.preprocess(builder)
data = open(path, "rb").read()
expected = [example["image"] for example in builder.as_dataset(split="train", with_key=True)
            if path.endswith(bytes(example["key"].numpy()).decode())][0]
found = [preprocess(path), preprocess([data])[0], tf.function(preprocess)(tf.constant([data]))[0],
         next(iter(tf.data.Dataset.from_tensors(data).map(preprocess)))]
for image in found:
    np.testing.assert_array_equal(image, expected)
try:
    keras.Sequential([keras.Input((), dtype="string"), preprocess])
except tfrds.ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_preprocess_before_the_model(builders, folder, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed: it comes with the test extra")
    builder = builders("original")
    process = run_script(
        BACKEND_SCRIPT,
        builder.name,
        builder.data_dir_root,
        folder / "cat/plain.jpg",
        KERAS_BACKEND=backend,
    )
    assert process.returncode == 0, process.stderr
    assert f"needs Keras's TensorFlow backend, this is '{backend}'. Pre" in process.stdout
