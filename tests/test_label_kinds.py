import dataclasses
import json

import images
import keras
import labelled
import numpy as np
import pytest
import stored
import tensorflow as tf
import tensorflow_datasets as tfds
from foreign_files import framed

import tfrds
from tfrds.errors import ConfigError, DatasetError, SourceError

KINDS = list(labelled.KINDS)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("kinds")
    for kind in KINDS:
        labelled.build(kind, root)
        labelled.build(kind, root, columns=True, version="2.0.0")
    return root


def builder(kind, root, version="1.0.0"):
    return tfrds.builder(f"the_{kind}:{version}", data_dir=root)


def examples(dataset):
    return list(dataset.as_numpy_iterator())


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_those_of_the_source(kind, root):
    _, _, labels = labelled.KINDS[kind]
    found = examples(builder(kind, root).as_dataset("train", batch_size=8, with_key=True))
    rows = labelled.rows_of(np.concatenate([batch["key"] for batch in found]))
    assert sorted(rows) == list(range(labelled.COUNT))
    pixels = np.concatenate([batch["image"] for batch in found])
    np.testing.assert_array_equal(pixels, labelled.IMAGES[rows].astype(np.float32))
    if labels is None:
        assert all("label" not in batch for batch in found)
    else:
        given = np.concatenate([batch["label"] for batch in found])
        assert given.dtype == np.float32
        np.testing.assert_array_equal(given, labels[rows])


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_those_of_the_source(kind, root):
    found = examples(builder(kind, root, "2.0.0").as_dataset("train", batch_size=8, with_key=True))
    rows = labelled.rows_of(np.concatenate([batch["key"] for batch in found]))
    columns = {
        "age": labelled.AGES,
        "flag": labelled.FLAGS,
        "vector": labelled.VECTORS,
        "sample_weight": labelled.WEIGHTS,
    }
    for name, expected in columns.items():
        given = np.concatenate([batch[name] for batch in found])
        assert given.dtype == expected.dtype
        np.testing.assert_array_equal(given, expected[rows])
    places = [place.decode() for batch in found for place in batch["place"]]
    assert places == [labelled.PLACES[row] for row in rows]


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
@pytest.mark.parametrize("kind", KINDS)
def test_specs_are_those_of_the_features(kind, version, root):
    one = builder(kind, root, version)
    spec = one.as_dataset("train").element_spec
    info = one.info.features.get_tensor_info()
    assert {name: (part.shape, part.dtype) for name, part in spec.items()} == {
        name: (tf.TensorShape(part.shape), part.tf_dtype) for name, part in info.items()
    }


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
@pytest.mark.parametrize("kind", KINDS)
def test_tfds_own_reader_gives_the_same(kind, version, root):
    one = builder(kind, root, version)
    plain = tfds.builder_from_directory(str(one.data_dir))
    read_config = tfds.ReadConfig(add_tfds_id=True)
    ours, theirs = (
        {example.pop("tfds_id"): example for example in examples(given)}
        for given in (
            one.as_dataset("train", read_config=read_config),
            plain.as_dataset("train", read_config=read_config),
        )
    )
    assert set(ours) == set(theirs)
    for name, example in ours.items():
        assert set(example) == set(theirs[name])
        for feature, value in example.items():
            np.testing.assert_array_equal(value, theirs[name][feature])
            assert np.asarray(value).dtype == np.asarray(theirs[name][feature]).dtype


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
@pytest.mark.parametrize("kind", KINDS)
def test_data_source_and_stream_give_the_same(kind, version, root):
    one = builder(kind, root, version)
    expected = examples(one.as_dataset("train"))
    streamed = examples(one.as_dataset("train", engine="stream"))
    source = one.as_data_source("train")
    assert len(source) == len(expected) == len(streamed)
    for mine, theirs, random in zip(expected, streamed, source, strict=True):
        assert set(mine) == set(theirs) == set(random)
        for name, value in mine.items():
            np.testing.assert_array_equal(value, theirs[name])
            other = random[name].encode() if isinstance(random[name], str) else random[name]
            np.testing.assert_array_equal(value, other)
            assert isinstance(value, bytes) or np.asarray(other).dtype == value.dtype


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
@pytest.mark.parametrize("kind", KINDS)
def test_verify_finds_no_fault(kind, version, root):
    result = tfrds.verify(f"the_{kind}:{version}", data_dir=root)
    assert result.faults == ()
    assert tfrds.verify(f"the_{kind}:{version}", data_dir=root, fast=True).ok


