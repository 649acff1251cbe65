"""The command line as its users meet it: most of it here, what only a process shows in one."""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest
from images import encoded, files_below, noise, put, put_images

from tfrds import builder, cli
from tfrds.tools import demo_result

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = ("build", "info", "verify", "rm", "demo")


@pytest.fixture
def photos(tmp_path):
    """Five cats, three dogs, 4 x 5, and what is no image."""
    folder = put_images(
        tmp_path / "photos",
        [
            *(f"cat/{number}.png" for number in range(5)),
            *(f"dog/{number}.png" for number in range(3)),
        ],
    )
    put(folder / "dog" / "readme.txt", "about dogs")
    put(folder / "dog" / "bark.ogg", b"OggS")
    put(folder / ".hidden", "")
    return folder


@pytest.fixture
def tfrds(capsys):
    """Runs a command here; gives (exit code, standard output, standard error)."""

    def run(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "tfrds.cli", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        # Where the tests run in the background, SIGINT is ignored, and processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **{
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        },
    )


def run_process(*arguments, **options):
    with start(*arguments, **options) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_version_is_that_of_the_package(tfrds):
    assert tfrds("--version") == (0, "tfrds 0.1.0\n", "")


@pytest.mark.parametrize("command", [(), *((command,) for command in COMMANDS)])
def test_help_of_every_command_has_an_example(tfrds, command):
    code, out, err = tfrds(*command, "--help")
    assert (code, err) == (0, "")
    assert re.search(r"\nexample: tfrds \w+ ", out)


