"""Augmentation from end to end: the right pixels, again and again, and errors before any batch."""

import keras
import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
from datasets import NUM_TRAIN

import tfrds
from tfrds.augment import (
    CenterCrop,
    ColorJitter,
    CutMix,
    MixUp,
    RandomCrop,
    RandomErasing,
    RandomFlip,
    RandomResizedCrop,
)
from tfrds.errors import ConfigError
from tfrds.read import fetch

EVERYTHING = [
    RandomResizedCrop(8),
    RandomFlip("horizontal_and_vertical"),
    ColorJitter(0.2, 0.2, 0.2, 0.1),
    RandomErasing(),
]


def images_by_key(dataset):
    return {
        key.decode(): image
        for batch in dataset.as_numpy_iterator()
        for key, image in zip(batch["key"], batch["image"], strict=True)
    }


def load(built, batch_size=16, **options):
    return built.load(batch_size=batch_size, with_key=True, **options)


def cut(pixels, top, left, height, width, fill=0):
    """Returns a box of an image, `fill` where it reaches beyond."""
    margin = max(height, width)
    ground = np.empty((pixels.shape[0] + 2 * margin, pixels.shape[1] + 2 * margin, 3), np.uint8)
    ground[:] = fill
    ground[margin:-margin, margin:-margin] = pixels
    return ground[margin + top :, margin + left :][:height, :width]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("size", [(6, 4), (40, 40)])
