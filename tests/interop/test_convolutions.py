"""The worked example with Equinox and Optax, on a small network: it learns what it does with JAX."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tinyjax.numpy as tnp
from examples.convolutions import Images, Trainer, load, main, make_model, picture


@pytest.mark.sweep
def test_it_learns_and_draws(tmp_path: Path) -> None:
    drawn = tmp_path / "convolutions.svg"
    accuracy = main(["--epochs", "2", "--channels", "4", "--batch-size", "32", "--picture", str(drawn)])
    assert accuracy > 0.7
    texts = [found.text for found in ElementTree.parse(drawn).iter() if found.tag.endswith("text")]
    assert texts[0]
    assert texts[0].startswith("loss: ")
    assert len(texts) == 11  # and ten of those that it got wrong


@pytest.mark.sweep
def test_steps_are_those_of_jax() -> None:
    model = make_model(channels=2, seed=0)
    optimiser = optax.adamw(1e-2)
    rng = np.random.default_rng(0)
    train, test = load(rng)
    trainer = Trainer(model, optimiser)

    def loss(params: object, images: jax.Array, labels: jax.Array) -> jax.Array:
        logits = jax.vmap(model.apply, in_axes=(None, 0))(params, images)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))

    value_and_grad = jax.jit(jax.value_and_grad(loss))
    update = jax.jit(optimiser.update)
    params, expected = model.params, jax.tree.map(jnp.asarray, model.params)

    state, expected_state = trainer.init(params), optimiser.init(expected)
    losses = []
    for batch, _ in zip(train.batches(rng, 8), range(3), strict=False):
        found, params, state = trainer.step(params, state, *map(tnp.asarray, batch))
        value, gradient = value_and_grad(expected, *batch)
        updates, expected_state = update(gradient, expected_state, expected)
        expected = optax.apply_updates(expected, updates)
        np.testing.assert_allclose(found, value, rtol=1e-5)
        losses.append(float(found))
    assert jax.tree.structure(state) == jax.tree.structure(expected_state)
    for ours, theirs in zip(jax.tree.leaves((params, state)), jax.tree.leaves((expected, expected_state)), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)

    few = Images(test.images[:5], test.labels[:5])
    drawn = ElementTree.fromstring(picture(losses, few, (few.labels + np.arange(5) % 2).astype(np.int64)))
    texts = [found.text for found in drawn.iter() if found.tag.endswith("text")]
    assert [text.split()[0] for text in texts[1:] if text] == [str(few.labels[i]) + "," for i in (1, 3)]