@pytest.mark.parametrize(
    "command",
    [
        ["--version"],
        ["--help"],
        ["build", "--help"],
        ["build", "photos", "--name", "pets", "--dry-run"],
        ["build", "labels.csv", "--name", "pets", "--root", "photos", "--dry-run"],
        ["build", "digits.npz", "--name", "digits", "--dry-run"],
        ["info", "raw_images"],
        ["verify", "raw_images"],
        ["rm", "raw_images", "--yes"],
    ],
    ids=" ".join,
)
def test_starts_without_tensorflow_and_tfds(tmp_path, photos, raw, command):
    # A copy: rm is real.
    subprocess.run(["cp", "-r", raw.root, tmp_path / "data"], check=True)
    put(tmp_path / "labels.csv", "path,label\ncat/1.png,cat\ndog/1.png,dog\n")
    np.savez(tmp_path / "digits.npz", x=np.zeros((4, 3, 3), np.uint8), y=[0, 1, 0, 1])
    script = (
        "import sys\nfrom tfrds import cli\n"
        "try: code = cli.main()\n"
        "except SystemExit as stop: code = stop.code\n"
        "heavy = {'tensorflow', 'tensorflow_datasets', 'keras'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_build_shows_what_was_built_and_how_to_load_it(photos, data_dir):
    code, out, err = run_process(
        "build", photos, "--name", "pets", "--image-size", "6x7", "--splits", "train=0.8,test=0.2"
    )
    assert code == 0, err
    assert err == f"{photos}: read as class/.../file.\n"
    assert re.match(
        r"Built 8 examples in \d+\.\d s, [\d,]+ images per second\.\n\npets 1\.0\.0\n", out
    )
    assert f"  directory  {data_dir / 'pets' / '1.0.0'}\n" in out
    assert "  image      6 x 7, 3 channels, stored raw, read as float32\n" in out
    assert "  left out   .ogg 1, .txt 1, hidden 1\n" in out
    # Each record: 126 bytes of pixels, 34 of Example around them, 16 of frame.
    assert (
        "  split  examples  shards   bytes\n"
        "  test          2       1  0.4 kB\n"
        "  train         6       1  1.1 kB\n" in out
    )
    assert (
        "  class  name  test  train\n  0      cat      1      4\n  1      dog      1      2\n"
        in out
    )
    assert out.endswith(
        "Load it:\n  import tensorflow_datasets as tfds\n  import tfrds\n"
        '  dataset = tfds.load("pets", split="train", batch_size=256, as_supervised=True)\n'
    )


def test_build_imports_no_tensorflow_and_works_without_standard_input(photos, data_dir):
    script = (
        "import sys\nfrom tfrds import cli\ncode = cli.main()\n"
        "sys.exit('imported tensorflow' if 'tensorflow' in sys.modules else code)"
    )
    # The shell closes descriptor 0: it may be given to a pipe of a worker.
    ran = subprocess.run(
        [
            "sh",
            "-c",
            'exec "$@" <&-',
            "sh",
            sys.executable,
            "-c",
            script,
            "build",
            photos,
            "--name",
            "pets",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (data_dir / "pets" / "1.0.0" / "tfrds.json").is_file()


def test_dry_run_shows_the_plan_and_writes_nothing(tfrds, photos, data_dir):
    code, out, err = tfrds(
        "build",
        photos,
        "--name",
        "pets",
        "--splits",
        "train=0.8,test=0.2",
        "--num-shards",
        2,
        "--dry-run",
    )
    assert (code, err) == (0, f"{photos}: read as class/.../file.\n")
    assert out.startswith("pets 1.0.0 would be built; nothing was written.\n")
    assert "  image      sizes vary, 3 channels, stored original\n" in out
    assert "  examples   8\n" in out
    assert "  left out   .ogg 1, .txt 1, hidden 1\n" in out
    assert re.search(r"\n  test +2 +2  .+ kB\n  train +6 +2  .+ kB\n", out)
    assert "  0      cat      1      4\n  1      dog      1      2\n" in out
    assert not data_dir.exists()


def test_dry_run_shows_the_size_that_raw_images_will_have(tfrds, photos):
    assert (
        "image      4 x 5, 3 channels, stored raw\n"
        in tfrds("build", photos, "--name", "pets", "--encoding", "raw", "--dry-run")[1]
    )
    assert (
        "image      9 x 9, 1 channel, stored raw\n"
        in tfrds(
            "build", photos, "--name", "pets", "--image-size", 9, "--channels", 1, "--dry-run"
        )[1]
    )


def test_every_build_option_reaches_the_record(tfrds, photos, tmp_path):
    names = put(tmp_path / "names.txt", b"\xef\xbb\xbfdog\ncat\n")
    code, _, err = tfrds(
        *("build", photos, "--name", "pets", "--version", "2.1.0", "--data-dir", tmp_path / "d"),
        *("--image-size", "4X5", "--resize", "pad", "--channels", 1, "--background", "1,2,3"),
        *("--encoding", "jpeg", "--store-size", 3, "--jpeg-quality", 80, "--splits", "a=0.5,b=0.5"),
        *("--split-by", "hash", "--group", ".+"),
        *("--check", "header", "--no-exif-transpose", "--max-pixels", 5000),
        *("--on-error", "skip", "--max-bad", 0.25, "--on-duplicate", "drop"),
        *(
            "--class-names",
            names,
            "--layout",
            "class",
            "--num-workers",
            1,
            "--num-shards",
            2,
            "--limit",
            3,
        ),
    )
    assert (code, err) == (0, "")
    record = json.loads((tmp_path / "d" / "pets" / "2.1.0" / "tfrds.json").read_bytes())
    assert record["options"] == {
        "image_size": [4, 5],
        "resize": "pad",
        "channels": 1,
        "background": [1, 2, 3],
        "encoding": "jpeg",
        "store_size": 3,
        "jpeg_quality": 80,
        "check": "header",
        "exif_transpose": False,
        "max_pixels": 5000,
        "splits": {"a": 0.5, "b": 0.5},
        "split_by": "hash",
        "group": ".+",
        "class_names": ["dog", "cat"],
        "label_kind": None,
        "on_error": "skip",
        "max_bad": 0.25,
        "on_duplicate": "drop",
        "num_shards": 2,
    }
    assert [len(split["shards"]) for split in record["splits"].values()] == [2, 2]
    assert [split["num_examples"] for split in record["splits"].values()] == [3, 3]


def test_other_sources_are_told_by_looking_and_by_format(tfrds, photos):
    table = put(photos.parent / "labels.txt", "file;kind\ncat/1.png;a|b\ndog/1.png;b\n")
    command = ("build", table, "--name", "pets", "--dry-run")
    arguments = ("--image", "file", "--label", "kind", "--separator", "|", "--root", photos)
    code, out, err = tfrds(*command, *arguments)
    assert code == 0, err
    assert f"{table}: taken for a table of images (manifest).\n" in err
    assert "  examples   2\n" in out
    code, out, err = tfrds(*command, *arguments, "--format", "manifest")
    assert code == 0, err
    assert "taken for" not in err
    code, _, err = tfrds(*command, "--format", "npz")
    assert code == 1
    assert "labels.txt: damaged: the directory at its end is missing" in err


def test_several_columns_make_one_label(tfrds, photos):
    table = put(photos.parent / "a.csv", "path,cat,dog\ncat/1.png,1,0\ndog/1.png,1,1\n")
    command = ("build", table, "--name", "pets", "--root", photos, "--dry-run")
    code, out, err = tfrds(*command, "--label", "cat", "--label", "dog")
    assert code == 0, err
    assert re.search(r"0 +cat +2\n +1 +dog +1\n", out)


def test_a_dataset_of_tfds_is_a_source(raw, data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(raw.root))
    code, out, err = run_process("build", "tfds:raw_images", "--name", "a", "--data-dir", data_dir)
    assert code == 0, err
    assert "  examples   63\n" in out
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "elsewhere"))
    code, out, err = run_process("build", "tfds:a:1.0.0", "--name", "b", "--data-dir", data_dir)
    assert code == 0, err
    assert "  examples   63\n" in out


def test_append_takes_other_sources_too(tfrds, photos):
    assert tfrds("build", photos, "--name", "pets")[0] == 0
    table = put(photos.parent / "more.csv", "path,label\ncat/1.png,dog\n")
    code, out, err = tfrds(
        *("append", "pets", table, "--root", photos, "--key-prefix", "more/", "--label", "label")
    )
    assert code == 0, err
    assert "  examples   9\n" in out


def test_overwrite_replaces_an_existing_version(tfrds, photos, data_dir):
    assert tfrds("build", photos, "--name", "pets")[0] == 0
    before = files_below(data_dir / "pets" / "1.0.0")
    put(photos / "cat" / "5.png", encoded(noise(77, 4, 5)))
    code, _, err = tfrds("build", photos, "--name", "pets")
    assert code == 1
    assert f"{data_dir / 'pets' / '1.0.0'}: this version exists" in err
    assert "something else: 1 images added: cat/5.png. Choose another version, or" in err
    assert files_below(data_dir / "pets" / "1.0.0") == before
    assert tfrds("build", photos, "--name", "pets", "--overwrite")[1].startswith("Built 9 examples")


def built_keys(dataset):
    return {
        split: sorted(
            example["key"].decode()
            for example in dataset.as_dataset(split=split, with_key=True).as_numpy_iterator()
        )
        for split in dataset.info.splits
    }


def test_splits_are_files_of_keys_one_a_line(tfrds, photos, tmp_path, data_dir):
    train = tmp_path / "train.txt"
    # As editors of other systems write it: a mark at the start, other line ends, an empty line.
    put(train, "\ufeffcat/0.png\r\ncat/1.png\r\ndog/0.png\r\n\r\ndog/2.png".encode())
    test = put(tmp_path / "test.txt", "cat/2.png\ncat/3.png\ncat/4.png\ndog/1.png\n")
    code, _, err = tfrds(
        "build", photos, "--name", "pets", "--splits", f"train={train},test={test}"
    )
    assert code == 0, err
    assert built_keys(builder("pets", data_dir=data_dir)) == {
        "test": ["cat/2.png", "cat/3.png", "cat/4.png", "dog/1.png"],
        "train": ["cat/0.png", "cat/1.png", "dog/0.png", "dog/2.png"],
    }


def test_splits_are_folds_by_hash_of_groups(tfrds, photos, data_dir):
    arguments = ("--splits", 2, "--split-by", "hash", "--group", "([0-9])[.]png")
    code, _, err = tfrds("build", photos, "--name", "pets", *arguments)
    assert code == 0, err
    found = built_keys(builder("pets", data_dir=data_dir))
    assert set(found) == {"fold_0", "fold_1"}
    numbers = [{key[-5] for key in keys} for keys in found.values()]
    assert not numbers[0] & numbers[1]
    assert numbers[0] | numbers[1] == set("01234")


def test_table_of_many_classes_stays_short(tfrds, tmp_path):
    folder = put_images(tmp_path / "many", [f"c{number:02d}/a.png" for number in range(23)])
    for arguments in (["--dry-run"], []):
        _, out, _ = tfrds("build", folder, "--name", "many", *arguments)
        assert "  9      c09       1\n  ... 23 in all\n" in out
        assert "c10" not in out
    assert "c22" in tfrds("info", "many", "--json")[1]


WRONG_ARGUMENTS = [
    ([], "the following arguments are required: COMMAND"),
    (["biuld"], "invalid choice: 'biuld'"),
    (["build", "photos"], "the following arguments are required: --name"),
    (["build", "photos", "--name", "Pets"], "name: expected lower case letters, .* got 'Pets'"),
    (["info", "../pets"], r"name: expected .* got '\.\.'"),
    (["info", "pets/../x"], r"name: expected .* got 'pets/\.\./x'"),
    (["info", "pets/..:1.0.0"], r"does not start with a dot, got 'pets/\.\.:1\.0\.0'"),
    (["info", "pets:new"], "name: expected a version such as .* got 'pets:new'"),
    (["rm", "pets:1.*.*"], r"one version is removed at a time, got 'pets:1\.\*\.\*'"),
    (["demo", "--epochs", "0"], "epochs: .* got 0"),
]

WRONG_OPTIONS = [
    ("--version", "1", "version: expected .* got '1'"),
    ("--image-size", "0", "image_size: expected .* got 0"),
    ("--image-size", "4xa", r"--image-size: expected 64 or 48x64 \(height x width\), got '4xa'"),
    ("--image-size", "1x2x3", r"image_size: expected .* got \(1, 2, 3\)"),
    ("--background", "white", "--background: expected R,G,B such as .* got 'white'"),
    ("--background", "1,2", r"background: expected .* got \(1, 2\)"),
    ("--splits", "train", "--splits: expected train=0.8,.* got 'train'"),
    ("--splits", "0.8", "--splits: expected .*, or a number of folds, .* got '0.8'"),
    ("--splits", "a=.5,a=.5", "--splits: expected train=0.8,.* got 'a=.5,a=.5'"),
    ("--splits", "a=.5,b", "--splits: expected train=0.8,.* got 'a=.5,b'"),
    ("--splits", "a=,b=.5", "--splits: expected train=0.8,.* got 'a=,b=.5'"),
    ("--splits", "a=x", "--splits: 'x' cannot be read: .*No such file"),
    ("--splits", "a=latin1.txt", "--splits: 'latin1.txt' cannot be read: .*0xe9"),
    ("--splits", "a=.5,b=blank.txt", "splits: other splits are lists of keys, .* got 0.5"),
    ("--splits", "a=blank.txt", "splits: each listed key must be .*, got 'cat' in 'a', 'dog' in"),
    ("--splits", "a=empty.txt", r"splits: the list of 'a' must hold .*, got \[\]"),
    ("--splits", "a=one.txt", r"each example must be in one .*, got 'cat/1.png', .* \(7 in all\)"),
    ("--splits", "a=one.txt,b=one.txt", "each key is listed once, got 'cat/0.png' in 'a' and 'b'"),
    ("--splits", "1", "splits: the number of folds must be .* got 1"),
    ("--splits", "-2", "splits: the number of folds must be .* got -2"),
    ("--splits", "all=1", "splits: a split's name .* got 'all'"),
    ("--split-by", "key", "--split-by: invalid choice: 'key'"),
    ("--split-by", "hash", "split_by: only fractions and folds .* got split_by='hash'"),
    ("--group", "(p", r"group: missing \), .* got '\(p'"),
    ("--group", "", "group: expected a regular expression .* got ''"),
    ("--splits", "a=0.5", r"splits: fractions must sum to 1, got .*0\.5"),
    ("--class-names", "none.txt", "'none.txt' cannot be read: .*No such file"),
    ("--class-names", "latin1.txt", "'latin1.txt' cannot be read: .*0xe9"),
    ("--class-names", "blank.txt", "class_names: .* got ''"),
    ("--encoding", "gif", "--encoding: invalid choice: 'gif'"),
    ("--resize", "fit", "--resize: invalid choice: 'fit'"),
    ("--layout", "flat", "--layout: invalid choice: 'flat'"),
    ("--layout", "webdataset", r"layout: expected one of \['class', 'split'\], got 'webdataset'"),
    ("--format", "photos", "--format: invalid choice: 'photos'"),
    (
        "--label",
        "a",
        r"--label: is for archives .* \(archive\), .*, but photos is a folder of imag",
    ),
    ("--image", "a", r"--image: is for a table of images \(manifest\), numpy .* Leave it out"),
    ("--separator", ";", r"--separator: is for a table of images \(manifest\), but photos is"),
    ("--label-offset", "-1", r"--label-offset: is for TFRecord files \(tfrecords\), but photos"),
    ("--label-offset", "x", "--label-offset: invalid int value: 'x'"),
    ("--root", "a", r"--root: is for COCO-style JSON \(coco\), a table .*, but photos is"),
    (
        *("--format", "tfds", "--label", "a", "--label", "b"),
        r"--label: expected one name for a dataset of TFDS \(tfds\), got \['a', 'b'\]",
    ),
    ("--store-size", "9", "store_size: .* got store_size=9"),
    ("--channels", "2", "channels: .* got 2"),
    ("--jpeg-quality", "0", "jpeg_quality: .* got 0"),
    ("--check", "all", "--check: invalid choice: 'all'"),
    ("--max-pixels", "0", "max_pixels: .* got 0"),
    ("--on-error", "ignore", "--on-error: invalid choice: 'ignore'"),
    ("--max-bad", "1.5", r"max_bad: expected a share from 0 to 1, got 1\.5"),
    ("--max-bad", "1%", "--max-bad: invalid float value: '1%'"),
    ("--on-duplicate", "remove", "--on-duplicate: invalid choice: 'remove'"),
    ("--fingerprint", "mtime", "--fingerprint: invalid choice: 'mtime'"),
    ("--num-shards", "0", "num_shards: .* got 0"),
    ("--num-workers", "0", "num_workers: .* got 0"),
    ("--limit", "0", "limit: .* got 0"),
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *WRONG_ARGUMENTS,
        *((["build", "photos", "--name", "p", *option], text) for *option, text in WRONG_OPTIONS),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(
    tfrds, photos, data_dir, monkeypatch, arguments, message
):
    monkeypatch.chdir(photos.parent)
    put("latin1.txt", b"caf\xe9\n")
    put("blank.txt", "cat\n\ndog\n")
    put("one.txt", "cat/0.png\n")
    put("empty.txt", "\n")
    code, out, err = tfrds(*arguments)
    assert (code, out) == (2, "")
    error = [line for line in err.splitlines() if "error: " in line]
    assert len(error) == 1
    assert re.search(message, error[0])
    assert "Traceback" not in err
    assert not data_dir.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "nowhere"], "nowhere: expected a folder"),
        (["build", "empty"], "empty: no image found below it"),
        (["build", "flat"], "flat: .* inside class/.../file, found 'a.png'"),
        (["build", "cut"], r"cat/a\.png: "),
        (["build", "named"], r"cat/a\.jpg \(no image in it\)"),
        (["build", "photos", "--class-names", "names.txt"], "class_names: .*'cat'"),
        (["build", "photos", "--data-dir", "photos/dog/readme.txt"], "readme.txt.* is a file"),
        (["info", "pets"], "pets: no such dataset in "),
        (["info", "pets:1.0.0"], "pets:1.0.0: no such dataset in "),
        (["rm", "pets", "--yes"], "pets: no such dataset in "),
        (["rm", "pets:1.0.0", "--yes"], "pets:1.0.0: no such dataset in "),
    ],
)
def test_unusable_data_is_one_line_and_exit_code_1(
    tfrds, photos, data_dir, monkeypatch, arguments, message
):
    monkeypatch.chdir(photos.parent)
    pathlib.Path("empty").mkdir()
    put("flat/a.png", encoded(noise(1, 3, 3)))
    put("cut/cat/a.png", encoded(noise(1, 30, 30))[:200])
    put("named/cat/a.jpg", "text")
    put("names.txt", "dog\nbird\n")
    code, out, err = tfrds(*arguments, *(["--name", "p"] if arguments[0] == "build" else []))
    assert (code, out) == (1, "")
    assert re.fullmatch(rf"(?s)(.*\n)?tfrds: error: [^\n]*{message}[^\n]*\n", err), err
    assert not [path for path in files_below(data_dir) if not path.endswith(".lock")]


