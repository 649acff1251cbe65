"""Where labelled images come from; each source is one module."""

from tfrds.write.sources.archive import Archive
from tfrds.write.sources.arrays import Arrays
from tfrds.write.sources.cifar import Cifar
from tfrds.write.sources.coco import Coco
from tfrds.write.sources.folder import ImageFolder
from tfrds.write.sources.idx import Idx
from tfrds.write.sources.manifest import Manifest
from tfrds.write.sources.npz import Npz
from tfrds.write.sources.tfrecords import TFRecords

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
]
