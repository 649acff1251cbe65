"""The recipes as a reader follows them: every snippet of docs/recipes.md, in its order."""

import os
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
from PIL import Image

import tfrds

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "recipes.md"


# Applications of Keras and the modules that hold their preprocess_input.
MODULES = {
    "ConvNeXt": "convnext",
    "DenseNet": "densenet",
    "EfficientNet": "efficientnet",
    "EfficientNetV2": "efficientnet_v2",
    "InceptionResNetV2": "inception_resnet_v2",
    "InceptionV3": "inception_v3",
    "MobileNet": "mobilenet",
    "MobileNetV2": "mobilenet_v2",
    "MobileNetV3": "mobilenet_v3",
    "NASNet": "nasnet",
    "ResNet50": "resnet",
    "ResNet50V2": "resnet_v2",
    "VGG16": "vgg16",
    "VGG19": "vgg19",
    "Xception": "xception",
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with photos/, three classes of ten JPEGs of several sizes, larger than 256."""
    folder = tmp_path_factory.mktemp("recipes")
    rng = np.random.default_rng(0)
    for class_name in ("daisy", "rose", "tulip"):
        (folder / "photos" / class_name).mkdir(parents=True)
        for number in range(10):
            height, width = rng.integers(280, 400, 2)
            small = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
            photo = Image.fromarray(small).resize((int(width), int(height)))
            photo.save(folder / "photos" / class_name / f"{number:02d}.jpg")
    return folder


def snippets(language):
    text = RECIPES.read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL))


def run(command, folder, **kwargs):
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "TFDS_DATA_DIR": str(folder / "data")}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        **kwargs,
    )


def test_every_snippet_of_the_recipes_runs(photos):
    built = run(["bash", "-euc", snippets("bash")], photos)
    assert built.returncode == 0, built.stderr
    # From standard input: no main module that a worker process could import again.
    ran = run([sys.executable, "-W", "error", "-"], photos, input=snippets("python"))
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "<dtype: 'uint8'> <dtype: 'float32'>" in lines
    assert "<dtype: 'bfloat16'>" in lines
    computed = [
        line.split()[1:] for line in lines if re.match(r"(rescaling|conv2d|dense)\S* ", line)
    ]
    assert computed == [["bfloat16", "float32"]] * 2 + [["float32", "float32"]]
    assert re.fullmatch(r"reading alone: [\d.]+ s a step", lines[-1])


@pytest.fixture(scope="module")
def builder(photos):
    """Raw, so that no pixel is rounded while reading."""
    return tfrds.build("ranges", photos / "photos", data_dir=photos, image_size=32, num_workers=1)


def read(builder, **options):
    batch = next(builder.as_dataset(split="train", batch_size=8, **options).as_numpy_iterator())
    return batch["image"]


def rows_of_applications():
    """Returns (names of applications, read options) of the table of the ranges of pixels."""
    text = RECIPES.read_text(encoding="utf-8").split("| application | takes | read options |")[1]
    rows = [line.strip("|").split("|") for line in text.split("\n\n")[0].splitlines()[2:]]
    return [(names.strip().split(", "), options.strip()) for names, _, options in rows]


def test_read_options_of_the_table_are_what_the_applications_take(builder):
    found = []
    for names, code in rows_of_applications():
        if code.startswith("none: keep"):
            found += names
            continue
        options = {} if code == "none" else eval(f"dict({code.replace('`', '')})")
        for name in names:
            module = getattr(keras.applications, MODULES[name])
            expected = module.preprocess_input(np.array(read(builder)))
            np.testing.assert_allclose(read(builder, **options), expected, atol=1e-5)
            found.append(name)
    assert sorted(found) == sorted(MODULES)


@pytest.mark.parametrize("name", ["ResNet50", "MobileNetV2", "DenseNet", "MobileNetV3"])
def test_preprocess_input_inside_a_model_takes_uint8(builder, name):
    preprocess_input = getattr(keras.applications, MODULES[name]).preprocess_input
    inputs = keras.Input((32, 32, 3))
    model = keras.Model(inputs, keras.layers.Identity()(preprocess_input(inputs)))
    pixels = read(builder, dtype="uint8")
    expected = preprocess_input(pixels.astype(np.float32))
    np.testing.assert_allclose(model(pixels), expected, atol=1e-5)


def test_normalization_on_the_device_is_that_of_reading(builder):
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    layers = keras.layers
    normalize = keras.Sequential(
        [
            layers.Rescaling(1 / 255),
            layers.Normalization(mean=mean, variance=[value**2 for value in std]),
        ]
    )
    expected = read(builder, value_range=(0, 1), normalize=(mean, std))
    np.testing.assert_allclose(normalize(read(builder, dtype="uint8")), expected, atol=1e-5)