def test_many_kinds_of_left_out_files_are_listed_in_part(tfrds, photos):
    for number in range(12):
        put(photos / "cat" / f"a.k{number:02d}", "text")
    _, out, _ = tfrds("build", photos, "--name", "pets", "--dry-run")
    assert re.search(r"  left out   \.k00 1, .*, \.\.\. 15 kinds in all\n", out)


def test_notes_and_warnings_are_plain_lines(tfrds, tmp_path):
    folder = put_images(tmp_path / "one", ["train/cat/a.png", "test/cat/b.png"])
    _, _, err = tfrds("build", folder, "--name", "one", "--dry-run")
    assert err.splitlines() == [
        "Warning: All images are of the single class 'cat': a classifier learns nothing from them.",
        f"{folder}: read as split/class/.../file.",
    ]


def test_class_mapping_is_shown_where_a_reader_could_expect_another(tfrds, tmp_path):
    folder = put_images(tmp_path / "numbers", ["2/a.png", "10/b.png"])
    assert (
        "Classes by number: 0: '10', 1: '2'\n"
        in tfrds("build", folder, "--name", "n", "--dry-run")[2]
    )


def test_names_that_would_steer_the_terminal_are_shown_as_escapes(tfrds, tmp_path):
    folder = put_images(tmp_path / "red", ["\x1b[31mred/a.png", "blue/b.png"])
    _, out, err = tfrds("build", folder, "--name", "red")
    assert "\\x1b[31mred" in out
    put(folder / "\x1b[31mred" / "b.png", "no image")
    _, _, err = tfrds("build", folder, "--name", "red", "--version", "2.0.0")
    assert "\\x1b[31mred/b.png" in err
    assert "\x1b" not in out + err


