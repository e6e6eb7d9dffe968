"""The option table: every setting is declared here once.

Flags, `MLXCTL_` variables, profile keys, defaults, ranges, help, the README table and the JSON Schema are all
derived from these structs. To add a setting, add one field.
"""

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

DEFAULT_MODEL = "mlx-community/Llama-3.2-3B-Instruct-4bit"  # what mlx_lm.generate takes
_SCHEMA_WORDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}


def opt(flag: str, help: str, *, short: str = "", metavar: str = "", upstream: bool = False,
        forbid: tuple[int, ...] = (), variable: bool = True, words: bool = False, **limits: float) -> Meta:  # fmt: skip
    """Describe one setting.

    flag: "--name", "--name/--no-name" for a switch with both ways, "" for a profile-only key.
    upstream: mlx_lm.generate has the flag. forbid: values refused inside the range. variable: MLXCTL_NAME is read.
    words: what it holds is said to the model, and is not kept anywhere unasked.
    limits: ge, gt, le; they stand in the JSON Schema, and `options.check` applies them.
    """
    row = {"flag": flag, "short": short, "metavar": metavar, "upstream": upstream, "forbid": forbid,
           "variable": variable, "words": words, "limits": limits}  # fmt: skip
    schema: dict[str, Any] = {_SCHEMA_WORDS[name]: value for name, value in limits.items()}
    schema |= {"not": {"enum": list(forbid)}} if forbid else {}
    return Meta(description=help, extra={"option": row}, extra_json_schema=schema)


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a profile."""


class Model(Section, frozen=True):
    path: Annotated[str | None, opt("--model", "Model: a local folder, a Hugging Face repository or builtin:NAME "
        f"(default: {DEFAULT_MODEL})", metavar="MODEL", upstream=True)] = None  # fmt: skip
    revision: Annotated[str | None, opt("--revision", "Branch, tag or commit of the repository")] = None
    adapter_path: Annotated[str | None, opt("--adapter-path", "Folder of a trained adapter", metavar="FOLDER",
        upstream=True)] = None  # fmt: skip
    trust_remote_code: Annotated[bool, opt("--trust-remote-code", "Let the model's folder run its own Python code",
        upstream=True, variable=False)] = False  # fmt: skip
    extra_eos_token: Annotated[list[str], opt("--extra-eos-token", "One more token that ends the answer; id:7 for "
        "an id", metavar="TOKEN", upstream=True)] = []  # fmt: skip
    quantize_activations: Annotated[bool, opt("--quantize-activations", "Quantize activations as the layer's "
        "weights are", short="-qa", upstream=True)] = False  # fmt: skip
    draft_model: Annotated[str | None, opt("--draft-model", "A smaller model with the same tokenizer, for "
        "speculative decoding", metavar="MODEL", upstream=True)] = None  # fmt: skip
    num_draft_tokens: Annotated[int, opt("--num-draft-tokens", "Tokens drafted at a time", upstream=True, ge=1)] = 3
    dtype: Annotated[Literal["auto", "native", "float32", "float16", "bfloat16"], opt("--dtype", "Compute in this "
        "type; auto: float32 for half-precision models on a CPU, else as stored")] = "auto"  # fmt: skip


class Prompt(Section, frozen=True):
    system: Annotated[str | None, opt("--system-prompt", "System prompt", metavar="TEXT", upstream=True,
        words=True)] = None  # fmt: skip
    system_file: Annotated[str | None, opt("--system-file", "System prompt from a file", metavar="PATH")] = None
    prefill_response: Annotated[str | None, opt("--prefill-response", "The answer begins with this text",
        metavar="TEXT", upstream=True, words=True)] = None  # fmt: skip
    template: Annotated[str | None, opt("--prompt-template", "Text with places for what is asked: {prompt}, {stdin}, "
        "{files}, {file:NAME}, and {NAME} for each --param", metavar="TEXT", words=True)] = None  # fmt: skip
    files: Annotated[list[str], opt("--file", "Text file that goes before the question", short="-f",
        metavar="PATH")] = []  # fmt: skip
    ignore_chat_template: Annotated[bool, opt("--ignore-chat-template", "Hand the model the bare text",
        upstream=True)] = False  # fmt: skip
    use_default_chat_template: Annotated[bool, opt("--use-default-chat-template", "Accepted as upstream does; it "
        "has no effect there either", upstream=True)] = False  # fmt: skip


class Sampler(Section, frozen=True):
    temp: Annotated[float, opt("--temp", "Temperature; 0 always takes the likeliest token", upstream=True,
        ge=0)] = 0.0  # fmt: skip
    top_p: Annotated[float, opt("--top-p", "Keep the likeliest tokens that hold this much probability; 1 keeps all",
        upstream=True, gt=0, le=1)] = 1.0  # fmt: skip
    min_p: Annotated[float, opt("--min-p", "Drop tokens less likely than this share of the likeliest", upstream=True,
        ge=0, le=1)] = 0.0  # fmt: skip
    min_tokens_to_keep: Annotated[int, opt("--min-tokens-to-keep", "Tokens that min-p always keeps", upstream=True,
        ge=1)] = 1  # fmt: skip
    top_k: Annotated[int, opt("--top-k", "Keep this many of the likeliest tokens; 0 keeps all", upstream=True,
        ge=0)] = 0  # fmt: skip
    xtc_probability: Annotated[float, opt("--xtc-probability", "How often XTC drops the likeliest tokens",
        upstream=True, ge=0, le=1)] = 0.0  # fmt: skip
    xtc_threshold: Annotated[float, opt("--xtc-threshold", "Probability above which XTC may drop a token",
        upstream=True, ge=0, le=0.5)] = 0.1  # fmt: skip
    seed: Annotated[int | None, opt("--seed", "Seed of the random numbers (default: a new one, reported)",
        upstream=True, ge=0, le=2**63 - 1)] = None  # fmt: skip


class Logits(Section, frozen=True):
    repetition_penalty: Annotated[float | None, opt("--repetition-penalty", "Divide the logits of recent tokens; "
        "1 does nothing", gt=0)] = None  # fmt: skip
    repetition_context_size: Annotated[int, opt("--repetition-context-size", "Tokens the repetition penalty looks "
        "back", ge=1, le=2**30)] = 20  # fmt: skip
    presence_penalty: Annotated[float | None, opt("--presence-penalty", "Take this off the logit of a recent "
        "token")] = None  # fmt: skip
    presence_context_size: Annotated[int, opt("--presence-context-size", "Tokens the presence penalty looks back",
        ge=1, le=2**30)] = 20  # fmt: skip
    frequency_penalty: Annotated[float | None, opt("--frequency-penalty", "Take this off for each recent use of a "
        "token")] = None  # fmt: skip
    frequency_context_size: Annotated[int, opt("--frequency-context-size", "Tokens the frequency penalty looks back",
        ge=1, le=2**30)] = 20  # fmt: skip
    logit_bias: Annotated[dict[str, float], opt("--logit-bias", "Add BIAS to the logit of a token (text of one "
        "token, or id:7)", metavar="TOKEN=BIAS",
        words=True)] = {}  # fmt: skip
    ban: Annotated[list[str], opt("--ban", "Never produce this token (text of one token, or id:7)",
        metavar="TOKEN", words=True)] = []  # fmt: skip


class Generation(Section, frozen=True):
    max_tokens: Annotated[int | None, opt("--max-tokens", "Most tokens to generate; -1: no limit (default: what is "
        "left of the model's context)", short="-m", upstream=True, forbid=(0,), ge=-1)] = None  # fmt: skip
    stop: Annotated[list[str], opt("--stop", "Text that ends the answer; it is not printed", metavar="TEXT",
        words=True)] = []  # fmt: skip
    json_schema: Annotated[str | None, opt("--json-schema", "Hold the answer to a JSON schema: a file, JSON, or fields "
        "as 'name, age int'", metavar="SCHEMA", words=True)] = None  # fmt: skip
    regex: Annotated[str | None, opt("--regex", "Hold the answer to a regular expression", metavar="REGEX",
        words=True)] = None  # fmt: skip
    grammar: Annotated[str | None, opt("--grammar", "Hold the answer to a grammar in a file (Lark or GBNF)",
        metavar="PATH")] = None  # fmt: skip
    prefill_step_size: Annotated[int, opt("--prefill-step-size", "Prompt tokens processed at a time", upstream=True,
        ge=1)] = 2048  # fmt: skip


class KV(Section, frozen=True):
    max_kv_size: Annotated[int | None, opt("--max-kv-size", "Most tokens the cache holds; older ones are dropped",
        upstream=True, ge=8)] = None  # fmt: skip
    kv_bits: Annotated[Literal[2, 3, 4, 5, 6, 8] | None, opt("--kv-bits", "Quantize the cache to this many bits",
        upstream=True)] = None  # fmt: skip
    kv_group_size: Annotated[Literal[32, 64, 128], opt("--kv-group-size", "Group size of the quantized cache",
        upstream=True)] = 64  # fmt: skip
    quantized_kv_start: Annotated[int, opt("--quantized-kv-start", "Tokens in the cache before it is quantized",
        upstream=True, ge=0)] = 5000  # fmt: skip


class Cache(Section, frozen=True):
    name: Annotated[str | None, opt("--cache", "Start from this prompt cache: a name, or the path of one",
        metavar="CACHE")] = None  # fmt: skip
    auto: Annotated[bool, opt("--auto-cache", "Keep prompts that were processed, and skip what the next one has in "
        "common with them")] = False  # fmt: skip
    max_bytes: Annotated[int, opt("--cache-max-bytes", "Most bytes that --auto-cache keeps on disk; the least recently "
        "used go first", metavar="SIZE", ge=0)] = 10_000_000_000  # fmt: skip


class Chat(Section, frozen=True):
    on_full: Annotated[Literal["stop", "rotate", "drop-oldest"], opt("--on-full", "When the context is full: stop; "
        "rotate (a cache of its size drops its oldest tokens); or show the model no more of the oldest "
        "turns")] = "stop"  # fmt: skip
    markdown: Annotated[bool, opt("--markdown", "Render the markdown of answers on a terminal")] = False


class Output(Section, frozen=True):
    format: Annotated[Literal["text", "json", "jsonl", "classic"], opt("--format", "How the answer is written; "
        "classic is the layout of mlx_lm.generate")] = "text"  # fmt: skip
    stats: Annotated[Literal["auto", "always", "never", "json"], opt("--stats/--no-stats", "Timing on stderr: always, "
        "never, json (default: when it is a terminal)")] = "auto"  # fmt: skip
    thinking: Annotated[Literal["show", "hide", "stderr", "field"], opt("--thinking", "Where the model's thinking goes "
        "in text output; field: into that of json alone")] = "show"  # fmt: skip
    log_text: Annotated[bool, opt("--log-text", "Keep the words of prompt and answer in the history, too")] = False


class Request(Section, frozen=True):
    """What belongs to one call and no profile may set."""

    prompt: Annotated[str | None, opt("--prompt", "The question ('-' reads stdin)", short="-p", metavar="TEXT",
        upstream=True, variable=False, words=True)] = None  # fmt: skip
    messages: Annotated[str | None, opt("--messages", "JSON file with an OpenAI-style message list", metavar="PATH",
        variable=False)] = None  # fmt: skip
    param: Annotated[dict[str, str], opt("--param", "Fill {NAME} of the prompt template with TEXT", metavar="NAME=TEXT",
        variable=False, words=True)] = {}  # fmt: skip
    recursive: Annotated[bool, opt("--recursive", "With -f take folders, and patterns such as 'src/**/*.py', too",
        variable=False)] = False  # fmt: skip
    truncate: Annotated[Literal["head", "middle", "tail"] | None, opt("--truncate", "Leave out the beginning, "
        "the middle or the end of documents (-f, stdin) that the context has no room for, rather than refuse them",
        variable=False)] = None  # fmt: skip
    image: Annotated[list[str], opt("--image", "Image for the next placeholder of the prompt", metavar="PATH",
        upstream=True, variable=False)] = []  # fmt: skip
    prompt_cache_file: Annotated[str | None, opt("--prompt-cache-file", "Start from a prompt cache, also one that "
        "mlx_lm.cache_prompt wrote", metavar="PATH", upstream=True, variable=False)] = None  # fmt: skip
    cache_update: Annotated[bool, opt("--cache-update", "Write the question and the answer back to the prompt cache",
        variable=False)] = False  # fmt: skip
    chat_template_config: Annotated[dict[str, Any], opt("--chat-template-config", "Arguments for the chat template, "
        "as a JSON object", metavar="JSON", upstream=True, variable=False, words=True)] = {}  # fmt: skip
    think: Annotated[bool | None, opt("--think/--no-think", "Ask the template for thinking, or for none",
        variable=False)] = None  # fmt: skip
    escapes: Annotated[bool, opt("--escapes", r"Read \n and \t in the question as newline and tab",
        variable=False)] = False  # fmt: skip
    allow_special: Annotated[bool, opt("--allow-special", "Let text such as <|im_end|> become the special token",
        variable=False)] = False  # fmt: skip
    verbose: Annotated[bool | None, opt("--verbose", "True: the layout of mlx_lm.generate; False: the answer alone",
        metavar="BOOL", upstream=True, variable=False)] = None  # fmt: skip
    dry_run: Annotated[bool, opt("--dry-run", "Show the settings and the rendered prompt; load no weights",
        variable=False)] = False  # fmt: skip
    offline: Annotated[bool, opt("--offline", "Never use the network")] = False
    batch: Annotated[str | None, opt("--batch", "Answer every line of this file ('-': stdin): a prompt, or a JSON "
        "object with prompt or messages, id and settings", metavar="PATH", variable=False)] = None  # fmt: skip
    batch_size: Annotated[int, opt("--batch-size", "Lines of a batch that are answered at once", variable=False, ge=1,
        le=1024)] = 8  # fmt: skip
    as_completed: Annotated[bool, opt("--as-completed", "Write the results of a batch as they are done, not in the "
        "order of its lines", variable=False)] = False  # fmt: skip
    resume: Annotated[str | None, opt("--resume", "Leave out the lines of a batch that are answered in this file of "
        "results", metavar="PATH", variable=False)] = None  # fmt: skip
    output: Annotated[str | None, opt("--output", "Write the answer to this file instead of stdout, whole or not at "
        "all", metavar="PATH", variable=False)] = None  # fmt: skip
    tee: Annotated[str | None, opt("--tee", "Write what goes to stdout to this file, too", metavar="PATH",
        variable=False)] = None  # fmt: skip
    extract: Annotated[bool, opt("--extract", "Of a text answer, the first fenced block alone", short="-x",
        variable=False)] = False  # fmt: skip
    extract_last: Annotated[bool, opt("--extract-last", "Of a text answer, the last fenced block alone",
        variable=False)] = False  # fmt: skip
    top_logprobs: Annotated[int, opt("--top-logprobs", "With each token of jsonl, the likeliest N and their logprobs",
        metavar="N", variable=False, ge=0, le=100)] = 0  # fmt: skip
    fail_on_length: Annotated[bool, opt("--fail-on-length", "Exit with 10 when the answer was cut by the token "
        "limit")] = False  # fmt: skip
    stats_file: Annotated[str | None, opt("--stats-file", "Append the run's figures to this file, a JSON line a run",
        metavar="PATH")] = None  # fmt: skip
    no_log: Annotated[bool, opt("--no-log/--log", "Leave no record of the run in the history")] = False


class Settings(Section, frozen=True):
    """Everything a run depends on, as plain data. `upstream_rules`: accept what mlx_lm.generate accepts."""

    model: Model = Model()
    prompt: Prompt = Prompt()
    template: dict[str, Any] = {}
    sampler: Sampler = Sampler()
    logits: Logits = Logits()
    generation: Generation = Generation()
    kv: KV = KV()
    cache: Cache = Cache()
    chat: Chat = Chat()
    output: Output = Output()
    request: Request = Request()
    profile: str | None = None
    upstream_rules: bool = False

    @property
    def template_arguments(self) -> dict[str, Any]:
        """What the chat template is called with: `[template]`, then what flags ask for."""
        return {**self.template, **self.asked_template}

    @property
    def asked_template(self) -> dict[str, Any]:
        """Arguments of the chat template that flags ask for: --chat-template-config, then --think."""
        thinking = {} if self.request.think is None else {"enable_thinking": self.request.think}
        return {**self.request.chat_template_config, **thinking}

    @property
    def model_id(self) -> str:
        return DEFAULT_MODEL if self.model.path is None else self.model.path


SECTIONS: Mapping[str, type[Section]] = types.MappingProxyType({
    "model": Model, "prompt": Prompt, "sampler": Sampler, "logits": Logits, "generation": Generation, "kv": KV,
    "cache": Cache, "chat": Chat, "output": Output, "request": Request,
})  # fmt: skip
