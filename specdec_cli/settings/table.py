"""The one table of all settings: names, flags, defaults, ranges, and which field of the options each one fills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from specdec_cli.llama.options import CacheType, FlashAttention, RopeScaling, SplitMode
from specdec_cli.settings import kinds
from specdec_cli.settings.kinds import (
    Choice,
    FileName,
    Integer,
    Kind,
    Real,
    Reference,
    References,
    Repository,
    Several,
    Size,
    Span,
    Switch,
    Text,
)

_MAX_TOKENS = 2**24  # longer than any trained context


class Verify(StrEnum):
    """The rule that judges drafts."""

    MATCH = "match"
    REJECT = "reject"


class Policy(StrEnum):
    """What happens when a talk has filled the context."""

    FULL = "full"
    TRIM = "trim"


class Format(StrEnum):
    """How measurements are shown."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


class Plot(StrEnum):
    """What a plot of a report shows."""

    SPEEDUP = "speedup"
    ACCEPTANCE = "acceptance"
    COST = "cost"
    LATENCY = "latency"
    TIME = "time"
    MEMORY = "memory"


@dataclass(frozen=True)
class Setting:
    """One setting.

    Its name gives the name in the environment (SPECDEC_<NAME>) and the key in a profile (hyphens for underscores).
    """

    name: str
    kind: Kind
    flags: str  # as --help shows them, short then long; after a bar the other spellings, most of them llama.cpp's
    help: str
    default: object = None
    unset: str = ""  # what a default that is None, zero or empty amounts to
    fills: str = ""  # a field of model., context. or sampling. options
    draft: bool = False  # fills it for the draft; a default of None: as for the target
    metadata: str = ""  # the key of a GGUF that sets it, after "general.sampling."
    environment: bool = True
    profile: bool = True
    only: tuple[str, ...] = ()  # the commands that take it, where it is none of a run
    elsewhere: tuple[tuple[str, object], ...] = ()  # commands with a default of their own, and that default

    @cached_property
    def shown_flags(self) -> tuple[str, ...]:
        return tuple(self.flags.partition("|")[0].split())

    @cached_property
    def positive(self) -> tuple[str, ...]:
        """Every spelling that sets it, or switches it on."""
        return tuple(self.flags.replace("|", " ").split())

    @cached_property
    def negative(self) -> tuple[str, ...]:
        """Every spelling that switches it off."""
        if self.takes_value:
            return ()
        return tuple(f"--no-{flag[2:]}" for flag in self.positive if flag.startswith("--"))

    @property
    def flag(self) -> str:
        """The spelling that messages use."""
        return next(flag for flag in self.positive if flag.startswith("--"))

    @property
    def takes_value(self) -> bool:
        return not isinstance(self.kind, Switch)

    @property
    def repeats(self) -> bool:
        return isinstance(self.kind, Several) and self.kind.repeatable

    @property
    def variable(self) -> str:
        return f"SPECDEC_{self.name.upper()}"

    @property
    def key(self) -> str:
        return self.name.replace("_", "-")

    def default_of(self, command: str) -> object:
        """The default of a command."""
        return dict(self.elsewhere).get(command, self.default)

    def shown(self, value: object) -> str:
        """A value as a person would write it; empty where nothing is set."""
        if isinstance(self.kind, Integer):
            return next((word for word, number in self.kind.words if number == value), kinds.shown(value))
        if isinstance(self.kind, Several) and self.kind.word is not None and isinstance(value, tuple):
            return ",".join(map(self.kind.word, value))
        return kinds.shown(value)


