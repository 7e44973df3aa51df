"""Model types (of config.json) that the locked versions of optimum can handle, as data, so that the host need not ask them.

A test in the stack compares these lists with optimum's own: refreshing the lock shows whether they still hold.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EXPORTABLE = {
    "feature-extraction": _words(
        """
        albert arcee audio-spectrogram-transformer bart beit bert big_bird bigbird_pegasus
        blenderbot blenderbot-small bloom camembert chinese_clip clip clip_vision_model codegen
        cohere colpali convbert convnext convnextv2 cvt data2vec-audio data2vec-text data2vec-vision
        deberta deberta-v2 decision_transformer deepseek_v3 deit detr dinov2 distilbert donut-swin
        dpt efficientnet electra esm falcon flaubert gemma gemma2 gemma3 gemma3_text glm glpn gpt2
        gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite groupvit helium hiera hubert ibert
        imagegpt layoutlm layoutlmv3 levit lilt llama longformer longt5 m2m_100 marian markuplm
        maskformer mbart mctct megatron-bert metaclip_2 mgp-str mistral mobilebert mobilenet_v1
        mobilenet_v2 mobilevit modernbert moonshine mpnet mpt mt5 nemotron nystromformer olmo olmo2
        opt owlv2 owlvit patchtsmixer patchtst pegasus phi phi3 poolformer pvt qwen2 qwen3 qwen3_moe
        regnet rembert resnet roberta roformer sam segformer sew sew-d siglip siglip-text
        siglip-text-with-projection siglip_vision_model smollm3 speech_to_text splinter squeezebert
        stablelm swin swin2sr swinv2 t5 table-transformer trocr unispeech unispeech-sat visual_bert
        vit vit_mae vit_msn wav2vec2 wav2vec2-conformer wavlm whisper xlm xlm-roberta yolos
        """
    ),
    "text-classification": _words(
        """
        albert bart bert big_bird bigbird_pegasus bloom camembert convbert data2vec-text deberta
        deberta-v2 distilbert electra esm flaubert gemma gemma2 gemma3 gpt2 gpt_bigcode gpt_neo
        gpt_neox gptj ibert layoutlm layoutlmv3 lilt llama longformer markuplm mbart megatron-bert
        mistral mobilebert modernbert mpnet mpt nystromformer opt perceiver phi phi3 qwen2 qwen3
        qwen3_moe rembert roberta roformer smollm3 squeezebert xlm xlm-roberta
        """
    ),
    "token-classification": _words(
        """
        albert bert big_bird bloom camembert convbert data2vec-text deberta deberta-v2 distilbert
        electra esm falcon flaubert gpt2 gpt_bigcode ibert layoutlm layoutlmv3 lilt longformer
        markuplm megatron-bert mobilebert modernbert mpnet mpt nystromformer qwen2 qwen3_moe rembert
        roberta roformer squeezebert xlm xlm-roberta
        """
    ),
    "fill-mask": _words(
        """
        albert bert big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra
        esm flaubert ibert layoutlm longformer megatron-bert mobilebert modernbert mpnet
        nystromformer perceiver rembert roberta roformer squeezebert xlm xlm-roberta
        """
    ),
    "question-answering": _words(
        """
        albert bart bert big_bird bigbird_pegasus camembert convbert data2vec-text deberta
        deberta-v2 distilbert electra falcon flaubert gptj ibert layoutlmv3 lilt longformer markuplm
        mbart megatron-bert mobilebert mpnet nystromformer opt rembert roberta roformer splinter
        squeezebert xlm xlm-roberta
        """
    ),
    "text-generation": _words(
        """
        arcee bart bigbird_pegasus blenderbot blenderbot-small bloom codegen cohere deepseek_v3
        falcon gemma gemma2 gemma3 gemma3_text glm gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj
        granite helium internlm2 llama marian mbart mistral mpt nemotron olmo olmo2 opt pegasus phi
        phi3 qwen2 qwen3 qwen3_moe smollm3 stablelm
        """
    ),
    "text2text-generation": _words(
        """
        bart bigbird_pegasus blenderbot blenderbot-small encoder-decoder longt5 m2m_100 marian mbart
        mt5 pegasus t5
        """
    ),
    "image-classification": _words(
        """
        beit clip convnext convnextv2 cvt data2vec-vision deit dinov2 efficientnet hiera imagegpt
        levit metaclip_2 mobilenet_v1 mobilenet_v2 mobilevit perceiver poolformer pvt regnet resnet
        segformer swin swinv2 vit vit_msn
        """
    ),
    "automatic-speech-recognition": _words(
        """
        data2vec-audio hubert mctct moonshine sew sew-d speech_to_text unispeech unispeech-sat wav2vec2
        wav2vec2-conformer wavlm whisper
        """
    ),
}
"""By task: what optimum's ONNX exporter supports (`TasksManager.get_supported_model_type_for_task`). Tasks of generation it
supports of the same model types with a cache ("text-generation-with-past") as without."""

GENERATES_BY_HEAD_DIM = _words("gemma gemma3_text gpt_oss nemotron")
"""Whose config's `head_dim` optimum's ORTModelForCausalLM reads. Heads of all others it takes to be as wide as hidden_size /
num_attention_heads."""

OPTIMISABLE = _words(
    """
    albert bart bert big_bird bigbird_pegasus blenderbot bloom camembert clip codegen deberta deberta-v2
    dinov2 distilbert electra gpt2 gpt_bigcode gpt_neo gpt_neox gptj granite llama longt5 m2m_100 marian
    mbart mistral modernbert mpnet mt5 nystromformer pegasus pix2struct roberta segformer t5 vit whisper
    xlm-roberta
    """
)
"""What optimum's optimiser supports (`ORTConfigManager`)."""