def test_info_shows_the_same_as_the_build(tfrds, photos):
    built = tfrds("build", photos, "--name", "pets")[1]
    assert tfrds("info", "pets") == (0, built.split("\n\n", 1)[1], "")


def test_info_json_is_the_summary(tfrds, photos, data_dir):
    tfrds("build", photos, "--name", "pets")
    code, out, err = run_process("info", "pets:1.0.0", "--json")
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert summary["name"] == "pets"
    assert summary["class_names"] == ["cat", "dog"]
    assert summary["splits"] == {
        "train": {
            "num_examples": 8,
            "class_counts": [5, 3],
            "num_shards": 1,
            "num_bytes": (data_dir / "pets/1.0.0/pets-train.tfrecord-00000-of-00001")
            .stat()
            .st_size,
        }
    }


def test_unknown_name_is_told_with_the_nearest(tfrds, photos):
    tfrds("build", photos, "--name", "pets")
    code, _, err = tfrds("info", "pest")
    assert code == 1
    assert "Did you mean 'pets'?" in err


def test_a_terminal_of_ascii_gets_escapes(tmp_path, monkeypatch):
    folder = put_images(tmp_path / "towns", ["Zürich/a.png", "Bern/b.png"])
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, out, err = run_process("build", folder, "--name", "towns")
    assert code == 0, err
    assert "Z\\xfcrich" in out