_TENSORS = Several("PATTERN=BUFFER,...", "patterns of tensor names with a buffer type each", kinds.tensor_override, ",")
_DEVICES = Several("DEV,...", "names of devices, or none", kinds.nonempty, ",", repeatable=False)
_LORA = Several("FILE,...", "names of LoRA adapter files", kinds.lora, ",", word=kinds.adapter)
_SCALED = Several("FILE:SCALE,...", "names of LoRA adapter files with a scale each", kinds.scaled_lora, ",")
_KEYS = Several("KEY=TYPE:VALUE,...", "metadata keys with a type and a value each", kinds.key_override, ",")
_STOP = Several("TEXT", "a text that is not empty", kinds.nonempty)
_BIAS = Several(
    "ID(+/-)BIAS", "a token id with a bias: 15043+1, 15043-0.5 or 15043-inf", kinds.logit_bias, ",", word=kinds.biased
)
_SHARES = Several("N,...", "the share of each GPU, such as 3,1", kinds.proportion, ",/", repeatable=False)
_FOLDERS = Several("FOLDER", "the name of a folder", kinds.folder)
_FILES = Several("FILE", "the name of a file", kinds.file)
_LEVELS = Several("N,...", "integers from 1 to 256", Integer(1, 256).parse, ",", repeatable=False)
_NAMES = Several("NAME,...", "names of tasks, or of kinds of task", kinds.nonempty, ",")
_DRAFTERS = ("demo", "ngram", "none", "auto")
_OTHERS = Several("REF,...", References(_DRAFTERS).expects, References(_DRAFTERS).parse)
_LAYERS = Integer(-2, 100_000, words=(("auto", -1), ("all", -2)))
_THREADS = Integer(0, 512, "0 = one for each physical core")
_BATCH = Integer(1, 2**20)
_LENGTH = Integer(0, 512)
_PENALTY = Real(-100, 100, "0 = off")
_CACHE = Choice(CacheType, "TYPE")
_CACHES = ", ".join(CacheType)
_YARN = Real(-1, 1e6, "-1 = from the model")

