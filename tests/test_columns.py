"""Columns beside the images: which can be stored, and that every way of reading gives them."""

import dataclasses
import itertools
import multiprocessing
import pickle

import keras
import labelled
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from damaged import Copy, sha256
from images import encoded, noise

import tfrds
from tfrds.disk.columns import Column
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, DatasetError, SourceError
from tfrds.sources import Arrays
from tfrds.write.executors import ThisProcess

ROWS = np.arange(labelled.COUNT)


class Given:
    """Arrays with these columns beside them, and no others."""

    kind, is_in_memory = "given", True

    def __init__(self, columns, labels=labelled.CLASSES, label_kind=None, **changes):
        self._arrays = Arrays(labelled.IMAGES, labels, label_kind=label_kind)
        self._changes = {"columns": tuple(columns), **changes}

    def scan(self):
        return dataclasses.replace(self._arrays.scan(), **self._changes)

    def inputs(self, rows):
        return self._arrays.inputs(rows)


def build(name, root, columns, *labels, **options):
    source = Given([Column.of(column, values) for column, values in columns.items()], *labels)
    return tfrds.build(name, source, data_dir=root, num_shards=2, **options)


def texts(values):
    return Keys.from_iterable(value.encode() for value in values)


def readings(one, split="train"):
    """Returns the examples by every way of reading, each in record order."""
    read_config = tfds.ReadConfig(interleave_cycle_length=1)
    plain = tfds.builder_from_directory(str(one.data_dir))
    return {
        "index": list(one.as_dataset(split).as_numpy_iterator()),
        "batches": list(one.as_dataset(split, batch_size=5).unbatch().as_numpy_iterator()),
        "pread": list(one.as_dataset(split, engine="pread").as_numpy_iterator()),
        "checked": list(one.as_dataset(split, verify_records=True).as_numpy_iterator()),
        "stream": list(one.as_dataset(split, engine="stream").as_numpy_iterator()),
        "source": list(one.as_data_source(split)),
        "tfds": list(plain.as_dataset(split, read_config=read_config).as_numpy_iterator()),
    }


def rows_in(one, split="train"):
    """Returns the source's rows of a split's records."""
    keys = one.as_dataset(split, with_key=True).as_numpy_iterator()
    return labelled.rows_of(example["key"] for example in keys)


def as_bytes(value):
    return value.encode() if isinstance(value, str) else value


def check(one, columns, split="train"):
    """Reads everything in every way, and compares it with the source's values."""
    rows = rows_in(one, split)
    for way, found in readings(one, split).items():
        assert len(found) == len(rows), way
        for row, example in zip(rows, found, strict=True):
            assert set(example) - {"image", "label"} == set(columns), way
            np.testing.assert_array_equal(example["image"], labelled.IMAGES[row])
            for name, values in columns.items():
                value = as_bytes(example[name])
                np.testing.assert_array_equal(value, as_bytes(values[row]), err_msg=way)
                if not isinstance(value, bytes):
                    assert np.asarray(value).dtype == values.dtype, way
    assert tfrds.verify(one.name, data_dir=one.data_dir_root).faults == ()


# Words of Python, of TFDS's files, and of what tfrds itself calls the parts of a batch.
NAMES = [
    *("class", "None", "import", "lambda", "self", "type", "pythonClassName", "proto_cls"),
    *("images", "labels", "instructions", "parameters", "shape", "dtype", "features", "tensor"),
    *("_", "0", "index", "keys", "key_offsets", "label_offsets", "column_offsets", "tfrecord"),
]


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_a_column_may_have_any_word_as_its_name(kind, tmp_path):
    columns = {name: ROWS + number for number, name in enumerate(NAMES)}
    labels, label_kind, expected = labelled.KINDS[kind]
    one = build("words", tmp_path, columns, labels, label_kind)
    check(one, columns)
    for row, example in zip(rows_in(one), one.as_dataset("train"), strict=True):
        np.testing.assert_array_equal(example["label"], expected[row])
    flip = [tfrds.augment.RandomFlip()]
    sized = one.as_dataset("train", batch_size=7, image_size=3, augment=flip, with_key=True)
    for batch in sized.as_numpy_iterator():
        for name, values in columns.items():
            np.testing.assert_array_equal(batch[name], values[labelled.rows_of(batch["key"])])


