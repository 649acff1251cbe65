"""The public sources: where labelled images come from."""

from tfrds.tfds_source import TfdsDataset
from tfrds.write.sources import (
    Archive,
    Arrays,
    Cifar,
    Coco,
    Idx,
    ImageFolder,
    Manifest,
    Npz,
    TFRecords,
)
from tfrds.write.sources.by_split import as_source as as_source
from tfrds.write.sources.recognise import add_opener

__all__ = [
    "Archive",
    "Arrays",
    "Cifar",
    "Coco",
    "Idx",
    "ImageFolder",
    "Manifest",
    "Npz",
    "TFRecords",
    "TfdsDataset",
]

# "tfds:mnist" as a source: the write side must not import what opens it. Who imports `as_source`
# from here has it.
add_opener("tfds", TfdsDataset)
