"""Stages of augmentation, for the read option `augment`.

Random for each example, and reproducible: an example's numbers depend on (seed, epoch, position)
alone. The order is that of the list; at most one stage crops, and comes first. Keras preprocessing
layers and functions of (images, labels) may stand between them, with randomness of their own.
"""

from tfrds.read.stages.color_jitter import ColorJitter
from tfrds.read.stages.crop import CenterCrop, RandomCrop, RandomResizedCrop
from tfrds.read.stages.erasing import RandomErasing
from tfrds.read.stages.flip import RandomFlip
from tfrds.read.stages.mixing import CutMix, MixUp

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "CutMix",
    "MixUp",
    "RandomCrop",
    "RandomErasing",
    "RandomFlip",
    "RandomResizedCrop",
]
