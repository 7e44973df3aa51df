"""`python -I flax_facts.py OUT.json`: what the locked Transformers and jax say, and what the runner's proofs tell apart."""

import json
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import transformers
from harness_flax.architectures import CTC
from harness_flax.compiling import CompileLog
from harness_flax.facts import draws_random_numbers
from harness_flax.repairs import REPAIRS
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from transformers import BertConfig, FlaxBertModel
from transformers.models.auto import modeling_flax_auto as auto


def log_of_two_equal_compilations() -> tuple[int, int]:
    """Compilations and cache hits, where nothing but the persistent cache remembers the first."""
    log = CompileLog()
    for _ in range(2):
        jax.jit(lambda x: x * 3 + 1).trace(jnp.ones(7)).lower().compile()
        jax.clear_caches()
    log.close()
    return log.count, log.cache_hits


def draws(train: bool) -> bool:
    config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32)
    model, tokens = FlaxBertModel(config), jnp.ones((1, 4), jnp.int32)
    key = jax.random.PRNGKey(0)
    return draws_random_numbers(jax.jit(lambda x: model(x, train=train, dropout_rng=key)[0]).trace(tokens))


def modules_that_name_arguments_of_clip() -> list[str]:
    files = (Path(transformers.__file__).parent / "models").glob("*/modeling_flax_*.py")
    return sorted(file.parent.name for file in files if "a_max=" in file.read_text())


facts = {
    "feature-extraction": sorted(auto.FLAX_MODEL_MAPPING_NAMES),
    "text-classification": sorted(auto.FLAX_MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES),
    "token-classification": sorted(auto.FLAX_MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES),
    "fill-mask": sorted(auto.FLAX_MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    "question-answering": sorted(auto.FLAX_MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES),
    "text-generation": sorted(auto.FLAX_MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    "text2text-generation": sorted(auto.FLAX_MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
    "image-classification": sorted(auto.FLAX_MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES),
    "automatic-speech-recognition": sorted([*auto.FLAX_MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES, *CTC]),
    "names_arguments_of_clip": modules_that_name_arguments_of_clip(),
    "clip_repaired_for": next(repair.model_types for repair in REPAIRS if repair.name == "clip"),
    "draws_random_numbers": {"evaluation": draws(train=False), "training": draws(train=True)},
}
jax.config.update("jax_enable_compilation_cache", False)
facts["hits_without_cache"] = log_of_two_equal_compilations()[1]
jax.config.update("jax_enable_compilation_cache", True)
jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
reset_cache()  # JAX asks only once whether it may use one
facts["hits_with_cache"] = log_of_two_equal_compilations()[1]
Path(sys.argv[1]).write_text(json.dumps(facts))
