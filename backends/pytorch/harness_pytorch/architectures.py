"""What the locked Transformers can do with a model type (of config.json), as data, so that the host need not ask it.

A test in the stack compares these lists with what Transformers says: refreshing the lock shows whether they still hold.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENCODERS = _words("mt5 t5 t5gemma umt5")
"""Encoder-decoders whose encoder has a class of its own (`AutoModelForTextEncoding`)."""

WITHOUT_LINEAR = _words("clvp decision_transformer gpt2 imagegpt openai-gpt")
"""Models whose layers are of Transformers' kind Conv1D: linear ones, which torch.ao.quantization does not know as such."""

WITHOUT_SDPA = _words(
    """
    align autoformer bark big_bird bigbird_pegasus bit blip bloom bridgetower bros canine clap clvp convbert
    convnext convnextv2 cpmant cvt dab-detr dac deberta deberta-v2 deepseek_v4 dinat dinov3_convnext
    donut-swin efficientnet encodec falcon_mamba fastspeech2_conformer fastspeech2_conformer_with_hifigan
    flaubert flava flint fnet focalnet fsmt funnel gemma2 gemma4_audio git glpn got_ocr2 gpt_neo
    gpt_neox_japanese gpt_oss granite_swa granitemoe_swa grounding-dino groupvit hgnet_v2 hiera hy_v4 hy_v4_vl
    hy_v4_vl_text ibert imagegpt informer inkling2 inkling2_loop inkling2_loop_text inkling2_text layoutlmv2
    led levit lilt longformer longt5 luke lxmert mamba mamba2 markuplm mask2former maskformer maskformer-swin
    megatron-bert mgp-str mimo_v2_flash mm-grounding-dino mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2
    mpnet mpt mra mvp nllb-moe nystromformer omdet-turbo oneformer openai-gpt openai_privacy_filter
    patchtsmixer pegasus_x perceiver poolformer pp_ocrv6_medium_det pp_ocrv6_small_det prophetnet pvt pvt_v2
    reformer regnet rembert resnet roformer rwkv seggpt sew-d speech_to_text speecht5 splinter squeezebert
    swiftformer swin2sr swinv2 switch_transformers t5gemma table-transformer tapas textnet
    time_series_transformer timesformer trocr tvp univnet uvdoc vaultgemma vibevoice_acoustic_tokenizer
    vibevoice_acoustic_tokenizer_decoder vibevoice_acoustic_tokenizer_encoder videoprism
    videoprism_vision_model vilt visual_bert vitdet vits wavlm wavtokenizer wavtokenizer_encoder xcodec xglm
    xlm xlnet xlstm yoso
    """
)
"""Models of which no class, or not every class, computes attention by scaled_dot_product_attention."""