def test_a_hundred_columns(tmp_path):
    columns = {f"column_{number}": ROWS * number for number in range(100)}
    check(build("hundred", tmp_path, columns), columns)


def test_text_may_hold_anything(tmp_path):
    given = ["\0" * row + "\u00e0\U0001f600\n" * (row % 3) for row in ROWS]
    check(build("text", tmp_path, {"text": texts(given)}), {"text": given})


def test_long_texts_lie_among_short_ones(tmp_path):
    given = [f"{row}" * (1_500_000 if row % 5 == 1 else row) for row in ROWS]
    one = build("long", tmp_path, {"text": texts(given)})
    rows = rows_in(one)
    for dataset in (one.as_dataset("train"), one.as_dataset("train", engine="stream")):
        found = [example["text"].decode() for example in dataset.as_numpy_iterator()]
        assert found == [given[row] for row in rows]
    assert tfrds.verify("long", data_dir=tmp_path).faults == ()


def test_floats_may_be_no_numbers(tmp_path):
    values = np.array([np.nan, np.inf, -np.inf, -0.0] * 6, np.float32)[: labelled.COUNT]
    check(build("floats", tmp_path, {"value": values}), {"value": values})


def test_arrays_of_another_byte_order_become_ours(tmp_path):
    given = {"whole": ROWS.astype(">i2"), "float": (ROWS / 3).astype(">f8")}
    expected = {"whole": ROWS.astype("<i2"), "float": (ROWS / 3).astype("<f4")}
    check(build("order", tmp_path, given), expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (ROWS.astype(np.uint64), r"'more': expected one of \['bool', .*got uint64"),
        (ROWS.astype(np.complex64), r"'more': expected one of .*got complex64"),
        (ROWS.astype(object), r"'more': expected one of .*got object"),
        (ROWS.astype(str), r"'more': expected one of .*got str"),
        (ROWS[:-1], r"'more': expected 23 values, one for each image, got 22"),
        (np.zeros((23, 2, 2)), r"'more': expected one value .*got values of the shape \[2, 2\]"),
        (np.zeros((23, 0)), r"'more': expected one value .*got values of the shape \[0\]"),
        (
            Keys.from_iterable([b"\xff"] * 23),
            r"'more', row 0: expected text in UTF-8, got b'\\xff'",
        ),
        (
            Keys.from_iterable([b"a"] * 22),
            r"'more': expected 23 values, one for each image, got 22",
        ),
    ],
)
def test_what_cannot_be_stored_is_refused(values, message, tmp_path):
    with pytest.raises(SourceError, match=rf"column {message}"):
        build("refused", tmp_path, {"more": values})


def test_lists_are_refused(tmp_path):
    offsets = np.zeros(labelled.COUNT + 1, np.uint64)
    source = Given([Column.of_lists("more", np.zeros(0, np.int32), offsets)])
    with pytest.raises(SourceError, match=r"'more': .* got values of the shape \['any'\]"):
        tfrds.build("lists", source, data_dir=tmp_path)


def test_names_that_differ_only_in_case_are_refused(tmp_path):
    message = r"column 'age': 'Age' differs from it only in upper and lower case"
    with pytest.raises(SourceError, match=message):
        build("cases", tmp_path, {"Age": ROWS, "age": ROWS})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(ROWS == 7, np.nan, 1), r"07: expected a weight of at least 0, got nan; .*all: 1"),
        (
            np.where(ROWS > 20, -0.5, 1),
            r"21: expected a weight .* got -0.5; such weights in all: 2",
        ),
        (np.where(ROWS == 2, np.inf, 1), r"02: expected a weight of at least 0, got inf"),
    ],
)
def test_weights_are_numbers_of_at_least_zero(weights, message, tmp_path):
    source = Given((), weights=weights.astype(np.float32))
    with pytest.raises(SourceError, match=message):
        tfrds.build("weights", source, data_dir=tmp_path)


