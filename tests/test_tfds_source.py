import io
import json
import pickle
import shutil
import sys

import images
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from datasets import run_script
from source_examples import class_folder, random_images

import tfrds
from tfrds.errors import ConfigError, SourceError
from tfrds.sources import TfdsDataset

NAMES = ["cat", "ant", "bee"]
COUNTS = {"train": 7, "test": 4}
PIXELS = {split: random_images(count, 6, 5, 3, seed=count) for split, count in COUNTS.items()}
CLASSES = {split: (np.arange(count) * 2 + 1) % 3 for split, count in COUNTS.items()}


class Pictures(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A small dataset of TFDS's own, with one of each feature that may be a label."""

    VERSION = tfds.core.Version("1.2.0")
    encoding = "png"

    def _info(self):
        one_class = tfds.features.ClassLabel(names=NAMES)
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(6, 5, 3), encoding_format=self.encoding),
                    "label": one_class,
                    "many": tfds.features.Sequence(tfds.features.ClassLabel(names=NAMES)),
                    "number": np.int32,
                    "value": np.float32,
                    "vector": tfds.features.Tensor(shape=(2,), dtype=np.float32),
                    "text": tfds.features.Text(),
                    "packed": tfds.features.Tensor(shape=(2, 2), dtype=np.uint8, encoding="zlib"),
                    "more": {"gray": tfds.features.Tensor(shape=(), dtype=np.int64)},
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split) for split in COUNTS}

    def _generate_examples(self, split):
        for row, (pixels, label) in enumerate(zip(PIXELS[split], CLASSES[split], strict=True)):
            name = NAMES[label]
            image = pixels
            if self.encoding == "jpeg":
                image = io.BytesIO(images.encoded(pixels, "JPEG", quality=90))
            yield (
                row,
                {
                    "image": image,
                    "label": name,
                    "many": NAMES[: row % 3],
                    "number": row % 3 + 1,
                    "value": row / 2,
                    "vector": [row, 0.5],
                    "text": name,
                    "packed": np.zeros((2, 2), np.uint8),
                    "more": {"gray": row % 2},
                },
            )


class Photos(Pictures, skip_registration=True):
    """The same as JPEGs."""

    encoding = "jpeg"


class TwoImages(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Two images, one of them of floats; no label of TFDS's own."""

    VERSION = tfds.core.Version("2.0.0")
    BUILDER_CONFIGS = tuple(tfds.core.BuilderConfig(name=name) for name in ("big", "small"))

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {
                    "pair": {"left": tfds.features.Image(shape=(None, None, 1))},
                    "depth": tfds.features.Image(shape=(6, 5, 1), dtype=np.float32),
                    "a": tfds.features.ClassLabel(num_classes=2),
                    "b": np.int64
                    if self.builder_config.name == "small"
                    else tfds.features.ClassLabel(num_classes=5),
                }
            ),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for row in range(5):
            pixels = PIXELS["train"][row, ..., :1]
            yield (
                row,
                {
                    "pair": {"left": pixels},
                    "depth": pixels.astype(np.float32),
                    "a": row % 2,
                    "b": -1 if row == 3 else row,
                },
            )


def prepare(cls, root, **arguments):
    builder = cls(data_dir=root, **arguments)
    builder.download_and_prepare()
    return builder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    prepare(Pictures, folder)
    prepare(Photos, folder)
    for name in ("big", "small"):
        prepare(TwoImages, folder, config=name)
    return folder


def read_all(source):
    """Returns (split, label, encoded image) of all records, as workers read them."""
    references = source.scan()
    inputs = pickle.loads(pickle.dumps(source.inputs(np.arange(len(references.keys)))))
    return [
        (
            references.split_names[references.splits[row]],
            references.class_names[references.labels[row]],
            inputs.read(row),
        )
        for row in range(len(inputs))
    ]


@pytest.mark.parametrize("name", ["pictures", "photos"])
def test_pixels_and_labels_are_those_of_tfds(root, name):
    found = [
        (split, label, tf.image.decode_image(image, channels=3).numpy().tobytes())
        for split, label, image in read_all(TfdsDataset(name, data_dir=root))
    ]
    builder = tfds.builder_from_directory(root / name / "1.2.0")
    expected = [
        (split, NAMES[example["label"]], example["image"].tobytes())
        for split in COUNTS
        for example in tfds.as_numpy(builder.as_dataset(split=split))
    ]
    assert sorted(found) == sorted(expected)


def test_a_dataset_built_of_it_is_the_same_as_of_class_folders(root, tmp_path):
    arrays = {split: (PIXELS[split], CLASSES[split]) for split in COUNTS}
    folder = class_folder(tmp_path / "folder", arrays, NAMES)
    sources = {"from_tfds": TfdsDataset("pictures", data_dir=root), "from_folder": folder}
    built = [
        tfrds.build(name, source, data_dir=tmp_path / "data", class_names=NAMES, num_workers=1)
        for name, source in sources.items()
    ]
    for split in COUNTS:
        one, other = (
            sorted(
                (example["image"].tobytes(), example["label"].tolist())
                for example in builder.as_dataset(split=split).as_numpy_iterator()
            )
            for builder in built
        )
        assert one == other
    assert built[0].info.features["label"].names == NAMES  # in TFDS's order


