"""The TFDS face of a dataset: `ImageDatasetBuilder`, a dataset as a small class.

Prepares itself through `prepare.py`, and opens what is prepared through `read/`; where only TFDS's
own reader can serve a request, it does, with the same values.
"""

import dataclasses
import logging
import os
import pathlib
from abc import abstractmethod
from typing import Any, Unpack

import tensorflow_datasets as tfds
import tree  # dm-tree, as TFDS itself maps over nested splits
from tensorflow_datasets.core.dataset_builder import FileReaderBuilder

from tfrds import tfds_compat
from tfrds.checks import check_int
from tfrds.data_dirs import find_dataset, remember_data_dir
from tfrds.declared import declare, supervised_keys
from tfrds.disk.build_record import BuildRecord, read_build_record
from tfrds.disk.layout import is_dataset
from tfrds.errors import ConfigError, DatasetError
from tfrds.features import images_alone, tfds_reader_chosen
from tfrds.prepare import check_same_options, prepare
from tfrds.read.request import Request, choose_seed, choose_worker
from tfrds.read_options import ReadKeywords, ReadOptions, accepts_read_options, parse_read_options
from tfrds.sources import as_source
from tfrds.spec import BuildOptions
from tfrds.write.beam import beam_execution
from tfrds.write.plan import make_plan

_log = logging.getLogger("tfrds")
_DECODED = tfds.decode.DeserializeMethod.DESERIALIZE_AND_DECODE


