"""The session options that the client shows: approval mode, model and effort."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import get_args

from foldline.agent import Agent
from foldline.agent.agent import use_request_options
from foldline.agent.settings.api_keys import key_of
from foldline.agent.settings.model_choice import provider_in_force
from foldline.agent.settings.schema import KEYS, choices_of
from foldline.llm.catalog import list_models
from foldline.past.approval_words import mode_words
from foldline.protocol import ApprovalMode, FoldlineError, operations

from . import schema

NO_SUCH_OPTION = "Unknown option or value: {option} {value!r}."
Options = list[schema.SessionConfigOptionSelect]


def modes(agent: Agent) -> schema.SessionModeState:
    available = [
        schema.SessionMode(
            id=mode, name=mode.capitalize(), description=mode_words(mode).capitalize()
        )
        for mode in get_args(ApprovalMode)
    ]
    return schema.SessionModeState(
        current_mode_id=agent.state.permissions.policy.mode, available_modes=available
    )


def config_options(agent: Agent, models: Sequence[str]) -> Options:
    """Return all options with their current values.

    Args:
        models: the models that the provider lists.
    """
    model = agent.state.models.llm.info.id
    options = [
        _select(
            "mode",
            "Permissions",
            agent.state.permissions.policy.mode,
            get_args(ApprovalMode),
        )
    ]
    if model:
        options.append(
            _select("model", "Model", model, dict.fromkeys((model, *models)))
        )
    if agent.settings is not None:
        efforts = choices_of(KEYS["effort"])
        options.append(
            _select("thought_level", "Effort", agent.settings.effort, efforts)
        )
    return options


def set_option(agent: Agent, option: str, value: object) -> operations.Operation | None:
    """Set an option, or return the operation that sets it.

    Raises:
        FoldlineError: there is no such option or value.
    """
    match option, value:
        case "mode", str() if value in get_args(ApprovalMode):
            return operations.SwitchApprovals(mode=value)
        case "model", str() if value:
            return operations.SwitchModel(model=value)
        case "thought_level", str() if (
            value in choices_of(KEYS["effort"]) and agent.settings is not None
        ):
            agent.settings = agent.settings.model_copy(update={"effort": value})
            use_request_options(agent.state, agent.settings)
            return None
        case _:
            raise FoldlineError(NO_SUCH_OPTION, option=option, value=value)


async def listed_models(agent: Agent) -> tuple[str, ...]:
    """Return the current provider's models.

    Returns an empty tuple if the provider cannot list them.
    """
    if agent.settings is None or agent.state.models.llm.info.provider in ("", None):
        return ()
    with suppress(FoldlineError):
        provider = provider_in_force(agent.settings, os.environ)
        if provider is not None:
            models = await list_models(provider, key_of(provider, os.environ).value)
            return tuple(model.id for model in models)
    return ()


def _select(
    category: str, name: str, value: str, choices: Iterable[str]
) -> schema.SessionConfigOptionSelect:
    """Return an option with its choices.

    The choices' names are capitalized, except for those of models.
    """
    return schema.SessionConfigOptionSelect(
        id=category,
        name=name,
        category=category,
        current_value=value,
        options=[
            schema.SessionConfigSelectOption(
                value=choice,
                name=choice if category == "model" else choice.capitalize(),
            )
            for choice in choices
        ],
    )
