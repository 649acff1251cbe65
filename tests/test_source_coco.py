import json
import pickle

import images
import numpy as np
import pytest
from source_examples import decoded, examples

import tfrds
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources import Coco, ImageFolder
from tfrds.write.sources import coco_file as coco_file_module
from tfrds.write.sources import json_arrays as json_arrays_module

NAMES = ["cat/1.png", "cat/2.png", "dog/1.png", "dog/far/2.png", "dog/3.png"]
CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}]
# Boxes as COCO has them: of one category an image, some several times.
ANNOTATIONS = [
    {"id": 1, "image_id": 10, "category_id": 3, "bbox": [0, 0, 1, 1], "segmentation": [[1, 2, 3]]},
    {"id": 2, "image_id": 11, "category_id": 3, "iscrowd": 1},
    {"id": 3, "image_id": 12, "category_id": 7},
    {"id": 4, "image_id": 12, "category_id": 7},
    {"id": 5, "image_id": 13, "category_id": 7},
    {"id": 6, "image_id": 14, "category_id": 7},
]


def entries():
    return [
        {"id": 10 + row, "file_name": name, "height": 4, "width": 5}
        for row, name in enumerate(NAMES)
    ]


@pytest.fixture
def write(tmp_path):
    """Writes five images and a JSON file beside them; what is given replaces its parts."""
    images.put_images(tmp_path / "photos", NAMES)

    def make(name="photos/a.json", **parts):
        content = {
            "info": {"year": 2024, "about": [1, 2.5e-3, {"x": None}]},
            "images": entries(),
            "annotations": ANNOTATIONS,
            "categories": CATEGORIES,
        }
        content.update(parts)
        kept = {key: value for key, value in content.items() if value is not None}
        return images.put(tmp_path / name, json.dumps(kept))

    return make


def test_one_category_an_image_gives_what_class_folders_give(write):
    path = write()
    source = Coco(path)
    assert examples(source) == examples(ImageFolder(path.parent))
    references = source.scan()
    assert [key.decode() for key in references.keys] == NAMES
    assert references.class_names == ("dog", "cat")
    assert not references.has_numbered_classes
    assert references.notes == (
        f"{path}: read as one class an image, the category of its annotations.",
    )


def test_any_order_of_the_parts_is_read(tmp_path, write):
    path = write()
    content = json.loads(path.read_text())
    turned = {key: content[key] for key in reversed(content)}
    path.write_text("\ufeff" + json.dumps(turned, indent=2))
    assert examples(Coco(path)) == examples(ImageFolder(path.parent))


def test_ids_may_be_text_as_camera_traps_have_them(write):
    path = write(
        images=[{**entry, "id": f"id {entry['id']}"} for entry in entries()],
        annotations=[{**entry, "image_id": f"id {entry['image_id']}"} for entry in ANNOTATIONS],
    )
    assert examples(Coco(path)) == examples(ImageFolder(path.parent))


def test_root_is_where_file_names_start(write):
    path = write("annotations/instances.json")
    with pytest.raises(
        SourceError,
        match=r"instances\.json images\[0\], column 'file_name': expected a file below .*"
        r"annotations, got 'cat/1\.png'.*pass root=.*; 5 in all",
    ):
        Coco(path).scan()
    root = path.parent.parent / "photos"
    assert examples(Coco(path, root=root)) == examples(ImageFolder(root))


def test_several_categories_are_several_classes(write):
    more = [
        {"id": 8, "image_id": 10, "category_id": 7},
        {"id": 9, "image_id": 10, "category_id": 3},
    ]
    path = write(annotations=[*ANNOTATIONS[:3], *more])
    references = Coco(path).scan()
    assert references.label_kind == "multi"
    assert references.labels.offsets.tolist() == [0, 2, 3, 4, 4, 4]
    assert references.labels.numbers.tolist() == [0, 1, 1, 0]  # dog, cat; cat; dog
    assert references.notes == (
        f"{path}: read as any number of classes an image, the categories of its annotations; "
        "images with several: 1, without any: 2.",
    )
    assert Coco(path, label_kind="multi").scan().notes == ()
    single = Coco(write(), label_kind="multi").scan()
    assert single.labels.numbers.tolist() == [1, 1, 0, 0, 0]


