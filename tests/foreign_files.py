"""TFRecord files as others write them: by plain TensorFlow, with any features."""

import pathlib
import struct

import numpy as np
import tensorflow as tf

from tfrds.disk.records import frame_footer, frame_header


def feature(value):
    """Returns a `tf.train.Feature` of bytes, text, integers, floats, or a list of one of them."""
    values = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    values = [item.encode() if isinstance(item, str) else item for item in values]
    if not values:
        return tf.train.Feature()
    if all(isinstance(item, bytes) for item in values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if all(isinstance(item, int | np.integer) for item in values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def example(features):
    """Returns the bytes of a `tf.train.Example` of features by key."""
    made = {key: feature(value) for key, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def write(path, records, compression=""):
    """Writes a TFRecord file with TensorFlow; records are features by key, or bytes."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), options=compression) as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else example(record))
    return path


def framed(data):
    """Returns a record's frame; its checksums are tested against TensorFlow's elsewhere."""
    return frame_header(len(data)) + data + frame_footer(data)


def lying_frame(length, data):
    """Returns a frame whose header gives another length than its data has, rightly summed."""
    return frame_header(length) + data + struct.pack("<I", 0)


def raw_records(images, labels):
    """Returns records of uint8 images as `image_raw`, and int64 labels as `label`."""
    return [
        {"image_raw": image.tobytes(), "label": int(label)}
        for image, label in zip(images, labels, strict=True)
    ]