def test_rm_removes_the_dataset_and_its_folder(tfrds, photos, data_dir):
    tfrds("build", photos, "--name", "pets")
    target = data_dir / "pets" / "1.0.0"
    code, out, _ = tfrds("rm", "pets", "--yes")
    assert code == 0
    assert re.fullmatch(rf"{target}\n8 files, \d\.\d kB\nRemoved\.\n", out)
    assert list(data_dir.iterdir()) == []


def test_rm_needs_yes_where_nobody_can_be_asked(photos, data_dir, tfrds):
    tfrds("build", photos, "--name", "pets")
    code, _, err = run_process("rm", "pets")
    assert code == 2
    assert (
        err == "tfrds: error: There is no terminal to ask on. Pass --yes to remove these files.\n"
    )
    assert (data_dir / "pets" / "1.0.0" / "tfrds.json").is_file()


def test_rm_needs_a_version_where_there_are_several(tfrds, photos, data_dir):
    for version in ("1.0.0", "1.1.0"):
        tfrds("build", photos, "--name", "pets", "--version", version)
    code, _, err = tfrds("rm", "pets", "--yes")
    assert code == 2
    assert "'pets' has the versions ['1.0.0', '1.1.0']. Name one, such as 'pets:1.0.0'" in err
    assert tfrds("rm", "pets:1.0.0", "--yes")[0] == 0
    assert sorted(path.name for path in (data_dir / "pets").iterdir() if path.name[0] != ".") == [
        "1.1.0"
    ]


