"""Prints whether `fit` sees the examples in the order of a plain loop; test_keras.py runs it.

Its arguments are a data directory and the name of a dataset; KERAS_BACKEND sets the backend.
"""

import json
import sys

# Before TensorFlow: with PyTorch the other order can crash in its libraries.
import keras
import numpy as np

import tfrds


class Recorder(keras.layers.Layer):
    """Notes each training example that reaches it; needs run_eagerly, where tensors have values."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def call(self, images, training=None):
        if training:
            try:
                self.seen += [
                    image.tobytes() for image in np.asarray(keras.ops.convert_to_numpy(images))
                ]
            except Exception as error:
                # While Keras builds the model its tensors are symbols, of a class by backend.
                if "racer" not in type(error).__name__ and not isinstance(
                    images, keras.KerasTensor
                ):
                    raise
        return images


def load(split="train", **arguments):
    options = {"shuffle": True, "seed": 4, **arguments} if split == "train" else arguments
    return tfrds.load(
        sys.argv[2], data_dir=sys.argv[1], split=split, batch_size=8, as_supervised=True, **options
    )


def plain_orders(epochs):
    dataset = load()
    return [
        [image.tobytes() for images, _ in dataset.as_numpy_iterator() for image in images]
        for _ in range(epochs)
    ]


def make_model(recorder=None, is_built=True):
    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Flatten(),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Dense(4, activation="softmax"),
    ]
    model = keras.Sequential([*([recorder] if recorder else []), *layers])
    if is_built:
        model.build((None, 9, 7, 3))
    model.compile(
        keras.optimizers.SGD(0.5), "categorical_crossentropy", run_eagerly=recorder is not None
    )
    return model


def orders_in_fit(is_built=True, change=lambda dataset: dataset, fits=1, **arguments):
    recorder = Recorder()
    model = make_model(recorder, is_built)
    train = change(load())
    for _ in range(fits):
        model.fit(
            train,
            validation_data=load("test"),
            callbacks=[tfrds.keras.SyncEpoch(train)],
            verbose=0,
            **arguments,
        )
        model.evaluate(train, verbose=0)
    return recorder.seen


def weights_after_fit(epochs):
    train, model = load(), make_model(is_built=False)
    model.fit(
        train,
        validation_data=load("test"),
        epochs=epochs,
        callbacks=[tfrds.keras.SyncEpoch(train)],
        verbose=0,
    )
    return model.get_weights()


def weights_after_plain_loop(epochs):
    train, model = load(), make_model(is_built=False)
    for _ in range(epochs):
        for images, labels in train.as_numpy_iterator():
            model.train_on_batch(images, labels)
    return model.get_weights()


def are_equal(ours, theirs):
    return all(np.allclose(one, other, atol=1e-5) for one, other in zip(ours, theirs, strict=True))


def main():
    first, second, third, fourth = plain_orders(4)
    print(
        json.dumps(
            {
                "backend": keras.backend.backend(),
                "epochs differ": first != second,
                "built": orders_in_fit(epochs=2) == first + second,
                "unbuilt": orders_in_fit(is_built=False, epochs=2) == first + second,
                "initial_epoch": orders_in_fit(epochs=4, initial_epoch=2) == third + fourth,
                "fit twice": orders_in_fit(epochs=1, fits=2) == first * 2,
                "changed dataset": orders_in_fit(
                    change=lambda dataset: dataset.map(lambda *pair: pair).prefetch(2), epochs=2
                )
                == first + second,
                "weights": are_equal(weights_after_fit(2), weights_after_plain_loop(2)),
                "weights tell orders apart": not are_equal(
                    weights_after_fit(2), weights_after_fit(1)
                ),
            }
        )
    )


main()
