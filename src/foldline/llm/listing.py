"""Reads facts about models from servers, in the servers' various formats.

The relevant window is the one that the server uses, not the one that the model was trained for. Local servers
may be configured for a smaller window, and some truncate longer requests silently.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit, urlunsplit

from foldline.json_text import JsonFields

from .failures import Failure
from .lenient import LARGEST, count, mapping, sequence, string
from .models import Price
from .providers import Provider

Ask = Callable[[str, JsonFields | None], Awaitable[object]]
"""Sends a request, and returns the response's JSON or a `Failure`.

The address is a path below the base URL, or a complete URL. With a body, the request is a POST request,
otherwise a GET request.
"""

OLLAMA_DEFAULT = 4_096
"""Ollama's default window on small graphics cards, in tokens (docs/context-length.mdx).

Ollama truncates longer requests silently.
"""
LM_STUDIO_DEFAULT = 4_096
"""LM Studio's default window, in tokens."""

_WINDOW_FIELDS = (
    "max_model_len",  # vLLM, SGLang
    "context_length",  # OpenRouter, Moonshot, Together
    "context_window",  # Groq
    "max_context_length",  # Mistral, LM Studio
    "max_input_tokens",  # Anthropic
    "n_ctx",  # llama.cpp
)
_OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens")
_INNER = ("top_provider", "meta", "metadata", "limits")
"""Nested objects of a listed model that may contain the fields above, besides its top level."""
_NO_CHAT = (
    "embed", "whisper", "tts", "transcribe", "dall-e", "image", "moderation", "rerank", "realtime", "audio",
    "sora", "imagen", "veo", "lyria", "guard", "ocr", "babbage", "davinci", "aqa",
)  # fmt: skip
"""Words in the names of models that are not for chat.

Many servers list such models, too.
"""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """An available model, with the facts that its server reports."""

    id: str
    window: int | None = None
    """Window in tokens, if reported."""
    max_output: int | None = None
    price: Price | None = None
    pictures: bool | None = None
    """Whether the model accepts images, if reported."""
    owner: str = ""
    """The model's owner, as reported. Local servers report their own name here."""


@dataclass(frozen=True, slots=True)
class Stated:
    """Facts that a server reports about a model and itself."""

    window: int | None
    is_final: bool = True
    """Whether the facts are final.

    False if they may change when the model is loaded, or if they could not be read yet.
    """
    tools: bool = True
    """False if the model's chat template does not support tools."""
    tells_reading: bool = False
    """Whether the server can report its progress in processing the prompt."""
    pictures: bool = True
    """False if the model accepts no images."""
    max_output: int | None = None
    """Maximum size of an answer, in tokens."""


def listed_window(record: JsonFields) -> int | None:
    """Return the window in tokens from a `/v1/models` record, if any."""
    return _smallest(_numbers(record, _WINDOW_FIELDS))


async def listed_models(ask: Ask, provider: Provider) -> list[ListedModel] | Failure:
    """List a server's chat models, in the server's order."""
    answer = await ask("/models", None)
    if isinstance(answer, Failure):
        return answer
    records = [record for record in _records(answer) if _chats(record)]
    models = [model for record in records if (model := _model(record)) is not None]
    match provider.listing:
        case "llama-cpp":
            stated = await _llama_cpp(ask, provider.base_url, "")
            return [replace(model, window=stated.window) for model in models]
        case "lm-studio":
            loaded = await _lm_studio(ask, provider.base_url)
            return [
                replace(model, window=loaded[model.id].window)
                for model in models
                if model.id in loaded
            ]
        case "ollama":
            running = await _ollama_running(ask, provider.base_url)
            return [
                replace(model, window=_of_ollama(running, model.id)) for model in models
            ]
        case _:
            return models


async def stated_window(
    ask: Ask, provider: Provider, model: str, models: Iterable[ListedModel]
) -> Stated:
    """Ask a server for a model's window.

    To answer this, Ollama loads the model, as it would for a request.
    """
    match provider.listing:
        case "llama-cpp":
            return await _llama_cpp(ask, provider.base_url, model)
        case "lm-studio":
            return (await _lm_studio(ask, provider.base_url)).get(model, Stated(None))
        case "ollama":
            return Stated(await _ollama(ask, provider.base_url, model))
        case _:
            listed = next(
                (record for record in models if record.id == model), ListedModel(model)
            )
            if listed.owner == "llamacpp":  # at any address
                return await _llama_cpp(ask, provider.base_url, model)
            takes = listed.pictures is not False
            return Stated(listed.window, pictures=takes, max_output=listed.max_output)


# --- /v1/models ---------------------------------------------------------------------------------------


def _records(answer: object) -> list[JsonFields]:
    listed = mapping(answer).get("data") or mapping(answer).get("models") or answer
    return [mapping(record) for record in sequence(listed)]


def _model(record: JsonFields) -> ListedModel | None:
    name = string(record.get("id"))
    if not name:
        return None
    return ListedModel(
        name.removeprefix("models/"),  # Gemini's
        window=listed_window(record),
        max_output=_smallest(_numbers(record, _OUTPUT_FIELDS)),
        price=_listed_price(mapping(record.get("pricing"))),
        pictures=_states(record, "vision", "input_modalities", "image"),
        owner=string(record.get("owned_by")),
    )


def _chats(record: JsonFields) -> bool:
    """Return whether a model is for chat, according to its record or its name."""
    stated = _states(record, "completion_chat", "output_modalities", "text")
    if stated is not None:
        return stated
    name = string(record.get("id")).lower()
    return not any(part in name for part in _NO_CHAT)