def test_a_column_of_weights_is_of_floats(tmp_path):
    message = r"'sample_weight': expected the weight of each image as a float, got int64\[\]"
    with pytest.raises(SourceError, match=message):
        build("weights", tmp_path, {"sample_weight": ROWS})


def test_names_too_long_for_a_file_are_refused_before_anything_is_written(tmp_path):
    source = {"s" * 60: Given([Column.of("c" * 64, ROWS)])}
    message = r"name: the file n{60}\.\.\. would have a name of 257 bytes, and .* allow 255"
    with pytest.raises(ConfigError, match=message):
        tfrds.build("n" * 120, source, data_dir=tmp_path)
    assert not list(tmp_path.rglob("*.tfrecord*"))


# Reading.


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("columns")
    for kind in ("single", "multi", "vector", "none"):
        labelled.build(kind, root, columns=True)
        labels, label_kind, _ = labelled.KINDS[kind]
        source = labelled.WithColumns(labels, label_kind)
        tfrds.build(f"again_{kind}", source, data_dir=root)
    return root


def open_(kind, root):
    return tfrds.builder(f"the_{kind}", data_dir=root)


def check_batches(batches, kind="single", weights=True):
    """Compares batches with keys with what their rows must give; returns all rows."""
    seen = []
    for batch in batches:
        rows = labelled.rows_of(batch["key"])
        seen += rows
        np.testing.assert_array_equal(batch["age"], labelled.AGES[rows])
        np.testing.assert_array_equal(batch["vector"], labelled.VECTORS[rows])
        found = [as_bytes(place).decode() for place in batch["place"]]
        assert found == [labelled.PLACES[row] for row in rows]
        if weights:
            np.testing.assert_array_equal(batch["sample_weight"], labelled.WEIGHTS[rows])
        if labelled.KINDS[kind][2] is not None:
            np.testing.assert_array_equal(batch["label"], labelled.KINDS[kind][2][rows])
    return seen


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"select": [1]}, ROWS[labelled.CLASSES == 1]),
        ({"select": {"keys": ["03", "20"]}}, [3, 20]),
        ({"balance": "classes", "shuffle": True}, None),
        ({"shuffle": True, "seed": 4}, ROWS),
        ({"shuffle": "blocks"}, ROWS),
        ({"cache": "memory"}, ROWS),
        ({"device": "/cpu:0"}, ROWS),
        ({"engine": "pread", "verify_records": True}, ROWS),
    ],
)
def test_columns_go_with_their_examples(options, rows, root):
    dataset = open_("single", root).as_dataset("train", batch_size=4, with_key=True, **options)
    found = check_batches(dataset.as_numpy_iterator())
    if rows is None:
        counts = np.bincount(labelled.CLASSES[found])
        assert counts.tolist() == [7, 7, 7]
    else:
        assert sorted(found) == list(rows)


def test_workers_share_columns(root):
    found = []
    for index in range(3):
        dataset = open_("multi", root).as_dataset(
            "train", batch_size=4, with_key=True, worker=(index, 3)
        )
        found += check_batches(dataset.as_numpy_iterator(), "multi")
    assert set(found) == set(ROWS)


def test_given_weights_replace_the_column(root):
    one = open_("single", root)
    weights = np.linspace(3, 5, labelled.COUNT)  # by example, in record order
    dataset = one.as_dataset("train", batch_size=30, with_key=True, sample_weight=weights)
    (batch,) = dataset.as_numpy_iterator()
    check_batches([batch], weights=False)
    np.testing.assert_allclose(batch["sample_weight"], weights, rtol=1e-6)