def test_center_crop_is_the_middle_of_the_source(built, dtype, size):
    crop = CenterCrop(size, fill=(9, 8, 7))
    found = images_by_key(load(built, dtype=dtype, augment=[crop]))
    assert len(found) == NUM_TRAIN
    for key, image in found.items():
        pixels = built.pixels[key]
        top, left = ((pixels.shape[axis] - size[axis]) // 2 for axis in (0, 1))
        assert image.dtype == dtype
        np.testing.assert_array_equal(image, cut(pixels, top, left, *size, fill=(9, 8, 7)))


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_random_crops_are_boxes_of_the_source_at_every_place(built, padding, dtype, monkeypatch):
    monkeypatch.setattr(fetch, "_GATHER_BYTES", 0)  # as for large images
    shape = next(iter(built.pixels.values())).shape
    size = (shape[0] - 1, shape[1] - 2)
    crop = RandomCrop(size, padding=padding)
    dataset = load(built, augment=[crop], dtype=dtype, seed=3)
    places = set()
    for _ in range(8):
        for key, image in images_by_key(dataset).items():
            (place,) = [
                (top, left)
                for top in range(-padding, 2 + padding)
                for left in range(-padding, 3 + padding)
                if np.array_equal(image, cut(built.pixels[key], top, left, *size))
            ]
            places.add(place)
    assert len(places) == (2 + 2 * padding) * (3 + 2 * padding)


def test_crops_of_all_encodings_are_fused_without_changing_a_pixel(built):
    # A resized crop whose box is as large as its target needs no resizing: it is a box of the
    # source.
    shape = next(iter(built.pixels.values())).shape[:2]
    target = (shape[0] // 2, shape[1])
    share = target[0] * target[1] / (shape[0] * shape[1])
    ratio = target[1] / target[0]
    crop = RandomResizedCrop(target, scale=(share, share), ratio=(ratio, ratio))
    found = images_by_key(load(built, augment=[crop], seed=1))
    for key, image in found.items():
        pixels = built.pixels[key]
        tops = range(shape[0] - target[0] + 1)
        assert any(np.array_equal(image, pixels[top : top + target[0]]) for top in tops)


@pytest.mark.parametrize("interpolation", ["bilinear", "area", "antialias"])
def test_resized_crops_are_resized_as_tensorflow_does(raw, interpolation):
    # The box is known where it can only be the whole image.
    height, width, _ = next(iter(raw.pixels.values())).shape
    crop = RandomResizedCrop(scale=(1, 1), ratio=(width / height, width / height))
    dataset = load(raw, image_size=4, interpolation=interpolation, augment=[crop])
    for key, image in images_by_key(dataset).items():
        if interpolation == "area":
            expected = tf.image.resize(raw.pixels[key], (4, 4), "area")
        else:
            is_antialiased = interpolation == "antialias"
            expected = tf.image.resize(raw.pixels[key], (4, 4), antialias=is_antialiased)
        np.testing.assert_allclose(image, expected, atol=1e-4)


def test_a_dataset_of_several_sizes_is_cropped_to_one(sizes):
    for key, image in images_by_key(load(sizes, augment=[CenterCrop(20)], dtype="uint8")).items():
        pixels = sizes.pixels[key]
        top, left = ((pixels.shape[axis] - 20) // 2 for axis in (0, 1))
        np.testing.assert_array_equal(image, cut(pixels, top, left, 20, 20))


def test_images_are_resized_before_crops_of_one_size(built):
    resized = images_by_key(load(built, image_size=(12, 10)))
    cropped = images_by_key(load(built, image_size=(12, 10), augment=[CenterCrop((6, 8))]))
    for key, image in cropped.items():
        np.testing.assert_array_equal(image, resized[key][3:9, 1:9])


def test_area_resizing_decodes_large_boxes_smaller_first(jpeg):
    height, width, _ = next(iter(jpeg.pixels.values())).shape
    crop = RandomResizedCrop(scale=(1, 1), ratio=(width / height, width / height))
    options = {"image_size": (8, 7), "interpolation": "area"}
    whole = images_by_key(load(jpeg, **options))
    cropped = images_by_key(load(jpeg, augment=[crop], **options))
    for key, image in cropped.items():
        np.testing.assert_array_equal(image, whole[key])


@pytest.mark.parametrize("shuffle", [False, True])
def test_examples_are_the_same_for_the_same_seed_and_epoch(built, shuffle):
    options = {"augment": EVERYTHING, "shuffle": shuffle}
    first = load(built, seed=5, **options)
    epochs = [images_by_key(first) for _ in range(2)]
    again = load(built, seed=5, **options)
    for epoch in epochs:
        np.testing.assert_equal(images_by_key(again), epoch)
    other = images_by_key(load(built, seed=6, **options))
    for key, image in epochs[0].items():
        assert not np.array_equal(image, epochs[1][key])
        assert not np.array_equal(image, other[key])


@pytest.mark.parametrize("batch_size", [None, 1, 7, -1])
def test_examples_are_the_same_in_any_batch(built, batch_size):
    options = {"augment": EVERYTHING, "shuffle": True, "seed": 5}
    expected = images_by_key(load(built, **options))
    dataset = load(built, batch_size, **options)
    if batch_size is None:
        dataset = dataset.batch(9)
    elif batch_size == -1:
        dataset = tf.data.Dataset.from_tensors(dataset)
    found = images_by_key(dataset)
    assert found.keys() == expected.keys()
    for key, image in found.items():
        # Compiled code may round a product and a sum once, where plain operations round twice.
        np.testing.assert_allclose(image, expected[key], atol=1e-3)


def test_positions_decide_not_rows(raw):
    # The same example at other positions of the epoch is cut otherwise.
    options = {"augment": [RandomFlip()], "shuffle": False, "seed": 0, "dtype": "uint8"}
    whole = images_by_key(load(raw, **options))
    later = images_by_key(
        raw.builder.as_dataset(split="train[20:]", batch_size=16, with_key=True, **options)
    )
    assert any(not np.array_equal(image, whole[key]) for key, image in later.items())


def test_flips_keep_uint8_and_come_before_normalization(built):
    mean, std = (120.0, 110.0, 100.0), (50.0, 60.0, 70.0)
    options = {"augment": [RandomFlip(probability=1)]}
    for key, image in images_by_key(load(built, dtype="uint8", **options)).items():
        assert image.dtype == np.uint8
        np.testing.assert_array_equal(image, built.pixels[key][:, ::-1])
    for key, image in images_by_key(load(built, normalize=(mean, std), **options)).items():
        exact = (built.pixels[key][:, ::-1] - mean) / np.array(std)
        np.testing.assert_allclose(image, exact, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "float32"])
def test_augmented_pixels_have_the_dtype_asked_for(built, dtype):
    dataset = load(built, dtype=dtype, augment=EVERYTHING)
    assert dataset.element_spec["image"] == tf.TensorSpec((None, 8, 8, 3), dtype)
    (batch,) = dataset.take(1)
    assert batch["image"].dtype == dtype


@pytest.mark.parametrize("mix", [MixUp(0.5), CutMix()], ids=["MixUp", "CutMix"])
def test_labels_are_mixed_as_images_are(raw, mix):
    dataset = load(raw, 10, augment=[mix], shuffle=True, seed=2)
    for batch in dataset.as_numpy_iterator():
        keys = [key.decode() for key in batch["key"]]
        labels = np.eye(4)[[raw.labels[key] for key in keys]]
        images = np.stack([raw.pixels[key] for key in keys]).astype(np.float64)
        for number, (image, label) in enumerate(zip(batch["image"], batch["label"], strict=True)):
            own, other = images[number], images[number - 1]
            if isinstance(mix, MixUp):
                difference = own - other
                weight = ((image - other) * difference).sum() / (difference**2).sum()
                np.testing.assert_allclose(image, other + difference * weight, atol=1e-2)
            else:
                is_own = np.isclose(image, own).all(axis=-1)
                assert (is_own | np.isclose(image, other).all(axis=-1)).all()
                weight = is_own.mean()
            expected = labels[number] * weight + labels[number - 1] * (1 - weight)
            np.testing.assert_allclose(label, expected, atol=1e-5)


def test_smoothed_labels_are_mixed_after_smoothing(raw):
    dataset = raw.load(batch_size=10, augment=[MixUp()], label_smoothing=0.2)
    for batch in dataset.as_numpy_iterator():
        np.testing.assert_allclose(batch["label"].sum(axis=1), 1, atol=1e-6)
        assert batch["label"].min() >= 0.05 - 1e-6


def test_keras_layers_are_stages(built):
    layers = [keras.layers.RandomFlip("horizontal"), keras.layers.Rescaling(2.0)]
    found = images_by_key(load(built, augment=[*layers, RandomFlip("vertical", 1)]))
    for key, image in found.items():
        upside_down = built.pixels[key][::-1] * 2.0
        assert any(
            np.array_equal(image, expected) for expected in (upside_down, upside_down[:, ::-1])
        )


def test_functions_of_images_and_labels_are_stages(built):
    def brighter(images, labels):
        if tf.reduce_mean(images) >= 0:  # converted by AutoGraph, as in Dataset.map
            images = images + 1
        return images, labels * 3

    dataset = load(built, augment=[brighter], label_mode="int")
    for batch in dataset.as_numpy_iterator():
        for key, image, label in zip(batch["key"], batch["image"], batch["label"], strict=True):
            np.testing.assert_array_equal(image, built.pixels[key.decode()] + 1.0)
            assert label == 3 * built.labels[key.decode()]


def test_stages_work_through_every_way_to_load(raw):
    options = {"augment": [RandomFlip(probability=1)], "dtype": "uint8", "with_key": True}
    import tensorflow_datasets as tfds

    ways = [
        tfrds.load(raw.name, data_dir=raw.root, split="train", batch_size=5, **options),
        tfds.load(f"{raw.name}/fast=True", split="train", batch_size=5, as_dataset_kwargs=options),
    ]
    for dataset in ways:
        for key, image in images_by_key(dataset).items():
            np.testing.assert_array_equal(image, raw.pixels[key][:, ::-1])


def test_images_of_several_sizes_can_be_augmented_one_by_one(sizes):
    dataset = sizes.load(with_key=True, augment=[RandomFlip(probability=1), RandomErasing(1)])
    for example in dataset.as_numpy_iterator():
        mirrored = sizes.pixels[example["key"].decode()][:, ::-1]
        is_same = (example["image"] == mirrored).all(axis=-1)
        assert 0.5 < is_same.mean() < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augment": RandomFlip()}, r"augment: expected a list .* got RandomFlip\("),
        ({"augment": [3]}, "augment: expected stages .* got 3"),
        ({"augment": [RandomFlip]}, "augment: expected stages .* got <class"),
        (
            {"augment": [RandomFlip(), CenterCrop(4)]},
            r"CenterCrop crops .* only be the first stage.* got \['RandomFlip', 'CenterCrop'\]",
        ),
        ({"augment": [CenterCrop(4), RandomCrop(2)]}, "RandomCrop crops .* only one that crops"),
        ({"augment": [CenterCrop(4, fill=(1, 2))]}, "CenterCrop.fill has 2 values, .* 3 channels"),
        ({"augment": [RandomErasing(fill=(1, 2))]}, "RandomErasing.fill has 2 values"),
        ({"augment": [MixUp()]}, "MixUp mixes the examples of a batch, got batch_size=None"),
        (
            {"augment": [CutMix()], "batch_size": 4, "label_mode": "int"},
            'CutMix mixes labels.* label_mode="int"',
        ),
        (
            {"augment": [RandomResizedCrop(4)], "image_size": 5},
            r"image_size: got \(5, 5\), and RandomResizedCrop with image_size=\(4, 4\)",
        ),
        (
            {"augment": [RandomResizedCrop(4)], "resize": "pad"},
            "resize: RandomResizedCrop stretches its boxes, got resize='pad'",
        ),
    ],
)
def test_what_cannot_be_augmented_is_refused_before_any_batch(raw, options, message):
    with pytest.raises(ConfigError, match=message):
        raw.load(**options)


def test_a_centred_crop_that_cuts_nothing_off_is_refused(jpeg, tmp_path):
    source = tmp_path / "source"
    image = PIL.Image.fromarray(next(iter(jpeg.pixels.values())))
    for name in ("a", "b"):
        (source / name).mkdir(parents=True)
        image.save(source / name / "one.jpg")
    builder = tfrds.build("declared", source, data_dir=tmp_path, image_size=20, encoding="original")
    message = r"augment: CenterCrop\(\(20, 20\)\) cuts nothing off, as images of declared"
    with pytest.raises(ConfigError, match=message):
        builder.as_dataset(split="train", augment=[CenterCrop(20)])
    resized = builder.as_dataset(split="train", augment=[CenterCrop(20)], image_size=30)
    assert resized.element_spec["image"].shape == (20, 20, 3)


def test_a_resized_crop_needs_a_size(sizes):
    with pytest.raises(ConfigError, match=r"RandomResizedCrop needs one size .* several_sizes"):
        sizes.load(augment=[RandomResizedCrop()])


@pytest.mark.parametrize("wrong", [lambda images, labels: None, lambda images, labels: images])
def test_a_function_must_return_a_pair(raw, wrong):
    with pytest.raises(ConfigError, match=r"<lambda> must return \(images, labels\), got"):
        raw.load(augment=[wrong])


def test_tfds_own_reader_augments_nothing(raw):
    import tensorflow_datasets as tfds

    config = tfds.ReadConfig(interleave_cycle_length=1)
    with pytest.raises(ConfigError, match="augment: cannot be honoured together with"):
        raw.load(augment=[RandomFlip()], read_config=config)