def _states(
    record: JsonFields, capability: str, direction: str, medium: str
) -> bool | None:
    """Return whether a record says that a model has a capability.

    Returns None if the record does not say.
    """
    can = mapping(record.get("capabilities")).get(capability)  # Mistral
    if isinstance(can, bool):
        return can
    media = sequence(mapping(record.get("architecture")).get(direction))  # OpenRouter
    return medium in media if media else None


def _listed_price(record: JsonFields) -> Price | None:
    """Parse OpenRouter's prices, which are strings in USD per token.

    Models that route to other models have the price -1.
    """
    fresh = _dollars(record.get("prompt"))
    output = _dollars(record.get("completion"))
    if fresh is None or output is None:
        return None
    cached = _dollars(record.get("input_cache_read"))
    write = _dollars(record.get("input_cache_write"))
    return Price(
        input=fresh,
        cached=fresh if cached is None else cached,
        write=write / fresh if write and fresh else 1.0,
        output=output,
    )


def _dollars(value: object) -> float | None:
    """Convert a string with USD per token to USD per million tokens."""
    try:
        dollars = float(string(value)) * 1e6
    except ValueError:
        return None
    return round(dollars, 6) if 0 <= dollars < LARGEST else None


def _numbers(record: JsonFields, fields: Sequence[str]) -> list[int]:
    """Collect numbers from a record and the objects inside it.

    From each object, takes the first nonzero number under one of these names.
    """
    objects = [record, *(mapping(record.get(name)) for name in _INNER)]
    numbers = []
    for values in objects:
        counts = [_count(values.get(name)) for name in fields]
        numbers += list(filter(None, counts))[:1]
    return numbers


def _count(value: object) -> int:
    return count(value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _smallest(numbers: Iterable[int]) -> int | None:
    return min((number for number in numbers if number), default=None)


# --- local servers ------------------------------------------------------------------------------------


def root_of(base_url: str) -> str:
    """Return a server's root URL, given a base URL that ends with `/v1`."""
    parts = urlsplit(base_url)
    return urlunsplit(
        (parts.scheme, parts.netloc, parts.path.rstrip("/").removesuffix("/v1"), "", "")
    )


async def _llama_cpp(ask: Ask, base_url: str, model: str) -> Stated:
    """Ask llama.cpp for facts about its model.

    `n_ctx` in `/props` is the window of one of the server's slots.
    """
    which = f"?model={quote(model, safe='')}" if model else ""
    answer = await ask(f"{root_of(base_url)}/props{which}", None)
    props = mapping(answer)
    window = (
        _count(mapping(props.get("default_generation_settings")).get("n_ctx")) or None
    )
    takes = mapping(props.get("chat_template_caps")).get("supports_tools") is not False
    is_final = not (isinstance(answer, Failure) and answer.retry)
    sees = mapping(props.get("modalities")).get("vision") is not False
    return Stated(
        window, is_final, tools=takes, tells_reading=window is not None, pictures=sees
    )


async def _lm_studio(ask: Ask, base_url: str) -> dict[str, Stated]:
    """Ask LM Studio for facts about its models, and return them by model.

    A model is loaded by its first request, and its window is not final before that.
    """
    by_model: dict[str, Stated] = {}
    for record in _records(await ask(f"{root_of(base_url)}/api/v0/models", None)):
        most = _count(record.get("max_context_length"))
        loaded = _count(record.get("loaded_context_length"))
        if loaded or string(record.get("state")) == "loaded":
            stated = Stated(loaded or most or None)
        else:
            stated = Stated(
                min(LM_STUDIO_DEFAULT, most or LM_STUDIO_DEFAULT), is_final=False
            )
        if record.get("type") != "embeddings":
            by_model[string(record.get("id"))] = stated
    return by_model


async def _ollama(ask: Ask, base_url: str, model: str) -> int | None:
    """Ask Ollama for a model's window.

    If the window is neither known nor set, the model is loaded to find out.
    """
    root = root_of(base_url)
    if running := _of_ollama(await _ollama_running(ask, base_url), model):
        return running
    shown = mapping(await ask(f"{root}/api/show", {"model": model}))
    most = _trained_for(mapping(shown.get("model_info")))
    if model.endswith(("-cloud", ":cloud")):
        return most  # a cloud model, which has its full window
    if size := _parameter(string(shown.get("parameters")), "num_ctx"):
        return _smallest((size, most or size))
    if not shown:
        return None  # not Ollama, or a missing model, which the request will report
    await ask(f"{root}/api/generate", {"model": model})
    running = _of_ollama(await _ollama_running(ask, base_url), model)
    return running or _smallest((OLLAMA_DEFAULT, most or OLLAMA_DEFAULT))


async def _ollama_running(ask: Ask, base_url: str) -> dict[str, int]:
    """Return the windows of the loaded models, by model name."""
    answer = mapping(await ask(f"{root_of(base_url)}/api/ps", None))
    records = map(mapping, sequence(answer.get("models")))
    return {
        string(record.get("name")): _count(record.get("context_length"))
        for record in records
    }


def _of_ollama(running: Mapping[str, int], model: str) -> int | None:
    return running.get(model) or running.get(f"{model}:latest") or None


def _trained_for(info: JsonFields) -> int:
    return max(
        (
            _count(value)
            for name, value in info.items()
            if name.endswith(".context_length")
        ),
        default=0,
    )


def _parameter(parameters: str, name: str) -> int:
    """Return a number from a model's parameters.

    The parameters are one per line, such as `num_ctx    8192`.
    """
    for line in parameters.splitlines():
        match line.split():
            case [found, value] if (
                found == name and value.isdecimal() and len(value) < 16
            ):
                return count(int(value))
    return 0