@pytest.mark.parametrize("kind", ["single", "multi", "vector", "none"])
def test_mixtures_keep_columns_with_their_examples(kind, root):
    weights = {f"the_{kind}": 0.5, f"again_{kind}": 0.5}
    options = {"data_dir": root, "batch_size": 10, "seed": 1}
    mixed = tfrds.mix(weights, with_key=True, **options)
    found = check_batches(mixed.as_numpy_iterator(), kind)
    assert sorted(found) == sorted([*ROWS, *ROWS])
    spec = tfrds.mix(weights, as_supervised=True, **options).element_spec
    shapes = [part.shape.as_list() for part in tf.nest.flatten(spec)]
    label = [] if kind == "none" else [[None, *labelled.KINDS[kind][2].shape[1:]], [None]]
    assert shapes == [[None, 5, 4, 3], *label]


def test_mixtures_need_the_same_columns(root):
    build("fewer", root, {"age": labelled.AGES})
    with pytest.raises(ConfigError, match=r"mix: the_single has columns \[\('age'.*fewer has"):
        tfrds.mix({"the_single": 1.0, "fewer": 1.0}, data_dir=root, batch_size=4)


def test_all_of_a_split_as_one_batch(root):
    batch = open_("vector", root).as_dataset("train", batch_size=-1, with_key=True)
    batch = tf.nest.map_structure(lambda part: part.numpy(), batch)
    assert sorted(check_batches([batch], "vector")) == list(ROWS)
    images, labels, weights = open_("vector", root).as_dataset(
        "train", batch_size=-1, as_supervised=True
    )
    np.testing.assert_array_equal(weights, batch["sample_weight"])
    np.testing.assert_array_equal(labels, batch["label"])
    np.testing.assert_array_equal(images, batch["image"])


class SeveralSizes(labelled.WithColumns):
    """The same columns beside files of several sizes."""

    is_in_memory = False

    def scan(self):
        return dataclasses.replace(super().scan(), shape=None)

    def inputs(self, rows):
        return OtherFiles(rows)


class OtherFiles:
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def name(self, position):
        return str(self.rows[position])

    def read(self, position):
        return encoded(noise(int(self.rows[position]), *size_of(self.rows[position])))


def size_of(row):
    return 5 + int(row) % 3, 6


def test_images_of_several_sizes(tmp_path):
    source = SeveralSizes(labelled.CLASSES)
    one = tfrds.build(
        "sizes", source, data_dir=tmp_path, encoding="original", executor=ThisProcess()
    )
    single = list(one.as_dataset("train", with_key=True).as_numpy_iterator())
    for example in (*single, *one.as_data_source("train", with_key=True)):
        row = int(example["key"])
        np.testing.assert_array_equal(example["image"], noise(row, *size_of(row)))
        check_batches([{name: np.array([value]) for name, value in example.items()}])
    batches = one.as_dataset("train", batch_size=6, image_size=4, with_key=True)
    assert sorted(check_batches(batches.as_numpy_iterator())) == list(ROWS)
    with pytest.raises(ConfigError, match=r"batch_size: the images of sizes have several sizes"):
        one.as_dataset("train", batch_size=6)


def test_even_splits_and_pickled_builders(root):
    one = pickle.loads(pickle.dumps(open_("multi", root)))
    parts = one.as_dataset(tfds.even_splits("train", 3), batch_size=30, with_key=True)
    found = [check_batches(part.as_numpy_iterator(), "multi") for part in parts]
    assert [len(rows) for rows in found] == [8, 8, 7]
    assert sorted(itertools.chain(*found)) == list(ROWS)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_pytorch_reads_columns_in_workers(context, root):
    torch = pytest.importorskip("torch")
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip("no such way to start processes here")
    source = open_("multi", root).as_data_source("train", with_key=True)
    loader = torch.utils.data.DataLoader(
        source, batch_size=8, num_workers=2, multiprocessing_context=context, timeout=60
    )
    batches = [
        {
            name: np.array(part) if isinstance(part, list) else part.numpy()
            for name, part in batch.items()
        }
        for batch in loader
    ]
    assert sorted(check_batches(batches, "multi")) == list(ROWS)
    assert {batches[0][name].dtype.name for name in ("age", "flag", "vector")} == {
        *("int16", "bool", "float32")
    }