def test_what_was_found_is_noted(root):
    notes = TfdsDataset("pictures", data_dir=root).scan().notes
    assert notes[0] == (
        f"{root}/pictures/1.2.0: image 'image', label 'label'; features left out: many, "
        "more/gray, number, packed, text, value, vector."
    )


@pytest.mark.parametrize(
    ("key", "kind", "labels", "classes"),
    [
        ("number", "single", {1, 2, 3}, ("0", "1", "2", "3")),
        ("more/gray", "single", {0, 1}, ("0", "1")),
        ("text", "single", {0, 1, 2}, ("ant", "bee", "cat")),
        ("value", "value", {0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0}, ()),
    ],
)
def test_other_labels_may_be_asked_for(root, key, kind, labels, classes):
    references = TfdsDataset("pictures", data_dir=root, label_key=key).scan()
    assert references.label_kind == kind
    assert set(references.labels.tolist()) == labels
    assert tuple(sorted(references.class_names)) == classes


def test_lists_of_classes_vectors_and_no_labels_are_read(root):
    many = TfdsDataset("pictures", data_dir=root, label_key="many").scan()
    assert (many.label_kind, many.class_names) == ("multi", tuple(NAMES))
    lengths = np.diff(many.labels.offsets).tolist()
    assert sorted(lengths) == sorted(row % 3 for count in COUNTS.values() for row in range(count))
    assert TfdsDataset("pictures", data_dir=root, label_key="vector").scan().labels.shape == (11, 2)
    none = TfdsDataset("pictures", data_dir=root).with_label_kind("none").scan()
    assert (none.label_kind, none.labels) == ("none", None)
    value = TfdsDataset("pictures", data_dir=root, label_key="number", label_kind="value").scan()
    assert set(value.labels.tolist()) == {1.0, 2.0, 3.0}


def test_splits_may_be_chosen(root):
    references = TfdsDataset("pictures", data_dir=root, splits=["test"]).scan()
    assert (references.split_names, len(references.keys)) == (("test",), 4)
    with pytest.raises(ConfigError, match=r"splits: expected some of \['t.*'\], .* got 'dev'"):
        TfdsDataset("pictures", data_dir=root, splits=["dev"]).scan()


def test_versions_configurations_and_directories_are_found(root, tmp_path):
    assert len(TfdsDataset("pictures:1.2.0", data_dir=root).scan().keys) == 11
    assert len(TfdsDataset(root / "pictures" / "1.2.0").scan().keys) == 11
    (root / "pictures" / "not_a_version").mkdir(exist_ok=True)
    two = TfdsDataset("two_images/small", data_dir=root, image_key="pair/left")
    assert two.scan().labels.tolist().count(1) == 2  # of "a", the only class
    with pytest.raises(
        ConfigError, match=r"'two_images' has the configurations \['big', 'small'\]"
    ):
        TfdsDataset("two_images", data_dir=root).scan()
    with pytest.raises(SourceError, match=r"no_dataset: expected a dataset of TFDS, with dataset"):
        TfdsDataset(tmp_path / "no_dataset").scan()


def test_a_dataset_that_is_not_there_says_how_to_get_it(root):
    for name in ("mnist", "pictures:9.9.9"):
        with pytest.raises(
            SourceError,
            match=rf"{name}: no prepared dataset of TFDS in \['{root}'\]\. Prepare it by "
            rf'tfds\.load\("{name}"\), or pass TfdsDataset\("{name}", download=True\)',
        ):
            TfdsDataset(name, data_dir=root).scan()
    for name in ("a/../b", "a//b", ":1.0.0"):
        with pytest.raises(ConfigError, match="name: expected that of a dataset such as"):
            TfdsDataset(name, data_dir=root).scan()


def test_tfds_prepares_it_only_when_asked_to(tmp_path, monkeypatch):
    asked = []

    def builder(name, data_dir):
        asked.append(name)
        return Pictures(data_dir=data_dir)

    monkeypatch.setattr(tfds, "builder", builder)
    source = TfdsDataset("pictures", data_dir=tmp_path, download=True)
    assert len(source.scan().keys) == 11
    assert len(source.scan().keys) == 11
    assert asked == ["pictures"]


def test_images_that_are_not_plain_are_refused(root):
    arguments = {"data_dir": root, "label_key": "a"}
    with pytest.raises(
        ConfigError, match=r"expected one of the images \['depth', 'pair/left'\] of .*got None"
    ):
        TfdsDataset("two_images/big", **arguments).scan()
    with pytest.raises(
        SourceError, match=r"expected 'depth' to be stored as PNG or JPEG of uint8, found Image"
    ):
        TfdsDataset("two_images/big", image_key="depth", **arguments).scan()
    with pytest.raises(SourceError, match=r"'packed' to be stored as PNG or JPEG .* found Tensor"):
        TfdsDataset("pictures", image_key="packed", data_dir=root).scan()
    with pytest.raises(ConfigError, match=r"expected one of the images \['image'\] .* got 'imgae'"):
        TfdsDataset("pictures", image_key="imgae", data_dir=root).scan()


