"""What a server says of its models: the shapes of many servers, read into one.

The window is what a request may fill *there*, not what the model was trained for: a local server gives less,
by its own settings, and some cut off what is beyond it without a word.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit, urlunsplit

from .failures import Failure
from .models import Price
from .providers import Provider
from .wire import LARGEST, count, mapping, sequence, string

Ask = Callable[[str, Mapping[str, object] | None], Awaitable[object]]
"""The JSON that a server answers to GET of a path below the base URL, or of a whole URL; with a body, to
POST. A `Failure` where it gives none."""

OLLAMA_DEFAULT = 4_096
"""Tokens Ollama gives a model where nothing is set and the graphics card is small (docs/context-length.mdx).
More would be cut off silently."""
LM_STUDIO_DEFAULT = 4_096
"""Tokens LM Studio loads a model with where nothing is set."""

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
"""Places in a listed model where servers put such fields, apart from the top."""
_NO_CHAT = (
    "embed", "whisper", "tts", "transcribe", "dall-e", "image", "moderation", "rerank", "realtime", "audio",
    "sora", "imagen", "veo", "lyria", "guard", "ocr", "babbage", "davinci", "aqa",
)  # fmt: skip
"""Parts of names by which models are known that do not chat; lists of providers hold many."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that can be asked, and what its server says of it."""

    id: str
    window: int | None = None
    """In tokens; None where the server does not say."""
    max_output: int | None = None
    price: Price | None = None
    pictures: bool | None = None
    """Whether it looks at pictures; None where nobody says."""
    owner: str = ""
    """Whose it is, as its server says; local servers name themselves."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a server says of one model, and of itself."""

    window: int | None
    is_final: bool = True
    """Whether asking again after a request can tell nothing new."""
    tools: bool = True
    """False where the model's chat template has no place for them."""
    tells_reading: bool = False
    """Whether it says how far it has read a prompt, where it is asked to."""
    pictures: bool = True
    """False if the model takes none."""
    max_output: int | None = None
    """Most tokens one answer may have."""


def listed_window(record: Mapping[str, object]) -> int | None:
    """The window, in tokens, that a record of `/v1/models` states; None where it states none."""
    return _smallest(_numbers(record, _WINDOW_FIELDS))


async def listed_models(ask: Ask, provider: Provider) -> list[ListedModel] | Failure:
    """The models that a server lists and that chat, in its order."""
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
            return [replace(model, window=loaded[model.id].window) for model in models if model.id in loaded]
        case "ollama":
            running = await _ollama_running(ask, provider.base_url)
            return [replace(model, window=_of_ollama(running, model.id)) for model in models]
        case _:
            return models


async def stated_window(ask: Ask, provider: Provider, model: str, models: Iterable[ListedModel]) -> Stated:
    """The window that a server gives one model. Ollama loads the model for that: it would for the request."""
    match provider.listing:
        case "llama-cpp":
            return await _llama_cpp(ask, provider.base_url, model)
        case "lm-studio":
            return (await _lm_studio(ask, provider.base_url)).get(model, Stated(None))
        case "ollama":
            return Stated(await _ollama(ask, provider.base_url, model))
        case _:
            listed = next((each for each in models if each.id == model), ListedModel(model))
            if listed.owner == "llamacpp":  # wherever it listens
                return await _llama_cpp(ask, provider.base_url, model)
            takes = listed.pictures is not False
            return Stated(listed.window, pictures=takes, max_output=listed.max_output)


# --- /v1/models ---------------------------------------------------------------------------------------


def _records(answer: object) -> list[Mapping[str, object]]:
    listed = mapping(answer).get("data") or mapping(answer).get("models") or answer
    return [mapping(record) for record in sequence(listed)]


def _model(record: Mapping[str, object]) -> ListedModel | None:
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


def _chats(record: Mapping[str, object]) -> bool:
    """Whether a model is one to talk with, as far as its record or its name tell."""
    stated = _states(record, "completion_chat", "output_modalities", "text")
    if stated is not None:
        return stated
    name = string(record.get("id")).lower()
    return not any(part in name for part in _NO_CHAT)


def _states(record: Mapping[str, object], capability: str, direction: str, medium: str) -> bool | None:
    """Whether a record says that its model can do something; None if it says nothing of it."""
    can = mapping(record.get("capabilities")).get(capability)  # Mistral
    if isinstance(can, bool):
        return can
    media = sequence(mapping(record.get("architecture")).get(direction))  # OpenRouter
    return medium in media if media else None