def test_keras_weighs_examples_by_the_column(root):
    model = keras.Sequential([keras.Input((5, 4, 3)), keras.layers.Flatten()])
    model.add(keras.layers.Dense(3, activation="softmax"))
    model.compile(loss="categorical_crossentropy", weighted_metrics=["accuracy"])
    one = open_("single", root)
    train = one.as_dataset("train", batch_size=30, as_supervised=True, value_range=(0, 1))
    ((images, labels, weights),) = train.as_numpy_iterator()
    predicted = model.predict(images, verbose=0)
    losses = -np.log((predicted * labels).sum(axis=1))
    found = model.evaluate(train, verbose=0, return_dict=True)
    np.testing.assert_allclose(found["loss"], (losses * weights).mean(), rtol=1e-4)
    hits = predicted.argmax(axis=1) == labels.argmax(axis=1)
    np.testing.assert_allclose(found["accuracy"], (hits * weights).sum() / weights.sum(), rtol=1e-4)


def test_training_with_weights_is_synchronised_and_resumed(root, tmp_path):
    one = open_("vector", root)

    def make_dataset(seed):
        return one.as_dataset("train", batch_size=8, as_supervised=True, shuffle=True, seed=seed)

    def train(directory, interrupt):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((5, 4, 3)), keras.layers.Rescaling(1 / 255)])
        model.add(keras.layers.Flatten())
        model.add(keras.layers.Dense(2))
        model.compile("sgd", "mse")
        for callbacks in ([interrupt] if interrupt else [], []):
            try:
                tfrds.keras.fit_resumable(
                    *(model, make_dataset, 3, directory),
                    seed=9,
                    save_every_steps=1,
                    callbacks=callbacks,
                    verbose=0,
                )
            except KeyboardInterrupt:
                continue
            break
        return model.get_weights()

    class Interrupt(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if (self.model.optimizer.iterations.numpy()) == 5:
                raise KeyboardInterrupt

    for whole, parts in zip(
        train(tmp_path / "whole", None), train(tmp_path / "parts", Interrupt()), strict=True
    ):
        np.testing.assert_array_equal(whole, parts)


# Damage: as bad disks and hostile people do it, with all hashes right.


@pytest.fixture
def copy(root, tmp_path):
    class Source:
        name, directory = "the_multi", root / "the_multi" / "1.0.0"

    return Copy(Source, tmp_path)


def change(copy, name, place, value):
    """Writes one value of an array of the dataset, with its hash."""
    path = copy.path(f"train.{name}.npy")
    array = np.load(path)
    array[place] = value
    np.save(path, array)

    def fix(content):
        content["splits"]["train"]["columns_sha256"][path.name] = sha256(path)

    copy.change_record(fix)


OURS = ("index", "batches", "pread", "source")


def read(copy, way, **options):
    one = tfrds.builder("the_multi", data_dir=copy.root)
    if way == "source":
        return list(one.as_data_source("train", **options))
    batch_size = 5 if way == "batches" else None
    engine = "pread" if way == "pread" else None
    return list(one.as_dataset("train", batch_size=batch_size, engine=engine, **options))


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize(
    ("place", "value"), [(3, 2**63 + 5), (3, 0), (3, 10**6), (0, 7), (0, 2**64 - 1), (22, 0)]
)
def test_lists_that_lie_nowhere_are_errors(place, value, way, copy):
    change(copy, "label_offsets", place, value)
    count = sum(map(len, labelled.SETS))
    message = rf"label, row \d+: the offsets \d+ to \d+ are outside of the {count} values, or more"
    with pytest.raises((DatasetError, tf.errors.OpError), match=message):
        read(copy, way)
    result = tfrds.verify("the_multi", data_dir=copy.root)
    assert any(fault.what == "expected numbers that rise from 0" for fault in result.faults)
    with pytest.raises(DatasetError, match=r"label_offsets.npy: expected numbers that rise from 0"):
        tfrds.edit("the_multi", remove=["05"], data_dir=copy.root)


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize("value", [4, -1, 2**31 - 1, -(2**31)])
def test_class_numbers_in_lists_that_are_none_are_errors(value, way, copy):
    change(copy, "labels", 11, value)
    message = rf"expected class numbers from 0 to 3, found .*{value:,}"
    with pytest.raises((DatasetError, tf.errors.OpError), match=message):
        read(copy, way)
    with pytest.raises(DatasetError, match=message):
        tfrds.edit("the_multi", remove=["05"], data_dir=copy.root)


@pytest.mark.parametrize("way", ["index", "source"])
@pytest.mark.parametrize("value", [2**63 + 5, 0, 10**6])
def test_text_that_lies_nowhere_is_an_error(value, way, copy):
    change(copy, "column_offsets-place", 7, value)
    with pytest.raises(
        (DatasetError, tf.errors.OpError),
        match=r"column .{1,2}place.{1,2}: key \d+: .*are outside of",
    ):
        read(copy, way)


@pytest.mark.parametrize("way", ["index", "source"])
@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("labels", 11, 1, r"label: the column has \[.*\] instead of \["),
        ("column-age", 4, 7, r"age: the column has 7 instead of -?\d+"),
        ("column-flag", 0, None, r"flag: the column has (True|False) instead of (1|0)"),
        ("column-vector", (3, 1), np.nan, r"vector: the column has \[.*, nan\] instead of \["),
        ("column-sample_weight", 9, 9, r"sample_weight: the column has 9.0 instead of"),
        ("column-place", 5, 98, r"place: the column has b.{1,2}plbce .* instead of b.{1,2}place "),
    ],
)
def test_checked_records_are_those_of_the_columns(name, place, value, message, way, copy):
    array = np.load(copy.path(f"train.{name}.npy"))
    if value is None:
        value = not array[place]
    if name == "column-place":
        place = array.tobytes().index(b"place") + 2
    if name == "labels":
        value = (array[place] + 1) % 4
    change(copy, name, place, value)
    assert len(read(copy, way)) == labelled.COUNT
    with pytest.raises((DatasetError, tf.errors.OpError), match=f"(?s){message}"):
        read(copy, way, verify_records=True)