@pytest.mark.parametrize(("answer", "stays"), [("y\n", False), ("\n", True), ("\x04", True)])
def test_rm_asks_on_a_terminal(tfrds, photos, data_dir, answer, stays):
    tfrds("build", photos, "--name", "pets")
    ours, terminal = pty.openpty()
    with start("rm", "pets", stdin=terminal) as process:
        os.write(ours, answer.encode())
        out, err = process.communicate(timeout=60)
    os.close(ours)
    os.close(terminal)
    assert (process.returncode, err) == (0, "")
    assert "Remove them? [y/N] " in out
    assert out.endswith("Nothing was removed.\n" if stays else "Removed.\n")
    assert (data_dir / "pets").exists() is stays


def test_a_bar_shows_progress_on_a_terminal(photos):
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with start("build", photos, "--name", "pets", stderr=terminal) as process:
        process.communicate(timeout=60)
    os.close(terminal)
    os.set_blocking(ours, False)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert process.returncode == 0
    assert re.search(r"100%\|.*\| 8/8 \[", shown)


def test_ctrl_c_leaves_nothing_that_loads(tfrds, tmp_path, data_dir):
    # So many that the signal comes long before the end, on a busy machine too.
    folder, image = tmp_path / "big", encoded(noise(0, 900, 900))
    for number in range(200):
        put(folder / f"{number % 3}/{number}.png", image)
    with start("build", folder, "--name", "big", "--num-workers", 2, "--num-shards", 20) as process:
        while not list(data_dir.glob("big/.tfrds-build-1.0.0/*/journal/*tfrecord*.json")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == (
        "tfrds: error: interrupted; the same command goes on from here."
    )
    assert "Traceback" not in err
    assert not (data_dir / "big" / "1.0.0").exists()
    code, _, err = tfrds("info", "big")
    assert code == 1
    assert "big: no such dataset in " in err


def test_bad_images_are_refused_skipped_and_copied_aside(tfrds, photos, tmp_path):
    for name in ("cat/2.png", "dog/1.png"):
        put(photos / name, (photos / name).read_bytes()[:-15])
    command = ("build", photos, "--name", "pets")
    code, out, err = tfrds(*command, "--quarantine", tmp_path / "raised")
    assert (code, out) == (1, "")
    assert re.search(
        r"\ntfrds: error: 2 of 8 images cannot be stored: cat/2\.png: cut off or damaged.*; "
        r"dog/1\.png: .*\. Replace or remove them, or pass on_error=\"skip\"\.\n$",
        err,
    )
    code, out, err = tfrds(*command, "--on-error", "skip")
    assert (code, out) == (1, "")
    assert "max_bad=0.01 lets a build skip 0 of them" in err
    code, out, err = tfrds(
        *command, "--on-error", "skip", "--max-bad", 0.25, "--quarantine", tmp_path / "skipped"
    )
    assert code == 0
    assert "\nWarning: Skipped 2 of 8 images, see skipped.jsonl: cat/2.png: cut off" in err
    assert "\n  skipped    cut off or damaged 2\n" in out
    assert out.startswith("Built 6 examples")
    assert json.loads(tfrds("info", "pets", "--json")[1])["skipped"] == {"cut off or damaged": 2}
    for folder in ("raised", "skipped"):
        assert files_below(tmp_path / folder) == {
            name: (photos / name).read_bytes() for name in ("cat/2.png", "dog/1.png")
        }


def test_copies_are_told_dropped_or_refused(tfrds, photos):
    put(photos / "dog" / "copy.png", (photos / "cat" / "0.png").read_bytes())
    command = ("build", photos, "--name", "pets")
    code, _, err = tfrds(*command, "--on-duplicate", "raise")
    assert code == 1
    assert "tfrds: error: 1 images hold the same bytes as another one: " in err
    code, out, err = tfrds(*command)
    assert code == 0
    assert "Warning: Images that are there more than once, under two labels (1): " in err
    assert "\n  duplicates 1 image; 1 image under two labels\n" in out
    code, out, _ = tfrds(*command, "--version", "1.1.0", "--on-duplicate", "drop")
    assert code == 0
    assert "\n  skipped    duplicate 1\n" in out
    assert "\n  examples   8\n" in out


def test_a_reader_that_goes_away_is_no_error(tfrds, tmp_path):
    folder = put_images(tmp_path / "many", [f"{number:03d}/a.png" for number in range(300)])
    tfrds("build", folder, "--name", "many")
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with start("info", "many", "--json", stdout=writing) as process:
        os.close(writing)
        os.read(reading, 10)
        os.close(reading)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


@pytest.fixture
def demo_result_of(monkeypatch, tmp_path):
    """Lets `tfrds demo` find a given accuracy without training."""
    from tfrds.tools import demo

    def set_accuracy(accuracy, built_per_second=1000.0):
        result = demo_result.DemoResult(
            num_built=1200,
            built_per_second=built_per_second,
            read_per_second=54321.0,
            epochs=2,
            train_seconds=1.5,
            test_accuracy=accuracy,
            directory=tmp_path,
            load_line='tfds.load("tfrds_demo")',
        )
        monkeypatch.setattr(demo, "run_demo", lambda data_dir, *, epochs, report: result)

    return set_accuracy


def test_demo_shows_speed_accuracy_and_how_to_load(tfrds, demo_result_of, tmp_path):
    demo_result_of(0.7)
    assert tfrds("demo") == (
        0,
        "  built      1,200 images, 1,000 per second\n"
        "  read       54,321 images per second\n"
        "  trained    2 epochs in 1.5 s\n"
        "  accuracy   70.0% of the test images\n"
        f"  directory  {tmp_path}\n"
        "\n"
        "Load it:\n"
        "  import tensorflow_datasets as tfds\n"
        "  import tfrds\n"
        '  dataset = tfds.load("tfrds_demo")\n',
        "",
    )
    demo_result_of(0.9, built_per_second=None)
    assert "  built      already built\n" in tfrds("demo")[1]


def test_demo_fails_below_the_accuracy_it_must_reach(tfrds, demo_result_of):
    demo_result_of(0.695)
    code, _, err = tfrds("demo")
    assert code == 1
    assert (
        err
        == "tfrds: error: demo: expected an accuracy of at least 70%, got 69.5% after 2 epochs.\n"
    )


def test_stamps_are_counted_as_find_counts_them(stamps, data_dir):
    code, out, err = run_process(
        "build", stamps, "--name", "stamps", "--image-size", 64, "--splits", "train=0.8,test=0.2"
    )
    assert code == 0, err
    summary = json.loads(run_process("info", "stamps", "--json")[1])
    counts = {
        name: sum(split["class_counts"][number] for split in summary["splits"].values())
        for number, name in enumerate(summary["class_names"])
    }

    def found(*arguments):
        listed = subprocess.run(["find", *map(str, arguments)], capture_output=True, check=True)
        return len(listed.stdout.splitlines())

    assert counts == {
        folder.name: found(folder, "-name", "*.png", "-type", "f")
        for folder in sorted(stamps.iterdir())
        if folder.is_dir()
    }
    assert summary["left_out"] == {
        ending: found(stamps, "-name", f"*{ending}", "-type", "f")
        for ending in (".dat", ".ogg", ".svg", ".txt", ".wav")
    }
    assert "  left out   .ogg " in out


@pytest.mark.parametrize(
    ("level", "classes"), [("first", ["cat", "dog"]), ("all", ["cat/big", "cat/small", "dog"])]
)
def test_nested_folders_are_one_class_by_choice(level, classes, tmp_path, capsys):
    put_images(tmp_path / "pets", ["cat/big/1.png", "cat/small/2.png", "dog/3.png"])
    arguments = ["--name", "pets", "--data-dir", str(tmp_path / "data"), "--class-level", level]
    assert cli.main(["build", str(tmp_path / "pets"), *arguments]) == 0
    capsys.readouterr()
    assert cli.main(["info", "pets", "--json", "--data-dir", str(tmp_path / "data")]) == 0
    assert json.loads(capsys.readouterr().out)["class_names"] == classes