# fmt: off
PANELS: Mapping[str, tuple[Setting, ...]] = {
    "Models": (
        Setting("model", Reference(("demo",)), "-m --model", "the target: a GGUF file, a hub reference, or demo"),
        Setting("draft", References(_DRAFTERS), "-md --draft --model-draft | --spec-draft-model",
                "what drafts: a GGUF file, a hub reference, ngram, none, auto; or a model and ngram, with a comma", ("auto",)),
        Setting("hf_repo", Repository(), "-hf --hf-repo | -hfr", "the target, from the hub", profile=False),
        Setting("hf_repo_draft", Repository(), "-hfd --hf-repo-draft | -hfrd --spec-draft-hf", "the draft, from the hub",
                profile=False),
        Setting("folders", _FOLDERS, "--in", "folders to look for models in, beside the hub's cache; repeatable", (),
                only=("suggest", "models"), profile=False),
        Setting("lora", _LORA, "--lora", "LoRA adapters for the target", (), fills="model.lora"),
        Setting("lora_scaled", _SCALED, "--lora-scaled", "LoRA adapters with a scale each", (), fills="model.lora"),
        Setting("override_kv", _KEYS, "--override-kv", "replace metadata of a model", (), fills="model.override_kv"),
        Setting("offline", Switch(), "--offline", "use only models that are on this machine", False),
        Setting("profile", Text("NAME"), "--profile",
                "settings from a profile, shipped or your own; of tune: the one it writes", profile=False),
    ),
    "Prompt and end": (
        Setting("prompt", Text(empty=True), "-p --prompt", "the prompt; also the second argument",
                environment=False, profile=False),
        Setting("file", FileName(), "-f --file", "a file with the prompt, - is standard input; chat: a document",
                environment=False, profile=False),
        Setting("system_prompt", Text(empty=True), "-sys --system-prompt", "the system message of the chat template"),
        Setting("raw", Switch(), "--raw", "the prompt as it is, without the model's chat template", False),
        Setting("predict", Integer(-1, _MAX_TOKENS, "-1 = until the end"), "-n --predict | --n-predict",
                "tokens to generate; -1 = until the end", -1, elsewhere=(("bench", 128), ("tune", 128))),
        Setting("ignore_eos", Switch(), "--ignore-eos", "never end with an end-of-generation token", False),
        Setting("stop", _STOP, "-r --stop | --reverse-prompt", "end before this text; repeatable", ()),
    ),
    "Measuring": (
        Setting("tasks", _NAMES, "--tasks", "which of the shipped tasks: their names or kinds, such as code,prose", (),
                "bench: all; tune: one of each kind", only=("bench", "tune")),
        Setting("prompts", _FILES, "--prompts",
                "your own prompts in their place: text files with one each, .jsonl with one a line; repeatable", (),
                only=("bench", "tune"), environment=False, profile=False),
        Setting("against", _OTHERS, "--against", "another drafter to measure beside --draft; repeatable", (),
                only=("bench", "tune"), environment=False, profile=False),
        Setting("seconds", Real(0, 86_400, above_low=True, metavar="SECONDS"), "--seconds",
                "time that the checks may take, once the models are loaded", 60.0, only=("verify",)),
        Setting("thorough", Switch(), "--thorough", "ten times as much time", False, only=("verify",)),
        Setting("budget", Real(0, 86_400, above_low=True, metavar="SECONDS"), "--budget",
                "time that tuning may take, once the models are loaded", 120.0, only=("tune",)),
        Setting("overwrite", Switch(), "--overwrite", "write although there is a profile, or a file, of that name", False,
                only=("tune", "report"), environment=False, profile=False),
        Setting("repeats", Integer(1, 1000), "--repeats", "runs of each task with each drafter", 3, only=("bench",)),
        Setting("require_speedup", Real(0, 1000, above_low=True), "--require-speedup",
                "end with 1 where --draft is not so many times as fast as plain decoding", only=("bench",)),
        Setting("max_memory", Size(), "--max-memory", "end with 1 where --draft needs more memory", only=("bench",)),
        Setting("require_equal", Switch(), "--require-equal",
                "end with 1 where a text differs otherwise than by rounding; with --exact where it differs", False,
                only=("bench",)),
        Setting("output", FileName(), "-o --output",
                "the file to write: of bench the results, after each run; of report .html, .png or .svg",
                only=("bench", "report"), environment=False, profile=False),
        Setting("plot", Choice(Plot), "--plot", "which plot a .png or .svg has", unset="the first that the file has",
                only=("report",), environment=False, profile=False),
        Setting("resume", Switch(), "--resume", "go on with the file of -o: measure only what it lacks", False,
                only=("bench",), environment=False, profile=False),
        Setting("label", Text("NAME"), "--label", "what the results are called", unset="the target's name",
                only=("bench",), environment=False, profile=False),
        Setting("format", Choice(Format), "--format", "how the results are shown", unset="table",
                only=("bench", "bench compare"), profile=False),
        Setting("server", Text("URL"), "--server",
                "measure a running llama-server, or any OpenAI-compatible server, with the same tasks", only=("bench",),
                environment=False, profile=False),
        Setting("served_model", Text("NAME"), "--served-model", "with --server: which of its models", only=("bench",),
                environment=False, profile=False),
        Setting("api_key", Text("KEY"), "--api-key", "with --server: its key; never shown", unset="OPENAI_API_KEY",
                only=("bench",), environment=False, profile=False),
        Setting("concurrency", _LEVELS, "--concurrency", "with --server: requests at a time, one load after the other", (),
                "1", only=("bench",), environment=False, profile=False),
    ),
    "Conversation": (
        Setting("session", Text("NAME"), "--session",
                "keep the talk under this name after every turn, and go on with it where it is kept already",
                only=("chat",), environment=False, profile=False),
        Setting("list_sessions", Switch(), "--list-sessions", "which sessions are kept, instead of a talk", False,
                only=("chat",), environment=False, profile=False),
        Setting("context", Choice(Policy), "--context",
                "a full context ends the talk, or drops its oldest turns (trim)", Policy.FULL, only=("chat",)),
        Setting("hide_thinking", Switch(), "--hide-thinking", "do not show what a reasoning model thinks", False,
                only=("chat",)),
        Setting("markdown", Switch(), "--markdown", "on a terminal, render the answers' markdown", False, only=("chat",)),
        Setting("single", Switch(), "--single", "what comes through a pipe is one turn, not one a line", False,
                only=("chat",), environment=False, profile=False),
        Setting("vi", Switch(), "--vi", "edit the line with the keys of vi", False, only=("chat",)),
        Setting("history", FileName(), "--history", "the file that keeps what was typed", unset="in the user's data folder",
                only=("chat",)),
    ),
    "Speculation": (
        Setting("draft_max", Integer(0, 512, "0 = plain decoding"), "--draft-max | --draft-n --spec-draft-n-max",
                "longest draft, in tokens; each is as long as pays; 0 = plain decoding", 16),
        Setting("draft_fixed", Integer(0, 512, "0 = plain decoding"), "--draft-fixed",
                "draft so many tokens in every round, pay or not", unset="off"),
        Setting("draft_min", _LENGTH, "--draft-min | --draft-n-min --spec-draft-n-min",
                "do not stop drafting before so many tokens", 0),
        Setting("draft_p_min", Real(0, 1), "--draft-p-min | --spec-draft-p-min",
                "stop drafting where the drafter's best token is less probable", 0.0),
        Setting("ngram_corpus", FileName(), "--ngram-corpus",
                "with --draft ngram: a text file to copy from, beside prompt and output"),
        Setting("shadow", Switch(), "--shadow", "decode plainly, and count what drafting would have brought", False),
        Setting("verify", Choice(Verify), "--verify", "the rule that judges drafts; --exact implies match",
                Verify.REJECT),
        Setting("exact", Switch(), "--exact", "byte for byte the text of plain decoding", False),
        Setting("draft_optional", Switch(), "--draft-optional", "go on without a draft that cannot be used", False),
        Setting("force", Switch(), "--force", "draft although the vocabularies do not fit; compare although the work differs",
                False, environment=False, profile=False),
    ),
    "Sampling": (
        Setting("temp", Real(0, 100, "0 = greedy"), "--temp | --temperature", "temperature; 0 = greedy", 0.8,
                fills="sampling.temperature", metadata="temp", elsewhere=(("bench", 0.0), ("tune", 0.0))),
        Setting("top_k", Integer(-1, 10_000_000, "0 = off"), "--top-k", "keep the k likeliest tokens; 0 = off", 40,
                fills="sampling.top_k", metadata="top_k"),
        Setting("top_p", Real(0, 1, "1 = off"), "--top-p", "keep the likeliest tokens up to this sum; 1 = off", 0.95,
                fills="sampling.top_p", metadata="top_p"),
        Setting("min_p", Real(0, 1, "0 = off"), "--min-p", "drop tokens below this share of the likeliest; 0 = off",
                0.05, fills="sampling.min_p", metadata="min_p"),
        Setting("repeat_penalty", Real(0, 100, "1 = off", above_low=True), "--repeat-penalty",
                "penalty on recent tokens; 1 = off", 1.0, fills="sampling.repeat_penalty", metadata="penalty_repeat"),
        Setting("repeat_last_n", Integer(-1, _MAX_TOKENS, "0 = off, -1 = all"), "--repeat-last-n",
                "how many tokens are recent; 0 = off, -1 = all", 64,
                fills="sampling.repeat_last_n", metadata="penalty_last_n"),
        Setting("presence_penalty", _PENALTY, "--presence-penalty", "penalty on recent tokens, once each", 0.0,
                fills="sampling.presence_penalty"),
        Setting("frequency_penalty", _PENALTY, "--frequency-penalty", "penalty on recent tokens, once a use", 0.0,
                fills="sampling.frequency_penalty"),
        Setting("logit_bias", _BIAS, "-l --logit-bias", "raise or lower a token, -inf forbids it; repeatable", (),
                fills="sampling.logit_bias"),
        Setting("seed", Integer(-1, 2**32 - 1, "-1 = random"), "-s --seed", "seed; -1 = random, and reported", -1,
                fills="sampling.seed", elsewhere=(("bench", 0), ("tune", 0))),
        Setting("grammar", Text("GBNF"), "--grammar", "only text that this grammar allows"),
        Setting("grammar_file", FileName(), "--grammar-file", "a file with the grammar"),
        Setting("json_schema", Text("SCHEMA"), "-j --json-schema", "only JSON that fits this schema"),
        Setting("json_schema_file", FileName(), "-jf --json-schema-file", "a file with the schema"),
    ),
    "Display": (
        Setting("tokens", Text("PATTERN"), "--tokens", "list the tokens whose text matches a regular expression",
                only=("inspect",), environment=False, profile=False),
        Setting("trace", FileName(), "--trace", "write a line of JSON for each round to a file; it holds the text",
                only=("run", "chat", "bench"), environment=False, profile=False),
        Setting("rounds", Span(), "--rounds", "which rounds to show, the first being 0", unset="0:40", only=("trace",),
                environment=False, profile=False),
        Setting("worst", Switch(), "--worst", "where drafts fail, by kind of token, and the dearest refusals", False,
                only=("trace",), environment=False, profile=False),
        Setting("top", Integer(0, 10_000), "--top", "with --worst: how many of the dearest refusals", 10, only=("trace",),
                environment=False, profile=False),
        Setting("diff", Switch(), "--diff", "compare two traces: where their texts part, and their sums", False,
                only=("trace",), environment=False, profile=False),
        Setting("show_draft", Switch(), "--show-draft", "mark the tokens that came from the draft", False),
        Setting("json", Switch(), "--json", "nothing but JSON on standard output", False, profile=False),
        Setting("live", Switch(), "--live", "figures while it runs, on a terminal", True),
        Setting("quiet", Switch(), "-q --quiet", "the text, and nothing else but errors", False, profile=False),
        Setting("verbose", Switch(), "-v --verbose", "every setting with its source; tracebacks", False, profile=False),
    ),
    "Context": (
        Setting("ctx_size", Integer(8, _MAX_TOKENS, "0 = the trained length", also=(0,)), "-c --ctx-size",
                "size of the context, in tokens; 0 = the trained length", 4096, fills="context.n_ctx",
                elsewhere=(("bench", 4608),)),
        Setting("batch_size", _BATCH, "-b --batch-size", "tokens in a logical batch", 2048, fills="context.n_batch"),
        Setting("ubatch_size", _BATCH, "-ub --ubatch-size", "tokens in a physical batch", 512,
                fills="context.n_ubatch"),
        Setting("flash_attn", Choice(FlashAttention), "-fa --flash-attn", "flash attention", FlashAttention.AUTO,
                fills="context.flash_attn"),
        Setting("cache_type_k", _CACHE, "-ctk --cache-type-k", f"type of the K cache: {_CACHES}", CacheType.F16,
                fills="context.type_k"),
        Setting("cache_type_v", _CACHE, "-ctv --cache-type-v", "type of the V cache, as for K", CacheType.F16,
                fills="context.type_v"),
        Setting("rope_scaling", Choice(RopeScaling), "--rope-scaling", "RoPE: kind of scaling", unset="from the model",
                fills="context.rope_scaling"),
        Setting("rope_scale", Real(0, 1e6, above_low=True), "--rope-scale", "RoPE: expand the context by this factor",
                unset="from the model", fills="context.rope_scale"),
        Setting("rope_freq_base", Real(0, 1e12, "0 = from the model"), "--rope-freq-base", "RoPE: base frequency", 0.0,
                "from the model", fills="context.rope_freq_base"),
        Setting("rope_freq_scale", Real(0, 1e6, "0 = from the model"), "--rope-freq-scale", "RoPE: frequency scale",
                0.0, "from the model", fills="context.rope_freq_scale"),
        Setting("yarn_orig_ctx", Integer(0, _MAX_TOKENS, "0 = from the model"), "--yarn-orig-ctx",
                "YaRN: trained context", 0, "from the model", fills="context.yarn_orig_ctx"),
        Setting("yarn_ext_factor", _YARN, "--yarn-ext-factor", "YaRN: extrapolation mix", -1.0, "from the model",
                fills="context.yarn_ext_factor"),
        Setting("yarn_attn_factor", _YARN, "--yarn-attn-factor", "YaRN: attention magnitude", -1.0, "from the model",
                fills="context.yarn_attn_factor"),
        Setting("yarn_beta_slow", _YARN, "--yarn-beta-slow", "YaRN: high correction dimension", -1.0, "from the model",
                fills="context.yarn_beta_slow"),
        Setting("yarn_beta_fast", _YARN, "--yarn-beta-fast", "YaRN: low correction dimension", -1.0, "from the model",
                fills="context.yarn_beta_fast"),
    ),
    "Threads and devices": (
        Setting("threads", _THREADS, "-t --threads", "threads of passes of one token", 0, "one for each physical core",
                fills="context.n_threads"),
        Setting("threads_batch", _THREADS, "-tb --threads-batch", "threads of wider passes", 0, "as --threads",
                fills="context.n_threads_batch"),
        Setting("gpu_layers", _LAYERS, "-ngl --gpu-layers | --n-gpu-layers",
                "layers on the GPU: a number, auto or all", -1, "auto", fills="model.n_gpu_layers"),
        Setting("device", _DEVICES, "-dev --device", "devices to use, or none", (), "all", fills="model.devices"),
        Setting("split_mode", Choice(SplitMode), "-sm --split-mode", "how several GPUs share a model", SplitMode.LAYER,
                fills="model.split_mode"),
        Setting("tensor_split", _SHARES, "-ts --tensor-split", "share of each GPU", (), fills="model.tensor_split"),
        Setting("main_gpu", Integer(0, 127, metavar="INDEX"), "-mg --main-gpu", "the GPU that works alone, or leads", 0,
                fills="model.main_gpu"),
        Setting("override_tensor", _TENSORS, "-ot --override-tensor", "buffer types of some tensors", (),
                fills="model.override_tensor"),
        Setting("cpu_moe", Switch(), "-cmoe --cpu-moe", "keep the weights of all experts on the CPU", False,
                fills="model.override_tensor"),
        Setting("n_cpu_moe", Integer(0, 10_000), "-ncmoe --n-cpu-moe", "keep the experts of N layers on the CPU", 0,
                fills="model.override_tensor"),
        Setting("mmap", Switch(), "--mmap", "map the file instead of reading it", True, fills="model.mmap"),
        Setting("mlock", Switch(), "--mlock", "keep the model in memory", False, fills="model.mlock"),
    ),
    "The draft model, where it differs from the target": (
        Setting("threads_draft", _THREADS, "-td --threads-draft | --spec-draft-threads", "as --threads, for the draft",
                unset="as --threads", fills="context.n_threads", draft=True),
        Setting("threads_batch_draft", _THREADS, "-tbd --threads-batch-draft | --spec-draft-threads-batch",
                "as --threads-batch, for the draft", unset="as --threads-draft", fills="context.n_threads_batch",
                draft=True),
        Setting("gpu_layers_draft", _LAYERS, "-ngld --gpu-layers-draft | --n-gpu-layers-draft --spec-draft-ngl",
                "as --gpu-layers, for the draft", -1, "auto", fills="model.n_gpu_layers", draft=True),
        Setting("device_draft", _DEVICES, "-devd --device-draft | --spec-draft-device", "as --device, for the draft",
                unset="as --device", fills="model.devices", draft=True),
        Setting("override_tensor_draft", _TENSORS, "-otd --override-tensor-draft | --spec-draft-override-tensor",
                "as --override-tensor, for the draft", (), fills="model.override_tensor", draft=True),
        Setting("cpu_moe_draft", Switch(), "-cmoed --cpu-moe-draft | --spec-draft-cpu-moe",
                "as --cpu-moe, for the draft", False, fills="model.override_tensor", draft=True),
        Setting("n_cpu_moe_draft", Integer(0, 10_000),
                "-ncmoed --n-cpu-moe-draft | --spec-draft-n-cpu-moe --spec-draft-ncmoe",
                "as --n-cpu-moe, for the draft", 0, fills="model.override_tensor", draft=True),
        Setting("cache_type_k_draft", _CACHE, "-ctkd --cache-type-k-draft | --spec-draft-type-k",
                "as --cache-type-k, for the draft", CacheType.F16, fills="context.type_k", draft=True),
        Setting("cache_type_v_draft", _CACHE, "-ctvd --cache-type-v-draft | --spec-draft-type-v",
                "as --cache-type-v, for the draft", CacheType.F16, fills="context.type_v", draft=True),
    ),
}
# fmt: on

SETTINGS: Mapping[str, Setting] = {setting.name: setting for panel in PANELS.values() for setting in panel}

RUN: tuple[str, ...] = tuple(name for name, setting in SETTINGS.items() if not setting.only)  # what a run is made of

# Of each group at most one may be set by the same source; the one with the stronger source puts out the others.
EXCLUSIVE: tuple[tuple[str, ...], ...] = (
    ("model", "hf_repo"),
    ("draft", "hf_repo_draft"),
    ("draft_max", "draft_fixed"),
    ("shadow", "draft_fixed"),
    ("shadow", "exact"),
    ("prompt", "file"),
    ("grammar", "grammar_file", "json_schema", "json_schema_file"),
    ("rope_scale", "rope_freq_scale"),
    ("quiet", "verbose"),
    ("json", "show_draft"),
    ("json", "format"),
    ("tasks", "prompts"),
    ("seconds", "thorough"),
)


def spellings(settings: Mapping[str, Setting]) -> Iterator[tuple[str, Setting]]:
    """Every spelling of every flag, with its setting."""
    for setting in settings.values():
        for flag in (*setting.positive, *setting.negative):
            yield flag, setting