def test_images_without_a_category_or_with_several_are_named_where_one_is_wanted(write):
    more = {"id": 8, "image_id": 10, "category_id": 7}
    with pytest.raises(
        SourceError,
        match=r"expected one category for each image, got several for 'cat/1\.png'; such images in "
        r"all: 1\. .*label_kind=\"multi\"",
    ):
        Coco(write(annotations=[*ANNOTATIONS, more]), label_kind="single").scan()
    names = [f"cat/more{number}.png" for number in range(7)]
    extra = [{"id": 100 + row, "file_name": name} for row, name in enumerate(names)]
    with pytest.raises(
        SourceError,
        match=r"got none for 'cat/more0\.png', .*, 'cat/more4\.png', \.\.\.; such images in all: 7",
    ):
        Coco(write(images=[*entries(), *extra])).with_label_kind("single").scan()


def test_images_alone_need_no_annotations(write):
    references = Coco(write(annotations=None, categories=None), label_kind="none").scan()
    assert (references.label_kind, references.labels, len(references.keys)) == ("none", None, 5)


def test_inputs_are_the_files(write):
    source = Coco(write())
    source.scan()
    inputs = pickle.loads(pickle.dumps(source.inputs(np.array([3, 0]))))
    assert [inputs.name(0), inputs.name(1)] == ["dog/far/2.png", "cat/1.png"]
    assert (decoded(inputs.read(0)) == images.noise(3, 4, 5)).all()