def _listed_price(record: Mapping[str, object]) -> Price | None:
    """OpenRouter's prices are texts, in USD per token; -1 is for models that choose among others."""
    prices = {name: _dollars(record.get(name)) for name in ("prompt", "completion")}
    fresh, output = prices["prompt"], prices["completion"]
    if fresh is None or output is None:
        return None
    cached, write = _dollars(record.get("input_cache_read")), _dollars(record.get("input_cache_write"))
    return Price(
        input=fresh,
        cached=fresh if cached is None else cached,
        write=write / fresh if write and fresh else 1.0,
        output=output,
    )


def _dollars(value: object) -> float | None:
    """A text in USD per token, as USD per million tokens."""
    try:
        dollars = float(string(value)) * 1e6
    except ValueError:
        return None
    return round(dollars, 6) if 0 <= dollars < LARGEST else None


def _numbers(record: Mapping[str, object], fields: Sequence[str]) -> list[int]:
    """The numbers a record gives under any of these names, one from each place."""
    places = [record, *(mapping(record.get(name)) for name in _INNER)]
    return [
        number
        for place in places
        if (number := next((found for name in fields if (found := _count(place.get(name)))), 0))
    ]


def _count(value: object) -> int:
    return count(value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _smallest(numbers: Iterable[int]) -> int | None:
    return min((number for number in numbers if number), default=None)


# --- what local servers say elsewhere -----------------------------------------------------------------


def root_of(base_url: str) -> str:
    """Where a server begins whose compatible API lies below it in `/v1`."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/").removesuffix("/v1"), "", ""))


async def _llama_cpp(ask: Ask, base_url: str, model: str) -> Stated:
    """`n_ctx` of `/props` is what one slot has: several share what the server was started with."""
    which = f"?model={quote(model, safe='')}" if model else ""
    answer = await ask(f"{root_of(base_url)}/props{which}", None)
    props = mapping(answer)
    window = _count(mapping(props.get("default_generation_settings")).get("n_ctx")) or None
    takes = mapping(props.get("chat_template_caps")).get("supports_tools") is not False
    is_final = not (isinstance(answer, Failure) and answer.retry)
    sees = mapping(props.get("modalities")).get("vision") is not False
    return Stated(window, is_final, tools=takes, tells_reading=window is not None, pictures=sees)


async def _lm_studio(ask: Ask, base_url: str) -> dict[str, Stated]:
    """The windows by model. One that is not loaded is loaded by the first request, with settings that
    are only told then."""
    found: dict[str, Stated] = {}
    for record in _records(await ask(f"{root_of(base_url)}/api/v0/models", None)):
        most = _count(record.get("max_context_length"))
        loaded = _count(record.get("loaded_context_length"))
        if loaded or string(record.get("state")) == "loaded":
            stated = Stated(loaded or most or None)
        else:
            stated = Stated(min(LM_STUDIO_DEFAULT, most or LM_STUDIO_DEFAULT), is_final=False)
        if record.get("type") != "embeddings":
            found[string(record.get("id"))] = stated
    return found


async def _ollama(ask: Ask, base_url: str, model: str) -> int | None:
    """What Ollama gives the model: what it runs with; else what is set for it; else it is loaded, to see."""
    root = root_of(base_url)
    if running := _of_ollama(await _ollama_running(ask, base_url), model):
        return running
    shown = mapping(await ask(f"{root}/api/show", {"model": model}))
    most = _trained_for(mapping(shown.get("model_info")))
    if model.endswith(("-cloud", ":cloud")):
        return most  # Runs elsewhere, with all it has.
    if asked := _parameter(string(shown.get("parameters")), "num_ctx"):
        return _smallest((asked, most or asked))
    if not shown:
        return None  # No Ollama, or no such model: the request will say so.
    await ask(f"{root}/api/generate", {"model": model})
    running = _of_ollama(await _ollama_running(ask, base_url), model)
    return running or _smallest((OLLAMA_DEFAULT, most or OLLAMA_DEFAULT))


async def _ollama_running(ask: Ask, base_url: str) -> dict[str, int]:
    """The windows of the models that are loaded, by name."""
    answer = mapping(await ask(f"{root_of(base_url)}/api/ps", None))
    records = map(mapping, sequence(answer.get("models")))
    return {string(record.get("name")): _count(record.get("context_length")) for record in records}


def _of_ollama(running: Mapping[str, int], model: str) -> int | None:
    return running.get(model) or running.get(f"{model}:latest") or None


def _trained_for(info: Mapping[str, object]) -> int:
    return max((_count(value) for name, value in info.items() if name.endswith(".context_length")), default=0)


def _parameter(parameters: str, name: str) -> int:
    """A number from the parameters of a model, one a line: `num_ctx    8192`."""
    for line in parameters.splitlines():
        match line.split():
            case [found, value] if found == name and value.isdecimal() and len(value) < 16:
                return count(int(value))
    return 0
