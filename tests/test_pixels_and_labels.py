"""Each option for pixels and labels, through as_dataset, tfrds.load and tfds.load alike."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from datasets import NUM_TRAIN, photo
from PIL import Image

import tfrds

MEAN, STD = (120.0, 110.0, 100.0), (50.0, 60.0, 70.0)


@pytest.fixture(params=["as_dataset", "tfrds.load", "tfds.load"])
def load(request, built):
    """Loads the training split with keys, in one of the ways."""

    def by_builder(**options):
        return built.load(**options)

    def by_tfrds(**options):
        return tfrds.load(built.name, data_dir=built.root, split="train", **options)

    def by_tfds(batch_size=None, **options):
        return tfds.load(
            f"{built.name}/fast=True",
            split="train",
            batch_size=batch_size,
            as_dataset_kwargs=options,
        )

    if request.param == "tfds.load":
        tfrds.builder(built.name, data_dir=built.root)  # so that the directory is known
    return {"as_dataset": by_builder, "tfrds.load": by_tfrds, "tfds.load": by_tfds}[request.param]


def examples(dataset):
    return {
        example["key"].decode(): (example["image"], example["label"])
        for example in dataset.unbatch().as_numpy_iterator()
    }


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [({"value_range": (0, 1)}, 0, 1), ({"value_range": (-1, 1)}, -1, 1), ({}, 0, 255)],
)
def test_value_range_is_what_0_and_255_become(load, built, options, low, high):
    found = examples(load(batch_size=16, with_key=True, **options))
    assert len(found) == NUM_TRAIN
    for key, (image, _) in found.items():
        exact = built.pixels[key] / 255.0 * (high - low) + low
        assert image.dtype == np.float32
        np.testing.assert_allclose(image, exact, atol=1e-5)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_normalized_pixels_are_less_the_mean_by_the_std(built, batch_size):
    dataset = built.load(batch_size=batch_size, with_key=True, normalize=(MEAN, STD))
    for key, (image, _) in examples(dataset if batch_size else dataset.batch(7)).items():
        np.testing.assert_allclose(image, (built.pixels[key] - MEAN) / np.array(STD), atol=1e-5)


def test_mean_and_std_are_in_units_of_the_value_range(built):
    usual = {"value_range": (0, 1), "normalize": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
    for key, (image, _) in examples(built.load(batch_size=50, with_key=True, **usual)).items():
        exact = (built.pixels[key] / 255 - (0.485, 0.456, 0.406)) / np.array((0.229, 0.224, 0.225))
        np.testing.assert_allclose(image, exact, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8"])
def test_dtype_is_that_of_the_batches(load, built, dtype):
    dataset = load(batch_size=16, with_key=True, dtype=dtype)
    assert dataset.element_spec["image"].dtype == tf.as_dtype(dtype)
    for key, (image, _) in examples(dataset).items():
        # 0..255 has an exact form in all four.
        np.testing.assert_array_equal(image.astype(np.float32), built.pixels[key])


@pytest.mark.parametrize("dtype", [np.uint8, np.dtype("uint8"), tf.uint8, "uint8"])
def test_dtype_may_be_an_object_of_numpy_or_tensorflow(raw, dtype):
    assert raw.load(dtype=dtype).element_spec["image"].dtype == tf.uint8


def test_label_modes(load, built):
    for key, (_, label) in examples(load(batch_size=16, with_key=True, label_mode="int")).items():
        assert (label.dtype, label) == (np.int32, built.labels[key])
    smoothed = examples(load(batch_size=16, with_key=True, label_smoothing=0.2))
    for key, (_, label) in smoothed.items():
        expected = np.full(4, 0.05)
        expected[built.labels[key]] = 0.85
        np.testing.assert_allclose(label, expected, rtol=1e-6)


def test_binary_labels_of_two_classes(tmp_path):
    images = np.zeros((6, 4, 4), np.uint8)
    labels = ["no", "yes", "no", "no", "yes", "yes"]
    builder = tfrds.build("two", tfrds.sources.Arrays(images, labels), data_dir=tmp_path)
    dataset = builder.as_dataset(split="train", batch_size=6, with_key=True, label_mode="binary")
    (batch,) = dataset.as_numpy_iterator()
    assert batch["label"].dtype == np.float32
    found = {
        int(key): label.tolist() for key, label in zip(batch["key"], batch["label"], strict=True)
    }
    assert found == {n: [float(name == "yes")] for n, name in enumerate(labels)}


def test_binary_labels_of_more_classes_are_refused(built):
    with pytest.raises(tfrds.ConfigError, match=f"'binary' is for two classes, {built.name} has 4"):
        built.load(label_mode="binary")


@pytest.mark.parametrize("normalize", [((1, 2), (1, 1, 1)), ((1, 2, 3, 4), 1), (1, (1, 2))])
def test_mean_and_std_of_other_channels_are_refused(built, normalize):
    with pytest.raises(tfrds.ConfigError, match=r"normalize: expected one (mean|std) or 3, .* got"):
        built.load(normalize=normalize)


def test_raw_images_have_any_number_of_channels(tmp_path):
    images = np.arange(5 * 6 * 4 * 7, dtype=np.uint8).reshape(5, 6, 4, 7)
    source = tfrds.sources.Arrays(images, [0, 1, 0, 1, 0])
    builder = tfrds.build("many", source, data_dir=tmp_path)
    for normalize in (None, (tuple(range(7)), tuple(range(1, 8)))):
        dataset = builder.as_dataset(
            split="train", batch_size=5, with_key=True, normalize=normalize
        )
        for key, (image, _) in examples(dataset).items():
            exact = images[int(key)].astype(np.float64)
            if normalize:
                exact = (exact - normalize[0]) / np.array(normalize[1])
            np.testing.assert_allclose(image, exact, rtol=1e-6)


def test_options_that_tfds_reader_cannot_honour_are_named(built):
    for option in ({"dtype": "uint8"}, {"value_range": (0, 1)}, {"label_mode": "int"}):
        with pytest.raises(tfrds.ConfigError, match=f"{next(iter(option))}: cannot be honoured"):
            built.load(decoders={"image": tfds.decode.SkipDecoding()}, **option)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """JPEGs of 900 x 1200, and their pixels by Pillow."""
    root = tmp_path_factory.mktemp("large")
    pixels = {}
    for number in range(4):
        folder = root / "source" / f"c{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        # Smoothed, as a photograph of that size is.
        image = Image.fromarray(photo(number, 225, 300)).resize(
            (1200, 900), Image.Resampling.BICUBIC
        )
        image.save(folder / f"{number}.jpg", quality=94)
        with Image.open(folder / f"{number}.jpg") as stored:
            pixels[f"c{number % 2}/{number}.jpg"] = np.asarray(stored)
    return tfrds.build("large", root / "source", data_dir=root / "data"), pixels


@pytest.mark.parametrize(("interpolation", "bound"), [("area", 2.0), ("antialias", 1.0)])
@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_large_jpegs_decoded_smaller_stay_near_pillow(large, interpolation, bound, resize):
    builder, pixels = large
    dataset = builder.as_dataset(
        split="train",
        batch_size=4,
        with_key=True,
        image_size=(150, 200),
        interpolation=interpolation,
        resize=resize,
    )
    for key, (image, _) in examples(dataset).items():
        whole = Image.fromarray(pixels[key]).resize((200, 150), Image.Resampling.BILINEAR)
        assert np.abs(image - np.asarray(whole, np.float32)).mean() < bound


def test_bilinear_of_large_jpegs_is_tensorflows_own(large):
    builder, pixels = large
    dataset = builder.as_dataset(split="train", batch_size=4, with_key=True, image_size=(150, 200))
    for key, (image, _) in examples(dataset).items():
        np.testing.assert_allclose(image, tf.image.resize(pixels[key], (150, 200)), atol=1e-3)