def test_records_hold_labels_and_columns_as_features(root):
    directory = builder("multi", root, "2.0.0").data_path
    seen = set()
    for path in sorted(directory.glob("*.tfrecord-*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            assert sorted(feature) == [
                *("age", "flag", "image", "label", "place", "sample_weight", "vector")
            ]
            (age,) = feature["age"].int64_list.value
            row = (age + 30) // 7
            seen.add(row)
            assert set(feature["label"].int64_list.value) == labelled.SETS[row]
            assert feature["flag"].int64_list.value == [row % 3 == 0]
            assert feature["place"].bytes_list.value == [labelled.PLACES[row].encode()]
            np.testing.assert_array_equal(
                np.array(feature["vector"].float_list.value, np.float32), labelled.VECTORS[row]
            )
    assert seen == set(range(labelled.COUNT))


def test_bytes_do_not_depend_on_workers(tmp_path):
    one = labelled.build("multi", tmp_path / "one", columns=True)
    source = labelled.WithColumns(*labelled.KINDS["multi"][:2])
    source.is_in_memory = False  # so that workers write
    two = tfrds.build("the_multi", source, data_dir=tmp_path / "two", num_shards=2, num_workers=2)
    assert images.files_below(one.data_dir) == images.files_below(two.data_dir)


@pytest.mark.parametrize(
    ("kind", "version", "loss", "outputs", "activation"),
    [
        ("single", "2.0.0", "categorical_crossentropy", 3, "softmax"),
        ("binary", "1.0.0", "binary_crossentropy", 1, "sigmoid"),
        ("multi", "1.0.0", "binary_crossentropy", 4, "sigmoid"),
        ("multi", "2.0.0", "binary_crossentropy", 4, "sigmoid"),
        ("value", "1.0.0", "mse", 1, None),
        ("vector", "2.0.0", "mse", 2, None),
    ],
)
def test_keras_trains_on_it(kind, loss, outputs, activation, version, root):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((5, 4, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(0.05), loss=loss)
    train = builder(kind, root, version).as_dataset(
        "train", batch_size=8, as_supervised=True, shuffle_files=True, seed=1
    )
    assert len(train.element_spec) == (2 if version == "1.0.0" else 3)
    losses = model.fit(train, epochs=25, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]


def test_keras_trains_and_predicts_on_images_alone(root):
    keras.utils.set_random_seed(1)
    alone = builder("none", root).as_dataset(
        "train", batch_size=8, as_supervised=True, value_range=(0, 1)
    )
    assert alone.element_spec == tf.TensorSpec((None, 5, 4, 3), tf.float32)
    model = keras.Sequential(
        [
            keras.Input((5, 4, 3)),
            keras.layers.Flatten(),
            keras.layers.Dense(60, activation="sigmoid"),
            keras.layers.Reshape((5, 4, 3)),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse")
    losses = model.fit(alone.map(lambda image: (image, image)), epochs=25, verbose=0).history[
        "loss"
    ]
    assert losses[-1] < 0.8 * losses[0]
    assert model.predict(alone, verbose=0).shape == (labelled.COUNT, 5, 4, 3)


def test_labels_can_be_left_out(root):
    one = builder("single", root)
    assert set(one.as_dataset("train", label_mode="none").element_spec) == {"image"}
    spec = one.as_dataset("train", label_mode="none", as_supervised=True).element_spec
    assert spec == tf.TensorSpec((5, 4, 3), tf.float32)
    assert set(one.as_data_source("train", label_mode="none")[0]) == {"image"}


def test_binary_labels_are_read_in_other_ways(root):
    one = builder("binary", root)
    numbers = [e["label"] for e in examples(one.as_dataset("train", label_mode="int"))]
    rows = [e["label"] for e in examples(one.as_dataset("train", label_mode="one_hot"))]
    np.testing.assert_array_equal(np.eye(2, dtype=np.float32)[numbers], rows)


@pytest.mark.parametrize(
    ("kind", "mode", "choices"),
    [
        ("single", "multi_hot", r"\['one_hot', 'int', 'binary', 'none'\]"),
        ("multi", "one_hot", r"\['multi_hot', 'none'\]"),
        ("value", "int", r"\['value', 'none'\]"),
        ("none", "one_hot", r"\['none'\]"),
    ],
)
def test_modes_that_a_kind_does_not_have_are_refused(kind, mode, choices, root):
    with pytest.raises(ConfigError, match=rf"the_{kind} .*can be read as {choices}, got '{mode}'"):
        builder(kind, root).as_dataset("train", label_mode=mode)


@pytest.mark.parametrize("kind", ["binary", "multi", "value", "none"])
def test_only_one_hot_labels_are_smoothed(kind, root):
    with pytest.raises(ConfigError, match=r"label_smoothing: .*got 0.1"):
        builder(kind, root).as_dataset("train", label_smoothing=0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"select": [0]},
        {"select": {"classes": [1]}},
        {"balance": "classes", "shuffle": True},
        {"sample_weight": {0: 2.0}},
    ],
)
def test_what_needs_single_classes_is_refused(options, root):
    name = next(iter(options))
    with pytest.raises(ConfigError, match=rf"{name}: examples of the_value have no single class"):
        builder("value", root).as_dataset("train", batch_size=4, **options)


def test_class_weight_needs_single_classes(root):
    with pytest.raises(ConfigError, match=r"class_weight: examples of the_multi"):
        tfrds.class_weight(builder("multi", root))


def test_examples_of_any_kind_are_selected_by_keys_and_arrays(root):
    one = builder("value", root)
    chosen = one.as_dataset("train", select={"keys": ["03", "11"]}, with_key=True)
    found = {example["key"]: example["label"] for example in examples(chosen)}
    assert found == {b"03": labelled.VALUES[3], b"11": labelled.VALUES[11]}


def test_given_weights_go_before_the_datasets_own(root):
    one = builder("single", root, "2.0.0")
    (batch,) = examples(
        one.as_dataset("train", batch_size=30, as_supervised=True, sample_weight={0: 5.0})
    )
    np.testing.assert_array_equal(batch[2], np.where(batch[1][:, 0] == 1, 5, 1))


@pytest.mark.parametrize("stage", [tfrds.augment.MixUp(), tfrds.augment.CutMix()])
def test_only_classes_are_mixed(stage, root):
    with pytest.raises(ConfigError, match=r"mixes classes, got label_mode='value'"):
        builder("value", root).as_dataset("train", batch_size=4, augment=[stage])
    mixed = builder("multi", root).as_dataset("train", batch_size=4, augment=[stage])
    assert next(iter(mixed))["label"].shape == (4, 4)


def test_stages_change_images_alone(root):
    flip = [tfrds.augment.RandomFlip()]
    for kind in KINDS:
        for batch_size in (None, 6):
            dataset = builder(kind, root).as_dataset("train", batch_size=batch_size, augment=flip)
            assert len(examples(dataset)) == (23 if batch_size is None else 4)


def test_mixtures_need_labels_of_one_kind(root):
    with pytest.raises(ConfigError, match=r"mix: .*(label_kind|classes)"):
        tfrds.mix({"the_value": 1.0, "the_none": 1.0}, split="train", data_dir=root, batch_size=4)


def test_info_tells_kind_and_columns(root):
    from tfrds.tools.info import dataset_info
    from tfrds.tools.text import summary_lines

    summary = dataset_info(builder("multi", root, "2.0.0").data_dir)
    assert (summary.label_kind, summary.num_classes) == ("multi", 4)
    assert summary.columns == {
        "age": "int16 []",
        "flag": "bool []",
        "place": "string []",
        "sample_weight": "float32 []",
        "vector": "float32 [2]",
    }
    counts = labelled.MULTI_HOT.sum(axis=0).astype(int).tolist()
    assert list(summary.splits["train"].class_counts) == counts
    text = "\n".join(summary_lines(summary))
    assert "any number of classes, read as multi-hot" in text
    assert "age (int16 [])" in text


def test_duplicates_with_other_labels_of_any_kind_are_reported(tmp_path, caplog):
    doubled = np.repeat(labelled.IMAGES[:3], 2, axis=0)
    for kind, labels in {
        "value": np.array([1, 1, 2, 3, 4, 4], np.float32),
        "multi": np.array([[0, 1], [0, 1], [1, 1], [1, 0], [0, 0], [0, 0]]),
    }.items():
        caplog.clear()
        source = tfrds.sources.Arrays(doubled, labels, label_kind=kind)
        one = tfrds.build(f"double_{kind}", source, data_dir=tmp_path)
        totals = stored.record_of(one.data_dir)["totals"]
        assert (totals["duplicate"], totals["label_conflicts"]) == (3, 1)
        (message,) = [text for text in caplog.messages if "under two labels (1)" in text]
        expected = "2 (train, 2.0) = 3 (train, 3.0)" if kind == "value" else "2 (train, ['0', '1'])"
        assert expected in message or "3 (train" in message


def test_dropped_duplicates_take_their_columns_along(tmp_path):
    changes = {}
    source = labelled.WithColumns(labelled.CLASSES, **changes)
    source._arrays = tfrds.sources.Arrays(
        np.concatenate([labelled.IMAGES[:20], labelled.IMAGES[:3]]), labelled.CLASSES
    )
    one = tfrds.build("dropped", source, data_dir=tmp_path, on_duplicate="drop", num_shards=2)
    found = examples(one.as_dataset("train", with_key=True))
    assert len(found) == 20
    for example in found:
        row = int(example["key"])
        assert example["age"] == labelled.AGES[row]
        assert example["place"].decode() == labelled.PLACES[row]
    assert tfrds.verify("dropped", data_dir=tmp_path).ok


@pytest.mark.parametrize("kind", ["single", "multi", "vector", "none"])
def test_edit_removes_examples_with_all_beside_them(kind, tmp_path):
    labelled.build(kind, tmp_path, columns=True)
    new = tfrds.edit(f"the_{kind}", remove=["05", "17"], data_dir=tmp_path)
    found = examples(new.as_dataset("train", with_key=True))
    rows = labelled.rows_of(example["key"] for example in found)
    assert sorted(rows) == [row for row in range(labelled.COUNT) if row not in (5, 17)]
    labels = labelled.KINDS[kind][2]
    for row, example in zip(rows, found, strict=True):
        assert example["age"] == labelled.AGES[row]
        if labels is not None:
            np.testing.assert_array_equal(example["label"], labels[row])
    assert tfrds.verify(f"the_{kind}", data_dir=tmp_path).faults == ()


def test_only_single_classes_are_relabelled(tmp_path):
    labelled.build("multi", tmp_path)
    with pytest.raises(ConfigError, match=r"relabel: the_multi has labels of the kind 'multi'"):
        tfrds.edit("the_multi", relabel={"05": "1"}, data_dir=tmp_path)


@pytest.mark.parametrize("kind", ["single", "multi", "vector", "none"])
def test_append_adds_examples_with_all_beside_them(kind, tmp_path):
    labelled.build(kind, tmp_path, columns=True)
    labels, label_kind, expected = labelled.KINDS[kind]
    source = labelled.WithColumns(labels, label_kind)
    new = tfrds.append(f"the_{kind}", source, data_dir=tmp_path, key_prefix="new/")
    found = examples(new.as_dataset("train", with_key=True))
    assert len(found) == 2 * labelled.COUNT
    for example in found:
        row = int(example["key"].removeprefix(b"new/"))
        assert example["place"].decode() == labelled.PLACES[row]
        if expected is not None:
            np.testing.assert_array_equal(example["label"], expected[row])
    assert tfrds.verify(f"the_{kind}", data_dir=tmp_path).faults == ()


def test_append_needs_the_same_columns(tmp_path):
    labelled.build("single", tmp_path, columns=True)
    source = tfrds.sources.Arrays(labelled.IMAGES, labelled.CLASSES)
    with pytest.raises(ConfigError, match=r"has the columns \{'age': 'int16\[\]'.*gives none"):
        tfrds.append("the_single", source, data_dir=tmp_path, key_prefix="new/")


def test_the_same_labels_and_columns_are_reused_and_others_refused(tmp_path):
    labelled.build("value", tmp_path, columns=True)
    labelled.build("value", tmp_path, columns=True)
    values = labelled.VALUES.copy()
    values[9] += 1
    changed = labelled.WithColumns(values, "value")
    with pytest.raises(DatasetError, match=r"1 images with another label or column: 09\. "):
        tfrds.build("the_value", changed, data_dir=tmp_path, num_shards=2)
    changed = labelled.WithColumns(labelled.VALUES, "value", weights=labelled.WEIGHTS + 1)
    with pytest.raises(DatasetError, match=r"23 images with another label or column"):
        tfrds.build("the_value", changed, data_dir=tmp_path, num_shards=2, fingerprint="content")
    other = labelled.WithColumns(labelled.VALUES, "value", weights=None)
    with pytest.raises(DatasetError, match=r"the columns were \[.*\], are \["):
        tfrds.build("the_value", other, data_dir=tmp_path, num_shards=2)


@pytest.mark.parametrize(
    ("kind", "asked", "message"),
    [
        ("single", "multi", r"expected one label for each of the 23 images.*\[23\]"),
        ("multi", "single", r"\[23, 4\].*Pass label_kind=\"multi\" or \"value\""),
        ("none", "single", r"expected some for label_kind='single', got None"),
    ],
)
def test_arrays_of_another_shape_are_refused(kind, asked, message):
    labels = labelled.KINDS[kind][0]
    with pytest.raises(SourceError, match=message):
        tfrds.sources.Arrays(labelled.IMAGES, labels, label_kind=asked)


def test_sources_of_one_kind_alone_are_refused_for_another(tmp_path):
    class Plain(labelled.WithColumns):
        with_label_kind = None

    with pytest.raises(ConfigError, match=r"gives one class for each image .*got 'value'"):
        tfrds.build(
            "plain",
            labelled.WithColumns(labelled.CLASSES),
            data_dir=tmp_path,
            label_kind="value",
        )


def test_any_labels_can_be_left_out_of_a_build(tmp_path):
    one = labelled.build("vector", tmp_path, label_kind="none")
    assert set(one.as_dataset("train").element_spec) == {"image"}
    assert one.info.supervised_keys is None
    assert not (one.data_path / "label.labels.txt").exists()


def test_binary_takes_two_classes_only(tmp_path):
    with pytest.raises(ConfigError, match=r"'binary' is for two classes, the source has 3: '0', "):
        labelled.build("single", tmp_path, label_kind="binary")


@pytest.mark.parametrize("kind", ["value", "none"])
def test_class_names_are_for_classes(kind, tmp_path):
    with pytest.raises(ConfigError, match=r"class_names: .* have no classes, got 2 names"):
        labelled.build(kind, tmp_path, class_names=["a", "b"])


def test_values_are_finite(tmp_path):
    values = labelled.VALUES.copy()
    values[[3, 8]] = [np.nan, np.inf]
    source = tfrds.sources.Arrays(labelled.IMAGES, values, label_kind="value")
    with pytest.raises(SourceError, match=r"03: expected finite numbers .*got nan; .*in all: 2"):
        tfrds.build("not_finite", source, data_dir=tmp_path)


def test_multi_takes_zeros_and_ones():
    rows = labelled.MULTI_HOT.copy()
    rows[2, 3] = 0.5
    source = tfrds.sources.Arrays(labelled.IMAGES, rows, label_kind="multi")
    with pytest.raises(SourceError, match=r"labels\[2, 3\]: .* got 0.5"):
        source.scan()


@pytest.mark.parametrize("name", ["image", "label", "key", "tfds_id", "a b", "ä", ""])
def test_names_of_columns_are_checked(name, tmp_path):
    from tfrds.disk.columns import Column

    columns = (Column.of(name, labelled.AGES),)
    source = labelled.WithColumns(labelled.CLASSES, columns=columns)
    with pytest.raises(SourceError, match=rf"column '{name}': expected a name of up to 64"):
        tfrds.build("named", source, data_dir=tmp_path)


def test_classes_of_multi_labels_are_given(tmp_path):
    names = ["a", "b", "c", "d", "unused"]
    with pytest.warns(tfrds.TfrdsWarning, match=r"No image is of the classes \['unused'\]"):
        one = labelled.build("multi", tmp_path, class_names=names)
    assert one.info.features["label"].names == names
    found = examples(one.as_dataset("train", with_key=True))
    for example in found:
        row = int(example["key"])
        np.testing.assert_array_equal(example["label"], [*labelled.MULTI_HOT[row], 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": {"kind": "other"}}, r"holds values|incomplete"),
        ({"label": {"num_classes": 0}}, r"holds values|incomplete"),
        (
            {"columns": [{"name": "../x", "dtype": "int64", "shape": []}]},
            r"incomplete|holds values",
        ),
        ({"columns": [{"name": "x", "dtype": "object", "shape": []}]}, r"incomplete|holds values"),
        ({"columns": [{"name": "x", "dtype": "int64", "shape": [0]}]}, r"incomplete|holds values"),
        ({"columns": [{"name": "image", "dtype": "int64", "shape": []}]}, r"holds values"),
        ({"columns": [{"name": "x", "dtype": "int64", "shape": None}]}, r"holds values"),
    ],
)
def test_records_that_no_build_writes_are_refused(change, message, tmp_path):
    one = labelled.build("single", tmp_path)
    path = one.data_path / "tfrds.json"
    content = json.loads(path.read_bytes())
    for name, value in change.items():
        content[name] = {**content[name], **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=message):
        tfrds.builder("the_single", data_dir=tmp_path).as_dataset("train")


def damage(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("column", ["labels", "column-age", "column-place", "column-sample_weight"])
def test_verify_finds_a_changed_column(column, tmp_path):
    one = labelled.build("multi", tmp_path, columns=True)
    damage(one.data_path / f"the_multi-train.{column}.npy")
    result = tfrds.verify("the_multi", data_dir=tmp_path)
    files = {fault.file for fault in result.faults}
    assert f"the_multi-train.{column}.npy" in files
    assert any("tfrecord" in file for file in files)
    assert not tfrds.verify("the_multi", data_dir=tmp_path, fast=True).ok


@pytest.mark.parametrize(
    "column", ["labels", "label_offsets", "column-age", "column_offsets-place"]
)
def test_missing_and_cut_columns_are_errors(column, tmp_path):
    one = labelled.build("multi", tmp_path, columns=True)
    path = one.data_path / f"the_multi-train.{column}.npy"
    data = path.read_bytes()
    path.write_bytes(data[:-8])
    with pytest.raises(DatasetError, match=path.name):
        one.as_dataset("train")
    path.unlink()
    with pytest.raises(DatasetError, match=path.name):
        one.as_dataset("train")
    assert any(
        fault.what == "missing" for fault in tfrds.verify("the_multi", data_dir=tmp_path).faults
    )


def test_records_are_verified_while_reading(root):
    for kind in KINDS:
        dataset = builder(kind, root, "2.0.0").as_dataset("train", verify_records=True)
        assert len(examples(dataset)) == labelled.COUNT


def test_splits_keep_labels_and_columns_together(tmp_path):
    source = {
        name: tfrds.sources.Arrays(
            labelled.IMAGES[part], labelled.VECTORS[part], label_kind="value"
        )
        for name, part in {"train": slice(0, 15), "test": slice(15, 23)}.items()
    }
    one = tfrds.build("by_split", source, data_dir=tmp_path)
    for split, first in {"train": 0, "test": 15}.items():
        for example in examples(one.as_dataset(split, with_key=True)):
            row = first + int(example["key"].decode().split("/")[1])
            np.testing.assert_array_equal(example["label"], labelled.VECTORS[row])
    both = examples(one.as_dataset("test+train", with_key=True))
    for example in both:
        split, number = example["key"].decode().split("/")
        row = int(number) + (15 if split == "test" else 0)
        np.testing.assert_array_equal(example["label"], labelled.VECTORS[row])


def test_sources_of_several_kinds_make_no_dataset(tmp_path):
    source = {
        "train": tfrds.sources.Arrays(labelled.IMAGES, labelled.VALUES, label_kind="value"),
        "test": tfrds.sources.Arrays(labelled.IMAGES, labelled.CLASSES),
    }
    with pytest.raises(SourceError, match=r"'test': its source has label_kind single, .*'train'"):
        tfrds.build("several", source, data_dir=tmp_path)


def test_a_class_says_its_kind(tmp_path):
    class TheValues(tfrds.ImageDatasetBuilder, skip_registration=True):
        """Numbers."""

        VERSION = "1.0.0"
        OPTIONS = tfrds.BuildOptions(label_kind="value")

        def _source(self, dl_manager):
            return tfrds.sources.Arrays(labelled.IMAGES, labelled.VALUES)

    one = TheValues(data_dir=tmp_path)
    assert one.info.features["label"].np_dtype == np.float32
    one.download_and_prepare()
    assert one.as_dataset("train", batch_size=10).element_spec["label"].shape == (None,)
    assert dataclasses.asdict(one.options)["label_kind"] == "value"


def image_of(example):
    return np.asarray(example["image"])


def test_a_split_may_hold_no_class_at_all(tmp_path):
    rows = labelled.MULTI_HOT.copy()
    rows[:5] = 0
    keys = [f"{row:02d}" for row in range(labelled.COUNT)]
    source = tfrds.sources.Arrays(labelled.IMAGES, rows, label_kind="multi")
    splits = {"train": keys[5:], "test": keys[:5]}
    one = tfrds.build("empty_split", source, data_dir=tmp_path, splits=splits)
    plain = tfds.builder_from_directory(str(one.data_dir))
    for found in (
        examples(one.as_dataset("test")),
        examples(one.as_dataset("test", engine="stream")),
        examples(plain.as_dataset("test")),
        one.as_data_source("test"),
    ):
        labels = np.stack([example["label"] for example in found])
        np.testing.assert_array_equal(labels, np.zeros((5, 4), np.float32))
    both = one.as_dataset("test+train", batch_size=-1)["label"].numpy()
    np.testing.assert_array_equal(both.sum(axis=0), rows.sum(axis=0))
    assert tfrds.verify("empty_split", data_dir=tmp_path).faults == ()
    new = tfrds.edit("empty_split", remove=["00"], data_dir=tmp_path)
    assert len(examples(new.as_dataset("test"))) == 4
    assert tfrds.verify("empty_split", data_dir=tmp_path).faults == ()


def test_without_any_class_there_is_nothing_to_learn(tmp_path):
    source = tfrds.sources.Arrays(labelled.IMAGES, np.zeros((23, 0)), label_kind="multi")
    with pytest.raises(SourceError, match=r"at least one class, none of the 23 images has any"):
        tfrds.build("no_class", source, data_dir=tmp_path)
    one = tfrds.build("no_class", source, data_dir=tmp_path, label_kind="none")
    assert set(one.as_dataset("train").element_spec) == {"image"}


@pytest.mark.parametrize(
    ("shape", "message"), [((23, 0), r"\[0\]"), ((23, 2**20 + 1), r"\[1048577\]")]
)
def test_values_are_vectors_of_a_usual_length(shape, message, tmp_path):
    values = np.broadcast_to(np.float32(1), shape)
    source = tfrds.sources.Arrays(labelled.IMAGES, values, label_kind="value")
    with pytest.raises(
        SourceError, match=rf"'label': expected one value .* of the shape {message}"
    ):
        tfrds.build("long", source, data_dir=tmp_path)


@pytest.mark.parametrize("number", [3, -1, 2**31 - 1, -(2**31)])
def test_class_numbers_of_the_index_that_are_none_are_errors(number, tmp_path):
    one = labelled.build("single", tmp_path)
    path = one.data_path / "the_single-train.index.npy"
    rows = np.load(path)
    rows["label"][13] = number
    np.save(path, rows)
    message = r"expected labels from 0 to 2, the index says "
    for options in (
        {},
        {"batch_size": 5},
        {"engine": "pread"},
        {"label_mode": "int", "batch_size": 5},
        {"sample_weight": {1: 2.0}, "batch_size": 5},
    ):
        with pytest.raises(tf.errors.OpError, match=message):
            examples(one.as_dataset("train", **options))
    with pytest.raises(DatasetError, match=message):
        list(one.as_data_source("train"))
    for options in ({"select": [1]}, {"balance": "classes", "shuffle": True}):
        with pytest.raises(DatasetError, match=message):
            one.as_dataset("train", batch_size=5, **options)
    with pytest.raises(DatasetError, match=message):
        tfrds.class_weight(one)


def test_images_alone_have_weights_in_dicts_only(root):
    one = builder("none", root)
    weights = np.arange(labelled.COUNT) / 4
    found = examples(one.as_dataset("train", batch_size=8, sample_weight=weights))
    np.testing.assert_array_equal(np.concatenate([b["sample_weight"] for b in found]), weights)
    for given in (one, builder("single", root)):
        with pytest.raises(ConfigError, match=r"sample_weight: without labels as_supervised"):
            given.as_dataset(
                *("train",),
                batch_size=8,
                sample_weight=weights,
                as_supervised=True,
                label_mode="none",
            )
    # Its own weights are a column, which pairs leave out.
    spec = builder("none", root, "2.0.0").as_dataset("train", as_supervised=True).element_spec
    assert spec == tf.TensorSpec((5, 4, 3), tf.float32)


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
def test_tfds_own_reader_gives_images_alone_too(version, root):
    one = builder("none", root, version)
    expected = [image_of(example) for example in examples(one.as_dataset("train"))]
    own = {"read_config": tfds.ReadConfig(interleave_cycle_length=1), "as_supervised": True}
    found = examples(one.as_dataset("train", **own))
    np.testing.assert_array_equal(np.stack(found), np.stack(expected))
    whole = one.as_dataset("train", batch_size=-1, **own)
    np.testing.assert_array_equal(whole, np.stack(expected))
    by_name = one.as_dataset(batch_size=10, **own)
    assert set(by_name) == {"train"}
    assert [len(batch) for batch in by_name["train"]] == [10, 10, 3]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("single", lambda row: f"{labelled.CLASSES[row]} ({labelled.CLASSES[row]})"),
        ("binary", lambda row: f"{labelled.HALVES[row]} ({labelled.HALVES[row]})"),
        (
            "multi",
            lambda row: (
                f"{', '.join(map(str, sorted(labelled.SETS[row])))} "
                f"([{' '.join(map(str, sorted(labelled.SETS[row])))}])"
            ),
        ),
        ("value", lambda row: ""),
        ("none", lambda row: ""),
    ],
)
def test_show_examples_tells_labels_of_every_kind(kind, expected, root):
    import matplotlib.pyplot as plt

    one = builder(kind, root, "2.0.0")
    rows = labelled.rows_of(e["key"] for e in examples(one.as_dataset("train", with_key=True)))
    figure = tfds.show_examples(one.as_dataset("train"), one.info, rows=4, cols=6)
    try:
        labels = [axes.get_xlabel() for axes in figure.axes]
        assert labels == [expected(row) for row in rows]
    finally:
        plt.close(figure)
    if kind in ("single", "binary"):
        figure = tfds.show_examples(one.as_dataset("train", label_mode="int"), one.info)
        assert figure.axes[2].get_xlabel() == expected(rows[2])
        plt.close(figure)


@pytest.mark.parametrize("kind", KINDS)
def test_as_dataframe_shows_every_kind(kind, root):
    one = builder(kind, root, "2.0.0")
    frame = tfds.as_dataframe(one.as_dataset("train"), one.info)
    assert len(frame) == labelled.COUNT
    text = frame._repr_html_()
    assert "data:image/png;base64" in text
    assert "place 7 à" in text
    if kind == "multi":
        assert "0 (0), 1 (1), 2 (2), 3 (3)" in text


def make_class(kind, names=None):
    """Returns a dataset as code, whose labels are of this kind."""
    labels, label_kind, _ = labelled.KINDS[kind]

    class Kinds(tfrds.ImageDatasetBuilder, skip_registration=True):
        """Every kind."""

        name = "every_kind"
        VERSION = "1.0.0"
        OPTIONS = tfrds.BuildOptions(
            image_size=(5, 4), label_kind=label_kind or kind, class_names=names
        )

        def _source(self, dl_manager):
            return labelled.WithColumns(labels, label_kind)

    return Kinds


@pytest.mark.parametrize(
    ("kind", "names"),
    [("single", "abc"), ("binary", "ab"), ("multi", "abcd"), ("value", ""), ("none", "")],
)
def test_mocked_labels_are_of_their_kind(kind, names, tmp_path):
    one = make_class(kind, tuple(names) or None)(data_dir=tmp_path)
    for as_supervised in (False, True):
        with tfds.testing.mock_data(num_examples=4):
            found = examples(one.as_dataset("train", as_supervised=as_supervised))
        assert len(found) == 4
        for example in found:
            image, label = example, None
            if kind != "none" and as_supervised:
                image, label = example
            elif not as_supervised:
                image, label = example["image"], example.get("label")
            np.testing.assert_array_equal(image, np.floor(image))
            assert image.max() > 100
            assert (label is None) == (kind == "none")
            if kind == "value":
                assert (label.shape, label.dtype) == ((), np.float32)
            elif kind != "none":
                assert label.shape == ((1,) if kind == "binary" else (len(names),))
                assert set(label.tolist()) <= {0.0, 1.0}
                assert kind != "single" or label.sum() == 1


@pytest.mark.parametrize("as_supervised", [False, True])
@pytest.mark.parametrize("label_mode", [None, "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_code_of_others_gets_labels_as_they_are_or_none(kind, label_mode, as_supervised, root):
    seen = []

    def stage(images, labels):
        seen.append(labels is None)
        return 255 - images, labels

    # Not a multiple of what is fetched at once: the layer believes the size that it is told.
    one = builder(kind, root, "2.0.0")
    options = {"label_mode": label_mode, "as_supervised": as_supervised}
    augment = [keras.layers.RandomFlip("horizontal", seed=1), stage]
    plain, changed = (
        one.as_dataset("train", augment=stages, **options) for stages in ([], augment)
    )
    assert changed.element_spec == plain.element_spec
    assert changed.cardinality() == labelled.COUNT
    plain, changed = examples(plain), examples(changed)
    assert len(changed) == labelled.COUNT
    assert set(seen) == {kind == "none" or label_mode == "none"}
    for before, after in zip(plain, changed, strict=True):
        if isinstance(before, dict):
            before, after = ([e[name] for name in plain[0]] for e in (before, after))
        before, after = (e if isinstance(e, tuple | list) else [e] for e in (before, after))
        flipped = [255 - before[0], 255 - before[0][:, ::-1]]
        assert any(np.array_equal(after[0], image) for image in flipped)
        for mine, theirs in zip(before[1:], after[1:], strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_duplicates_are_listed_with_labels_of_any_kind(tmp_path):
    from tfrds.tools.duplicates import dataset_duplicates

    doubled = np.repeat(labelled.IMAGES[:3], 2, axis=0)
    for kind, labels, conflict in (
        ("value", np.array([1, 1, 2, 3.5, 4, 4], np.float32), ["2.0", "3.5"]),
        ("multi", np.array([[0, 1], [0, 1], [1, 1], [1, 0], [0, 0], [0, 0]]), ["0, 1", "0"]),
    ):
        source = tfrds.sources.Arrays(doubled, labels, label_kind=kind)
        one = tfrds.build(f"listed_{kind}", source, data_dir=tmp_path)
        result = dataset_duplicates(one.data_dir)
        assert (result.num_extra, result.num_label_conflicts) == (3, 1)
        assert [example.class_name for example in result.groups[1]] == conflict


@pytest.mark.parametrize("kind", ["single", "binary", "multi"])
def test_class_numbers_of_records_that_are_none_are_errors(kind, tmp_path):
    one = labelled.build(kind, tmp_path)
    path = sorted(one.data_path.glob("*.tfrecord-*"))[1]
    examples_ = [tf.train.Example.FromString(data) for _, data in images.frames(path)]
    labels = examples_[4].features.feature["label"].int64_list.value
    labels[:] = [100 + number for number in range(len(labels) or 1)]
    data = [example.SerializeToString(deterministic=True) for example in examples_]
    path.write_bytes(b"".join(map(framed, data)))
    plain = tfds.builder_from_directory(str(one.data_dir))
    for dataset in (
        one.as_dataset("train", engine="stream"),
        one.as_dataset("train", engine="stream", batch_size=4),
        plain.as_dataset("train"),
        plain.as_dataset("train", batch_size=30),
    ):
        with pytest.raises(tf.errors.OpError, match=r"expected labels from 0 to \d, the records"):
            examples(dataset)
    feature = one.info.features["label"]
    stored = np.array([0, 100]) if kind == "multi" else 100
    with pytest.raises(ValueError, match=r"expected labels from 0 to \d, found .*100"):
        feature.decode_example_np(stored)