def test_a_dataset_is_replaced_by_one_of_another_kind(tmp_path):
    data_dir = tmp_path / "data"
    expected = []
    for kind in ("multi", "none", "vector", "single", "value", "binary", "multi"):
        labels, label_kind, meant = labelled.KINDS[kind]
        make = labelled.WithColumns if len(expected) % 2 else Arrays
        source = (
            make(labels, label_kind)
            if make is not Arrays
            else Arrays(labelled.IMAGES, labels, label_kind=label_kind)
        )
        one = tfrds.build("changing", source, data_dir=data_dir, overwrite=True)
        expected.append(kind)
        for builder in (one, tfrds.builder("changing", data_dir=data_dir)):
            for example in builder.as_dataset("train", with_key=True).as_numpy_iterator():
                row = int(example["key"])
                assert ("age" in example) == (make is not Arrays)
                assert ("label" in example) == (meant is not None)
                if meant is not None:
                    np.testing.assert_array_equal(example["label"], meant[row])
        names = {path.name for path in one.data_path.iterdir()}
        assert ("label.labels.txt" in names) == (kind in ("multi", "single", "binary"))
        assert tfrds.verify("changing", data_dir=data_dir).faults == ()


def test_faults_name_files_in_folders_of_any_name(tmp_path):
    folder = tmp_path / "a: b"
    one = labelled.build("multi", folder, columns=True)
    path = one.data_path / "the_multi-train.column-age.npy"
    path.write_bytes(path.read_bytes()[:-2])
    faults = tfrds.verify("the_multi", data_dir=folder).faults
    assert {fault.file for fault in faults} == {path.name}
