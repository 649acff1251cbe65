import numpy as np
import pytest
import tensorflow as tf
from images import encoded, files_below, frames, noise
from test_shards import label_column, task, write

from tfrds.errors import DatasetError
from tfrds.write.rewrite import rewrite_shard

IMAGES = [encoded(noise(seed, 5 + seed, 6)) for seed in range(6)]
LABELS = [0, 127, 128, 3, 70_000, 1]


@pytest.fixture
def shard(tmp_path):
    """A shard of six records, and its entry."""
    one = task(tmp_path / "shard", *IMAGES, labels=LABELS)
    return one.path, write(one)


def rewrite(shard, target, kept, labels):
    path, entry = shard
    return rewrite_shard(
        path,
        entry.rows,
        target,
        kept=np.array(kept, np.int64),
        labels=np.array(labels, np.int32),
        features=[label_column(labels)],
        image_key="image",
    )


@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 4, 5], [1], [0, 5], [2, 3, 4]], ids=str)
@pytest.mark.parametrize("is_relabelled", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_result_is_a_shard_of_these_images(tmp_path, shard, kept, is_relabelled, in_place):
    labels = [300 - LABELS[at] % 300 if is_relabelled else LABELS[at] for at in kept]
    before = shard[0].read_bytes()
    target = shard[0] if in_place else tmp_path / "target"
    new = rewrite(shard, target, kept, labels)
    expected = write(task(tmp_path / "expected", *(IMAGES[at] for at in kept), labels=labels))
    assert target.read_bytes() == (tmp_path / "expected").read_bytes()
    assert (new.num_bytes, new.sha256) == (expected.num_bytes, expected.sha256)
    assert (new.rows == expected.rows).all()
    assert in_place or shard[0].read_bytes() == before
    read = list(tf.data.TFRecordDataset(str(target)).as_numpy_iterator())
    assert read == [data for _, data in frames(target)]
    assert not list(tmp_path.glob("*.tmp"))


def test_nothing_may_stay(tmp_path, shard):
    new = rewrite(shard, tmp_path / "target", [], [])
    assert (new.num_bytes, len(new.rows)) == (0, 0)
    assert (tmp_path / "target").read_bytes() == b""


@pytest.mark.parametrize("in_place", [False, True])
def test_shard_that_was_cut_is_named_and_nothing_is_left(tmp_path, shard, in_place):
    path = shard[0]
    path.write_bytes(path.read_bytes()[:-40])
    before = files_below(tmp_path)
    offset, length = int(shard[1].rows["offset"][5]), len(IMAGES[5])
    with pytest.raises(
        DatasetError,
        match=rf"^{path}: expected {length:,} bytes of an image at byte {offset:,}, found \d+\.",
    ):
        rewrite(shard, path if in_place else tmp_path / "target", [0, 5], [0, 1])
    assert files_below(tmp_path) == before