def test_labels_that_are_none_are_refused(root):
    with pytest.raises(SourceError, match="expected numbers, classes or text in 'packed', found T"):
        TfdsDataset("pictures", data_dir=root, label_key="packed").scan()
    for key in ("lable", "image"):
        with pytest.raises(ConfigError, match=rf"expected the label among \['image'.* got '{key}'"):
            TfdsDataset("pictures", data_dir=root, label_key=key).scan()
    with pytest.raises(ConfigError, match=r"label_key: expected the label among .* got None"):
        TfdsDataset("two_images/big", data_dir=root, image_key="pair/left").scan()
    with pytest.raises(SourceError, match=r"record \d: feature 'b': expected a class .* got -1"):
        TfdsDataset("two_images/big", data_dir=root, image_key="pair/left", label_key="b").scan()


def test_other_file_formats_are_refused(tmp_path):
    prepare(Pictures, tmp_path, file_format="array_record")
    with pytest.raises(SourceError, match="is stored as array_record, expected tfrecord"):
        TfdsDataset("pictures", data_dir=tmp_path).scan()


@pytest.fixture
def copied(root, tmp_path):
    """The directory of a copy that may be damaged."""
    shutil.copytree(root / "pictures", tmp_path / "pictures")
    return tmp_path / "pictures" / "1.2.0"


def test_classes_that_are_not_of_tfds_are_never_imported(copied):
    path = copied / "features.json"
    text = path.read_text().replace(
        "tensorflow_datasets.core.features.text_feature.Text", "trap_module.Text"
    )
    path.write_text(text)
    (copied / "trap_module.py").write_text("raise RuntimeError('imported')")
    with pytest.raises(SourceError, match=r"names the class 'trap_module\.Text', .* not imported"):
        TfdsDataset(copied).scan()
    assert "trap_module" not in sys.modules


@pytest.mark.parametrize(
    ("file", "data", "message"),
    [
        ("features.json", b"{", r"features\.json: cannot be read: Expecting"),
        ("features.json", b"[" * 100_000, r"features\.json: cannot be read: "),
        ("features.json", b" " * (2**20 + 1), r"features\.json: larger than 1,048,576 bytes"),
        ("features.json", b"{}", "its metadata cannot be read"),
        ("dataset_info.json", b"{", "its metadata cannot be read"),
    ],
)
def test_damaged_metadata_is_named(copied, file, data, message):
    (copied / file).write_bytes(data)
    with pytest.raises(SourceError, match=message):
        TfdsDataset(copied).scan()


def test_damaged_missing_and_foreign_files_are_named(copied):
    shard = copied / "pictures-train.tfrecord-00000-of-00001"
    data = shard.read_bytes()
    shard.write_bytes(data[:-5])
    with pytest.raises(SourceError, match=r"pictures-train.* record 6: cut off"):
        TfdsDataset(copied).scan()
    shard.unlink()
    with pytest.raises(SourceError, match=r"pictures-train.*: no such file"):
        TfdsDataset(copied).scan()
    path = copied / "dataset_info.json"
    content = json.loads(path.read_text())
    content["splits"][0]["filepathTemplate"] = "../{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    path.write_text(json.dumps(content))
    with pytest.raises(SourceError, match=r"dataset_info\.json names the file .*, expected one in"):
        TfdsDataset(copied).scan()


def test_a_dataset_of_tfrds_is_a_source_too(raw, jpeg):
    for built in (raw, jpeg):
        source = TfdsDataset(built.directory)
        assert len(source.scan().keys) == len(built.labels)
        image = source.inputs(np.array([0])).read(0)
        expected = built.stored("test")[f"{built.name}-test.tfrecord-00000-of-00003__0"][0]
        if built is jpeg:
            image = tf.image.decode_jpeg(image, 3, dct_method="INTEGER_ACCURATE").numpy()
        assert (image == expected).all()


def test_workers_need_no_tfds_and_no_tensorflow(root, tmp_path):
    source = TfdsDataset("pictures", data_dir=root)
    source.scan()
    (tmp_path / "inputs.pickle").write_bytes(pickle.dumps(source.inputs(np.arange(3))))
    script = (
        "import pickle, sys\ninputs = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(len(inputs.read(2)) > 0, {'tensorflow', 'tensorflow_datasets'} & set(sys.modules))"
    )
    ran = run_script(script, tmp_path / "inputs.pickle")
    assert (ran.returncode, ran.stdout) == (0, "True set()\n"), ran.stderr


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match=r"label_kind: expected one of .* got 'many'"):
        TfdsDataset("mnist", label_kind="many")
    with pytest.raises(ConfigError, match="splits: expected a list of names, or None, got 'train'"):
        TfdsDataset("mnist", splits="train")
    with pytest.raises(ConfigError, match=r"name: expected that of a dataset in TFDS .* got ''"):
        TfdsDataset("")
    with pytest.raises(ConfigError, match="expected scan"):
        TfdsDataset("mnist").inputs(np.array([0]))
