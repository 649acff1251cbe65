import numpy as np
import tensorflow_datasets as tfds


def test_as_numpy_gives_arrays(raw):
    example = next(iter(tfds.as_numpy(raw.load(batch_size=4))))
    assert isinstance(example["image"], np.ndarray)
    assert example["image"].shape == (4, 9, 7, 3)


def test_as_dataframe_shows_names_and_thumbnails(raw):
    frame = tfds.as_dataframe(raw.load().take(3), raw.builder.info)
    assert len(frame) == 3
    text = frame._repr_html_()
    assert "data:image/png;base64" in text
    assert "(bee)" in text or "(ant)" in text or "(dog)" in text or "(cat)" in text


def test_show_examples_shows_the_pictures(jpeg):
    import matplotlib.pyplot as plt

    figure = tfds.show_examples(jpeg.load(), jpeg.builder.info, rows=2, cols=2)
    try:
        first = next(iter(jpeg.load()))["image"].numpy()
        shown = figure.axes[0].images[0].get_array()
        scale = 255 if shown.dtype == np.uint8 else 1
        # matplotlib clips floats above 1 to white: what it was given must be bytes, or within 0..1.
        np.testing.assert_allclose(np.asarray(shown, np.float64) / scale, first / 255, atol=0.003)
        figure.canvas.draw()
        axes = figure.axes[0].get_window_extent()
        pixels = np.asarray(figure.canvas.buffer_rgba())[::-1, :, :3]
        inside = pixels[int(axes.y0) + 2 : int(axes.y1) - 2, int(axes.x0) + 2 : int(axes.x1) - 2]
        assert inside.std() > 5
        assert "(" in figure.axes[0].get_xlabel()
    finally:
        plt.close(figure)
