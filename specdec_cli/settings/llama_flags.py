"""The flags of llama.cpp that specdec does not have, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lack:
    """Flags of llama.cpp, current and former, that are missing here for one reason."""

    flags: str
    why: str
    fix: str = ""


_LACKS = (
    Lack(
        "--usage",
        "Help is asked for in another way.",
        "specdec run --help",
    ),
    Lack(
        "--log-verbose -lv --verbosity --log-verbosity",
        "There is one level of detail.",
        "Use -v.",
    ),
    Lack(
        "-hff --hf-file -mu --model-url -dr --docker-repo",
        "A file on the hub is given where the model goes.",
        "specdec run hf:OWNER/REPOSITORY/FILE.gguf",
    ),
    Lack(
        "-hft --hf-token",
        "The token is read from the environment.",
        "Set HF_TOKEN.",
    ),
    Lack(
        "--spec-type --spec-default --mtp --dflash --eagle3 -lcs --lookup-cache-static -lcd --lookup-cache-dynamic",
        "The drafter is named with --draft.",
        "Use --draft ngram, or --draft DRAFT.gguf.",
    ),
    Lack(
        "--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match --spec-ngram-simple-size-n "
        "--spec-ngram-simple-size-m --spec-ngram-simple-min-hits --spec-ngram-map-k-size-n "
        "--spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n "
        "--spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits --spec-ngram-size-n --spec-ngram-size-m "
        "--spec-ngram-min-hits",
        "The n-gram drafter finds its lengths by itself.",
        "Use --draft ngram, with --draft-max N as its limit.",
    ),
    Lack(
        "--spec-draft-p-split --draft-p-split -ps --p-split",
        "Drafts are chains here, not trees.",
        "Leave it out; --draft-p-min P stops a draft early.",
    ),
    Lack(
        "--spec-synth-len --spec-synth-rates",
        "Acceptance is measured here, never made up.",
        "Leave it out.",
    ),
    Lack(
        "--spec-draft-backend-sampling --no-spec-draft-backend-sampling -bs --backend-sampling",
        "Sampling runs on the CPU, where it can be checked.",
        "Leave it out.",
    ),
    Lack(
        "-cd --ctx-size-draft",
        "The draft's context is as long as the target's.",
        "Use -c N for both.",
    ),
    Lack(
        "-lm --load-mode -dio --direct-io -ndio --no-direct-io -lzm --lazy-mode",
        "Files are mapped, read or locked with switches.",
        "Use --mmap, --no-mmap or --mlock.",
    ),
    Lack(
        "--swa-full",
        "A sliding window is always kept at full size, so that drafts can be taken back.",
        "Leave it out.",
    ),
    Lack(
        "--mirostat --mirostat-lr --mirostat-ent --xtc-probability --xtc-threshold --typical --typical-p "
        "--top-nsigma --top-n-sigma --dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n "
        "--dry-sequence-breaker --adaptive-target --adaptive-decay --dynatemp-range --dynatemp-exp --tfs "
        "--penalize-nl --no-penalize-nl --cfg-negative-prompt --cfg-negative-prompt-file --cfg-scale",
        "Its samplers are penalties, top-k, top-p, min-p and temperature.",
        "Leave it out, or use --min-p P.",
    ),
    Lack(
        "--samplers --sampler-seq --sampling-seq",
        "The order is fixed: penalties, top-k, top-p, min-p, temperature.",
        "Switch one off instead: --top-k 0, --top-p 1, --min-p 0.",
    ),
    Lack(
        "-e --escape --no-escape",
        "A prompt is taken as it is, backslashes too.",
        "Put the prompt into a file and use -f FILE.",
    ),
    Lack(
        "-sysf --system-prompt-file",
        "The system message is given as text.",
        'Use -sys "$(cat FILE)".',
    ),
    Lack(
        "-bf --binary-file --in-file --stdin --in-prefix-bos --in-prefix --in-suffix --context-file --chunk-size "
        "--chunk-separator",
        "There is one prompt, from one place.",
        "Use -p TEXT, -f FILE, or standard input.",
    ),
    Lack(
        "--verbose-prompt --display-prompt --no-display-prompt -ptc --print-token-count -sp --special --simple-io "
        "-co --color --show-timings --no-show-timings --perf --no-perf --output-file --output-format "
        "-ofreq --output-frequency",
        "Standard output is the text alone, and the figures go to standard error.",
        "Leave it out; --json, --show-draft and -q change what is shown.",
    ),
    Lack(
        "-cnv --conversation -no-cnv --no-conversation -st --single-turn -i --interactive -if --interactive-first "
        "-ins --instruct -mli --multiline-input",
        "Run answers one prompt.",
        "Leave it out.",
    ),
    Lack(
        "--chat-template --chat-template-file --chat-template-kwargs --jinja --no-jinja --skip-chat-parsing "
        "--no-skip-chat-parsing --prefill-assistant --no-prefill-assistant",
        "The model's own chat template is used.",
        "Leave it out, or use --raw for none.",
    ),
    Lack(
        "--reasoning-format -rea --reasoning --reasoning-effort --reasoning-budget --reasoning-budget-message "
        "--reasoning-preserve --no-reasoning-preserve",
        "The text is shown as the model writes it.",
        "Leave it out.",
    ),
    Lack(
        "--prompt-cache --prompt-cache-all --prompt-cache-ro --keep --context-shift --no-context-shift --warmup "
        "--no-warmup --cache-prompt --no-cache-prompt --cache-reuse -ctxcp --ctx-checkpoints --swa-checkpoints "
        "-cms --checkpoint-min-step -cram --cache-ram -kvu --kv-unified -no-kvu --no-kv-unified "
        "--kv-unified-per-slot --cache-idle-slots --no-cache-idle-slots -np --parallel -ns --sequences -cb "
        "--cont-batching -nocb --no-cont-batching -dt --defrag-thold -gan --grp-attn-n -gaw --grp-attn-w "
        "--dump-kv-cache -dkvc",
        "The cache holds one conversation and is never shifted.",
        "Leave it out.",
    ),
    Lack(
        "-C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb --cpu-mask-batch -Crb --cpu-range-batch "
        "--cpu-strict-batch --prio-batch --poll-batch --spec-draft-cpu-mask -Cd --cpu-mask-draft "
        "--spec-draft-cpu-range -Crd --cpu-range-draft --spec-draft-cpu-strict --cpu-strict-draft "
        "--spec-draft-prio --prio-draft --spec-draft-poll --poll-draft --spec-draft-cpu-mask-batch -Cbd "
        "--cpu-mask-batch-draft --spec-draft-cpu-range-batch -Crbd --cpu-range-batch-draft "
        "--spec-draft-cpu-strict-batch --cpu-strict-batch-draft --spec-draft-prio-batch --prio-batch-draft "
        "--spec-draft-poll-batch --poll-batch-draft --numa",
        "Llama-cpp-python does not pass on where threads run.",
        "Use taskset or numactl, and -t N.",
    ),
    Lack(
        "-kvo --kv-offload -nkvo --no-kv-offload --repack -nr --no-repack --no-host --op-offload --no-op-offload "
        "-ncffn --n-cpu-ffn --check-tensors --rpc -fit --fit -fitp --fit-print -fitt --fit-target -fitc --fit-ctx "
        "--list-devices",
        "Placement goes by layers, tensors and devices.",
        "Use -ngl N, -ot PATTERN=BUFFER or -dev DEVICE.",
    ),
    Lack(
        "--control-vector --control-vector-scaled --control-vector-layer-range --lora-init-without-apply --lora-base",
        "Of all adapters only LoRA is applied.",
        "Use --lora FILE or --lora-scaled FILE:SCALE.",
    ),
    Lack(
        "-mm --mmproj -mmu --mmproj-url --mmproj-auto --no-mmproj --no-mmproj-auto --mmproj-offload "
        "--no-mmproj-offload -mmdev --mmproj-device --image --audio --video --image-min-tokens --image-max-tokens "
        "--mtmd-batch-max-tokens --video-fps --video-timestamp-interval --video-ffmpeg-dir --media-path --tts-lang "
        "--tts-speaker-file --vision-gemma-4b-default --vision-gemma-12b-default",
        "It takes text alone.",
        "Leave it out.",
    ),
    Lack(
        "--log-disable --log-file --log-jsonl --no-log-jsonl --log-prompts-dir --log-colors --log-prefix "
        "--no-log-prefix --log-timestamps --no-log-timestamps",
        "There is no log; what is to be said goes to standard error.",
        "Use -v, and 2> FILE to keep it.",
    ),
    Lack(
        "--host --port --reuse-port --path --cors-origins --cors-methods --cors-headers --cors-credentials "
        "--no-cors-credentials --api-prefix --ui-config --webui-config --ui-config-file --webui-config-file "
        "--ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy --tools --tools-runtime "
        "--mcp-servers-config --mcp-servers-json -ag --agent -no-ag --no-agent --ui --webui --no-ui --no-webui "
        "--api-key-file --ssl-key-file --ssl-cert-file -to --timeout --sse-ping-interval --threads-http "
        "--metrics --props --slots --no-slots --slot-save-path --models-dir --models-preset --models-max "
        "--models-autoload --no-models-autoload -sps --slot-prompt-similarity --sleep-idle-seconds -a --alias "
        "--tags --server-base -cl --cache-list",
        "It belongs to a server, and this is a command.",
        "Leave it out.",
    ),
    Lack(
        "--embedding --embeddings --rerank --reranking --pooling --attention --embd-normalize --embd-output-format "
        "--embd-separator --cls-separator --embd-gemma-default --parse-special --no-parse-special --ids --no-bos "
        "--show-count --spm-infill --check --save-logits --logits-output-dir --tensor-filter --completion-bash",
        "It belongs to another tool of llama.cpp, and this one generates text.",
        "Leave it out.",
    ),
    Lack(
        "--hellaswag --hellaswag-tasks --winogrande --winogrande-tasks --multiple-choice --multiple-choice-tasks "
        "--kl-divergence --save-all-logits --kl-divergence-base --ppl-stride --ppl-output-type --ppl --no-ppl "
        "--chunks --chunk --from-chunk --show-statistics --process-output --save-frequency --junk --pos -pps -tgs "
        "-npp -ntg -npl --positive-file --negative-file --pca-batch --pca-iter --method -lr --learning-rate "
        "-lr-min --learning-rate-min -decay-epochs --learning-rate-decay-epochs -wd --weight-decay -val-split "
        "--val-split -epochs --epochs -opt --optimizer --diffusion-steps --diffusion-visual --diffusion-eps "
        "--diffusion-algorithm --diffusion-alg-temp --diffusion-block-length --diffusion-cfg-scale "
        "--diffusion-add-gumbel-noise",
        "It belongs to a tool of llama.cpp that measures, trains or converts.",
        "Leave it out.",
    ),
    Lack(
        "--fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec "
        "--fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default --gpt-oss-120b-default",
        "Models are named, not preset.",
        "Use -m MODEL and --draft DRAFT.",
    ),
)

LACKS: Mapping[str, Lack] = {flag: lack for lack in _LACKS for flag in lack.flags.split()}