class ImageDatasetBuilder(FileReaderBuilder, skip_registration=True):  # type: ignore[misc, call-arg]
    """A dataset of labelled images as a small class; TFDS registers it by its name in snake case.

    ```python
    class Flowers(tfrds.ImageDatasetBuilder):
        "Photographs of flowers."
        VERSION = "1.0.0"
        OPTIONS = tfrds.BuildOptions(image_size=(224, 224))

        def _source(self, dl_manager):
            return tfrds.sources.ImageFolder(dl_manager.manual_dir / "flowers")
    ```

    Attributes:
      VERSION: "major.minor.patch"; raise it when the data or OPTIONS change.
      OPTIONS: what a build writes.
      DESCRIPTION: of the dataset; the class's docstring where empty.
      CITATION, LICENSE, HOMEPAGE: as in `tfds.core.DatasetInfo`.
      BUILDER_CONFIGS, RELEASE_NOTES, MANUAL_DOWNLOAD_INSTRUCTIONS: as in TFDS.
    """

    OPTIONS = BuildOptions()
    DESCRIPTION = ""
    CITATION = ""
    LICENSE = ""
    HOMEPAGE = ""

    # Set by classes made for a dataset that has no code: where it lies, whether it is overwritten.
    _HOME: str | None = None
    is_replaced = False

    def __init__(
        self,
        *,
        data_dir: os.PathLike[str] | str | None = None,
        config: Any = None,
        version: Any = None,
        file_format: Any = None,
        fast: bool = False,
    ) -> None:
        """Opens the dataset, prepared or not.

        Args:
          data_dir: root of all datasets; None: TFDS's own.
          config: a `tfds.core.BuilderConfig` or its name.
          version: of the dataset; None: VERSION.
          file_format: only TFRecord.
          fast: open any version on disk, whatever VERSION says. `tfds.load("name:1.0.0/fast=True")`
            passes it: the form without it leaves the class aside and reads with TFDS's own reader.
        """
        self._given_data_dir = data_dir = data_dir or self._HOME
        self._opens_any_version = fast or self._HOME is not None
        self._digest = ""  # of the dataset that `info` was read from
        tfds_compat.check_file_format(file_format)
        super().__init__(data_dir=data_dir, config=config, version=version, file_format=file_format)
        self._original_state["fast"] = fast
        if data_dir:
            remember_data_dir(data_dir)

    @abstractmethod
    def _source(self, dl_manager: tfds.download.DownloadManager) -> Any:
        """Returns where the labelled images come from.

        A source, a path, or a dict of them by split.

        Args:
          dl_manager: downloads and extracts; `dl_manager.manual_dir` holds what users put there by
            hand.
        """

    @property
    def options(self) -> BuildOptions:
        """What a build writes: OPTIONS; override it where it depends on `self.builder_config`."""
        return self.OPTIONS

    def download_and_prepare(
        self,
        *,
        download_dir: os.PathLike[str] | str | None = None,
        download_config: tfds.download.DownloadConfig | None = None,
        file_format: Any = None,
        permissions: Any = None,
    ) -> None:
        """Builds the dataset where it is not built yet; ends in one atomic rename.

        Args:
          download_dir: as in TFDS.
          download_config: counted are `max_examples_per_split`, `num_shards`, `manual_dir`,
            `extract_dir`, `beam_runner`, `beam_options`, the download mode and checksum options.
          file_format: only TFRecord.
          permissions: left to the process's umask, as in TFDS 4.9.10.

        Raises:
          SourceError, EncodeError: input that cannot be used; the message names the file.
          ConfigError: options that do not fit.
          DatasetError: the place cannot be written, or a dataset built with other OPTIONS lies
            there.
        """
        if tfds_compat.is_mocked():
            super().download_and_prepare()
            return
        self.assert_is_not_blocked()
        tfds_compat.check_file_format(file_format)
        download_config = download_config or tfds.download.DownloadConfig()
        overwrite = download_config.download_mode.overwrite_dataset
        if is_dataset(self._directory) and not overwrite:
            self._check_same_options(self._record())
            _log.info("Reusing the dataset %s in %s.", self.name, self.data_dir)
            return
        if str(self.version) not in (str(self.canonical_version), str(max(self.versions))):
            raise ConfigError(
                f"version: {self.name} builds {self.canonical_version}, got {self.version}, which "
                f"is not on disk in {self.data_dir_root}."
            )
        options = self.options
        if download_config.num_shards:
            options = dataclasses.replace(options, num_shards=download_config.num_shards)
        dl_manager = self._make_download_manager(
            download_dir=download_dir, download_config=download_config
        )
        source = as_source(self._source(dl_manager))
        prepare(
            self,
            make_plan(source, options, limit=download_config.max_examples_per_split),
            overwrite=overwrite,
            execution=beam_execution(download_config),
            download_size=lambda: dl_manager.downloaded_size,
        )
        tfds_compat.save_default_config(self)
        self._post_download_and_prepare_hook()

    def is_prepared(self) -> bool:
        """Whether a finished dataset lies in its place."""
        return is_dataset(self._directory)

    @accepts_read_options
    def as_data_source(
        self,
        split: Any = None,
        *,
        decoders: Any = None,
        deserialize_method: Any = _DECODED,
        **read_options: Unpack[ReadKeywords],
    ) -> Any:
        """Returns `DataSource`s: random access to the same examples, for PyTorch, JAX and Grain.

        Element: {"image": numpy float32 [height, width, channels], 0..255, "label": float32
        [num_classes], one-hot}, in the order of the split expression, equal to what `as_dataset`
        yields. Nothing of it needs TensorFlow.

        Args:
          split: any split expression of TFDS, or a nested structure of them; None: a dict of all.
          decoders: only None.
          deserialize_method: only TFDS's default, to deserialize and decode.
          **read_options: those fields of `tfrds.ReadOptions` that are about pixels, labels, keys
            and storage; order and batches are the loader's.

        Raises:
          ConfigError: an argument is wrong or cannot be honoured.
          DatasetError: the dataset is missing or damaged.
        """
        for name, value in {"decoders": decoders, "deserialize_method": deserialize_method}.items():
            if value not in (None, _DECODED):
                raise ConfigError(
                    f"{name}: a data source decodes by itself, got {value!r}. Leave it out, or use "
                    "as_dataset."
                )
        from tfrds.read.data_source import open_source

        options = parse_read_options(read_options)
        self._check_prepared()
        record = self._checked_record()
        return tree.map_structure(
            lambda leaf: open_source(record, tfds_compat.row_ranges(self.info, leaf), options),
            self._leaves(split),
        )

    @accepts_read_options
    def as_dataset(
        self,
        split: Any = None,
        *,
        batch_size: int | None = None,
        shuffle_files: bool = False,
        decoders: Any = None,
        read_config: tfds.ReadConfig | None = None,
        as_supervised: bool = False,
        **read_options: Unpack[ReadKeywords],
    ) -> Any:
        """Returns `tf.data.Dataset`s of GPU-ready batches.

        Element: {"image": float32 [batch, height, width, channels], 0..255, "label": float32
        [batch, num_classes], one-hot}, or (image, label) if `as_supervised`; without the batch
        dimension if `batch_size` is None. Labels of other kinds and columns: `label_mode` says.

        Args:
          split: any split expression of TFDS, or a nested structure of them; None: a dict of all.
          batch_size: examples a batch; None: single examples; -1: the whole split as tensors.
          shuffle_files: a new permutation of the whole split each epoch.
          decoders: served by TFDS's own reader.
          read_config: `options`, `add_tfds_id`, `shuffle_seed`, `shuffle_reshuffle_each_iteration`,
            `input_context`, `skip_prefetch` and `num_parallel_calls_for_decode` are honoured; with
            other fields TFDS's own reader serves.
          as_supervised: tuples that go into Keras `fit`.
          **read_options: the fields of `tfrds.ReadOptions`.

        Raises:
          ConfigError: an argument is wrong, or only TFDS's reader could serve one and a read option
            was given.
          DatasetError: the dataset is missing or damaged.
        """
        options = parse_read_options(read_options)
        if batch_size is not None and batch_size != -1:
            check_int("batch_size", batch_size, 1)
        if options.with_key and as_supervised:
            raise ConfigError(
                "with_key: a pair (image, label) has no place for a key. Leave out "
                "as_supervised=True."
            )
        read_config = read_config or tfds.ReadConfig()
        reason = self._reason_for_tfds_reader(decoders, read_config)
        if reason is None:
            return self._read(split, batch_size, shuffle_files, read_config, as_supervised, options)
        if changed := options.changed():
            raise ConfigError(
                f"{changed[0]}: cannot be honoured together with {reason}, which only TFDS's own "
                "reader serves."
            )
        _log.info(
            "%s: TFDS's own reader serves this because of %s: same values, not the fast path.",
            self.name,
            reason,
        )
        # TFDS refuses pairs where there is nothing to pair.
        has_labels = self.info.supervised_keys is not None
        with tfds_reader_chosen():
            dataset = super().as_dataset(
                split=split,
                batch_size=batch_size,
                shuffle_files=shuffle_files,
                decoders=decoders,
                read_config=read_config,
                as_supervised=as_supervised and has_labels,
            )
        if tfds_compat.is_mocked() and decoders is None:
            from tfrds.mocked import realistic

            dataset = realistic(dataset, self.info, as_supervised=as_supervised)
        if has_labels or not as_supervised:
            return dataset
        return images_alone(dataset, self.info, self._leaves(split))

    @property
    def _directory(self) -> pathlib.Path:
        return pathlib.Path(self.data_dir)

    def _info(self) -> tfds.core.DatasetInfo:
        if is_dataset(self._directory) and not self.is_replaced:
            features = tfds_compat.read_features(self._directory)
            keys = supervised_keys(read_build_record(self._directory))
        else:
            features, keys = declare(self.options)
        return tfds_compat.CheckedInfo(
            builder=self,
            description=self.DESCRIPTION or vars(type(self)).get("__doc__") or "",
            features=features,
            supervised_keys=keys,
            homepage=self.HOMEPAGE or None,
            citation=self.CITATION or None,
            license=self.LICENSE or None,
        )

    def _pick_version(self, requested_version: Any) -> tfds.core.Version:
        if requested_version is None and self._HOME is not None and self.builder_config_name:
            requested_version = "*.*.*"  # configurations may have other versions than the class
        if self._opens_any_version and requested_version not in (None, "experimental_latest"):
            # The configuration is known by now, the directory is not: it depends on the version.
            found = find_dataset(
                self.name,
                config=self.builder_config_name,
                version=str(requested_version),
                data_dir=self._given_data_dir,
            )
            if found:
                return tfds.core.Version(found.name)
        return super()._pick_version(requested_version)

    def _download_and_prepare(self, dl_manager: Any, download_config: Any = None) -> None:
        raise NotImplementedError(
            "download_and_prepare does it all: TFDS would delete finished shards after an error."
        )

    def _reason_for_tfds_reader(self, decoders: Any, read_config: tfds.ReadConfig) -> str | None:
        if tfds_compat.is_mocked():
            return "tfds.testing.mock_data"
        self._check_prepared()
        return tfds_compat.reason_for_tfds_reader(decoders, read_config)

    def _check_prepared(self) -> None:
        if not is_dataset(self._directory):
            raise DatasetError(
                f"{self.data_dir}: no prepared dataset of {self.name}. Call "
                "download_and_prepare(), or tfds.load with download=True."
            )

    def _read(self, split: Any, *request: Any) -> Any:
        # Reading is where TensorFlow is needed; building, and asking for the info, is done without
        # it.
        from tfrds.read.datasets import read_split

        record = self._checked_record()
        wanted = self._request(*request)
        return tree.map_structure(
            lambda leaf: read_split(record, tfds_compat.row_ranges(self.info, leaf), wanted),
            self._leaves(split),
        )

    def _leaves(self, split: Any) -> Any:
        return {name: name for name in self.info.splits} if split is None else split

    def _request(
        self,
        batch_size: int | None,
        shuffle_files: bool,
        read_config: tfds.ReadConfig,
        as_supervised: bool,
        options: ReadOptions,
    ) -> Request:
        return Request(
            batch_size=batch_size,
            supervised=as_supervised,
            shuffle=bool(shuffle_files if options.shuffle is None else options.shuffle),
            seed=choose_seed(options.seed, read_config.shuffle_seed),
            reshuffle=read_config.shuffle_reshuffle_each_iteration is not False,
            worker=choose_worker(options.worker, read_config.input_context),
            class_names=tfds_compat.class_names(self.info),
            with_tfds_id=read_config.add_tfds_id,
            prefetch=not read_config.skip_prefetch,
            decode_calls=max(read_config.num_parallel_calls_for_decode or 0, 0) or None,
            assert_cardinality=read_config.assert_cardinality,
            tf_options=read_config.options,
            options=options,
        )

    def _checked_record(self) -> BuildRecord:
        self.assert_is_not_blocked()
        record = self._record()
        self._check_same_options(record)
        return record

    def _record(self) -> BuildRecord:
        """Reads the record, and the info again where the dataset was overwritten meanwhile."""
        record = read_build_record(self._directory)
        if record.digest != self._digest:
            tfds_compat.read_info(self, self._directory)
            self._digest = record.digest
        return record

    def _check_same_options(self, record: BuildRecord) -> None:
        # Without a class, or for an older version, its own OPTIONS made it.
        if self._HOME is None and str(self.version) == str(self.canonical_version):
            check_same_options(record, self.options, type(self).__name__)
