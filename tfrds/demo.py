"""The dataset `tfrds_demo`: a dataset as code, and the model for one of your own."""

from typing import Any, ClassVar

from tfrds.demo_data import LICENSE, sample_folder
from tfrds.image_builder import ImageDatasetBuilder
from tfrds.spec import BuildOptions


class TfrdsDemo(ImageDatasetBuilder):
    """Clothes in ten classes: the first images of each class of Fashion-MNIST, 28 x 28, gray."""

    VERSION = "1.0.0"
    RELEASE_NOTES: ClassVar = {"1.0.0": "1,000 images to train with, 200 to test with."}
    OPTIONS = BuildOptions(image_size=28, channels=1)
    HOMEPAGE = "https://github.com/zalandoresearch/fashion-mnist"
    LICENSE = LICENSE
    CITATION = """\
@article{xiao2017fashion,
  author  = {Han Xiao and Kashif Rasul and Roland Vollgraf},
  title   = {Fashion-{MNIST}: a Novel Image Dataset for Benchmarking Machine Learning Algorithms},
  journal = {CoRR},
  volume  = {abs/1708.07747},
  year    = {2017},
  url     = {https://arxiv.org/abs/1708.07747},
}"""

    def _source(self, dl_manager: Any) -> Any:
        # Yours may be tfrds.sources.ImageFolder(dl_manager.manual_dir / "clothes").
        return sample_folder()