def test_a_dataset_is_built_of_it(write, tmp_path):
    built = tfrds.build("pets", write(), data_dir=tmp_path / "data", num_workers=1)
    assert built.info.features["label"].names == ["cat", "dog"]
    assert built.info.splits["train"].num_examples == 5


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"images": [*entries(), {"id": 12, "file_name": "x.png"}]},
            r"images\[5\]: expected an id of its own, got 12 as images\[2\] has",
        ),
        (
            {
                "images": [*entries(), {"id": 99, "file_name": "cat/1.png"}],
                "annotations": [*ANNOTATIONS, {"image_id": 99, "category_id": 3}],
            },
            r"images\[5\]: expected a file of its own, got 'cat/1\.png' as images\[0\] has; .* 1\.",
        ),
        (
            {"categories": [*CATEGORIES, {"id": 3, "name": "bird"}]},
            r"categories\[2\]: expected an id of its own, got 3 as categories\[1\] has",
        ),
        (
            {"categories": [*CATEGORIES, {"id": 4, "name": "cat"}]},
            r"categories\[2\]: expected a name of its own for the category of id 4, got 'cat' as "
            r"that of id 3 has",
        ),
        (
            {"categories": [{"id": 1, "name": " "}]},
            r"categories\[0\]: a class's name must not be empty.* got ' '",
        ),
        (
            {"annotations": [ANNOTATIONS[0], {"image_id": 77, "category_id": 3}] * 2},
            r"annotations\[1\]: image_id: no image has the id 77; such annotations in all: 2",
        ),
        (
            {"annotations": [*ANNOTATIONS, {"image_id": 10, "category_id": "7"}]},
            r"annotations\[6\]: category_id: no category has the id '7'; such .* 1\.",
        ),
        (
            {"annotations": [{"image_id": 10}]},
            r"annotations\[0\]: category_id: expected a whole number or text, got None",
        ),
        ({"annotations": [5]}, r"annotations\[0\]: expected an object, got 5"),
        (
            {"annotations": [{"image_id": True, "category_id": 3}]},
            r"annotations\[0\]: image_id: expected a whole number or text, got True",
        ),
        ({"images": [{"id": 1.5, "file_name": "a"}]}, r"images\[0\]: id: expected .* got 1\.5"),
        ({"images": [{"id": 1}]}, r"images\[0\]: file_name: expected text, got None"),
        ({"images": [{"id": 1, "file_name": "\ud800"}]}, r"file_name: expected text, got '.ud800'"),
        ({"images": {"a": 1}}, r"expected a list under 'images', got \{'a': 1\}"),
        ({"annotations": None}, r"expected entries under 'annotations' as COCO has them, found no"),
        ({"categories": []}, r"expected entries under 'categories'"),
        ({"images": []}, r"expected entries under 'images'"),
    ],
)
def test_entries_that_cannot_be_used_are_named(write, parts, message):
    path = write(**parts)
    with pytest.raises(SourceError, match=rf"{path.name}:? .*{message}|{path}:? {message}"):
        Coco(path).scan()


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "cat/../../a.png", ""])
def test_paths_that_lead_out_of_the_root_are_refused(write, name):
    path = write(images=[{"id": 10, "file_name": name}], annotations=ANNOTATIONS[:1])
    with pytest.raises(SourceError, match=r"images\[0\], column 'file_name': expected a "):
        Coco(path).scan()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at character 0: expected an object, got ''"),
        ("[1]", r"at character 0, '\[1\]': expected an object, got '\['"),
        ("{1: 2}", "expected a key, got 1"),
        ('{"info": [1, 2,]}', "expected another element behind ',', got ']'"),
        ('{"info": [{"id": 1} {"id": 2}]}', r"at character 20.*: expected ',' or ']', got '\{'"),
        ('{"images" []}', "expected ':' behind the key 'images'"),
        ('{"images": [{"id": 1, ', "at character 22: Expecting property name"),
        ('{"images": [{"id": "abc', "Unterminated string"),
        ('{"images": []} more', "expected the end of the file, found more"),
        ('{"info": ' + "[" * 100_000, "nested far too deep"),
        ('{"info": nothing}', "Expecting value"),
        ('{"info": ' + "9" * 5000 + "}", "at character 9.*: Exceeds the limit"),
    ],
)
def test_broken_json_is_named_with_its_place(tmp_path, text, message):
    path = images.put(tmp_path / "a.json", text)
    with pytest.raises(SourceError, match=rf"a\.json: no valid JSON .*{message}"):
        Coco(path).scan()


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(SourceError, match=r"none\.json: cannot be read: No such file"):
        Coco(tmp_path / "none.json").scan()
    path = images.put(tmp_path / "a.json", b'{"images": ["\xe9"]}')
    with pytest.raises(SourceError, match=r"a\.json: expected UTF-8: .*0xe9"):
        Coco(path).scan()


def test_long_files_are_read_piece_by_piece(write, monkeypatch):
    monkeypatch.setattr(json_arrays_module, "_BLOCK", 7)
    path = write()
    assert examples(Coco(path)) == examples(ImageFolder(path.parent))


def test_an_element_that_is_far_too_long_is_refused(write, monkeypatch):
    monkeypatch.setattr(json_arrays_module, "_BLOCK", 16)
    monkeypatch.setattr(json_arrays_module, "_MAX_ELEMENT", 1000)
    path = write(annotations=[{"segmentation": list(range(1000))}])
    with pytest.raises(SourceError, match="a value of more than 1,000 characters is not read"):
        Coco(path).scan()


def test_far_too_many_categories_are_refused(write, monkeypatch):
    monkeypatch.setattr(coco_file_module, "_MAX_CATEGORIES", 1)
    with pytest.raises(SourceError, match=r"categories\[1\]: expected at most 1 categories"):
        Coco(write()).scan()


def test_wrong_kinds_of_labels_are_refused(write):
    path = write()
    for make in (
        lambda: Coco(path, label_kind="value"),
        lambda: Coco(path).with_label_kind("value"),
    ):
        with pytest.raises(ConfigError, match=r"label_kind: categories are .*got 'value'"):
            make()
    with pytest.raises(ConfigError, match="expected scan"):
        Coco(path).inputs(np.array([0]))
